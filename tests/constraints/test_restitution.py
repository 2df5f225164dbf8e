"""Rebounds by Newton's law: a disc that bounces to rest, discs that exchange speeds, and what is
refused."""

import dataclasses

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.restitution import SLIGHT
from implicit_stepper.radau.impact_certificate import impact_violations

G, E = 9.81, 0.5


@pytest.fixture(scope="module")
def scene():
    return fall_and_run(apart=0.8)


def fall_and_run(apart, e=E):
    """A disc that falls 1 m; and beside it, without weight, one that runs into another of the same
    mass, which is so far `apart` [m]."""
    made = ist.Scene(dimension=2, gravity=(0, -G))
    floor = made.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    disc = {"shape": shapes.Disc(0.1), "mass": 1.0}
    falls = made.add_body(name="falls", position=(0, 1.1), **disc)
    made.add_contact(floor, falls, friction=0.3, restitution=ist.Newton(e))
    weightless = {"wrench": (0, G, 0)} | disc
    runs = made.add_body(name="runs", position=(1, 3), velocity=(1, 0, 0), **weightless)
    rests = made.add_body(name="rests", position=(1.2 + apart, 3), **weightless)
    made.add_contact(runs, rests, restitution=ist.Newton(1.0))
    return made


@pytest.fixture(scope="module")
def run(scene):
    return ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=1.6)


def test_a_disc_bounces_when_the_closed_form_says_and_comes_to_rest(scene, run):
    times = np.array([event.time for event in run.events if (event.contact, event.kind) == (0, "closes")])
    fall = np.sqrt(2 / G)
    speeds = G * fall * E ** np.arange(40)
    slow = SLIGHT * np.sqrt(G * float(scene.build()[0].length))
    count = int(np.sum(speeds > slow))  # impacts with a rebound; the last one lasts 2e-7 s
    exact = fall + 2 * fall * np.array([np.sum(E ** np.arange(1, n + 1)) for n in range(count)])
    assert count <= len(times) <= count + 1
    np.testing.assert_allclose(times[:count], exact, rtol=0, atol=2e-11)
    assert run.time[-1] == 1.6
    np.testing.assert_allclose(run.position[-1, 0], [0, 0.1], rtol=0, atol=1e-12)
    assert np.max(np.abs(run.velocity[-1, 0])) <= 1e-12


def test_fifty_rebounds_of_a_lively_disc_are_at_the_times_of_the_closed_form():
    """With e = .9; it comes to rest after (1 + e) / (1 - e) times its fall."""
    fall, e = np.sqrt(2 / G), 0.9
    run = ist.simulate(fall_and_run(apart=9.0, e=e), ist.RadauContact(), tol=1e-8, duration=8.7)
    times = np.array([event.time for event in run.events if (event.contact, event.kind) == (0, "closes")])
    exact = fall + 2 * fall * np.array([np.sum(e ** np.arange(1, n + 1)) for n in range(50)])
    np.testing.assert_allclose(times[:50], exact, rtol=0, atol=1e-12)
    assert times[-1] < fall * (1 + e) / (1 - e) < 8.7
    np.testing.assert_allclose(run.position[-1, 0], [0, 0.1], rtol=0, atol=1e-12)
    assert np.max(np.abs(run.velocity[-1, 0])) <= 1e-12


def test_a_rebound_takes_a_step_to_the_next_impact_and_one_that_ends_on_it(run):
    """Its modes are guessed: nothing touches that leaves."""
    assert run.counts["inaccurate"] == 0
    assert run.counts["solves"] <= 4 * run.counts["impacts"]  # 82 for 24; 173 where guesses were not held


def test_equal_discs_exchange_their_speeds(run):
    (meets,) = [event for event in run.events if event.contact == 1 and event.kind == "closes"]
    assert meets.time == pytest.approx(0.8, abs=1e-12)
    np.testing.assert_allclose(run.velocity[-1, 1:, 0], [0.0, 1.0], rtol=0, atol=1e-12)


def test_all_that_meets_at_one_time_is_told():
    fall = np.sqrt(2 / G)
    run = ist.simulate(fall_and_run(apart=fall), ist.RadauContact(), tol=1e-8, duration=0.6)
    assert [event[1:] for event in run.events] == [(0, "closes"), (1, "closes")]
    np.testing.assert_allclose([event.time for event in run.events], fall, rtol=0, atol=1e-12)
    flies = E * G * fall - G * (0.6 - fall)
    np.testing.assert_allclose(run.velocity[-1, :, :2], [[0, flies], [0, 0], [1, 0]], rtol=0, atol=1e-11)


def test_the_certificate_knows_the_rebound(scene, run):
    system, _ = scene.build()
    wrong = dataclasses.replace(system, groups=tuple(_with_e(group) for group in system.groups))
    step = next(i for i in range(len(run)) if np.any(run.velocity[i + 1] != run.contacts.stages.velocity[i, -1]))
    steps = run.contacts
    contacts = jax.tree.map(lambda a: a[step], dataclasses.replace(steps, stages=None, landing=None))
    before, after = (
        ist.State(run.time[step + 1], run.position[step + 1], run.orientation[step + 1], velocity)
        for velocity in (steps.stages.velocity[step, -1], run.velocity[step + 1])
    )
    for asked, fine in ((system, True), (wrong, False)):
        found = impact_violations(asked, before, after, contacts)
        assert (np.max(found["gap"]) <= 1e-9 and np.max(found["p_n _|_ f(a2)"]) <= 1e-9) == fine


def _with_e(group):
    return group if group.restitution is None else dataclasses.replace(group, restitution=group.restitution + 0.01)


def test_what_cannot_rebound_is_refused(scene):
    with pytest.raises(ValueError, match=r"`e` = 1.1 is not in \[0, 1\]"):
        ist.Newton(1.1)
    made = ist.Scene()
    floor = made.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    box = made.add_body(name="box", shape=shapes.Box((0.1, 0.1, 0.1)), mass=1.0, position=(0, 0, 1))
    with pytest.raises(ValueError, match="must be a Newton"):
        made.add_contact(floor, box, restitution=0.5)
    with pytest.raises(ValueError, match="is for rigid contacts"):
        made.add_contact(floor, box, restitution=ist.Newton(0.5), compliance=ist.Compliance(1e4))
    made.add_contact(floor, box, restitution=ist.Newton(0.5))
    with pytest.raises(ValueError, match="floor and box have a `restitution`"):
        ist.simulate(made, ist.RadauContact(), duration=0.1, h=0.01)
    system, start = made.build()
    with pytest.raises(ValueError, match="floor and box have a `restitution`"):
        ist.rollout(system, ist.GeometricallyImplicit(), 0.01, 2, start=start)
    for stepper in (ist.GeometricallyImplicit(), ist.RadauContact(), ist.Convex()):
        with pytest.raises(ValueError, match="floor and box have a `restitution`"):
            stepper.init(system, start)


def test_a_scene_file_has_it(tmp_path, scene):
    scene.save(tmp_path / "scene.toml")
    system, _ = ist.load_scene(tmp_path / "scene.toml").build()
    assert sorted(float(e) for group in system.groups for e in group.restitution) == [E, 1.0]
