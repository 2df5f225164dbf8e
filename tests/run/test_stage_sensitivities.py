"""Derivatives along chosen steps: closed forms of sliding, rolling, bounces and collisions, with
those of event times; differences of the converged solver; and what has no derivative."""

import dataclasses
import functools
import sys
from pathlib import Path

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.paper import scenes
from implicit_stepper.radau import step_derivatives
from implicit_stepper.run import stage_sensitivities

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import chosen_derivatives  # noqa: E402

STEPPER, G = ist.RadauContact(), 9.81


@pytest.mark.thorough
def test_a_ball_that_lands_slides_and_rolls_has_the_derivatives_of_the_closed_form():
    """After a drop by z it has v0 - mu g t while it slides, as if it had slid from the start, and
    rolls from t = 2 v0 / (7 mu g) on with 5/7 v0: x(T) = 5/7 v0 T + v0^2 / (24.5 mu g) + mu z."""
    scene = scenes.landing_ball()
    system, start = scene.build()
    mu, v0 = float(system.groups[0].mu[0]), 4.0
    drop = float(start.position[0, 2]) - 0.25
    start = dataclasses.replace(start, velocity=np.array([[v0, 0.0, 0.0, 0.0, 0.0, 0.0]]))
    end = 1.2
    run = ist.simulate(scene, STEPPER, tol=1e-9, duration=end, start=start)
    assert [event.kind for event in run.events] == ["closes", "sticks"]
    lands, rolls = (int(np.flatnonzero(run.time == event.time)[0]) for event in run.events)
    found = ist.sensitivities(scene, STEPPER, run, ["mu", "position", "velocity"])
    by_mu, by_drop = found["mu"], found["position"]
    by_speed = {name: getattr(found["velocity"], name)[..., 0, 0] for name in ("time", "position", "velocity")}
    by_drop = {name: getattr(by_drop, name)[..., 0, 2] for name in ("time", "position", "velocity")}
    near = functools.partial(pytest.approx, rel=1e-9, abs=1e-9)
    assert by_mu.time[rolls, 0] == near(-2 * v0 / (7 * mu**2 * G))
    assert by_speed["time"][rolls] == near(2 / (7 * mu * G))
    assert by_drop["time"][[lands, rolls]] == near([1 / (G * run.time[lands]), 0.0])
    assert by_mu.time[lands, 0] == near(0.0)
    moves = np.delete(np.arange(len(run.time)), [lands, rolls])
    assert np.abs(by_mu.time[moves]).max() <= 1e-12
    assert by_mu.position[-1, 0, 0, 0] == near(drop - v0**2 / (24.5 * G * mu**2))
    assert by_speed["position"][-1, 0, 0] == near(5 / 7 * end + 2 * v0 / (24.5 * G * mu))
    assert by_drop["position"][-1, 0, 0] == near(mu)
    assert by_mu.velocity[-1, 0, :, 0] == near(np.zeros(6))
    assert by_speed["velocity"][-1, 0] == near([5 / 7, 0, 0, 0, 5 / 7 / 0.25, 0])
    # slides: at a node between the events
    sliding = (lands + rolls) // 2
    assert by_mu.velocity[sliding, 0, 0, 0] == near(-G * run.time[sliding])


def test_batches_of_chosen_steps_are_single_runs_in_any_order():
    """Here, because they share their programs with the test above."""
    scene, mu = scenes.landing_ball(), np.array([0.3, 0.1, 0.2])
    found = ist.simulate_batch(scene, STEPPER, tol=1e-7, duration=0.6, parameters={"mu": mu}, progress=False)
    assert np.all(found.result == ist.Result.SOLVED)
    assert np.max(found.violation) <= 1e-10
    for i in (0, 2):
        own = chosen_derivatives.changed_scene(scene, {"mu": mu[i : i + 1]})
        single = ist.simulate(own, STEPPER, tol=1e-7, duration=0.6)
        assert found.steps[i] == len(single)
        assert found.end.velocity[i].tobytes() == single.velocity[-1].tobytes()
    turned = ist.simulate_batch(scene, STEPPER, tol=1e-7, duration=0.6, parameters={"mu": mu[::-1]}, progress=False)
    assert turned.end.position[::-1].tobytes() == found.end.position.tobytes()


