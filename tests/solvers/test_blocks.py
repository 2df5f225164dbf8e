"""Jacobians in blocks against the dense one: linear solves, whole steps, and what happens where
slots run out."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import ladder, ncp
from implicit_stepper.runtime.compilation import jit
from implicit_stepper.solvers.blocks import eliminated, no_factors
from implicit_stepper.solvers.left_over import Pattern
from implicit_stepper.stepping.stepper import begin

H = 0.005
BLOCKS, DENSE = ist.GeometricallyImplicit(), ist.GeometricallyImplicit(jacobian="dense")


def balls_in_a_bin(count, thrown=(0, 0, 0, 0, 0, 0)):
    """Balls above each other in a bin of five planes, with all pairs declared; the top one is
    `thrown`."""
    scene, rng, friction = ist.Scene(), np.random.default_rng(0), ist.FrictionEllipsoid(mu=0.3, e_r=0.02)
    balls = [
        scene.add_body(
            name=f"ball {i}",
            shape=shapes.Sphere(0.05),
            mass=0.5,
            position=(*rng.uniform(-0.02, 0.02, 2), 0.051 + 0.102 * i),
            velocity=thrown if i == count - 1 else (0,) * 6,
        )
        for i in range(count)
    ]
    for normal, offset in (((0, 0, 1), 0), ((1, 0, 0), -0.1), ((-1, 0, 0), -0.1), ((0, 1, 0), -0.1), ((0, -1, 0), -0.1)):
        wall = scene.add_fixed(name=f"wall {normal}", shape=shapes.HalfSpace(normal=normal, offset=offset))
        for ball in balls:
            scene.add_contact(ball, wall, friction=friction)
    for pair in itertools.combinations(balls, 2):
        scene.add_contact(*pair, friction=friction)
    return scene


def boxes_in_a_row():
    """Faces on the floor and beside each other: closest points that forces alone determine."""
    scene, friction = ist.Scene(), ist.FrictionEllipsoid(mu=0.4)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    boxes = [
        scene.add_body(name=f"box {i}", shape=shapes.Box((0.1, 0.1, 0.1)), mass=1.0, position=(0.21 * i, 0, 0.1))
        for i in range(4)
    ]
    for first, second in (*((floor, box) for box in boxes), *itertools.pairwise(boxes)):
        scene.add_contact(first, second, friction=friction)
    return scene


def softness(problem, size):
    """What the Jacobian has in addition where max |F_i| is `size`: bodies and forces that give way,
    and faces that bend; nothing of smooth bodies."""
    where, soft = ncp.layout(problem.system), min(size, 1.0)
    added = np.zeros((where.size, where.size))
    if all(group.pair.smooth for group in problem.system.groups):
        return added
    velocities = np.asarray(where.velocity).reshape(-1)
    added[velocities, velocities] = 1e-3 * soft**2
    for group, unknowns in zip(problem.system.groups, where.unknowns, strict=True):
        width, d = group.width, problem.system.dimension
        own = np.zeros((width, width))
        for unknown, row, sign, _ in group.links((), 1.0).pairs:
            own[row, unknown] = 1e-3 * soft**2 * sign
        for side in range(2 * (group.pair.first.support is None)):
            for axis in range(d):  # the row in which the gradient of a side is the normal
                own[(side + 1) * d + 1 + axis, side * d + axis] += soft
        for index in np.asarray(unknowns):
            added[np.ix_(index, index)] += own
    return added


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: balls_in_a_bin(4), id="balls", marks=pytest.mark.thorough),
        pytest.param(boxes_in_a_row, id="boxes"),
    ],
)
def test_blocks_solve_what_the_dense_jacobian_solves(build):
    """Near a state in which some contacts press, others do not: the right side of a random dz gives
    that dz."""
    system, state = jax.device_put(build().build())
    assert ncp.in_blocks(system)
    memory = begin(BLOCKS, system, state)
    problem, rng = jax.jit(ncp.step_problem)(system, state, H, memory.references), np.random.default_rng(1)
    z = np.array(memory.history[0] / ncp.unknown_scale(problem))
    z += 1e-3 * rng.normal(size=z.size)
    F, J = map(np.asarray, jit(ncp.linearize)(problem, z))
    J = J + softness(problem, np.max(np.abs(F)))
    residual, blocks = jit(ncp.blocks)(problem, z, memory.kept.system())
    np.testing.assert_allclose(residual, F, rtol=0, atol=1e-12)
    dz = rng.normal(size=z.size)
    for damping in (1e-12, 1e-10):  # by LU, and by damped least squares
        found = np.asarray(jit(lambda b, F, damping: b.step(F, damping))(blocks, J @ dz, damping))
        assert np.max(np.abs(J @ (found + dz))) <= 1e-5 * np.max(np.abs(J @ dz))
    found = np.asarray(jit(lambda b, F: b.keep().solve(F))(blocks, J @ dz))
    # damped: good for chord iterations
    assert np.max(np.abs(J @ (found - dz))) <= 1e-2 * np.max(np.abs(J @ dz))


@pytest.mark.thorough
def test_balls_fall_alike_in_blocks_and_dense():
    scene = balls_in_a_bin(4)
    runs = [ist.simulate(scene, stepper, h=H, duration=0.25) for stepper in (BLOCKS, DENSE)]
    pressing = [np.count_nonzero(run.contacts.normal_impulse > 1e-9) for run in runs]
    assert pressing[0] == pressing[1] > 100
    np.testing.assert_allclose(runs[0].position, runs[1].position, rtol=0, atol=1e-9)
    np.testing.assert_allclose(runs[0].velocity, runs[1].velocity, rtol=0, atol=1e-7)


@pytest.mark.thorough
def test_a_fast_ball_meets_what_it_was_far_from():
    """Of the 20 contacts with walls some blocks are kept from steps in which they pushed nothing. A
    ball at 12 m/s that spins at 100 rad/s crosses the bin in two steps, and does what it does with
    a dense matrix of all contacts."""
    scene = balls_in_a_bin(4, thrown=(9, 6, -5, 60, -60, 50))
    runs = [ist.simulate(scene, stepper, h=H, duration=0.1) for stepper in (BLOCKS, DENSE)]
    struck = np.count_nonzero(np.any(runs[1].contacts.normal_impulse > 1e-9, axis=0))
    assert struck >= 6
    np.testing.assert_allclose(runs[0].position, runs[1].position, rtol=0, atol=1e-9)
    np.testing.assert_allclose(runs[0].velocity, runs[1].velocity, rtol=0, atol=1e-7)


@pytest.mark.thorough
def test_open_contacts_leave_no_unknowns_whatever_their_impulses_are_rounded_to():
    """Friction of a contact whose p_n is 1e-31 or -1e-31 depends on nothing but p_n, which follows
    from its own row."""
    system, state = jax.device_put(balls_in_a_bin(4).build())
    memory = begin(BLOCKS, system, state)
    problem, where = jax.jit(ncp.step_problem)(system, state, H, memory.references), ncp.layout(system)
    z = np.array(memory.history[0] / ncp.unknown_scale(problem))
    for group, index in zip(system.groups, where.unknowns, strict=True):
        z[index[::2, group.pair.unknowns]], z[index[1::2, group.pair.unknowns]] = 1e-31, -1e-31
    # nothing sticks
    z[where.velocity] += np.random.default_rng(1).normal(size=where.velocity.shape)
    gaps = np.asarray(memory.gaps)
    _, blocks = jit(ncp.blocks)(problem, z, memory.kept.system())
    assert np.min(gaps) > 1e-4
    assert not any(np.any(own.columns) for own in blocks.local)


def test_the_least_size_that_holds_the_filled_rows_is_taken():
    pattern = Pattern(2, 6, (), 16)
    for filled, size in ((12, 14), (14, 14), (15, 16), (21, 22), (24, 24), (25, 28), (28, 28), (99, 28)):
        assert pattern.leading(filled, lambda size: np.float64(size)) == size


@pytest.mark.thorough
def test_too_few_slots_are_told():
    """A link whose unknowns have no pivot needs slots: with too few of them the matrix is not a
    number."""
    system, _ = jax.device_put(boxes_in_a_row().build())
    pattern = ncp.pattern(system, "projection")
    nodes = np.broadcast_to(np.eye(pattern.width), (pattern.count, pattern.width, pattern.width))
    links = [np.zeros((len(g.nodes), *2 * (g.own + pattern.width * len(g.nodes[0]),))) for g in pattern.links]
    wanted = [np.ones(len(g.nodes), bool) for g in pattern.links]
    left = sum(g.own * len(g.nodes) for g in pattern.links)
    right = np.ones(sum(index.size for index in (nodes[..., 0], *(own[..., 0] for own in links))))

    @functools.partial(jax.jit, static_argnums=0)
    def solved(slots, links):
        kept = no_factors(dataclasses.replace(pattern, slots=slots))
        found = eliminated(kept.system(), nodes, [lambda numbers, of=own: of[numbers] for own in links], wanted)
        return found.rest.leading(pattern.of_nodes + slots), found.step(right, 1e-12)

    for slots, enough in ((left, True), (left - 1, False)):
        rest, step = solved(slots, list(map(jnp.asarray, links)))
        assert np.all(np.isfinite(rest)) == enough
        assert np.any(np.isnan(step)) != enough


@pytest.mark.thorough
def test_where_slots_run_out_the_dense_jacobian_takes_over(monkeypatch):
    """Two contacts press at the end, with a slot for one unknown: the last start of the fallback
    sequence has that step."""
    # a stepper of its own has programs of its own
    scene, stepper = ist.Scene(), ist.GeometricallyImplicit(rounds=1)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    for x in (0, 1):
        egg = shapes.Ellipsoid((0.07, 0.06, 0.05))  # that rolls and slides: its closest points move
        body = scene.add_body(name=f"{x}", shape=egg, mass=0.5, position=(x, 0, 0.05), velocity=(1, 0.5, 0, 3, 5, 2))
        scene.add_contact(floor, body, friction=0.3)
    expected = ist.simulate(scene, DENSE, h=H, duration=H)
    # central paths have dense Jacobians too
    monkeypatch.setattr(ladder, "_paths", lambda *_, **__: iter(()))
    for name, value in {"_DENSE": 10, "_ALL_SLOTS": 1, "_SLOTS": 0}.items():
        monkeypatch.setattr(ncp, name, value)
    run = ist.simulate(scene, stepper, h=H, duration=H)
    assert stepper.rungs[run.stats.rung[-1]] == "dense"
    assert np.count_nonzero(run.contacts.normal_impulse[-1] > 1e-9) == 2
    np.testing.assert_allclose(run.velocity, expected.velocity, rtol=0, atol=1e-9)


def test_many_bodies_without_constraints_fly():
    scene = ist.Scene()
    for i in range(30):
        scene.add_body(name=f"{i}", shape=shapes.Sphere(0.1), mass=1.0, position=(i, 0, 0))
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.1, duration=0.2)
    np.testing.assert_allclose(run.velocity[-1, :, 2], -9.81 * 0.2, rtol=0, atol=1e-12)


def test_near_a_root_the_blocks_of_the_largest_rows_are_renewed():
    """An open contact whose points are off by 3e-12, and whose block was another one when it was
    eliminated last: with that one kept, a step takes a thirtieth of what is left off."""
    system, state = jax.device_put(balls_in_a_bin(4).build())
    found = jit(BLOCKS.step)(system, state, begin(BLOCKS, system, state), H)
    problem, where = jax.jit(ncp.step_problem)(system, state, H, found.memory.references), ncp.layout(system)
    z = np.array(found.memory.history[0] / ncp.unknown_scale(problem))
    z[np.asarray(where.unknowns[0])[0, 0]] += 3e-12
    last = found.memory.kept.system()
    assert bool(last.known)
    stale = [dataclasses.replace(own, alone=0.03 * own.alone) for own in last.local]
    F, blocks = jit(ncp.blocks)(problem, z, dataclasses.replace(last, local=tuple(stale)))
    size = np.max(np.abs(F))
    assert 1e-12 < size < 1e-10
    z = z + jit(lambda b, F: b.step(F, 1e-12))(blocks, F)
    assert np.max(np.abs(jit(ncp.residual)(problem, z))) < 0.1 * size
