"""Bodies with faces that stand on each other: forces are redundant, and points of faces that are
parallel are open."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import advance, rebounds
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.equations import PUSHES
from implicit_stepper.many_bodies.host_newton import newton
from implicit_stepper.many_bodies.linearization import correction, linear
from implicit_stepper.many_bodies.open_points import renewed
from implicit_stepper.many_bodies.problem import Point, moved, rows, slipping
from implicit_stepper.many_bodies.proximal import proximal
from implicit_stepper.many_bodies.step import lasting, may_touch, no_memory, posed
from implicit_stepper.run.found_pairs import finds_pairs
from implicit_stepper.solvers import sparse

H, TOLERANCE, MU = 0.01, 1e-12, 0.6


def bricks(turned=0.0, high=3):
    """Courses of bricks of 19.9 x 10 x 8 cm in running bond, two in a course, 1 mm apart; those
    beside the first of each course are `turned` [rad] about the vertical."""
    scene = ist.Scene()
    whole, half = shapes.Box((0.0995, 0.05, 0.04)), shapes.Box((0.0495, 0.05, 0.04))
    turn = (np.cos(turned / 2), 0, 0, np.sin(turned / 2))
    for course in range(high):
        z, odd = 0.04 + 0.08 * course, course % 2
        places = ((-0.05, half), (0.1, whole), (0.25, half)) if odd else ((0, whole), (0.2, whole))
        for number, (x, shape) in enumerate(places):
            pose = {"position": (x, 0, z), "quaternion": turn if number else (1, 0, 0, 0)}
            scene.add_body(name=f"brick {course}.{number}", shape=shape, density=2000.0, **pose)
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=MU)
    return scene


def first_step(scene):
    """The problem of its first step, and where it begins."""
    system, state = scene.build(contacts=False)
    state, known = jax.tree.map(np.asarray, state), catalog(system, scene.body_parts(), scene.body_pairs())
    own = posed(known, system, state, no_memory(), H, may_touch(known, system, state, H), "projection")
    return own.problem, own.start


@pytest.mark.parametrize("turned", [3e-12, -1e-11])
def test_the_point_of_a_face_that_is_turned_by_less_than_its_rows_show_is_its_end(turned):
    """From the middle of faces that are turned by so little the closest point lies at the end of
    the edge that is nearer."""
    problem, _ = first_step(bricks(turned, high=1))
    middle = first_step(bricks(high=1))[1]
    before = rows(problem, middle)
    (forms,) = [k for k, slots in enumerate(problem.slots) if all(slots.group.moving)]
    assert np.max(np.abs(before.contacts[forms])) > TOLERANCE
    found, F = renewed(problem, middle, before, TOLERANCE)
    assert np.max(np.abs(F.contacts[forms])) < 1e-14
    y = found.contacts[forms][0, 1] * problem.slots[forms].unknowns[0, 1]
    assert y == pytest.approx(np.sign(turned) * 0.05, abs=1e-12)


def test_forces_stay_near_where_they_are_redundant():
    """A root whose forces are wrong by 1e-10 is found again as far away, where a correction by J,
    singular but for what forces give way by, throws them a hundred times as far."""
    problem, start = first_step(bricks())
    root = newton(problem, start, TOLERANCE, 40)
    off, rng = [], np.random.default_rng(0)
    for slots, z in zip(problem.slots, root.point.contacts, strict=True):
        n, z = slots.group.pair.unknowns, np.array(z)
        pushes = z[:, n] > 1e-7
        z[pushes, n:-1] += 1e-10 * rng.uniform(-1, 1, z[pushes, n:-1].shape)
        off.append(z)
    off, F = slipping(problem, Point(root.point.V, tuple(off)), rows(problem, Point(root.point.V, tuple(off))))
    assert 1e-11 < F.largest < 1e-9
    found, there, _ = proximal(problem, off, F, None, TOLERANCE, 1e-7, 48)
    assert there.largest <= TOLERANCE
    assert way(off, found) < 5e-10
    here = linear(problem, off, F, 1e-9)
    factors = sparse.factorised(here.nodes, here.links)
    assert way(off, moved(problem, off, correction(problem, here.local, factors, F))[0]) > 1e-8


def way(start, end):
    """The farthest that an unknown of contacts goes."""
    return max(np.max(np.abs(b - a)) for a, b in zip(start.contacts, end.contacts, strict=True))


def test_what_comes_to_stand_has_little_friction_that_nothing_asks_for(monkeypatch):
    """Bricks on bricks need none. The root that Newton's method finds has a sixth of the weight on
    each, and keeps it."""

    def friction():
        stepper = ist.GeometricallyImplicit(jacobian="sparse")
        run = ist.simulate(bricks(), stepper, h=H, duration=3 * H, progress=False)
        assert not np.any(run.velocity)
        return np.nanmax(np.abs(run.contacts.friction_impulse)) / np.nanmax(run.contacts.normal_impulse)

    assert friction() < 1e-3
    monkeypatch.setattr(advance, "_comes_to_stand", lambda *_: False)
    assert friction() > 1e-2


def test_what_stands_stays_where_it_is_to_the_bit(monkeypatch):
    """With friction too that nothing asks for, a stress that buckles bricks that yaw by
    rounding."""
    monkeypatch.setattr(advance, "_comes_to_stand", lambda *_: False)
    run = ist.simulate(bricks(), ist.GeometricallyImplicit(jacobian="sparse"), h=H, duration=20 * H, progress=False)
    assert not np.any(run.velocity)
    assert np.array_equal(run.position, np.broadcast_to(run.position[0], run.position.shape))
    assert np.array_equal(run.quaternion, np.broadcast_to(run.quaternion[0], run.quaternion.shape))
    assert run.stats.iterations[0] > 5
    assert not np.any(run.stats.iterations[1:])


@pytest.mark.parametrize("seed", range(3))
def test_points_that_nothing_depends_on_keep_no_proximal_point_from_being_found(seed):
    """From a root with closest points of open contacts wrong by 2 cm, between faces that are turned
    by 1e-9 and bodies that move by 1e-7."""
    problem, start = first_step(bricks(1e-9, high=2))
    root, rng, contacts = newton(problem, start, TOLERANCE, 40), np.random.default_rng(seed), []
    for slots, z in zip(problem.slots, root.point.contacts, strict=True):
        n, z = slots.closest, np.array(z)
        pushes = z[:, n] > PUSHES
        z[~pushes, :n] += 0.3 * rng.uniform(-1, 1, z[~pushes, :n].shape)
        contacts.append(z)
    V = root.point.V + 1e-7 * rng.uniform(-1, 1, root.point.V.shape)
    off, F = slipping(problem, Point(V, tuple(contacts)), rows(problem, Point(V, tuple(contacts))))
    assert F.largest > 1
    _, there, taken = proximal(problem, off, F, None, TOLERANCE, 1e-7, 200)
    assert there.largest <= TOLERANCE
    assert taken <= 8


def test_what_stands_goes_on_standing_with_the_same_forces():
    """From a trajectory as in a run without a stop, without a Jacobian."""
    scene, stepper = bricks(), ist.GeometricallyImplicit(jacobian="sparse")
    whole = ist.simulate(scene, stepper, h=H, duration=4 * H)
    assert whole.stats.iterations[0] > 5
    again = ist.simulate(scene, stepper, h=H, duration=2 * H, start=whole[:2])
    assert not np.any(again.stats.iterations)
    np.testing.assert_allclose(again.position, whole.position[2:], rtol=0, atol=1e-15)
    # which pairs press by what rounding leaves, and which of them first, is a matter of the machine
    own, others = (dict(zip(run.contact_names, forces(run), strict=True)) for run in (again, whole))
    none, largest = np.zeros(2), max(np.max(values) for values in others.values())
    for pair in own.keys() | others.keys():
        late = others.get(pair, np.zeros(4))[2:]
        np.testing.assert_allclose(own.get(pair, none), late, rtol=0, atol=1e-6 * largest)


def test_where_nothing_moves_nothing_is_asked_to_rebound(monkeypatch):
    asked = []
    monkeypatch.setattr(rebounds, "rebound", lambda *_: asked.append(_))
    scene = bricks(high=1)
    scene.add_contacts(friction=MU, restitution=ist.Newton(0.5))
    run = ist.simulate(scene, ist.GeometricallyImplicit(jacobian="sparse"), h=H, duration=3 * H, progress=False)
    assert not np.any(run.velocity)
    assert len(asked) == 0


@pytest.mark.parametrize("changed", ["velocity", "position", "h"])
def test_a_step_in_which_nothing_moves_is_repeated_only_as_it_was(changed):
    """From the same state it is the step before, an object of the same contacts; from any other it
    is solved."""
    scene = bricks(high=1)
    system, state = scene.build(contacts=False)
    state, known = jax.tree.map(np.asarray, state), catalog(system, scene.body_parts(), scene.body_pairs())
    settings = advance.Settings("projection", TOLERANCE, 40, 1e-8)
    first = advance.advance(known, system, state, no_memory(), H, settings)
    again = advance.advance(known, system, first.state, first.memory, H, settings)
    assert again.contacts is first.contacts
    assert float(again.state.time) == pytest.approx(2 * H, rel=0, abs=1e-15)
    h, other = (H / 2 if changed == "h" else H), first.state
    if changed != "h":
        other = dataclasses.replace(other, **{changed: getattr(other, changed) + 1e-6})
    assert advance.advance(known, system, other, first.memory, h, settings).contacts is not first.contacts


def test_a_step_has_the_derivative_of_another_with_the_same_pairs_and_length():
    """Of bricks that slide; factors are made again, to the bit, from what a file holds of them."""
    scene = bricks(high=1)
    system, state = scene.build(contacts=False)
    state, known = jax.tree.map(np.asarray, state), catalog(system, scene.body_parts(), scene.body_pairs())
    settings = advance.Settings("projection", 1e-10, 40, 1e-8)
    state = dataclasses.replace(state, velocity=state.velocity + np.array([1.0, 0, 0, 0, 0, 0]))
    first = advance.advance(known, system, state, no_memory(), H, settings)
    assert first.iterations > 3
    of_file = lasting(first.memory)
    assert of_file.kept.at.factors is None
    ends = [advance.advance(known, system, first.state, memory, H, settings) for memory in (first.memory, of_file)]
    assert [end.iterations for end in ends] == [0, 0]
    assert ends[0].state.velocity.tobytes() == ends[1].state.velocity.tobytes()
    pairs = np.unique(np.sort(first.pairs, axis=1), axis=0)

    def kept(h, pairs):
        return posed(known, system, first.state, first.memory, h, pairs, "projection").kept

    assert kept(H, pairs) is not None
    assert kept(H, pairs[1:]) is None
    assert kept(H / 2, pairs) is None


def forces(run):
    """Normal impulses [N s] of every contact, step by step, 0 where it could not touch."""
    return np.nan_to_num(np.asarray(run.contacts.normal_impulse)).T


def test_many_pairs_of_bodies_with_faces_are_found_step_by_step():
    """Of faces from a hundred on, where nothing asks for what such runs cannot do yet."""

    def row(count, shape, **law):
        scene = ist.Scene()
        bodies = [scene.add_body(name=f"{k}", shape=shape, mass=1.0, position=(k, 0, 0)) for k in range(count)]
        for pair in itertools.pairwise(bodies):
            scene.add_contact(*pair, **law)
        return scene

    stepper, box = ist.GeometricallyImplicit(), shapes.Box((0.4, 0.4, 0.4))
    assert finds_pairs(row(102, box), stepper)
    assert not finds_pairs(row(101, box), stepper)
    assert not finds_pairs(row(102, shapes.Sphere(0.4)), stepper)
    assert not finds_pairs(row(102, box, restitution=ist.Newton(0.5)), stepper)
    assert not finds_pairs(row(102, box), ist.ConeComplementarity())
    ball, rebounds = shapes.Sphere(0.4), ist.Newton(0.5)
    assert finds_pairs(row(202, ball, restitution=rebounds), stepper)
    assert not finds_pairs(row(202, ball, restitution=rebounds), ist.GeometricallyImplicit(impacts="sequential"))
    assert not finds_pairs(row(102, box), ist.GeometricallyImplicit(jacobian="dense"))


def test_what_stands_moves_when_a_load_that_knows_the_time_says_so():
    scene = ist.Scene()
    pushed = {"wrench": lambda t, *_: jnp.where(t > 2.5 * H, 50.0, 0.0) * jnp.eye(6)[0]}
    scene.add_body(name="brick", shape=shapes.Box((0.1, 0.05, 0.04)), mass=3.2, position=(0, 0, 0.04), **pushed)
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=MU)
    run = ist.simulate(scene, ist.GeometricallyImplicit(jacobian="sparse"), h=H, duration=5 * H, progress=False)
    assert not np.any(run.velocity[:3])
    assert run.velocity[-1, 0, 0] > 0.1
