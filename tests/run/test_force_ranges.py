"""How small and how large forces can be that are not unique: closed forms, and a conic solver."""

import pathlib
import sys

import clarabel
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import implicit_stepper as ist
import shapes
from implicit_stepper.run.force_ranges import ranges
from implicit_stepper.run.force_sets import Cone, ForceSet, RunForces

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from supports import MASS, G, H, cart, exact, table  # noqa: E402


def test_two_pads_share_friction_within_both_cones():
    """F = 1.5 mu N, N at each pad: friction from .5 to 1 mu N, loads known."""
    N, stepper = MASS * G / 2, ist.GeometricallyImplicit()
    scene = cart(1.5 * 0.2 * N)
    run = ist.simulate(scene, stepper, h=H, duration=2 * H)
    found = ist.force_ranges(scene, stepper, run)
    assert found.normal_impulse.shape == (2, 2, 2)
    assert found.multipliers is None
    np.testing.assert_allclose(found.normal_impulse / H, N, rtol=0, atol=1e-9)
    along = np.sort(np.abs(found.friction_impulse[:, :, 0]) / H, axis=-1)
    np.testing.assert_allclose(along, np.broadcast_to([0.1 * N, 0.2 * N], along.shape), rtol=0, atol=1e-9)


def test_a_table_rocks_on_its_diagonals():
    """N_i is that of least norm + s (1, -1, 1, -1): s until a leg carries nothing. Friction of a
    leg within its cone there."""
    legs = np.array([(0.6, 0.4), (-0.6, 0.4), (-0.6, -0.4), (0.6, -0.4)])
    at, stepper = (0.1, -0.15), ist.GeometricallyImplicit()
    scene = table(legs, at, 0.5)
    run = ist.simulate(scene, stepper, h=H, duration=H)
    found = ist.force_ranges(scene, stepper, run)
    even = MASS * G / 4 * (1 + at[0] * legs[:, 0] / 0.36 + at[1] * legs[:, 1] / 0.16)
    signs = np.array([1, -1, 1, -1])
    up, down = np.min(even[signs < 0]), np.min(even[signs > 0])
    expected = np.sort(even[:, None] + signs[:, None] * [up, -down], axis=1)
    np.testing.assert_allclose(found.normal_impulse[0] / H, expected, rtol=0, atol=1e-9 * MASS * G)
    assert np.all(found.friction_impulse[0, :, :2, 1] <= 0.5 * found.normal_impulse[0, :, None, 1] * (1 + 1e-9))


def test_what_slips_keeps_its_direction():
    """Three pads that slide in the plane: N + s (1, -2, 1), with mu N against the slip at each."""
    scene, height, mu = ist.Scene(dimension=2, gravity=(0, -G)), 0.1, 0.2
    line = scene.add_fixed(name="line", shape=shapes.HalfPlane(normal=(0, 1)))
    pads = [(shapes.Disc(height), ((x, 0.0), 0.0)) for x in (-0.5, 0.0, 0.5)]
    velocity, place = (1.0, 0, 0), {"position": (0, height), "velocity": (1.0, 0, 0)}
    body = scene.add_body(name="cart", shapes=pads, mass=MASS, inertia=0.5, apart=True, **place)
    scene.add_contact(line, body, friction=mu)
    stepper = ist.GeometricallyImplicit()
    run = ist.simulate(scene, stepper, h=H, duration=H)
    found = ist.force_ranges(scene, stepper, run)
    # about the centre: .5 (N_3 - N_1) = height mu W, which moves the load forward
    W, ahead = MASS * G, 2 * height * mu * MASS * G * np.sign(velocity[0])
    outer = np.array([[0, (W - abs(ahead)) / 2], [0, (W - abs(ahead)) / 2]]) + np.maximum([[-ahead], [ahead]], 0)
    loads = np.array([outer[0], [0, W - abs(ahead)], outer[1]])
    np.testing.assert_allclose(found.normal_impulse[0] / H, loads, rtol=0, atol=1e-9 * W)
    along = -found.friction_impulse[0, :, 0] * np.sign(run.contacts.slip[0])
    np.testing.assert_allclose(np.sort(along) / H, mu * loads, rtol=0, atol=1e-9 * W)


