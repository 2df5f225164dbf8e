"""Friction of joints in impacts, against balances of momentum about the pin."""

import dataclasses

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.radau.impact_certificate import impact_violations

MU, RADIUS, E, SPEED = 0.5, 0.3, 0.6, 2.0
MASS, LENGTH, BALL, THICK = 3.0, 1.0, 1.0, 0.05


def struck(at, radius=RADIUS, mu=MU, **more):
    """A bar that hangs at rest from a pin, without weight, struck by a ball `at` [m] below it."""
    scene = ist.Scene(dimension=2, gravity=(0, 0), length_scale=0.1, acceleration_scale=10.0)
    frame = scene.add_fixed(name="frame", shape=shapes.Disc(0.01))
    sides = [(x * THICK, y * LENGTH / 2) for x in (-1, 1) for y in (-1, 1)]
    inertia = MASS * LENGTH**2 / 12
    bar = scene.add_body(name="bar", shape=shapes.Polygon(sides), mass=MASS, inertia=inertia, position=(0, -LENGTH / 2))
    place = (-THICK - 0.1 - SPEED * 0.015, -at)
    ball = scene.add_body(name="ball", shape=shapes.Disc(0.1), mass=BALL, position=place, velocity=(SPEED, 0, 0))
    friction = ist.JointFriction(mu, radius=radius, **more)
    scene.add_joint(frame, bar, ist.BallJoint((0, 0), (0, LENGTH / 2), friction=friction), name="pin")
    scene.add_contact(ball, bar, restitution=ist.Newton(E))
    return scene


def balance(at):
    """(spin of the bar, speed of the ball, impulse of the ball, that of the pin) after the impact:

    M c w = P + L,   I w = b P - mu r |L|,   m (v - v0) = -P,   b w - v = e v0

    with the sign of L for which it is so."""
    inertia, c = MASS * LENGTH**2 / 3, LENGTH / 2
    for sign in (1, -1):
        equations = [
            [MASS * c, 0, -1, -1],
            [inertia, 0, -at, MU * RADIUS * sign],
            [0, BALL, 1, 0],
            [at, -1, 0, 0],
        ]
        found = np.linalg.solve(equations, [0, 0, BALL * SPEED, E * SPEED])
        if sign * found[3] >= 0:
            return found
    raise AssertionError


RUNS = {
    "given": lambda scene: ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.03),
    "chosen": lambda scene: ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=0.03),
}


