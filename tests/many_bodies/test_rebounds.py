"""Rebounds among pairs that are found: against flights and impulses in closed form, and what the
certificate sees."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import impact_root, rebounds
from implicit_stepper.many_bodies.bouncing import Bouncing
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.impact_joints import unlinked
from implicit_stepper.many_bodies.impact_root import Law, root
from implicit_stepper.many_bodies.rebound_certificate import rebound_violations
from implicit_stepper.model.bodies import State
from implicit_stepper.model.results import Result

SPARSE = ist.GeometricallyImplicit(jacobian="sparse")
G, R, E = 9.81, 0.1, 0.5
FLOOR = shapes.HalfSpace(normal=(0, 0, 1))


def balls(places, velocities, friction=0.3, e=E, gravity=(0, 0, 0), floor=False, law=ist.Newton):
    """A scene of balls of .1 m and 1 kg."""
    scene = ist.Scene(gravity=gravity, **({} if any(gravity) else {"acceleration_scale": 10.0}))
    if floor:
        scene.add_fixed(name="floor", shape=FLOOR)
    for k, (place, velocity) in enumerate(zip(places, velocities, strict=True)):
        scene.add_body(name=f"ball {k}", shape=shapes.Sphere(R), mass=1.0, position=place, velocity=velocity)
    scene.add_contacts(friction=friction, restitution=law(e))
    return scene


def test_a_ball_rebounds_as_flights_in_closed_form_say():
    """From .5 m, e = .5: it parts from the floor at e^k sqrt(2 g h), to first order in h, each time
    with e times the speed that it meets it with, and comes to rest."""
    errors = []
    for h in (0.005, 0.0025):
        run = ist.simulate(balls([(0, 0, 0.5 + R)], [(0,) * 6], gravity=(0, 0, -G), floor=True), SPARSE, h=h, duration=1.2)
        parted = np.flatnonzero(run.h == 0.0) + 1
        assert [(e.time, e.contact, e.kind) for e in run.events] == [(t, 0, "closes") for t in run.time[parted]]
        exact = np.sqrt(G) * E ** np.arange(1, 4)
        errors.append(np.abs(run.velocity[parted[:3], 0, 2] - exact))
        assert abs(run.velocity[-1, 0, 2]) < 1e-12
        assert np.nanmin(run.contacts.gap) >= -1e-12
        assert max(np.max(v) for v in run.certificate.values()) < 1e-10
    np.testing.assert_allclose(errors[0] / errors[1], 2.0, rtol=0, atol=0.05)
    assert np.max(errors[1]) < 0.03


def test_two_balls_part_with_a_share_of_their_approach():
    """Off the line of their centres and spinning, with friction: momenta are kept, and normals part
    with e times the speed of approach."""
    scene = balls([(-0.3, 0, 0), (0, 0.07, 0.05)], [(1, 0, 0, 0, 2, 3), (-0.2, 0, 0, 1, 0, 0)], e=0.7)
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.2)
    (hit,) = np.flatnonzero(run.h == 0.0)
    n, before, after = run.contacts.normal[hit, 0], run.velocity[0], run.velocity[hit + 1]
    speed = [(v[1, :3] - v[0, :3]) @ n for v in (before, after)]
    assert speed[1] == pytest.approx(-0.7 * speed[0], abs=1e-12)
    np.testing.assert_allclose(np.sum(after[:, :3], axis=0), np.sum(before[:, :3], axis=0), rtol=0, atol=1e-12)
    spins = [0.4 * R**2 * v[:, 3:] + np.cross(run.position[hit], v[:, :3]) for v in (run.velocity[hit], after)]
    np.testing.assert_allclose(np.sum(spins[1], axis=0), np.sum(spins[0], axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("off", [0.0, -1e-10])
@pytest.mark.parametrize("law", [ist.Newton, ist.Poisson])
def test_what_touches_as_a_run_begins_rebounds_whatever_rounding_makes_of_its_gap(law, off):
    """A ball on the floor, or by rounding in it, that comes down with 1 m/s parts with e of that;
    in the first step all of it has been stopped."""
    scene = balls([(0, 0, R + off)], [(0, 0, -1, 0, 0, 0)], gravity=(0, 0, -G), floor=True, law=law)
    run = ist.simulate(scene, SPARSE, h=1e-3, duration=2e-3)
    (hit,) = np.flatnonzero(run.h == 0.0)
    assert run.velocity[hit + 1, 0, 2] == pytest.approx(E, abs=1e-9)


def test_friction_acts_with_the_impulses_of_landing_and_of_rebound():
    """A ball that slips along the floor throughout loses mu (1 + e) times its speed of approach,
    and gains 5 / (2 r) of that as spin."""
    scene = balls([(0, 0, R + 0.053)], [(1, 0, -1, 0, 0, 0)], friction=0.1, floor=True)
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.1)
    lost = 0.1 * (1 + E)
    np.testing.assert_allclose(run.velocity[-1, 0], [1 - lost, 0, E, 0, 2.5 * lost / R, 0], rtol=0, atol=1e-12)


def test_a_row_parts_all_at_once():
    """One ball meets two that touch: -1/3, 2/3, 2/3 with e = 1, Newton's law of all at once."""
    scene = balls([(-0.25, 0, 0), (0, 0, 0), (0.2, 0, 0)], [(1, 0, 0, 0, 0, 0), (0,) * 6, (0,) * 6], e=1.0)
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.1)
    np.testing.assert_allclose(run.velocity[-1, :, 0], [-1 / 3, 2 / 3, 2 / 3], rtol=0, atol=1e-12)