@functools.cache
def bounce_and_collision() -> ist.Scene:
    """In the plane: a disc falls on a floor, where friction makes it roll at once, and one of two
    equal ones, which fall too, meets the other without friction."""
    scene = ist.Scene(dimension=2, length_scale=0.5)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0.0, 1.0)))
    falls, meets, waits = (
        scene.add_body(name=name, shape=shapes.Disc(0.1), mass=0.7, position=at, velocity=(v, 0.0, 0.0))
        for name, at, v in (("falls", (0.0, 0.6), 0.3), ("meets", (2.0, 5.0), 1.5), ("waits", (2.5, 5.0), 0.0))
    )
    scene.add_contact(floor, falls, friction=0.3, restitution=ist.Newton(0.6))
    scene.add_contact(meets, waits, friction=0.0, restitution=ist.Newton(1.0))
    return scene


def collided(e: float, end: float, distance: float = 0.5, lower: float = 0.0):
    """The run and its sensitivities, with `e` of the collision, the first `distance` between
    centres, and the disc that bounces `lower` than in the scene."""
    scene = bounce_and_collision()
    of = chosen_derivatives.changed_scene(scene, {"restitution": [0.6, e]})
    _, start = scene.build()
    moved = np.array([[0, -lower], [0, 0], [distance - 0.5, 0]])
    start = dataclasses.replace(start, position=start.position + moved)
    run = ist.simulate(of, STEPPER, tol=1e-9, duration=end, start=start)
    return run, ist.sensitivities(of, STEPPER, run, ["restitution", "position", "velocity", "mass"])


@pytest.mark.thorough
@pytest.mark.parametrize("e", [1.0, 0.0])
def test_collisions_and_bounces_have_the_derivatives_of_the_closed_forms(e):
    """Equal discs exchange (1 + e) / 2 of their speed at t = d / v; one that falls by z for t rises
    with e g t."""
    end, z, v, d = 0.5, 0.5, 1.5, 0.3
    run, found = collided(e, end)
    assert [event.kind for event in run.events][:2] == ["closes", "closes"]
    near = functools.partial(pytest.approx, rel=1e-9, abs=1e-9)
    # by the speed of the first: (1 - e) / 2 and (1 + e) / 2
    share = (1 + e) / 2
    by_speed = found["velocity"]
    assert by_speed.velocity[-1, 1:, 0, 1, 0] == near([1 - share, share])
    assert by_speed.velocity[-1, 1:, 0, 2, 0] == near([share, 1 - share])
    assert by_speed.position[-1, 1:, 0, 1, 0] == near([(1 - share) * end, share * end])
    assert found["position"].position[-1, 1:, 0, 1, 0] == near([1 - share, share])
    meets = int(np.flatnonzero(np.abs(run.time - d / v) < 1e-9)[0])
    assert by_speed.time[meets, 1, 0] == near(-d / v**2)
    assert found["mass"].velocity[-1, 2, 0, 1] == near(v * (1 + e) * 0.7 / 1.4**2)
    falls = np.sqrt(2 * z / G)
    bounces = int(np.flatnonzero(np.abs(run.time - falls) < 1e-9)[0])
    left, by_z = end - falls, 1 / (G * falls)
    assert found["position"].time[bounces, 0, 1] == near(by_z)
    assert found["restitution"].position[-1, 0, 1, 0] == near(G * falls * left)
    assert found["restitution"].velocity[-1, 0, 1, 0] == near(G * falls)
    assert found["velocity"].velocity[-1, 0, :, 0, 0] == near([2 / 3, 0, -20 / 3])
    risen = by_z * (0.6 * G * (end - 2 * falls) + G * left)
    assert found["position"].position[-1, 0, 1, 0, 1] == near(risen)


def test_what_bounces_until_it_rests_has_derivatives_to_the_last():
    """Impacts follow each other ever faster, after the first ones at sqrt(2 z / g) (1 + 2 (e + ...
    + e^n)), to steps of 1e-7 s: such an event is none that grazes. Compared are those at more than
    1e-5 m/s, which rounding leaves ten digits."""
    z, e = 0.05, 0.6
    run, found = collided(1.0, 0.45, lower=0.5 - z)
    impacts = [event.time for event in run.events if event.contact == 0]
    falls, n = np.sqrt(2 * z / G), np.arange(23)
    assert len(impacts) > len(n)
    assert G * falls * e ** n[-1] > 1e-5 > G * falls * e ** len(n)
    at = np.searchsorted(run.time, impacts[: len(n)])
    near = functools.partial(pytest.approx, rel=1e-9, abs=1e-9)
    assert found["position"].time[at, 0, 1] == near((2 * np.cumsum(e**n) - 1) / (G * falls))
    assert found["restitution"].time[at, 0] == near(2 * falls * np.cumsum(n * e ** (n - 1.0)))
    assert found["velocity"].velocity[-1, 0, :, 0, 0] == near([2 / 3, 0, -20 / 3])


