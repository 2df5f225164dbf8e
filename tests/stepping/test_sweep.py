"""Between the poses of a step: what passes is stopped or named, bounds hold, and what rolls costs
nothing."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import ladder
from implicit_stepper.model import bodies, poses
from implicit_stepper.stepping import fallback, sweep
from implicit_stepper.stepping.pieces import Pieces
from implicit_stepper.stepping.stepper import begin

STEPPER = ist.GeometricallyImplicit()
HALF, RADIUS = 0.025, 0.05  # of the wall's thickness, of the ball [m]
TOUCH = HALF + RADIUS


def turned(axis, angle):
    return np.append(np.cos(angle / 2), np.sin(angle / 2) * np.array(axis))


def before_a_wall(place, angle, speed=10.0):
    """A ball that flies along x at a wall of 5 cm, turned about z."""
    scene = ist.Scene(gravity=(0, 0, 0), acceleration_scale=9.81)
    wall = scene.add_fixed(name="wall", shape=shapes.Box((HALF, 2, 2)), quaternion=turned((0, 0, 1), angle))
    ball = scene.add_body(
        name="ball",
        shape=shapes.Sphere(RADIUS),
        position=(place, 0, 0),
        mass=1.0,
        inertia=(1e-3, 1e-3, 1e-3),
        velocity=(speed, 0, 0, 0, 0, 0),
    )
    scene.add_contact(wall, ball, friction=0.3)
    return scene


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize(("place", "angle"), [(-0.75, 0.0), (-0.2, 0.5)])
def test_a_ball_does_not_pass_a_wall(place, angle, parts, monkeypatch):
    """Half a metre a step, through 15 cm: without a sweep it is certified on the other side after
    some steps. Other starts of the whole step may find a solution on this side; without them it
    takes parts."""
    if parts:
        monkeypatch.setattr(ist.GeometricallyImplicit, "restarts", lambda *_: iter(()))
    run = ist.simulate(before_a_wall(place, angle), STEPPER, h=0.05, duration=0.3)
    beside = run.position[:, 0] @ [np.cos(angle), np.sin(angle), 0]
    assert np.all(beside < -TOUCH + 1e-12)
    assert np.max(run.stats.substeps) > 1 or not parts
    assert np.max(run.stats.rung) > 0
    assert np.all(np.stack(list(run.certificate.values())) < 1e-10)


@pytest.mark.parametrize(
    ("place", "angle"), [(-0.2, 0.5), *(pytest.param(*of, marks=pytest.mark.thorough) for of in ((-0.75, 0.0), (-3.0, 0.0)))]
)
def test_chosen_steps_land_on_a_wall_that_they_would_fly_through(place, angle):
    """Free flight has no error, so that steps are long. The ball meets the wall when it is TOUCH
    away along the normal."""
    run = ist.simulate(before_a_wall(place, angle), ist.RadauContact(), tol=1e-6, duration=0.4)
    met = -(place + TOUCH / np.cos(angle)) / 10.0
    assert [event.kind for event in run.events] == ["closes"]
    np.testing.assert_allclose(run.events[0].time, met, rtol=1e-9)
    assert np.all(run.position[:, 0] @ [np.cos(angle), np.sin(angle), 0] < -TOUCH + 1e-12)


@pytest.mark.thorough
def test_chosen_steps_meet_what_they_graze():
    """Free flight has no error, and its steps are long: a disc that cuts a tenth of the radius of
    another meets it where their centres are 2 R apart, and loses what approached."""
    scene = ist.Scene(dimension=2, gravity=(0, 0), acceleration_scale=9.81, length_scale=0.1)
    post = scene.add_fixed(name="post", shape=shapes.Disc(0.1), position=(5, 0))
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.19), velocity=(10, 0, 0))
    scene.add_contact(post, disc)
    # (a stage of three would see it)
    run = ist.simulate(scene, ist.RadauContact(stages=2), tol=1e-8, duration=1.0)
    along = np.sqrt(0.2**2 - 0.19**2)
    assert [event.kind for event in run.events] == ["closes"]
    np.testing.assert_allclose(run.events[0].time, (5 - along) / 10, rtol=1e-9)
    normal = np.array([-along, 0.19]) / 0.2
    np.testing.assert_allclose(run.velocity[-1, 0, :2], [10, 0] - 10 * normal[0] * normal, rtol=1e-9)


def test_chosen_steps_meet_a_floor_that_a_turning_body_dips_into():
    """The lowest point of an ellipse that turns by p is sqrt(a^2 sin^2 p + b^2 cos^2 p) below its
    centre, for a moment 2 mm below the floor, and at none of two stages."""
    a, b, height, spin = 0.5, 0.02, 0.498, 20.0
    scene = ist.Scene(dimension=2, gravity=(0, 0), acceleration_scale=9.81, length_scale=0.5)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    rod = scene.add_body(
        name="rod", shape=shapes.Ellipse((a, b)), mass=1.0, position=(0, height), angle=-0.1, velocity=(0, 0, spin)
    )
    scene.add_contact(floor, rod)
    run = ist.simulate(scene, ist.RadauContact(stages=2), tol=1e-8, duration=0.15)
    met = (0.1 + np.arcsin(np.sqrt((height**2 - b**2) / (a**2 - b**2)))) / spin
    assert run.events[0].kind == "closes"
    np.testing.assert_allclose(run.events[0].time, met, rtol=1e-8)
    assert np.min(run.contacts.gap) >= -1e-10


def rods(spin):
    """A free rod of 1 cm about to hit a fixed one of 2 cm, .3 m from its centre, both along other
    axes."""
    scene = ist.Scene(gravity=(0, 0, 0), acceleration_scale=9.81)
    post = scene.add_fixed(name="post", shape=shapes.Capsule(0.02, 0.5), position=(0.3, 0, 0))
    along = Rotation.from_euler("z", -0.5) * Rotation.from_euler("y", np.pi / 2)
    rod = scene.add_body(
        name="rod",
        shape=shapes.Capsule(0.01, 0.5),
        position=(0, 0, 0),
        quaternion=np.roll(along.as_quat(), 1),
        mass=1.0,
        velocity=(0, 0, 0, 0, 0, spin),
    )
    scene.add_contact(post, rod, friction=0.3)
    return scene


@pytest.mark.thorough
@pytest.mark.parametrize("spin", [20.0, 60.0])
def test_a_rod_that_spins_does_not_pass_another(spin):
    """Up to three radians in the first step. The rod stays on its side: its axis passes the post at
    y < 0."""
    run = ist.simulate(rods(spin), STEPPER, h=0.05, duration=0.05)
    axis = poses.matrices(run.quaternion[:, 0])[..., 2]
    height = run.position[:, 0, 1] + (0.3 - run.position[:, 0, 0]) * axis[:, 1] / axis[:, 0]
    assert np.all(height < 0)
    assert run.stats.substeps[0] > 1


def test_a_pair_that_passes_in_every_step_is_named(monkeypatch):
    """Where what is tried ends on the other side, as from closest points that are there. (Which of
    the other starts ends on this side, rounding tells.)"""

    def beyond(stepper, system, state, memory, h):
        yield ladder.RUNGS[1], begin(stepper, system, bodies.moved(state, state.velocity, h))

    monkeypatch.setattr(fallback, "_FINEST", 0)
    monkeypatch.setattr(ladder, "restarts", beyond)
    with pytest.raises(ist.StepError, match=r"pass through each other .* They are wall and ball.") as caught:
        ist.simulate(before_a_wall(-0.2, 0.5), STEPPER, h=0.05, duration=0.3)
    assert caught.value.result == ist.Result.PASSED


@pytest.mark.parametrize(("beside", "passes"), [(0.0425, True), (0.0437, False)])
def test_what_comes_out_turned_by_more_than_sixty_degrees_has_passed(beside, passes):
    """A ball that cuts an edge of the wall, its centre `beside` it: it overlaps by R - beside, more
    than a quarter of HALF, and goes in and out at normals 2 acos(beside / R) apart: 64 and 58
    degrees."""
    scene = before_a_wall(-0.75, 0.0)
    across, along = np.array([-1.0, 1.0, 0.0]) / np.sqrt(2), np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    places = np.array([-HALF, 2.0, 0.0]) + beside * across + np.array([[-0.15], [0.15]]) * along
    piece = Pieces(
        position=places[:, None],
        orientation=np.tile([1.0, 0, 0, 0], (2, 1, 1)),
        velocity=np.tile(np.append(0.3 * along, np.zeros(3)), (2, 1, 1)),
        h=np.ones(1),
        gaps=(np.full((1, 1), np.nan),) * 2,
        normals=(np.full((1, 1, 3), np.nan),) * 2,
    )
    found = sweep.Sweep(scene, STEPPER, scene.build()[0])._crossed(piece)
    assert (found == (0, 0.5)) if passes else found is None


def gaps_along(first, second, moves, turns, shares):
    """Gaps (k, n) and normals (k, n, 3) of two shapes, `second` moved from above by `moves` (n, 3)
    and turned by `turns` (n, 3), after `shares` (k,) of them."""
    share = shares[:, None, None]
    identity = np.broadcast_to([1.0, 0, 0, 0], (len(shares), len(moves), 4))
    place = np.array([0, 0, 1.0]) + (share - 0.5) * moves
    found = ist.closest_points(
        first, (np.zeros(3), np.array([1.0, 0, 0, 0])), second, (place, poses.turned(identity, share * turns))
    )
    return place, np.asarray(found.distance), np.asarray(found.normal)


def test_no_overlap_between_poses_exceeds_its_bound():
    """40 random motions of a box by a box, up to 1.5 m and 2 rad, looked at in 17 poses."""
    rng = np.random.default_rng(0)
    shape, count = shapes.Box((0.3, 0.2, 0.4)), 40
    moves = rng.normal(size=(count, 3)) * rng.uniform(0.02, 1, (count, 1))
    turns = rng.normal(size=(count, 3)) * rng.uniform(0.02, 1, (count, 1))
    place, gaps, normals = gaps_along(shape, shape, moves, turns, np.linspace(0, 1, 17))
    scene = ist.Scene()
    scene.add_contact(
        scene.add_fixed(name="a", shape=shape), scene.add_body(name="b", shape=shape, position=(0, 0, 1), mass=1.0)
    )
    system, _ = scene.build()
    looked = sweep.Sweep(scene, STEPPER, system)
    tight = 0
    for i in range(count):
        ends = [0, -1]
        velocity = np.concatenate([moves[i], turns[i]])
        piece = Pieces(
            position=place[ends, i][:, None],
            orientation=np.zeros((2, 1, 4)),
            velocity=np.stack([velocity, velocity])[:, None],
            h=np.ones(1),
            gaps=(gaps[:1, i, None], gaps[-1:, i, None]),
            normals=(normals[:1, i, None], normals[-1:, i, None]),
        )
        bound, deepest = float(looked._deepest(piece)[0, 0]), -np.min(gaps[:, i])
        assert deepest <= bound + 1e-3  # sampling of the box's size leaves a per cent of 0.5 m
        tight += bound < deepest + 0.1
    assert tight > count // 4


def test_the_bound_knows_how_wide_fixed_bodies_are():
    """A disc moves from one slope of a roof, touching it, straight to the other: its centre passes
    over the ridge at the height of `away` sin(slope) below that of a disc that touches the
    ridge."""
    radius, away, slope, half = 0.05, 0.9, 0.05, 1.0
    scene, (sine, cosine) = ist.Scene(dimension=2), (np.sin(slope), np.cos(slope))
    roof = shapes.Polygon([(-half, -half * sine / cosine), (half, -half * sine / cosine), (0, 0)])
    disc = scene.add_body(name="disc", shape=shapes.Disc(radius), mass=1.0, position=(0, 1))
    scene.add_contact(scene.add_fixed(name="roof", shape=roof), disc)
    normals = np.array([[-sine, cosine], [sine, cosine]])
    places = away * np.array([[-cosine, -sine], [cosine, -sine]]) + radius * normals
    velocity = np.append(places[1] - places[0], 0.0)
    piece = Pieces(
        position=places[:, None],
        orientation=np.zeros((2, 1, 1)),
        velocity=np.stack([velocity, velocity])[:, None],
        h=np.ones(1),
        gaps=(np.zeros((1, 1)), np.zeros((1, 1))),
        normals=(normals[:1, None], normals[1:, None]),
    )
    bound = float(sweep.Sweep(scene, STEPPER, scene.build()[0])._deepest(piece)[0, 0])
    deepest = radius - places[0, 1]
    assert deepest <= bound <= 2.5 * deepest


def test_rolling_needs_no_closest_points(monkeypatch):
    """A ball that rolls over a plate, a step of twice its thickness at a time: bounds alone do."""
    monkeypatch.setattr(sweep.Sweep, "_closest", None)
    scene = ist.Scene()
    plate = scene.add_fixed(name="plate", shape=shapes.Box((3, 3, 0.01)), position=(0, 0, -0.01))
    ball = scene.add_body(
        name="ball",
        shape=shapes.Sphere(RADIUS),
        position=(-1, 0, RADIUS),
        mass=1.0,
        inertia=(1e-3, 1e-3, 1e-3),
        velocity=(4, 0, 0, 0, 80, 0),
    )
    scene.add_contact(plate, ball, friction=0.3)
    run = ist.simulate(scene, STEPPER, h=0.01, duration=0.2)
    assert np.all(run.stats.substeps == 1)


def test_poses_in_numpy_are_those_of_scipy():
    rng = np.random.default_rng(1)
    q, turn = rng.normal(size=(20, 4)), rng.normal(size=(20, 3)) * 4
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    start = Rotation.from_quat(np.roll(q, -1, axis=1))
    end = poses.turned(q, turn)
    np.testing.assert_allclose(poses.matrices(q), start.as_matrix(), atol=1e-14)
    np.testing.assert_allclose(poses.matrices(end), (Rotation.from_rotvec(turn) * start).as_matrix(), atol=1e-14)
    # beyond half a turn too
    np.testing.assert_allclose(poses.turn_between(q, end, turn + 0.1), turn, atol=1e-12)
    np.testing.assert_allclose(poses.turn_between(q, q, 0 * turn), 0 * turn, atol=1e-12)