def test_a_run_that_is_cut_off_before_an_impact_goes_on_with_that(tmp_path, monkeypatch):
    """A ball on the floor, and three in a row; from a file too. After the impact there is none, nor
    in a scene in which the last step does not end there. One that is not solved ends the run."""
    falls = balls([(0, 0, 0.05 + R)], [(0,) * 6], gravity=(0, 0, -G), floor=True)
    row = balls([(-0.25, 0, 0), (0, 0, 0), (0.2, 0, 0)], [(1, 0, 0, 0, 0, 0), (0,) * 6, (0,) * 6], e=1.0)
    for scene in (row, falls):
        run = ist.simulate(scene, SPARSE, h=0.01, duration=0.15)
        hit = int(np.flatnonzero(run.h == 0.0)[0])
        run[:hit].save(tmp_path / "cut.npz")
        for start, events in ((ist.load(tmp_path / "cut.npz"), run.events[:1]), (run[: hit + 1], ())):
            on = ist.simulate(scene, SPARSE, h=0.01, duration=0.01, start=start)
            assert [(event.time, event.kind) for event in on.events] == [(event.time, event.kind) for event in events]
            np.testing.assert_allclose(on.velocity[-1], run.velocity[hit + 2], rtol=0, atol=1e-10)
    cut = run[:hit]
    halves = np.where(np.arange(len(cut.velocity)) < len(cut), 1.0, 0.5)  # at the end alone
    slower = dataclasses.replace(cut, velocity=cut.velocity * halves[:, None, None])
    assert ist.simulate(falls, SPARSE, h=0.01, duration=1e-3, start=slower).events == ()
    due = Bouncing.due
    monkeypatch.setattr(Bouncing, "due", lambda *asked: dataclasses.replace(due(*asked), result=Result.IMPACT))
    with pytest.raises(
        ist.StepError, match=f"the step to t = {cut.time[-1]:.9g} s failed: {Result.IMPACT.message}"
    ) as caught:
        ist.simulate(falls, SPARSE, h=0.01, duration=0.01, start=cut)
    assert len(caught.value.trajectory) == 0