def test_the_ends_are_those_of_a_conic_solver():
    """Five legs under a push: every component of a light leg and of a heavy one."""
    legs = np.array([(0.6, 0.4), (-0.6, 0.3), (-0.5, -0.4), (0.7, -0.4), (0.1, 0.2)])
    scene, stepper, mu = table(legs, (0.35, 0.1), 0.3, (5.0, 5.5)), ist.GeometricallyImplicit(), 0.3
    run = ist.simulate(scene, stepper, h=H, duration=H)
    found, c = ist.force_ranges(scene, stepper, run), run.contacts
    n, t = c.normal[0], c.tangent[0]
    arm = c.point_2[0] - run.position[1, 0]
    along = [[d for d in (n[i], t[i], np.cross(n[i], t[i]))] for i in range(5)]
    A = np.array([np.append(d, np.cross(arm[i], d)) for i in range(5) for d in along[i]]).T
    before = np.concatenate([c.normal_impulse[0][:, None], c.friction_impulse[0, :, :2]], axis=1).ravel()
    keep = np.linalg.qr(A.T)[0].T[: np.linalg.matrix_rank(A)]
    cone = scipy.sparse.block_diag([np.diag([-mu, -1, -1])] * 5)
    held = scipy.sparse.csc_matrix(scipy.sparse.vstack([keep, cone])), np.concatenate([keep @ before, np.zeros(15)])
    ours = np.concatenate([found.normal_impulse[0][:, None], found.friction_impulse[0, :, :2]], axis=1).reshape(15, 2)
    for i in (0, 1, 2, 6, 7, 8):
        for side, sign in ((0, 1.0), (1, -1.0)):
            cones = [clarabel.ZeroConeT(len(keep)), *[clarabel.SecondOrderConeT(3)] * 5]
            nothing = scipy.sparse.csc_matrix((15, 15))
            problem = clarabel.DefaultSolver(nothing, sign * np.eye(15)[i], *held, cones, exact())
            # the solver leaves a gap of 1e-12 N s, of a load of .3 N s
            np.testing.assert_allclose(ours[i, side], problem.solve().x[i], rtol=0, atol=1e-11)


def test_redundant_joints_may_pull_as_they_like():
    """Two ball joints on an axis: nothing bounds what they pull along it, the rest is known."""
    scene = ist.Scene(gravity=(0, 0, -G))
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
    body = scene.add_body(name="body", shape=shapes.Sphere(0.1), mass=MASS, position=(0.2, 0, 0))
    for i, y in enumerate((0.5, -0.5)):
        scene.add_joint(wall, body, ist.BallJoint((0, y, 0), (-0.2, y, 0)), name=f"joint {i}")
    stepper = ist.GeometricallyImplicit()
    run = ist.simulate(scene, stepper, h=H, duration=H)
    found = ist.force_ranges(scene, stepper, run).multipliers[0]
    np.testing.assert_array_equal(found[:, 1], [[-np.inf, np.inf]] * 2)
    recorded = run.joints.multipliers[0][:, [0, 2]]
    np.testing.assert_array_equal(found[:, [0, 2]], np.stack([recorded, recorded], axis=-1))


@pytest.mark.parametrize("leaning", [0.0, 0.3])
def test_contacts_that_press_against_each_other_have_no_most(leaning):
    """A body between two walls that both lean over it: y = W / 2 + leaning p_n <= mu p_n, from
    p_n = W / 2 / (mu - leaning), and no most."""
    W, mu, p = 1.0, 0.6, 2.0
    # x = (p_1, y_1, p_2, y_2): sides, up, and no turning
    A = np.array([[1, 0, -1, 0], [-leaning, 1, -leaning, 1], [0, 1, 0, -1.0]])
    x = np.array([p, W / 2 + leaning * p, p, W / 2 + leaning * p])
    cones = [Cone(np.array([2 * i, 2 * i + 1]), None, mu) for i in (0, 1)]
    found = ranges(ForceSet(2, A, x, cones, np.ones(4, bool), 0.0))
    np.testing.assert_allclose(found[[0, 2], 0], W / 2 / (mu - leaning), rtol=1e-9)
    assert found[0, 1] == found[2, 1] == np.inf


