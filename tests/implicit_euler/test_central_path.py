"""Central paths, and closest points found anew: against closed forms, and from memories that say
nothing."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.conditions import Cone, central_rows
from implicit_stepper.implicit_euler import central_path, ladder, ncp
from implicit_stepper.solvers.newton import Solution
from implicit_stepper.stepping.stepper import begin

H, G, MASS = 0.01, 9.81, 2.0
STEPPER = ist.GeometricallyImplicit()


@pytest.fixture(scope="module")
def resting():
    """A ball on a floor, .1 m from a wall, without friction: system, state and memory before a
    step."""
    scene = ist.Scene()
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.5), mass=MASS, position=(0.6, 0, 0.5))
    for name, normal in (("floor", (0, 0, 1)), ("wall", (1, 0, 0))):
        scene.add_contact(scene.add_fixed(name=name, shape=shapes.HalfSpace(normal=normal)), ball, friction=0.0)
    system, state = scene.build()
    return system, state, begin(STEPPER, system, state)


def _path(resting, kappa, stepper=STEPPER):
    """A solve for points of the path, its seed at `kappa`, the problem and the units of its
    unknowns."""
    system, state, memory = resting

    def solve(z, kappa):
        return ladder._on_path(stepper, system, state, memory, H, z, kappa)

    z, units = ladder._seeded(STEPPER, system, state, memory, H, memory.history[0], kappa)
    return solve, z, STEPPER.problem(system, state, memory, H), units


@pytest.mark.parametrize("kappa", [1.0, 1e-3])
def test_forces_at_a_distance_balance_the_weight(resting, kappa):
    """Along z: p = m (v + g h) of the floor, p (h v) = kappa^2 in units of impulse and gap; the
    wall pushes along x."""
    solve, z, problem, units = _path(resting, 1.0)
    found = solve(z, 1.0)
    for _ in range(5):  # each takes an iteration at least, below its tolerance too
        found = solve(found.z, kappa)
        assert found.converged
    where, p_n = ncp.layout(problem.system), problem.system.groups[0].pair.unknowns
    own = where.unknowns[0]
    # v (v + g h) = product / (m h)
    product = kappa**2 * units[own[0, p_n]] * problem.scales.gap
    rise = (-G * H + np.sqrt((G * H) ** 2 + 4 * product / (MASS * H))) / 2
    # u (.1 + h u) = product / m
    away = (-0.1 + np.sqrt(0.01 + 4 * H * product / MASS)) / (2 * H)
    velocity = (found.z * units)[where.velocity[0, :3]]
    # of g h = .1
    np.testing.assert_allclose(velocity[jnp.array([0, 2])], [away, rise], rtol=1e-9, atol=1e-13)
    assert abs(velocity[1]) <= 1e-12


@pytest.mark.parametrize("blocks", [False, True])
def test_the_path_ends_at_the_step(resting, blocks, monkeypatch):
    """By one dense matrix, and by blocks, which larger scenes have."""
    # with blocks another stepper, as its programs are kept by its settings
    solve, z, _, units = _path(resting, 1.0, ist.GeometricallyImplicit(max_iterations=41) if blocks else STEPPER)
    system, state, memory = resting
    with monkeypatch.context() as patch:
        patch.setattr(ncp, "_DENSE", 10 if blocks else 150)
        end = central_path.end_of_path(solve, z, 1.0)
    start = dataclasses.replace(memory, history=jnp.broadcast_to(end * units, memory.history.shape))
    step = STEPPER.step(system, state, start, H)
    assert step.result == ist.Result.SOLVED
    assert step.stats.iterations <= 2
    np.testing.assert_allclose(step.contacts.normal_impulse, [MASS * G * H, 0], atol=1e-12)


@pytest.mark.parametrize("slip", [0.0, 0.5])
def test_friction_on_the_path_is_a_damper(slip):
    """That has the cone's force where slips are large beside kappa."""
    kappa, bound, w = 1e-3, 2.0, jnp.array([0.6, -0.8, 0.0]) * slip
    size = np.hypot(slip, kappa)
    cone = Cone(
        jnp.asarray(bound), -bound * w / size, jnp.asarray(size), w, jnp.array([True, True, False]), jnp.asarray(True)
    )
    np.testing.assert_allclose(central_rows(cone, kappa), 0, atol=1e-15)
    assert np.linalg.norm(cone.y) == pytest.approx(bound * (slip > 0), rel=kappa)