def test_what_a_told_plate_gives_in_a_step_is_energy_that_bodies_bring():
    """A ball falls .02 m onto a disc that a plate lifts with 200 m/s^2, against which it parts with e
    of the speed that it comes with by itself, however much faster than without the plate."""
    lift, e, gap, speed, h = 200.0, 0.9, 0.02, 3.0, 0.01
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    ground = {"shape": shapes.HalfPlane(normal=(0, 1)), "mass": 1.0, "inertia": 1.0}
    scene.add_moving(name="plate", pose=lambda time: (jnp.stack([0 * time, lift * time**2 / 2]), 0.0), **ground)
    scene.add_body(name="disc", shape=shapes.Disc(3 * R), mass=10.0, position=(0, 3 * R))
    above = {"position": (0, 7 * R + gap), "velocity": (0, -speed, 0)}
    scene.add_body(name="ball", shape=shapes.Disc(R), mass=0.1, **above)
    scene.add_contacts(friction=0.0, restitution=ist.Newton(e))
    run = ist.simulate(scene, SPARSE, h=h, duration=h)
    met = (speed + np.sqrt(speed**2 + 4 * G * gap)) / 2  # (speed + G t) t = gap in the part t of a step
    assert list(run.h) == [h, 0.0]
    np.testing.assert_allclose(run.velocity[-1, :, 1], [lift * h / 2] * 2 + [lift * h / 2 + e * met], rtol=1e-9)


def test_what_others_throw_together_parts_with_its_own_speed():
    """The second is thrown onto the third in the step in which it is hit: they had no speed of
    their own against each other, and no energy comes from nowhere."""
    scene = balls([(-0.255, 0, 0), (0, 0, 0), (0.2001, 0, 0)], [(1, 0, 0, 0, 0, 0), (0,) * 6, (0,) * 6], e=1.0)
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.1)
    speeds = run.velocity[-1, :, 0]
    assert np.sum(speeds**2) <= 1.0
    assert speeds[1] == pytest.approx(speeds[2], abs=1e-9)


def test_what_others_throw_together_parts_by_the_impulse_that_met_it():
    """The same by Poisson's law, which asks for no speed: -1/3, 2/3 and 2/3."""
    places = [(-0.255, 0, 0), (0, 0, 0), (0.2001, 0, 0)]
    scene = balls(places, [(1, 0, 0, 0, 0, 0), (0,) * 6, (0,) * 6], e=1.0, law=ist.Poisson)
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.1)
    np.testing.assert_allclose(run.velocity[-1, :, 0], [-1 / 3, 2 / 3, 2 / 3], rtol=0, atol=1e-11)


def test_an_impact_that_would_raise_energy_has_half_the_restitution(monkeypatch):
    """As if the first root did: the ball parts with e / 2, which the record says, and its
    certificate takes for what it is."""
    told = iter([1.0, 1.0, 2.0, 0.5])  # at the start of the step, by loads alone, after e and after e / 2
    monkeypatch.setattr(rebounds, "_energies", lambda mass, velocity: np.array([next(told)]))
    scene = balls([(0, 0, R + 0.053)], [(0, 0, -1, 0, 0, 0)], friction=0.0, e=0.6, floor=True)
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.1)
    (hit,) = np.flatnonzero(run.h == 0.0)
    assert run.stats.rung[hit] == 1
    assert run.velocity[-1, 0, 2] == pytest.approx(0.3, abs=1e-12)
    assert max(np.max(values) for values in run.certificate.values()) < 1e-10


def test_islands_that_raise_energy_are_told_and_halved_alone(monkeypatch):
    """As if the first root raised that of the first ball: the other, which meets the floor in the
    same step and loses more than that, has its e all the same."""
    energies = iter([[1.0, 9.0], [1.0, 9.0], [2.0, 1.0], [0.5, 1.0]])  # as above, of both
    monkeypatch.setattr(rebounds, "_energies", lambda mass, velocity: np.array(next(energies)))
    places, down = [(0, 0, R + 0.053), (1, 0, R + 0.053)], (0, 0, -1, 0, 0, 0)
    run = ist.simulate(balls(places, [down, down], friction=0.0, e=0.6, floor=True), SPARSE, h=0.01, duration=0.1)
    (hit,) = np.flatnonzero(run.h == 0.0)
    assert run.stats.rung[hit] == 1
    np.testing.assert_allclose(run.velocity[-1, :, 2], [0.3, 0.6], rtol=0, atol=1e-12)
    assert max(np.max(values) for values in run.certificate.values()) < 1e-10


