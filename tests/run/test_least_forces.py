"""Forces that are not unique, of least norm: closed forms, a pseudo-inverse by hand, and a conic
solver."""

import dataclasses
import functools
import pathlib
import sys

import clarabel
import numpy as np
import pytest
import scipy.sparse

import implicit_stepper as ist
import shapes

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from supports import MASS, G, H, cart, exact, table  # noqa: E402


@pytest.mark.parametrize(
    "stepper",
    [
        ist.GeometricallyImplicit(),
        ist.RadauContact(),
        ist.ClosedFormGap(),
        ist.ConeComplementarity(),
        pytest.param(ist.Linearized(), marks=pytest.mark.thorough),
        pytest.param(ist.Explicit(), marks=pytest.mark.thorough),
    ],
    ids=lambda stepper: type(stepper).__name__,
)
def test_two_equal_pads_share_friction_equally(stepper):
    """F = 1.5 mu N, with N = m g / 2 at each pad: each carries .75 mu N, and by weights 1 : 2 what
    these say."""
    N = MASS * G / 2
    scene = cart(1.5 * 0.2 * N)
    run = ist.simulate(scene, stepper, h=H, duration=5 * H)
    even = ist.least_forces(scene, stepper, run)
    np.testing.assert_allclose(even.contacts.normal_impulse / H, N, rtol=0, atol=1e-10)
    np.testing.assert_allclose(np.abs(even.contacts.friction_impulse[..., 0]) / H, 0.75 * 0.2 * N, rtol=0, atol=1e-10)
    assert max(np.max(values) for values in even.certificate.values()) <= 1e-10
    np.testing.assert_array_equal(even.position, run.position)
    if isinstance(stepper, ist.GeometricallyImplicit):
        # the shares 2/4 and 4/4 of mu N: within both cones, so that the weights alone decide
        uneven = ist.least_forces(scene, stepper, run, weights=[1.0, 2.0])
        shares = np.abs(uneven.contacts.friction_impulse[..., 0]) / H
        np.testing.assert_allclose(shares, np.tile([0.5 * 0.2 * N, 0.2 * N], (5, 1)), rtol=0, atol=1e-10)


def test_a_regularised_law_has_shares_of_its_own_to_distribute():
    """Of equal pads they are equal, and what slides has unique forces, which the error says, with
    the time at which the step ends."""
    N, stepper = MASS * G / 2, ist.Convex()
    scene = cart(1.5 * 0.2 * N)
    run = ist.simulate(scene, stepper, h=H, duration=5 * H)
    shares = np.abs(run.contacts.friction_impulse[-1, :, 0]) / H
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-8)
    # what sticks creeps by sigma_s w y, and each step takes up all but a thousandth of what is left
    np.testing.assert_allclose(np.sum(shares), 1.5 * 0.2 * N, rtol=stepper.sigma_s**2)
    with pytest.raises(ist.errors.ForcesError, match=f"for the step to t = {H:.9g} s: .* as in Convex"):
        ist.least_forces(scene, stepper, run)


def test_a_table_with_four_legs_shares_its_load_as_a_plane_over_the_legs():
    """Of least norm N_i = (W / 4) (1 + x x_i / a^2 + y y_i / b^2), symmetric where the weight is;
    no leg pulls another."""
    legs = np.array([(0.6, 0.4), (-0.6, 0.4), (-0.6, -0.4), (0.6, -0.4)])
    at, stepper = (0.1, -0.15), ist.GeometricallyImplicit()
    scene = table(legs, at, 0.5)
    run = ist.least_forces(scene, stepper, ist.simulate(scene, stepper, h=H, duration=3 * H))
    expected = MASS * G / 4 * (1 + at[0] * legs[:, 0] / 0.36 + at[1] * legs[:, 1] / 0.16)
    np.testing.assert_allclose(run.contacts.normal_impulse / H, np.tile(expected, (3, 1)), rtol=0, atol=1e-10)
    np.testing.assert_allclose(run.contacts.friction_impulse, 0, rtol=0, atol=1e-12)