def test_where_those_that_stick_disagree_the_path_tells_how_they_slip():
    """A disc in a groove, both gaps 1e-9 m: as these close it would have to roll on both sides at
    once, so they slip by 1e-7 m/s, far less than forces tell. There the path goes on as quickly as
    before."""
    scene, gap, taken = ist.Scene(dimension=2), 1e-9, {}
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.5), mass=MASS, position=(0, (0.5 + gap) * np.sqrt(2)))
    for name, across in (("left", 1), ("right", -1)):
        side = shapes.HalfPlane(normal=(across * np.sqrt(0.5), np.sqrt(0.5)))
        scene.add_contact(scene.add_fixed(name=name, shape=side), disc, friction=1.0)
    system, state = scene.build()
    groove = system, state, begin(STEPPER, system, state)
    solve, z, _, units = _path(groove, 1.0)

    def counted(z, kappa):
        found = solve(z, kappa)
        taken[float(kappa)] = int(found.iterations), bool(found.converged)
        return found

    end = central_path.end_of_path(counted, z, 1.0)
    assert min(taken) <= 1e-9
    assert all(converged and iterations <= 15 for iterations, converged in taken.values())
    start = dataclasses.replace(groove[2], history=jnp.broadcast_to(end * units, groove[2].history.shape))
    step = STEPPER.step(system, state, start, H)
    assert step.result == ist.Result.SOLVED
    assert step.stats.iterations <= 2
    np.testing.assert_allclose(step.contacts.gap, 0, atol=1e-12)
    assert np.max(np.abs(step.contacts.slip)) == pytest.approx(gap / H, rel=1e-3)


def test_a_path_that_folds_ends_before_the_fold():
    def solve(z, kappa):
        return Solution(z=kappa, residual=0.0, iterations=3, converged=kappa >= fold)

    fold = 0.01
    assert fold <= central_path.end_of_path(solve, None, 1.0) <= 1.01 * fold
    fold = 2.0
    assert central_path.end_of_path(solve, None, 1.0) is None


def test_open_contacts_are_found_anew_and_those_that_press_are_kept(resting):
    system, state, memory = resting
    problem = STEPPER.problem(system, state, memory, H)
    own, p_n = ncp.layout(system).unknowns[0], system.groups[0].pair.unknowns
    units = ncp.unknown_scale(problem)
    light = jnp.array([1e-3, 1e-9])  # one presses, if lightly
    pressing = (memory.history[0] + 100 * units).at[own[:, p_n]].set(light * units[own[:, p_n]])
    renewed = ladder._with_renewed(STEPPER, system, state, memory, pressing, memory.history[0], False, H).history[0]
    np.testing.assert_array_equal(renewed[own[0]], pressing[own[0]])
    np.testing.assert_array_equal(renewed[own[1]], memory.history[0][own[1]])
    stalled = ladder._with_renewed(STEPPER, system, state, memory, pressing, memory.history[0], True, H).history[0]
    np.testing.assert_array_equal(stalled[own[0, :p_n]], memory.history[0][own[0, :p_n]])
    np.testing.assert_array_equal(stalled[own[0, p_n:]], pressing[own[0, p_n:]])


def test_a_wall_far_off_its_closest_points_does_not_cost_the_step(resting):
    """The memory's closest points of the wall, which does not press, are 10^4 m away."""
    system, state, memory = resting
    own, p_n = ncp.layout(system).unknowns[0], system.groups[0].pair.unknowns
    units = ncp.unknown_scale(STEPPER.problem(system, state, memory, H))
    wrong = memory.history.at[:, own[1, :p_n]].add(1e4 * units[own[1, :p_n]])
    far = dataclasses.replace(memory, history=wrong)
    stall = STEPPER.step(system, state, far, H)
    start = next(ladder._renewals(STEPPER, system, state, far, lambda: stall, H))
    step = STEPPER.step(system, state, start, H)
    assert step.result == ist.Result.SOLVED
    np.testing.assert_allclose(step.contacts.gap, [0, 0.1], atol=1e-12)


def test_a_path_ends_at_the_step_beside_a_wall_that_is_nearly_parallel():
    """The closest points of the wall are a face's until the path's end, and then an edge's: a box
    that is turned by 1e-9 lands on the floor, .3 m from the wall."""
    scene = ist.Scene()
    box = scene.add_body(
        name="box", shape=shapes.Box((0.5, 0.4, 0.3)), mass=MASS, position=(0.8, 0, 0.302), velocity=(0, 0, -0.5, 0, 0, 0),
        quaternion=(1, 0, 0, 5e-10),
    )  # fmt: skip
    for name, normal in (("floor", (0, 0, 1)), ("wall", (1, 0, 0))):
        scene.add_contact(scene.add_fixed(name=name, shape=shapes.HalfSpace(normal=normal)), box, friction=0.0)
    system, state = scene.build()
    memory = begin(STEPPER, system, state)
    end = next(ladder._paths(STEPPER, system, state, memory, memory.history[0], H, dense=True))
    assert end.result == ist.Result.SOLVED
    np.testing.assert_allclose(end.contacts.normal_impulse, [MASS * (0.5 + G * H - 0.002 / H), 0], atol=1e-12)