@pytest.mark.parametrize("deep", [G / 1e4, 0.05])
def test_what_stands_on_a_spring_passes_no_impulse_on(deep):
    """A ball on a compliant floor, at rest or thrown up by it, is hit from above: both keep their
    momentum in the impact, and what the floor has given them is no energy of the impact."""
    k = 1e4
    scene = ist.Scene(gravity=(0, 0, -G))
    floor = scene.add_fixed(name="floor", shape=FLOOR)
    heights, speeds = (R - deep, 3 * R + 0.005 - deep), (0, -1)
    low, high = (
        scene.add_body(name=f"{z}", shape=shapes.Sphere(R), mass=1.0, position=(0, 0, z), velocity=(0, 0, v, 0, 0, 0))
        for z, v in zip(heights, speeds, strict=True)
    )
    scene.add_contact(floor, low, compliance=ist.Compliance(k))
    scene.add_contact(low, high, restitution=ist.Newton(E))
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.01)
    assert list(run.h) == [0.01, 0.0]
    assert run.stats.rung[1] == 0
    before, after = run.velocity[1:3, :, 2]
    assert after.sum() == pytest.approx(before.sum(), abs=1e-12)
    assert E < after[1] - after[0] < E * (1 + 0.01 * G)  # of 1 m/s, and what gravity adds within the step


def test_meeting_speeds_are_those_of_a_part_of_the_step():
    """In free fall from rest, from speed, thrown upwards to a ceiling that it does not reach by
    itself, and at even speed."""
    h = 0.1
    found = rebounds.meeting_speeds(
        np.array([0.01, 0.05, 1.0, 0.02]), np.array([0.0, -1.0, -2.0, -0.3]), np.array([-1.0, -2.0, -1.0, -0.3]), h
    )
    s = np.sqrt(0.1)  # gap / h = s^2
    t = (-1 + np.sqrt(3)) / 2  # .5 = t (1 + t)
    np.testing.assert_allclose(found, [-s, -(1 + t), -1.0, -0.3], rtol=0, atol=1e-12)


def bounced():
    """Of a ball that lands beside another that stands on the floor and touches it: what an impact's
    certificate is of."""
    scene = balls([(0, 0, R), (2 * R, 0, R + 0.004)], [(0,) * 6, (-0.2, 0.3, -1, 0, 0, 0)], gravity=(0, 0, -G), floor=True)
    system, state = scene.build(contacts=False)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    run = ist.simulate(scene, SPARSE, h=0.005, duration=0.005)
    assert list(run.h) == [0.005, 0.0]
    states = [State(run.time[k], run.position[k], run.orientation[k], run.velocity[k]) for k in range(3)]
    names = list(known.names)
    pairs = np.array([[names.index(name) for name in pair] for pair in run.contact_names])
    step, impact = (jax.tree.map(lambda a, k=k: np.asarray(a)[k], run.contacts) for k in range(2))
    return known, system, states, pairs, step, impact


def worst(known, system, states, pairs, step, impact):
    return {
        k: float(np.max(v)) for k, v in rebound_violations(known, system, tuple(states), pairs, step, impact, 0.005).items()
    }


def test_the_certificate_of_an_impact_sees_what_is_changed():
    known, system, states, pairs, step, impact = bounced()
    assert max(worst(known, system, states, pairs, step, impact).values()) < 1e-12
    end = states[2]
    faster = dataclasses.replace(end, velocity=end.velocity * (1 + 1e-6))
    assert worst(known, system, [*states[:2], faster], pairs, step, impact)["impact"] > 1e-7
    moved = dataclasses.replace(end, position=end.position + 1e-6)
    assert worst(known, system, [*states[:2], moved], pairs, step, impact)["pose"] > 1e-7
    none = dataclasses.replace(
        impact, normal_impulse=0 * impact.normal_impulse, friction_impulse=0 * impact.friction_impulse
    )
    still = worst(known, system, [*states[:2], states[1]], pairs, step, none)
    assert still["impact"] == 0.0
    assert still["gap"] > 0.1
    rubbed = dataclasses.replace(impact, friction_impulse=-impact.friction_impulse)
    assert worst(known, system, states, pairs, step, rubbed)["friction"] > 1e-3