@pytest.mark.parametrize("way", ["given", pytest.param("chosen", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("at", [0.3, 0.8])
def test_a_pin_rubs_by_the_reaction_of_the_impact(at, way):
    """Above and below the centre of percussion, where the reaction turns around."""
    spin, speed, struck_by, pulled = balance(at)
    run = RUNS[way](struck(at))
    hit = int(np.argmax(run.contacts.normal_impulse[:, 0]))
    np.testing.assert_allclose(run.velocity[hit + 1, 0, 2], spin, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.velocity[hit + 1, 1, 0], speed, rtol=0, atol=1e-9)
    assert run.contacts.normal_impulse[hit, 0] == pytest.approx(struck_by, abs=1e-9)
    found = run.joints.multipliers[hit, 0]
    assert abs(abs(found[0]) - abs(pulled)) < 1e-9
    assert abs(abs(found[2]) - MU * RADIUS * abs(pulled)) < 1e-9
    assert run.energy().kinetic[-1] < BALL * SPEED**2 / 2


def test_a_bar_that_is_struck_near_its_pin_holds():
    """P at b < mu r turns nothing: the pin takes it all, and the ball is thrown back as by a
    wall."""
    run = RUNS["given"](struck(0.1))
    assert np.max(np.abs(run.velocity[-1, 0])) < 1e-11
    assert run.velocity[-1, 1, 0] == pytest.approx(-E * SPEED, abs=1e-10)
    hit = int(np.argmax(run.contacts.normal_impulse[:, 0]))
    assert abs(run.joints.multipliers[hit, 0, 2]) == pytest.approx(0.1 * (1 + E) * BALL * SPEED, abs=1e-10)


@pytest.mark.thorough
def test_without_friction_it_is_the_impact_of_a_free_pin():
    spin = []
    for mu, radius in ((0.0, 0.3), (0.5, 1e-9)):
        run = RUNS["given"](struck(0.8, mu=mu, radius=radius))
        spin.append(run.velocity[int(np.argmin(run.h)) + 1, 0, 2])
    inertia, b = MASS * LENGTH**2 / 3, 0.8
    exact = (1 + E) * SPEED * b / (inertia / BALL + b**2)
    np.testing.assert_allclose(spin, exact, rtol=0, atol=1e-8)


def recorded(at):
    """The system of the bar struck `at` [m] below its pin, the states before and after the impact,
    and its record."""
    scene = struck(at)
    run, (system, _) = RUNS["given"](scene), scene.build()
    step = int(np.argmin(run.h))
    before, after = (ist.State(run.time[i], run.position[i], run.orientation[i], run.velocity[i]) for i in (step, step + 1))
    return system, before, after, jax.tree.map(lambda a: a[step], run.contacts)


def with_friction(system, **coefficients):
    (group,) = system.joints
    return dataclasses.replace(system, joints=(dataclasses.replace(group, **coefficients),))


def test_the_certificate_knows_the_law():
    """Half as much friction as there was is none."""
    system, *hit = recorded(0.8)
    (group,) = system.joints
    for asked, fine in ((system, True), (with_friction(system, mu=group.mu / 2), False)):
        assert (np.max(impact_violations(asked, *hit)["joint friction"]) <= 1e-10) == fine


@pytest.mark.parametrize(("at", "mu", "mu_s", "fine"), [(0.8, 1, 2, True), (0.8, 0.5, 1, False), (0.1, 0.5, 1, True)])
def test_what_slips_in_an_impact_decides_its_coefficient(at, mu, mu_s, fine):
    """And not the record, whose coefficient is that of the step which the impact ends: what stuck
    before it may be torn loose, and what crept may be held. Coefficients in shares of the pin's."""
    system, before, after, record = recorded(at)
    (group,) = system.joints
    own = with_friction(system, mu=mu * group.mu, mu_s=mu_s * group.mu)
    for told in (own.joints[0].mu, own.joints[0].mu_s):
        joints = dataclasses.replace(record.joints, mu=np.asarray(told))
        found = impact_violations(own, before, after, dataclasses.replace(record, joints=joints))
        assert (np.max(found["joint friction"]) <= 1e-10) == fine


def test_a_rail_that_an_impact_breaks_loose_rubs_by_what_slides():
    """A disc that flies against another on a rail, at 30 degrees from it: what breaks loose has mu
    from the impact on, not mu_s, though its weight alone would hold it."""
    mu = 0.15
    scene = ist.Scene(dimension=2, gravity=(0, -9.81))
    ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
    held = scene.add_body(name="held", shape=shapes.Disc(0.1), mass=1.0, position=(0, 1))
    flies = scene.add_body(name="flies", shape=shapes.Disc(0.1), mass=1.0, position=(-0.2, 1.1), velocity=(1, 0, 0))
    friction = ist.JointFriction(mu, length=0.3, mu_s=0.2)
    scene.add_joint(ground, held, ist.Slider((0, 1), (1, 0), (0, 0), (1, 0), friction=friction), name="rail")
    scene.add_contact(held, flies, friction=0)
    found = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=0.05)
    assert [event.kind for event in found.events] == ["closes", "slips"]
    struck = int(np.flatnonzero(found.time == found.events[0].time)[0])
    after, step = found.velocity[struck], found.contacts
    impulse = -step.normal_impulse[struck - 1, 0] * step.normal[struck - 1, 0]
    assert impulse[0] > 0.3
    # of the impact alone: what presses the rail is the part of the blow across it
    np.testing.assert_allclose(after[0, 0], impulse[0] - mu * abs(impulse[1]), rtol=0, atol=1e-6)
