"""Constraints on velocities: a blade on an incline and a ball on a turntable against closed forms,
and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.model import bodies
from implicit_stepper.stepping.loop import certificates

DOWN, SPIN = 3.0, 2.0  # [m/s^2] of gravity along the incline, [rad/s]
TURNS, RADIUS = 1.4, 0.1  # [rad/s] of the table, [m] of the ball
MASS, SHARE = 0.5, 0.4  # [kg]; the ball's inertia over m r^2


def across(ground, skate, time):
    """How fast the skate goes across its blade."""
    _, angle, velocity = skate
    return -jnp.sin(angle) * velocity[0] + jnp.cos(angle) * velocity[1]


def skate(inclined=(DOWN, 0)):
    """On an incline, seen from above: it turns, and begins without speed, pointing down the
    incline."""
    made = ist.Scene(dimension=2, gravity=inclined)
    ice = made.add_fixed(name="ice", shape=shapes.Disc(0.01))
    body = made.add_body(name="skate", shape=shapes.Disc(0.1), mass=2.0, position=(0, 0), velocity=(0, 0, SPIN))
    made.add_joint(ice, body, ist.VelocityConstraint(across, rows=1), name="blade")
    return made


def cycloid(time):
    """Its place (n, 2): it goes to and fro down the incline, and on across it."""
    turned = SPIN * np.asarray(time)
    return DOWN / (2 * SPIN**2) * np.stack([np.sin(turned) ** 2, turned - np.sin(2 * turned) / 2], axis=-1)


@pytest.mark.parametrize(("stepper", "sizes", "order"), [
    (ist.GeometricallyImplicit(), (0.02, 0.01), 1), (ist.RadauContact(), (0.2, 0.1), 5),
])  # fmt: skip
def test_a_blade_on_an_incline_goes_on_a_cycloid(stepper, sizes, order):
    errors = []
    for h in sizes:
        run = ist.simulate(skate(), stepper, h=h, duration=2.0)
        errors.append(np.linalg.norm(run.position[-1, 0] - cycloid(2.0)))
        body = run.body("skate")
        angle, velocity = body.orientation[:, 0], body.velocity
        aside = -np.sin(angle) * velocity[:, 0] + np.cos(angle) * velocity[:, 1]
        np.testing.assert_allclose(aside, 0, rtol=0, atol=1e-12)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15 if order == 1 else 0.3)


def test_chosen_steps_keep_it_to_tol_and_its_force_is_told():
    run = ist.simulate(skate(), ist.RadauContact(), tol=1e-8, duration=10.0)
    np.testing.assert_allclose(run.position[:, 0], cycloid(run.time), rtol=0, atol=1e-7)
    speed = DOWN / SPIN * np.sin(SPIN * run.time[1:])  # along the blade
    force = 2.0 * (speed * SPIN + DOWN * np.sin(SPIN * run.time[1:]))
    told = run.contacts.stages.contacts.joints.multipliers[:, -1, 0, 0] / run.h
    np.testing.assert_allclose(told, force, rtol=0, atol=2e-4)  # of order 3, with steps of 25 ms


def rolls(table, ball, time):
    """The velocity of the ball at the table against it, which turns about the origin."""
    _, _, velocity = ball
    x = ball[0]
    at_table = velocity[:3] + jnp.cross(velocity[3:], jnp.array([0, 0, -RADIUS]))
    return at_table - TURNS * jnp.array([-x[1], x[0], 0.0])


def test_a_ball_on_a_turntable_goes_round_in_its_own_time():
    """In circles at 2/7 of the table's rate about a centre that its start gives."""
    made, start = ist.Scene(), np.array([0.3, 0.0, RADIUS])
    table = made.add_fixed(name="table", shape=shapes.Sphere(0.01))
    velocity = np.array([0.0, 0.2, 0.0])
    slip = velocity - TURNS * np.array([-start[1], start[0], 0])
    spin = np.array([slip[1], -slip[0], 0]) / RADIUS * -1
    ball = made.add_body(
        name="ball", shape=shapes.Sphere(RADIUS), mass=MASS, inertia=(SHARE * MASS * RADIUS**2,) * 3, position=start,
        velocity=(*velocity, *spin),
    )  # fmt: skip
    made.add_joint(table, ball, ist.VelocityConstraint(rolls, rows=3), name="contact")
    rate = TURNS * SHARE / (1 + SHARE)
    centre = start[:2] + np.array([-velocity[1], velocity[0]]) / rate
    run = ist.simulate(made, ist.RadauContact(), tol=1e-8, duration=8.0)
    turned = rate * run.time[:, None]
    from_centre = start[:2] - centre
    exact = centre + np.cos(turned) * from_centre + np.sin(turned) * np.array([-from_centre[1], from_centre[0]])
    np.testing.assert_allclose(run.position[:, 0, :2], exact, rtol=0, atol=1e-7)
    np.testing.assert_allclose(run.position[:, 0, 2], RADIUS, rtol=0, atol=1e-12)


def test_its_rate_and_its_reaction_are_certified():
    made, stepper, h = skate(), ist.GeometricallyImplicit(), 0.05
    run = ist.simulate(made, stepper, h=h, duration=0.5)
    system, _ = made.build()

    def found(velocity, multipliers):
        states = bodies.State(run.time, run.position, run.orientation, velocity)
        first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (0, slice(1, None)))
        lies = dataclasses.replace(run.contacts, joints=dataclasses.replace(run.joints, multipliers=multipliers))
        return certificates(stepper, system, first, ends, lies, np.full(len(run), h))

    aside = np.stack([-np.sin(run.orientation[:, 0, 0]), np.cos(run.orientation[:, 0, 0]), 0 * run.time], axis=1)
    honest = found(run.velocity, run.joints.multipliers)
    assert max(np.max(values, initial=0.0) for values in honest.values()) <= 1e-10
    assert np.min(found(run.velocity + 1e-6 * aside[:, None], run.joints.multipliers)["closure"]) > 1e-8
    assert np.min(found(run.velocity, run.joints.multipliers + 1e-6)["reaction"]) > 1e-8


def test_what_cannot_be_is_refused(tmp_path):
    made = skate()
    with pytest.raises(ValueError, match="blade.*VelocityConstraint of a function of yours, which no file can hold"):
        made.save(tmp_path / "scene.toml")
    ice, body = made.add_fixed(name="other", shape=shapes.Disc(0.01)), made.add_body(
        name="fast", shape=shapes.Disc(0.1), mass=1.0, position=(5, 0), velocity=(0, 1, 0)
    )  # fmt: skip
    for rate, rows, told in (
        (3, 1, "`rate` = 3 must be a function"),
        (across, 2, r"has shape \(1,\) .* it needs 2 numbers"),
        (across, 0, "`rows` = 0 must be a whole number"),
        (lambda a, b, t: b[2][:1] ** 2, 1, "is not linear in the velocities"),
        (lambda a, b: b[2][:1], 1, "cannot be traced by JAX"),
    ):
        with pytest.raises(ValueError, match=told):
            made.add_joint(ice, body, ist.VelocityConstraint(rate, rows=rows), name="wrong")
    made.add_joint(ice, body, ist.VelocityConstraint(across, rows=1), name="torn")
    with pytest.raises(ValueError, match="'torn' would be torn at 1 m/s"):
        ist.simulate(made, ist.GeometricallyImplicit(), h=0.01, duration=0.01)