def test_what_roots_leave_across_open_gaps_changes_no_rebound():
    """An impulse of 1e-30 N s between balls a millimetre apart, of either sign: the one that lands
    has fallen freely until then."""
    known, system, states, pairs, step, _ = bounced()
    between = np.all(pairs < 2, axis=1)
    assert np.sum(between) == 1
    apart, ends = np.where(between, 1e-3, step.gap), []
    for left in (-1e-30, 1e-30):
        dusty = dataclasses.replace(step, gap=apart, normal_impulse=np.where(between, left, step.normal_impulse))
        ends.append(rebounds.rebound(known, system, *states[:2], pairs, dusty, 0.005, -np.inf).velocity)
    np.testing.assert_allclose(*ends, rtol=0, atol=1e-13)
    falls = np.sqrt(1 + 2 * G * 0.004)  # [m/s] over the 4 mm to the floor
    assert ends[0][1, 2] == pytest.approx(E * falls, rel=1e-3)


@pytest.mark.parametrize("mu", [0.0, 0.3, 0.8])
def test_the_central_path_leads_to_the_root_of_an_impact(mu, monkeypatch):
    """Three bodies without spin between a floor and each other: F = 0 is checked as it stands, and
    Newton's method finds the same velocities."""
    rng = np.random.default_rng(3)
    sides = np.array([[0, 3], [1, 3], [2, 3], [0, 1], [1, 2]])  # the fourth does not move
    axes = np.linalg.qr(rng.normal(size=(5, 3, 3)))[0]
    on = np.stack([-axes, axes], axis=1)
    least = np.array([0.0, 0.4, 0.0, 0.0, 0.1])
    law = Law(sides, on, np.array([0.3, 0.0, 0.2, 0.1, 0.0]), least, np.full(5, mu))
    mass, velocity = np.stack([m * np.eye(3) for m in (1.0, 2.0, 0.5)]), rng.normal(size=(3, 3))
    known = np.zeros((5, 3))
    by_newton = root(law, unlinked(mass), velocity, known, known)
    monkeypatch.setattr(impact_root, "_CORRECTIONS", 0)
    by_path = root(law, unlinked(mass), velocity, known, known)
    assert by_path.converged
    assert by_newton.converged
    every = np.concatenate([by_path.velocity, np.zeros((1, 3))])
    u = np.einsum("csrw,csw->cr", on, every[sides])
    p, y, v_n = by_path.impulses[:, 0], by_path.impulses[:, 1:], u[:, 0] - law.bounds
    assert min(np.min(p - least), np.min(v_n)) > -1e-10
    assert np.max(np.abs((p - least) * v_n)) < 1e-10
    slips = np.linalg.norm(u[:, 1:], axis=1)
    assert np.max(np.linalg.norm(y, axis=1) - mu * p) < 1e-10
    np.testing.assert_allclose(y * slips[:, None], -mu * p[:, None] * u[:, 1:], rtol=0, atol=1e-10)
    np.testing.assert_allclose(by_path.velocity, by_newton.velocity, rtol=0, atol=1e-9)


def refused(law, shape, stepper, match, joint=False):
    scene = ist.Scene()
    scene.add_fixed(name="floor", shape=FLOOR)
    made = [scene.add_body(name=f"{k}", shape=shape, mass=1.0, position=(k, 0, 1)) for k in range(24)]
    if joint:
        rubs = ist.JointFriction(0.1, radius=0.01)
        scene.add_joint(made[0], made[1], ist.BallJoint((0.5, 0, 0), (-0.5, 0, 0), friction=rubs), name="pivot")
    scene.add_contacts(friction=0.1, restitution=law)
    with pytest.raises(ValueError, match=match):
        ist.simulate(scene, stepper, h=0.01, duration=0.01)


def test_what_such_runs_do_not_know_of_rebounds_is_refused():
    ball, newton = shapes.Sphere(R), ist.Newton(0.5)
    refused(newton, ball, ist.GeometricallyImplicit(jacobian="sparse", impacts="sequential"), "sequential")
    refused(newton, ball, ist.Convex(), "restitution")
    refused(newton, ball, SPARSE, "beside joints with friction", joint=True)