def test_what_is_far_along_what_nothing_bounds_stays_in_its_cones():
    """Three feet that two rods may press down as they like: the ends are those of linear
    programming. Of 151 slopes these are three at which rounding leads out of a cone."""
    mu, rod = 0.4, np.array([0.1, -1.0]) / np.hypot(0.1, 1.0)
    feet, rods = [(-0.5, -0.4), (0.0, -0.4), (0.5, -0.4)], [((0.1, 0.1), (0.0, 1.0)), ((-0.2, 0.1), rod)]
    forces = [*((foot, along) for foot in feet for along in ((0.0, 1.0), (1.0, 0.0))), *rods]
    A = np.array([(d[0], d[1], arm[0] * d[1] - arm[1] * d[0]) for arm, d in forces]).T
    cones = [Cone(np.array([2 * i, 2 * i + 1]), None, mu) for i in range(3)]
    bounds = np.array([sign * np.eye(8)[2 * i + 1] - mu * np.eye(8)[2 * i] for i in range(3) for sign in (1, -1)])
    for slope in np.linspace(0.0, 0.15, 151)[[86, 88, 95]]:
        x = np.linalg.pinv(A) @ [np.sin(slope), np.cos(slope), 0]
        found = ranges(ForceSet(2, A, x, cones, np.ones(8, bool), 0.0))
        for one in range(8):
            for side, sign in enumerate((1, -1)):
                end = scipy.optimize.linprog(sign * np.eye(8)[one], bounds, np.zeros(6), A, A @ x, (None, None))
                told = sign * end.fun if end.status == 0 else -sign * np.inf
                np.testing.assert_allclose(found[one, side], told, rtol=0, atol=1e-8)


def test_a_set_without_inside_is_told_to_within_what_rounding_leaves():
    """Two pads whose friction is all at its bound, F = 2 mu N: mu N each, to the root of the 1e-9
    by which cones are wider."""
    A = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 0, -1, 0]])
    cones = [Cone(np.array([2 * i, 2 * i + 1]), None, 0.5) for i in (0, 1)]
    x = np.array([1.0, 0.5, 1.0, 0.5])
    found = ranges(ForceSet(2, A, x, cones, np.ones(4, bool), 0.0))
    np.testing.assert_allclose(found, np.stack([x, x], axis=1), rtol=0, atol=4e-9)


def test_forces_of_stages_may_be_none():
    for count in (0, 2):
        run = RunForces(None, None, None, None, np.ones(count), stages=3, of=None, parted=None)
        assert run.by_step(np.zeros((3 * count, 1, 0))).shape == (count, 3, 1, 0)


@pytest.mark.thorough
def test_records_of_no_width_have_forces_too():
    """A disc that hangs on a pin, without contacts, by steps of several stages: the pin carries its
    weight, and in no steps there is nothing."""
    scene, stepper = ist.Scene(dimension=2, gravity=(0, -G)), ist.RadauContact()
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.1), position=(0, 1))
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=MASS, position=(0, 0))
    scene.add_joint(wall, disc, ist.BallJoint((0, -1), (0, 0)), name="pin")
    run = ist.simulate(scene, stepper, h=H, duration=2 * H)
    found, least = ist.force_ranges(scene, stepper, run), ist.least_forces(scene, stepper, run)
    np.testing.assert_allclose(np.abs(found.multipliers[:, :, 0, 1]) / H, MASS * G, rtol=1e-9)
    np.testing.assert_allclose(least.joints.multipliers, run.joints.multipliers, rtol=0, atol=1e-12)
    assert ist.force_ranges(scene, stepper, run[:0]).multipliers.shape == (0, *found.multipliers.shape[1:])
    assert len(ist.least_forces(scene, stepper, run[:0])) == 0


def test_what_has_forces_of_its_own_is_refused():
    scene, stepper = cart(1.0), ist.GeometricallyImplicit()
    run = ist.simulate(scene, stepper, h=H, duration=H)
    with pytest.raises(ValueError, match="`trajectory` has other contacts"):
        ist.force_ranges(table([(0, 0), (1, 0), (0, 1)], (0, 0), 0.3), stepper, run)
