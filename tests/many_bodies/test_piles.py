"""Runs that find their pairs: against runs with all pairs declared, which another linear algebra
solves."""

import dataclasses
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import advance, candidates
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.certificate import certificate, worst_of
from implicit_stepper.many_bodies.host_newton import short_path
from implicit_stepper.many_bodies.recalled import recalled
from implicit_stepper.many_bodies.step import everywhere, may_touch, no_memory, posed
from implicit_stepper.output import viewer
from implicit_stepper.run import checkpoint, found_pairs
from implicit_stepper.scene.compound import Part

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import piles  # noqa: E402

H, STEPS = 0.01, 30
SPARSE = ist.GeometricallyImplicit(jacobian="sparse")


def scene_of_balls_and_a_box():
    """Three balls and a box that are thrown on a floor: balls meet each other and the floor, the
    box lands on an edge."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.0))
    places = ((0, 0, 0.12), (0.19, 0.01, 0.3), (0.1, 0.05, 0.52))
    balls = [
        scene.add_body(
            name=f"ball {k}", shape=shapes.Sphere(0.1), density=500, position=place, velocity=(0.3 - 0.4 * k, 0, -1, 0, 3, 0)
        )
        for k, place in enumerate(places)
    ]
    turn = np.array([np.cos(0.1), np.sin(0.1), 0.0, 0.0])
    box = scene.add_body(
        name="box", shape=shapes.Box((0.1, 0.08, 0.05)), density=500, position=(0, 0.6, 0.08), quaternion=turn,
        velocity=(0.5, 0, 0, 0, 0, 1),
    )  # fmt: skip
    scene.add_contacts(friction=ist.FrictionEllipsoid(mu=0.4, e_r=0.01), among=[*balls, floor])
    scene.add_contacts(friction=0.5, between=([box], [floor]))
    return scene


@pytest.fixture(scope="module")
def runs():
    scene = scene_of_balls_and_a_box()
    return scene, *(ist.simulate(scene, s, h=H, duration=H * STEPS) for s in (SPARSE, ist.GeometricallyImplicit()))


def test_a_run_that_finds_its_pairs_is_that_with_all_pairs_declared(runs):
    _, found, declared = runs
    assert len(found) == len(declared) == STEPS
    assert np.max(np.abs(found.position - declared.position)) < 1e-9
    assert np.max(np.abs(found.velocity - declared.velocity)) < 1e-8
    met = [("ball 0", "floor"), ("ball 1", "floor"), ("box", "floor"), ("ball 0", "ball 1")]
    for pair in met:
        own, other = found.contact(*pair), declared.contact(*pair)
        assert np.max(other.normal_force) > 0
        assert np.max(np.abs(own.normal_force - other.normal_force)) < 1e-5 * np.max(other.normal_force)
        near = np.isfinite(own.gap)  # a pair that could not touch in a step is not in it
        assert np.max(np.abs(own.gap[near] - other.gap[near])) < 1e-8
        assert np.all(other.gap[~near] > 0)
        assert np.all(own.normal_force[~near] == 0)
    assert max(np.max(values) for values in found.certificate.values()) < 1e-10


def test_boxes_in_flight_and_on_their_edges_need_no_other_start(runs):
    """Where an edge flies parallel to the floor its closest point is at an end, past which
    iterations jump: such points are found anew."""
    _, found, _ = runs
    assert np.all(found.stats.rung == 0)
    assert np.max(found.stats.iterations) <= 20


def test_what_a_run_leaves_is_a_trajectory_as_any(runs, tmp_path):
    scene, found, _ = runs
    found.save(tmp_path / "run.npz")
    again = ist.load(tmp_path / "run.npz")
    assert again.contact_names == found.contact_names
    assert np.array_equal(again.contacts.gap, found.contacts.gap, equal_nan=True)
    assert len(found[3:7]) == 4
    assert np.all(np.isfinite(found.energy().total))
    assert np.all(found.parting_work() >= 0)
    json.dumps(viewer.content(found, scene), allow_nan=False)
    assert np.shape(ist.contact_states(scene, found).states) == found.contacts.gap.shape


@pytest.fixture(scope="module")
def step(runs):
    """A step of the run in which a ball meets the floor, with all that its certificate needs."""
    scene, found, _ = runs
    system, _ = scene.build(contacts=False)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    states = [
        jax.tree.map(np.asarray, ist.State(found.time[k], found.position[k], found.orientation[k], found.velocity[k]))
        for k in (9, 10)
    ]
    settings = advance.Settings("projection", 1e-12, 40, 1e-10)
    done = advance.advance(known, system, states[0], no_memory(), H, settings)
    pairs = may_touch(known, system, states[0], H)
    problem = posed(known, system, states[0], no_memory(), H, pairs, "projection").problem
    counts = np.cumsum([0, *(len(k.pairs) for k in done.memory.known)])
    parts = [
        (own, jax.tree.map(lambda a, k=k: a[counts[k] : counts[k + 1]], done.contacts))
        for k, own in enumerate(problem.slots)
    ]
    return system, known, states[0], done, parts, problem.step


class Killed(BaseException):
    """Ends a run as abruptly as an exception can."""


def test_a_run_goes_on_from_its_checkpoint_to_the_bits_of_one_that_was_not_killed(runs, tmp_path, monkeypatch):
    """Twice, once after steps in which bodies touch; and a run of the same bodies that touch
    otherwise is another."""
    scene, whole, _ = runs
    path, written, resume = tmp_path / "pile.checkpoint", checkpoint.write, None
    settings = {"h": H, "duration": H * STEPS}
    for steps in (3, 20):
        count = iter(range(1, 100))

        def write(*arguments, count=count, steps=steps):
            written(*arguments)
            if next(count) == steps:
                raise Killed

        monkeypatch.setattr(checkpoint, "write", write)
        with pytest.raises(Killed):
            ist.simulate(scene, SPARSE, **settings, checkpoint=path, every=0.0, resume=resume)
        resume = path
    monkeypatch.setattr(checkpoint, "write", written)
    found = ist.simulate(scene, SPARSE, **settings, resume=path)
    assert found.contact_names == whole.contact_names
    kept = [(run.position, run.velocity, run.contacts, run.stats, run.certificate) for run in (found, whole)]
    assert [a.tobytes() for a in jax.tree.leaves(kept[0])] == [a.tobytes() for a in jax.tree.leaves(kept[1])]
    other = scene_of_balls_and_a_box()
    other.add_contacts(friction=0.3)
    with pytest.raises(ist.CheckpointError, match="differs in: contacts"):
        ist.simulate(other, SPARSE, **settings, resume=path)
    folder = tmp_path / "folder"
    folder.mkdir()

    def write_without_folder(*arguments):
        folder.rmdir()
        written(*arguments)

    monkeypatch.setattr(checkpoint, "write", write_without_folder)
    with pytest.raises(ist.CheckpointError, match="cannot be written") as error:
        ist.simulate(scene, SPARSE, h=H, duration=2 * H, checkpoint=folder / "file", every=0.0)
    assert len(error.value.trajectory) == 1
    assert error.value.state.time == H


def test_a_run_goes_on_from_a_trajectory_with_the_forces_of_its_last_step(runs, tmp_path):
    """Also from one with all pairs declared, and with shorter steps. Its checkpoints are not those
    of a run from the same state without forces."""
    scene, found, declared = runs
    middle, path = 24, tmp_path / "pile.checkpoint"

    def first_step(start, h=H, **files):
        return int(ist.simulate(scene, SPARSE, h=h, duration=h, start=start, **files).stats.iterations[0])

    cold = first_step(found[:middle].end)
    assert found.stats.iterations[middle] < cold - 2
    assert first_step(found[:middle], checkpoint=path, every=0.0) < cold - 2
    assert first_step(declared[:middle]) < cold - 2
    assert first_step(found[:middle], H / 2) < first_step(found[:middle].end, H / 2) - 2
    assert first_step(found[:0]) == found.stats.iterations[0]
    with pytest.raises(ist.CheckpointError, match="differs in: contacts of the start"):
        first_step(found[:middle].end, resume=path)


def test_the_memory_of_a_step_is_known_from_its_contacts(step):
    """Whatever their order; not of a contact the other way round, which was not in the step, or
    whose points are no longer closest."""
    system, known, _, done, *_ = step
    order = np.roll(np.arange(len(done.pairs)), 1)
    contacts = jax.tree.map(lambda a: np.array(a)[order], done.contacts)

    def of(pairs, contacts, state=done.state):
        return {
            tuple(pair): values
            for own in recalled(known, system, state, H, pairs, contacts).known
            for pair, *values in zip(*own, strict=True)
        }

    found = of(done.pairs[order], contacts)
    assert len(found) == len(done.pairs) > 2
    for own in done.memory.known:
        for pair, *values in zip(*own, strict=True):
            for value, again in zip(values, found[tuple(pair)], strict=True):
                np.testing.assert_allclose(again, value, rtol=0, atol=1e-13)
    turned = np.concatenate([done.pairs[order[:1], ::-1], done.pairs[order[1:]]])
    assert set(of(turned, contacts)) == set(found) - {tuple(done.pairs[order[0]])}
    contacts.gap[1] = np.nan
    assert set(of(done.pairs[order], contacts)) == set(found) - {tuple(done.pairs[order[1]])}
    body = known.names.index("ball 0")
    moved = np.where(np.arange(system.body_count)[:, None] == body, 0.01, 0.0) + done.state.position
    before = set(of(done.pairs[order], contacts))
    after = set(of(done.pairs[order], contacts, dataclasses.replace(done.state, position=moved)))
    assert after == {pair for pair in before if body not in pair}
    assert 0 < len(after) < len(before)


def test_pairs_that_come_and_go_compile_nothing(runs, caplog):
    scene, found, _ = runs
    system, _ = scene.build(contacts=False)
    known, settings = (
        catalog(system, scene.body_parts(), scene.body_pairs()),
        advance.Settings("projection", 1e-12, 40, 1e-10),
    )

    def stepped(k):
        at = ist.State(found.time[k], found.position[k], found.orientation[k], found.velocity[k])
        return advance.advance(known, system, jax.tree.map(np.asarray, at), no_memory(), H, settings)

    def compiled(function, *arguments):
        caplog.clear()
        with jax.log_compiles(), caplog.at_level("WARNING"):
            found = function(*arguments)
        return found, sum("Compiling" in record.getMessage() for record in caplog.records)

    first = stepped(10)
    last, count = compiled(stepped, 25)
    assert first.result == last.result == ist.Result.SOLVED
    assert {tuple(pair) for pair in first.pairs.tolist()} != {tuple(pair) for pair in last.pairs.tolist()}
    assert count == 0
    assert compiled(jax.jit(lambda x: x + 1), np.arange(7.0))[1] > 0  # what compiles is counted


# bound by the run, or of no effect on an inactive face
FREE = {"gap_start", "multipliers_1", "multipliers_2", "tangent"}


def test_the_certificate_sees_every_number_that_is_changed(step):
    system, _, before, done, parts, of = step
    assert done.result == ist.Result.SOLVED
    assert worst_of(certificate(system, before, done.state, parts, None, of)) < 1e-10
    for name in ("position", "orientation", "velocity"):
        for body in range(system.body_count):
            changed = np.array(getattr(done.state, name))
            changed[body, 0] += 1e-7
            found = certificate(system, before, dataclasses.replace(done.state, **{name: changed}), parts, None, of)
            assert worst_of(found) > 1e-9, (name, body)
    for field in dataclasses.fields(done.contacts):
        values = getattr(done.contacts, field.name)
        if values is None or field.name in FREE:
            continue
        for number, (slots, record) in enumerate(parts):
            changed = np.array(getattr(record, field.name))
            changed[0] += 1e-7
            others = [*parts]
            others[number] = slots, dataclasses.replace(record, **{field.name: changed})
            assert worst_of(certificate(system, before, done.state, others, None, of)) > 1e-9, field.name


def test_pairs_that_may_touch_are_those_whose_balls_come_near(step):
    system, known, before, *_ = step
    bodies = everywhere(system, before)
    near = candidates.near(known, bodies.position, bodies.orientation, np.zeros(len(known.body)))
    names = [{known.names[part] for part in pair} for pair in near.tolist()]
    assert {"box", "ball 0"} not in names  # no rule lets them touch
    far = candidates.near(known, bodies.position + [0, 0, 5.0], bodies.orientation, np.zeros(len(known.body)))
    lifted = everywhere(system, dataclasses.replace(before, position=before.position + [0, 0, 5.0]))
    up = candidates.near(known, lifted.position, lifted.orientation, np.zeros(len(known.body)))
    assert {tuple(pair) for pair in up} == {
        tuple(pair) for pair in near if "floor" not in {known.names[part] for part in pair}
    }
    # all moved alike, the floor too
    assert {tuple(pair) for pair in far} == {tuple(pair) for pair in near}
    rises = np.where([name == "floor" for name in known.names], 6.0, 0.0)
    reached = candidates.near(known, lifted.position, lifted.orientation, rises)
    assert {known.names[i] for i, _ in reached} | {known.names[j] for _, j in reached} == set(known.names)


def test_less_reach_finds_no_other_pairs():
    """What a step did not move farther than was foreseen it need not look for again."""
    scene = piles.pile(24, "mixed", 0.3)
    system, state = scene.build(contacts=False)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    at, rng = everywhere(system, jax.tree.map(np.asarray, state)), np.random.default_rng(0)
    for largest in (0.02, 0.1, 0.5):
        reach = rng.uniform(0, largest, len(known.body))
        found = [
            candidates.near(known, at.position, at.orientation, share * reach)
            for share in (1.0, rng.uniform(size=len(reach)))
        ]
        more, less = ({tuple(pair) for pair in pairs.tolist()} for pairs in found)
        assert less <= more
    assert 0 < len(less) < len(more)


def test_how_far_points_are_from_a_large_part_is_told_with_its_rounding():
    """Above a face of a box of 1 m, rounded by .5 m."""
    points = np.array([[0.2, -0.3, 1.7], [0.0, 0.0, 3.0]])
    box = Part(shapes.Rounded(shapes.Box((1, 1, 1)), 0.5), np.zeros(3), np.eye(3))
    np.testing.assert_allclose(candidates.heights(box, np.zeros(3), np.eye(3), points), [0.2, 1.5], rtol=0, atol=1e-12)


def test_bodies_that_are_hit_within_a_step_meet_others_that_they_were_not_near():
    """A ball drives the next one on to a third, which is farther away than what either of these
    moves by itself. At the end of the step all gaps are closed, so that v_1 - v_2 = .05 m / h, v_2
    - v_3 = .04 m / h, and the sum is 5 m/s."""
    scene, h = ist.Scene(gravity=(0, 0, 0), acceleration_scale=10.0), 0.03
    for name, x, speed in (("fast", -0.25, 5.0), ("near", 0.0, 0.0), ("far", 0.24, 0.0)):
        scene.add_body(name=name, shape=shapes.Sphere(0.1), density=500, position=(x, 0, 0), velocity=(speed, 0, 0, 0, 0, 0))
    scene.add_contacts()
    system, state = scene.build(contacts=False)
    before = jax.tree.map(np.asarray, state)
    assert len(may_touch(catalog(system, scene.body_parts(), scene.body_pairs()), system, before, h)) == 1
    found = ist.simulate(scene, SPARSE, h=h, duration=h)
    last = (5 - 0.05 / h - 2 * 0.04 / h) / 3
    assert found.velocity[-1, :, 0] == pytest.approx([last + 0.09 / h, last + 0.04 / h, last], rel=1e-9)
    assert found.contact("near", "far").gap[-1] == pytest.approx(0, abs=1e-9)
    assert found.stats.substeps[-1] == 1


@pytest.mark.parametrize("stepper", [ist.ConeComplementarity(), ist.Convex(), ist.Linearized()])
def test_methods_that_ask_beforehand_find_them_too(stepper, monkeypatch):
    """As with all pairs declared, which few pairs are."""
    scene, h = ist.Scene(gravity=(0, 0, 0), acceleration_scale=10.0), 0.03
    for name, x, speed in (("fast", -0.25, 5.0), ("near", 0.0, 0.0), ("far", 0.24, 0.0)):
        scene.add_body(name=name, shape=shapes.Sphere(0.1), density=500, position=(x, 0, 0), velocity=(speed, 0, 0, 0, 0, 0))
    scene.add_contacts()
    declared = ist.simulate(scene, stepper, h=h, duration=h)
    monkeypatch.setattr(found_pairs, "_MANY", 0)
    found = ist.simulate(scene, stepper, h=h, duration=h)
    np.testing.assert_allclose(found.velocity, declared.velocity, rtol=0, atol=1e-6)
    assert declared.velocity[-1, 2, 0] > 0.1


def test_what_has_no_end_and_turns_comes_as_far_as_one_likes():
    """A table that tilts by 1 rad/s lifts a ball 5 m from its axis by 5 m/s, through a gap that the
    axis does not close in a step."""

    def tilt(time):
        return jnp.zeros(3), jnp.stack([jnp.cos(time / 2), 0 * time, -jnp.sin(time / 2), 0 * time])

    scene = ist.Scene(gravity=(0, 0, 0), acceleration_scale=10.0)
    scene.add_moving(name="table", shape=shapes.HalfSpace(normal=(0, 0, 1)), mass=1.0, inertia=(1, 1, 1), pose=tilt)
    scene.add_body(name="ball", shape=shapes.Sphere(0.1), density=500, position=(5, 0, 0.135))
    scene.add_contacts()
    run = ist.simulate(scene, SPARSE, h=0.01, duration=0.03)
    assert np.nanmin(run.contacts.gap) > -1e-9
    assert run.velocity[-1, 1, 2] > 4.0


def test_two_bodies_without_end_are_a_pair():
    """A bowl z >= x^2 + y^2 comes down on a floor, and both are found."""
    scene = ist.Scene()
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_fixed(name="side", shape=shapes.HalfSpace(normal=(1, 0, 0), offset=-5.0))
    bowl, moving = (
        shapes.ImplicitShape([shapes.x**2 + shapes.y**2 - shapes.z]),
        {"position": (0, 0, 1e-3), "velocity": (0, 0, -1, 0, 0, 0)},
    )
    scene.add_body(name="bowl", shape=bowl, mass=1.0, inertia=(1, 1, 1), **moving)
    scene.add_contacts(friction=0.3)
    system, state = scene.build(contacts=False)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    found = may_touch(known, system, jax.tree.map(np.asarray, state), 0.01)
    assert {tuple(known.names[part] for part in pair) for pair in found} == {("bowl", "floor"), ("bowl", "side")}


def test_half_a_step_in_which_nothing_is_near_is_half_a_step():
    """40 m/s at a ball .7 m away: a step of 30 ms would pass it, and the first half is free."""
    scene = ist.Scene(gravity=(0, 0, 0), acceleration_scale=10.0)
    for name, x, speed in (("fast", -0.9, 40.0), ("near", 0.0, 0.0)):
        scene.add_body(name=name, shape=shapes.Sphere(0.1), density=500, position=(x, 0, 0), velocity=(speed, 0, 0, 0, 0, 0))
    scene.add_contacts()
    run = ist.simulate(scene, SPARSE, h=0.03, duration=0.03)
    assert run.stats.substeps[-1] > 1
    assert run.contacts.gap[-1, 0] == pytest.approx(0, abs=1e-9)
    assert np.sum(run.velocity[-1, :, 0]) == pytest.approx(40.0, rel=1e-9)


def test_spheres_that_stand_take_no_jacobian():
    """A layer of nine between walls and four in its hollows: forces that hold them once hold them
    in the steps that follow."""
    run = ist.simulate(piles.bed(3, 2, 0.3), SPARSE, h=0.005, duration=0.05)
    assert run.stats.iterations[0] > 1
    assert not np.any(run.stats.iterations[1:])
    assert np.max(np.abs(run.position - run.position[0])) < 1e-14


def test_the_end_of_a_short_path_is_the_step():
    """A ball that slides: friction takes mu g h of its speed, and gives 5 / 2 mu g h / r of
    spin."""
    scene, mu, h, r = ist.Scene(gravity=(0, 0, -9.81)), 0.3, 0.01, 0.1
    scene.add_body(name="ball", shape=shapes.Sphere(r), density=500, position=(0, 0, r), velocity=(1, 0, 0, 0, 0, 0))
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.0))
    scene.add_contacts(friction=mu)
    system, state = scene.build(contacts=False)
    known, state = catalog(system, scene.body_parts(), scene.body_pairs()), jax.tree.map(np.asarray, state)
    of = posed(known, system, state, no_memory(), h, may_touch(known, system, state, h), "projection")
    found = short_path(of.problem, of.start, 1e-11, 40)
    assert found.converged
    lost = mu * 9.81 * h
    assert (found.point.V * of.problem.velocity)[0] == pytest.approx([1 - lost, 0, 0, 0, 2.5 * lost / r, 0], abs=1e-9)


def test_bodies_that_would_pass_through_each_other_take_shorter_steps():
    """At 20 m/s the first ball could be behind the second at the end of a step, where no gap is
    negative. All three end with the same speed, as impacts without rebound leave them."""
    scene = ist.Scene(gravity=(0, 0, 0), acceleration_scale=10.0)
    for name, x, speed in (("fast", -0.25, 20.0), ("near", 0.0, 0.0), ("far", 0.3, 0.0)):
        scene.add_body(name=name, shape=shapes.Sphere(0.1), density=500, position=(x, 0, 0), velocity=(speed, 0, 0, 0, 0, 0))
    scene.add_contacts()
    found = ist.simulate(scene, SPARSE, h=0.03, duration=0.03)
    assert found.stats.substeps[-1] > 1
    assert found.velocity[-1, :, 0] == pytest.approx([20 / 3] * 3, rel=1e-9)


def test_bodies_deep_inside_each_other_are_listed_with_their_depths():
    scene = ist.Scene()
    for k, x in enumerate((0.0, 0.08, 0.11)):
        scene.add_body(name=f"ball {k}", shape=shapes.Sphere(0.1), density=500, position=(x, 0, 1))
    scene.add_contacts()
    with pytest.raises(
        ValueError, match=r"ball 1 and ball 2 by 0.17 m of 0.1 m; ball 0 and ball 1 by 0.12 m of 0.1 m; ball 0"
    ):
        ist.simulate(scene, SPARSE, h=H, duration=H)