def test_a_pushed_table_is_the_answer_of_a_conic_solver():
    """Five legs, of which the light ones are held within their cones: not what the pseudo-inverse
    alone gives."""
    legs = np.array([(0.6, 0.4), (-0.6, 0.3), (-0.5, -0.4), (0.7, -0.4), (0.1, 0.2)])
    scene, stepper, mu = table(legs, (0.35, 0.1), 0.3, (5.0, 5.5)), ist.GeometricallyImplicit(), 0.3
    raw = ist.simulate(scene, stepper, h=H, duration=H)
    run = ist.least_forces(scene, stepper, raw)
    c = run.contacts
    e = scene.build()[0].groups[0].e[0]
    n, t = c.normal[0], c.tangent[0]
    o = np.cross(n, t)
    arm = c.point_2[0] - run.position[1, 0]
    columns = []
    for i in range(5):
        for d, size in ((n[i], 1.0), (t[i], e[0]), (o[i], e[1])):
            columns.append(size * np.append(d, np.cross(arm[i], d)))
        columns.append(e[2] * np.append(np.zeros(3), n[i]))
    A = np.array(columns).T

    def stacked(contacts):
        y = np.where(e > 0, contacts.friction_impulse[0] / np.where(e > 0, e, 1), 0.0)
        return np.concatenate([contacts.normal_impulse[0][:, None], y], axis=1)

    x, before = stacked(c), stacked(raw.contacts)
    pinv = np.linalg.pinv(A) @ (A @ before.ravel())
    assert np.any(np.linalg.norm(pinv.reshape(5, 4)[:, 1:], axis=1) > mu * pinv.reshape(5, 4)[:, 0])
    # (mu p_n, y) in second-order cones, as clarabel has them: b - A x in K
    cone = scipy.sparse.block_diag([np.diag([-mu, -1, -1, -1])] * 5)
    keep = np.linalg.qr(A.T)[0].T[: np.linalg.matrix_rank(A)]
    problem = clarabel.DefaultSolver(
        scipy.sparse.csc_matrix(np.eye(20)),
        np.zeros(20),
        scipy.sparse.csc_matrix(scipy.sparse.vstack([keep, cone])),
        np.concatenate([keep @ before.ravel(), np.zeros(20)]),
        [clarabel.ZeroConeT(len(keep)), *[clarabel.SecondOrderConeT(4)] * 5],
        exact(),
    )
    # as the objective is |x|^2 / 2, the square of the distance is at most twice the gap of 1e-12
    # that the solver leaves
    found = np.array(problem.solve().x)
    np.testing.assert_allclose(x.ravel(), found, rtol=0, atol=np.sqrt(2e-12))
    assert x.ravel() @ x.ravel() <= found @ found + 2e-12
    assert np.max(np.abs(x.ravel() - pinv)) > 1e-4
    np.testing.assert_allclose(A @ x.ravel(), A @ before.ravel(), rtol=0, atol=1e-12)


def test_redundant_joints_carry_what_the_pseudo_inverse_says():
    """A body on three ball joints, nine equations for six motions."""
    scene = ist.Scene(gravity=(0, 0, -G))
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
    wrench = np.array([1.0, 2, 3, 0.4, 0.5, 0.6])
    body = scene.add_body(name="body", shape=shapes.Sphere(0.1), mass=MASS, position=(0, 0, 0), wrench=wrench)
    points = np.array([(0.5, 0, 0.1), (-0.3, 0.4, 0), (-0.1, -0.6, -0.2)])
    for i, point in enumerate(points):
        scene.add_joint(wall, body, ist.BallJoint(tuple(point), tuple(point)), name=f"joint {i}")
    stepper = ist.GeometricallyImplicit()
    run = ist.least_forces(scene, stepper, ist.simulate(scene, stepper, h=H, duration=2 * H))
    A = np.array([np.append(d, np.cross(point, d)) for point in points for d in np.eye(3)]).T
    load = wrench - np.array([0, 0, MASS * G, 0, 0, 0])
    np.testing.assert_allclose(
        run.joints.impulse_2[:, :, :3].reshape(2, 9) / H, np.tile(-np.linalg.pinv(A) @ load, (2, 1)), rtol=0, atol=1e-10
    )