@pytest.mark.thorough
def test_steps_of_first_order_beside_rebounds_have_derivatives(monkeypatch):
    """They know no rebound, and in flight need none."""
    monkeypatch.setattr(step_derivatives, "OFF", -1.0)  # no step is taken for one of several stages
    monkeypatch.setattr(stage_sensitivities, "SAME", 1e-2)  # as these fall farther than those of first order
    run, found = collided(1.0, 0.1)
    assert not run.events
    assert found["velocity"].position[-1, 0, :, 0, 1] == pytest.approx([0.0, 0.1], abs=1e-12)


def test_events_at_one_time_have_no_derivative_and_say_so():
    """A step ends on one event: where two contacts meet in it, each by its own time, NaN says that
    nothing is known."""
    falls = np.sqrt(2 * 0.5 / G)
    _, found = collided(1.0, 0.5, distance=0.2 + 1.5 * falls)
    assert np.all(np.isnan(found["velocity"].velocity[-1]))
    assert np.all(np.isfinite(found["velocity"].velocity[1]))


def wheel(moment: float) -> ist.Scene:
    """A wheel of 2 kg at rest on a pin that rubs at 5 cm by its weight alone, turned by a `moment`
    [N m] of which mu r m g = .4905 can be held."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    wall = scene.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0.0, 1.0), offset=-9.0))
    turned = {"mass": 2.0, "inertia": 0.04, "wrench": (0, 0, moment)}
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.2), position=(0, 0), **turned)
    pin = ist.BallJoint((0.0, 0.0), (0.0, 0.0), friction=ist.JointFriction(0.5, radius=0.05))
    scene.add_joint(wall, disc, pin, name="pin")
    return scene


@pytest.mark.thorough
def test_a_pin_that_rubs_from_rest_has_the_derivatives_of_the_closed_form():
    """It turns by (M - mu r m g) / I t^2 / 2. A first speed c less than 0 would turn friction until
    it has stopped, and one more than 0 would not, so that chosen steps have no derivative by it;
    steps of one length, in which it stops at once, have one."""
    moment, end, radius, mass, inertia = 0.8, 0.3, 0.05, 2.0, 0.04
    scene, names = wheel(moment), ["mu of pin", "wrench", "mass", "velocity"]
    near = functools.partial(pytest.approx, rel=1e-9, abs=1e-9)
    for size in ({"tol": 1e-9}, {"h": 0.05}):
        run = ist.simulate(scene, STEPPER, duration=end, **size)
        assert run.velocity[-1, 0, 2] == near((moment - 0.5 * radius * mass * G) / inertia * end)
        found = ist.sensitivities(scene, STEPPER, run, names)
        assert found["mu of pin"].velocity[-1, 0, 2] == near(-radius * mass * G / inertia * end)
        assert found["mu of pin"].orientation[-1, 0] == near(-radius * mass * G / inertia * end**2 / 2)
        assert found["wrench"].orientation[-1, 0, 0, 0, 2] == near(end**2 / 2 / inertia)
        assert found["mass"].velocity[-1, 0, 2, 0] == near(-0.5 * radius * G / inertia * end)
        by_speed = found["velocity"].velocity[-1, 0, 2, 0, 2]
        assert np.isnan(by_speed) if "tol" in size else by_speed == near(1.0)
        assert np.all(np.isfinite(found["velocity"].velocity[0]))


def test_the_time_at_which_a_motor_reaches_its_speed_has_the_derivatives_of_the_closed_form():
    """t = I (w0 - v) / M, from which on the wheel turns at v; the bound of a motor is the one
    margin that the length of the step is in."""
    first, speed, most, inertia, end = 3.0, 2.0, 0.06, 0.006, 0.2
    scene = ist.Scene(dimension=2, gravity=(0, 0))
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.01))
    spinning = {"position": (0, 0), "velocity": (0, 0, first), "inertia": inertia}
    wheel = scene.add_body(name="wheel", shape=shapes.Disc(0.1), mass=1.0, **spinning)
    scene.add_joint(wall, wheel, ist.BallJoint((0, 0), (0, 0)), name="pin")
    scene.add_motor("pin", speed=speed, most=most)
    run = ist.simulate(scene, STEPPER, tol=1e-8, duration=end)
    reached = inertia * (first - speed) / most
    at = int(np.argmin(np.abs(run.time - reached)))
    near = functools.partial(pytest.approx, rel=0, abs=1e-9)
    assert run.time[at] == near(reached)
    found = ist.sensitivities(scene, STEPPER, run, ["speed of motor of pin", "most of motor of pin", "velocity"])
    by_speed, by_most, by_first = (found[name] for name in found)
    assert by_speed.time[at] == near(-inertia / most)
    assert by_most.time[at] == near(-reached / most)
    assert by_first.time[at, 0, 2] == near(inertia / most)
    last = [own.velocity[-1, 0, 2] for own in (by_speed, by_most)], by_first.velocity[-1, 0, 2, 0, 2]
    assert last == ([near(1.0), near(0.0)], near(0.0))
    # the angle, v end + (w0 - v)^2 I / (2 M)
    assert by_speed.orientation[-1, 0, 0] == near(end - reached)
    assert by_most.orientation[-1, 0, 0] == near(-((first - speed) ** 2) * inertia / (2 * most**2))


@pytest.mark.thorough
@pytest.mark.parametrize("joint", [True, False])
def test_what_mu_s_holds_breaks_away_later_for_a_heavier_body(joint):
    """On a guide, or a floor, pulled by k t: it slips from t = mu_s m g / k on, with v = k (T^2 -
    t^2) / (2 m) - mu g (T - t) in the end."""
    mu, mu_s, k, mass, end = 0.3, 0.5, 6.0, 1.5, 1.5
    scene = ist.Scene(dimension=2)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    box = shapes.Polygon([(-0.3, -0.2), (0.3, -0.2), (0.3, 0.2), (-0.3, 0.2)])
    pull = {"position": (0, 0.2), "wrench": ist.Wrench(force=(f"{k}*t", 0), moment=(0,))}
    block = scene.add_body(name="block", shape=box, mass=mass, inertia=0.1, **pull)
    if joint:
        rubs = ist.JointFriction(mu=mu, mu_s=mu_s)
        scene.add_joint(floor, block, ist.Slider((0, 0.2), (1, 0), (0, 0), (1, 0), friction=rubs), name="guide")
    else:
        scene.add_contact(floor, block, friction=ist.FrictionEllipsoid(mu, mu_s=mu_s))
    run, slips = ist.simulate(scene, STEPPER, tol=1e-9, duration=end), mu_s * mass * G / k
    (at,) = np.flatnonzero(run.time == run.events[0].time)
    near = functools.partial(pytest.approx, rel=1e-8)
    assert run.time[at] == near(slips)
    assert run.velocity[-1, 0, 0] == near(k * (end**2 - slips**2) / (2 * mass) - mu * G * (end - slips))
    found, later = ist.sensitivities(scene, STEPPER, run, ["mass"])["mass"], mu_s * G / k
    assert found.time[at, 0] == near(later)
    lost = k * (end**2 - slips**2) / (2 * mass**2) + (k * slips / mass - mu * G) * later
    assert found.velocity[-1, 0, 0, 0] == near(-lost)


@pytest.mark.thorough
def test_what_friction_holds_has_derivatives_of_zero():
    """Its velocities are rounding, in the run and where derivatives are taken, which is not to be
    told from a run of another scene. A first speed c stops after c |c| / 2 a."""
    scene = wheel(0.4)
    run = ist.simulate(scene, STEPPER, tol=1e-9, duration=0.3)
    assert np.abs(run.velocity).max() <= 1e-12
    names = ["mu of pin", "wrench", "mass", "velocity"]  # of the test above, which has compiled them
    found = ist.sensitivities(scene, STEPPER, run, names)
    for name in ("mu of pin", "wrench"):
        assert np.abs(found[name].orientation[-1]).max() <= 1e-9
    assert abs(found["velocity"].velocity[-1, 0, 2, 0, 2]) <= 1e-9
    with pytest.raises(ist.StepError, match="no derivatives along this run"):
        ist.sensitivities(wheel(0.8), STEPPER, run, names)


@pytest.mark.thorough
def test_derivatives_are_those_of_the_converged_solver():
    """Of a body of three axes that lands and sticks at once: differences of eight digits, by every
    input."""
    case = chosen_derivatives.SCENES["lands and sticks"]._replace(duration=0.12)
    errors, events = chosen_derivatives.errors(case)
    assert events == ["closes"]
    assert len(errors) >= 12
    assert {name: error for name, error in errors.items() if not error <= 1e-6} == {}
