"""All solutions of a step: Painleve's rod against its analysis, and scenes that have one."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes

G, M, HALF, TIP, V, H = 9.81, 1.0, 1.0, 0.01, 3.0, 1e-6
COSINE, SINE = 1 / np.sqrt(5), 2 / np.sqrt(5)  # of an angle whose tangent is 2
ARM = np.array([-HALF * COSINE, -HALF * SINE])  # of the tip, from the middle
INERTIA = M * HALF**2 / 3  # of a uniform rod
ROWS = np.array([[0.0, 1.0, ARM[0]], [1.0, 0.0, -ARM[1]]])
N = ROWS @ (ROWS.T / np.array([[M], [M], [INERTIA]]))


def rod(mu, spin):
    """A uniform rod whose tip slides at -V along the floor."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1), offset=ARM[1]))
    tip = shapes.Disc(TIP), ((ARM[0], ARM[1] + TIP), 0.0)
    velocity = (-V + ARM[1] * spin, -ARM[0] * spin, spin)
    body = scene.add_body(
        name="rod", shapes=[tip], mass=M, inertia=INERTIA, centre_of_mass=(0, 0), position=(0, 0), velocity=velocity
    )
    scene.add_contact(floor, body, friction=mu)
    return scene


def analysed(mu, spin):
    """Normal impulses by what the tip does, from the linear equations of every mode; the gap at the
    end of a step has half of the centripetal acceleration, of the middle of the round tip."""
    free = H * np.array([-G + (HALF * SINE - TIP) * spin**2 / 2, 0.0]) + [0, -V]
    found = {"open": 0.0} if free[0] >= 0 else {}
    slip = -free[0] / (N[0, 0] + mu * N[0, 1])  # friction is + mu p against a slip along -x
    if slip > 0:
        found["slip"] = slip
    p = np.linalg.solve(N, -free)
    if p[0] > 0 and abs(p[1]) <= mu * p[0]:
        found["stick"] = p[0]
    return found


@pytest.mark.parametrize(
    ("mu", "spin", "expected"),
    [
        (1.2, 0.0, {"slip"}),
        (1.33, 0.0, {"slip"}),  # below 4/3
        (1.337, 0.0, {"stick"}),  # above it
        (1.2, 6.0, {"open"}),
        (2.0, 0.0, {"stick"}),  # no finite force: an impulse stops the tip
        (2.0, 6.0, {"open", "slip", "stick"}),
    ],
)
def test_painleves_rod_has_the_solutions_of_its_analysis(mu, spin, expected):
    exact = analysed(mu, spin)
    assert set(exact) == expected
    found = {solution.states[0]: solution for solution in ist.solutions(rod(mu, spin), H)}
    assert set(found) == expected
    for state, impulse in exact.items():
        assert found[state].contacts.normal_impulse[0] == pytest.approx(impulse, rel=1e-3, abs=1e-15)


@pytest.mark.thorough
def test_a_ball_that_slides_in_space_has_one_solution():
    mu, r, h, v = 0.3, 0.1, 1e-3, np.array([1.0, 0.5])
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(r), mass=1.0, position=(0, 0, r), velocity=(*v, 0, 0, 0, 0))
    scene.add_contact(floor, ball, friction=mu)
    (only,) = ist.solutions(scene, h)
    assert only.states == ("slip",)
    lost = mu * G * h * v / np.linalg.norm(v)
    spin = 2.5 / r * np.array([-lost[1], lost[0]])
    np.testing.assert_allclose(only.state.velocity[0], [*(v - lost), 0, *spin, 0], rtol=0, atol=1e-11)


def test_what_has_too_many_is_refused():
    scene = ist.Scene(dimension=2)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    for i in range(5):
        body = scene.add_body(name=f"{i}", shape=shapes.Disc(0.1), mass=1.0, position=(i, 0.1))
        scene.add_contact(floor, body)
    with pytest.raises(ValueError, match="`scene` has 5 contacts: solutions are told of at most 4"):
        ist.solutions(scene, 0.01)
    scene.add_joint(floor, body, ist.BallJoint((4, 0.1), (0, 0)))
    with pytest.raises(ValueError, match="has joints or compliant contacts"):
        ist.solutions(scene, 0.01)


@pytest.mark.parametrize(("share", "jams"), [(1 - 1e-6, False), (1 + 1e-6, True)])
def test_a_bracket_on_a_pole_can_jam_if_and_only_if_its_load_is_far_enough_out(share, jams):
    """What its two pads carry, at most 2 mu N, turns it about its load by 2 mu N a, and their
    forces back by 2 h N: where a < h / mu nothing holds it; beyond that it may stick, or fall."""
    high, wide, mu, tip = 0.05, 0.02, 0.3, 0.005
    made, lever = ist.Scene(dimension=2), share * high / mu
    pads = [(shapes.Disc(tip), ((x * (wide + tip), -x * high), 0.0)) for x in (1, -1)]
    load = {"mass": 2.0, "inertia": 0.1, "centre_of_mass": (lever, 0)}
    bracket = made.add_body(name="bracket", shapes=pads, apart=True, position=(0, 0), **load)
    for number, x in enumerate((1, -1)):
        side = made.add_fixed(name=f"side {x}", shape=shapes.HalfPlane(normal=(x, 0), offset=wide))
        made.add_contact(side, bracket, friction=mu, parts=[(0, number)])
    found = {solution.states for solution in ist.solutions(made, 0.01)}
    assert ("open", "open") in found
    assert any(set(states) <= {"stick", "impending"} for states in found) == jams