@pytest.mark.thorough
def test_each_of_several_stages_has_forces_of_its_own():
    """The cart, and beside it a disc that hangs on two pins, four equations for three motions: of
    each stage the least forces and what they may be, and in the step what stages add up to."""
    N, points = MASS * G / 2, np.array([(0.3, 0.1), (-0.2, 0.05)])
    scene, stepper = cart(1.5 * 0.2 * N), ist.RadauContact()
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.1), position=(0, 5))
    load = np.array([1.0, -0.5 * G, 0.2])
    hangs = {"position": (0, 5), "mass": 0.5, "wrench": (load[0], 0, load[2])}
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), **hangs)
    for i, point in enumerate(points):
        scene.add_joint(wall, disc, ist.BallJoint(tuple(point), tuple(point)), name=f"pin {i}")
    raw = ist.simulate(scene, stepper, h=H, duration=2 * H)
    run, found = ist.least_forces(scene, stepper, raw), ist.force_ranges(scene, stepper, raw)
    moments = np.stack([-points[:, 1], points[:, 0]], axis=1)
    A = np.array([np.append(np.eye(2)[k], moments[i, k]) for i in range(2) for k in range(2)]).T
    pulls = -np.linalg.pinv(A) @ load
    for contacts in (run.contacts, run.contacts.stages.contacts):
        close = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-9)
        close(contacts.normal_impulse / H, N)
        close(np.abs(contacts.friction_impulse[..., 0]) / H, 0.75 * 0.2 * N)
        reactions = contacts.joints.impulse_2[..., :2] / H
        close(reactions.reshape(-1, 4), np.tile(pulls, (reactions.size // 4, 1)))
    assert max(np.max(values) for values in run.certificate.values()) <= 1e-10
    assert found.normal_impulse.shape == (2, 3, 2, 2)
    np.testing.assert_allclose(found.normal_impulse / H, N, rtol=0, atol=1e-9)
    along = np.sort(np.abs(found.friction_impulse[..., 0, :]) / H, axis=-1)
    np.testing.assert_allclose(along, np.broadcast_to([0.1 * N, 0.2 * N], along.shape), rtol=0, atol=1e-9)
    # along the line through both pins these may pull against each other
    assert np.all(np.isinf(found.multipliers))
    landed = raw.contacts.normal_impulse.copy()
    landed[1] += 1e-3
    landed = dataclasses.replace(raw, contacts=dataclasses.replace(raw.contacts, normal_impulse=landed))
    with pytest.raises(ValueError, match=r"`trajectory` ends with an impact .* trajectory\[:1\] and trajectory\[2:\]"):
        ist.force_ranges(scene, stepper, landed)


def test_what_was_not_near_carries_nothing():
    """A disc that falls on a line among found pairs: while it is far the run has no numbers of the
    contact; its forces, which are unique, are those recorded."""
    scene, stepper = ist.Scene(dimension=2, gravity=(0, -G)), ist.GeometricallyImplicit(jacobian="sparse")
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.5), mass=1.0, position=(0, 1.2), velocity=(0, -3.0, 0))
    scene.add_contact(scene.add_fixed(name="line", shape=shapes.HalfPlane(normal=(0, 1))), disc, friction=0.3)
    run = ist.simulate(scene, stepper, h=0.05, duration=0.4)
    assert np.isnan(run.contacts.gap[0, 0])
    assert run.contacts.normal_impulse[-1, 0] > 0
    least = ist.least_forces(scene, stepper, run)
    for name in ("normal_impulse", "friction_impulse", "gap", "normal"):
        np.testing.assert_allclose(getattr(least.contacts, name), getattr(run.contacts, name), rtol=0, atol=1e-12)
    assert max(np.max(values) for values in least.certificate.values()) < 1e-10


def test_what_has_forces_of_its_own_is_refused():
    scene, stepper = cart(1.0), ist.GeometricallyImplicit()
    run = ist.simulate(scene, stepper, h=H, duration=H)
    for weights in ([1.0], [1.0, 0.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match="`weights`"):
            ist.least_forces(scene, stepper, run, weights=weights)
    with pytest.raises(ValueError, match="`trajectory` has other contacts"):
        ist.least_forces(table([(0, 0), (1, 0), (0, 1)], (0, 0), 0.3), stepper, run)
