"""Points as bodies: distances and classical problems against closed forms, and what a point cannot
be."""

import itertools

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.scene.extents import extents

UPRIGHT = (1, 0, 0, 0)
G = 9.81


def surface_points_with_normals(axes, power, count=24):
    """Points (n, 3) of (x/a)^p + (y/b)^p + (z/c)^p = 1 for an even p, and unit normals there."""
    u = np.random.default_rng(5).normal(size=(count, 3))
    u /= np.sum(u**power, axis=1, keepdims=True) ** (1 / power)
    normals = u ** (power - 1) / axes
    return u * axes, normals / np.linalg.norm(normals, axis=1, keepdims=True)


@pytest.mark.parametrize("height", [0.0, 1e-6, 0.02, 3.0])
@pytest.mark.parametrize(
    "power", [pytest.param(2, id="ellipsoid", marks=pytest.mark.thorough), pytest.param(8, id="superquadric")]
)
def test_a_point_above_a_body_is_as_far_as_it_was_put(power, height):
    axes = np.array([1.0, 0.6, 0.4])
    body = shapes.Superquadric(axes, epsilon=(2 / power, 2 / power))
    feet, normals = surface_points_with_normals(axes, power)
    places = feet + height * normals
    turns = np.tile(UPRIGHT, (len(places), 1))
    found = ist.closest_points(body, (np.zeros(3), UPRIGHT), shapes.Point(), (places, turns))
    np.testing.assert_allclose(found.distance, height, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.point_2, places, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.normal, normals, rtol=0, atol=1e-8)
    # a flat side of a superquadric hardly tells its points apart
    np.testing.assert_allclose(found.point_1, feet, rtol=0, atol=1e-12 if power == 2 else 1e-9)


@pytest.mark.thorough
def test_a_point_beside_flat_bodies_has_the_distance_of_school():
    place = np.array([0.9, 0.7, 0.5])
    floor = ist.closest_points(
        shapes.HalfSpace(normal=(0, 0, 1), offset=0.1), (np.zeros(3), UPRIGHT), shapes.Point(), (place, UPRIGHT)
    )
    assert abs(floor.distance - 0.4) < 1e-12
    box = ist.closest_points(shapes.Box((0.5, 0.3, 0.2)), (np.zeros(3), UPRIGHT), shapes.Point(), (place, UPRIGHT))
    assert abs(box.distance - np.linalg.norm(place - [0.5, 0.3, 0.2])) < 1e-12
    below = ist.closest_points(
        shapes.Point(), ((0, 0, -0.02), UPRIGHT), shapes.HalfSpace(normal=(0, 0, 1)), (np.zeros(3), UPRIGHT)
    )
    assert abs(below.distance + 0.02) < 1e-12


@pytest.mark.thorough
def test_the_length_of_a_point_moves_nothing():
    body = shapes.Ellipsoid((1.0, 0.6, 0.4))
    places = np.random.default_rng(3).normal(size=(10, 3)) + [0, 0, 2]
    turns = np.tile(UPRIGHT, (10, 1))
    found = [
        ist.closest_points(body, (np.zeros(3), UPRIGHT), shapes.Point(length=length), (places, turns)).distance
        for length in (0.1, 1.0, 5.0)
    ]
    for one, two in itertools.pairwise(found):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-12)


def particle(scene, **start):
    return scene.add_body(name="particle", shape=shapes.Point(), mass=2.0, inertia=(2, 2, 2), **start)


@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_a_particle_slides_to_a_stop_on_an_incline(slope):
    """Downhill by v / (g (mu cos - sin)), after v / 2 times that."""
    mu, speed = 0.5, 1.5
    scene = ist.Scene(gravity=(G * np.sin(slope), 0, -G * np.cos(slope)))
    body = particle(scene, position=(0, 0, 0), velocity=(speed, 0, 0, 0, 0, 0))
    scene.add_contact(body, scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0, 0, 1))), friction=mu)
    stop = speed / (G * (mu * np.cos(slope) - np.sin(slope)))
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=stop + 0.1)
    assert [event.kind for event in run.events] == ["sticks"]
    assert abs(run.events[0].time - stop) < 1e-8
    np.testing.assert_allclose(run.body("particle").position[-1], [speed * stop / 2, 0, 0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.body("particle").velocity[-1], 0, rtol=0, atol=1e-9)
    # steps of first order stop within a step, to the digit that mu g h says
    fixed = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=stop + 0.1)
    speeds = fixed.body("particle").velocity[:, 0]
    np.testing.assert_allclose(speeds, np.maximum(speed * (1 - fixed.time / stop), 0.0), rtol=0, atol=1e-11)


@pytest.mark.thorough
def test_a_particle_leaves_a_ball_at_two_thirds_of_its_height():
    """Without friction, from rest at `start`: cos(angle) = 2/3 cos(start)."""
    radius, start, mass = 0.7, 0.1, 2.0
    scene = ist.Scene()
    body = particle(scene, position=(radius * np.sin(start), 0, radius * np.cos(start)))
    scene.add_contact(body, scene.add_fixed(name="ball", shape=shapes.Sphere(radius)), friction=0.0)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-9, duration=0.9)
    event = run.events[0]
    leaves = run.at([event.time])
    # N = m g cos - m v^2 / r = 0 with v^2 = 2 g r (cos start - cos)
    assert event.kind == "opens"
    assert abs(leaves.position[0, 0, 2] / radius - 2 / 3 * np.cos(start)) < 1e-6
    assert abs(np.linalg.norm(leaves.position[0, 0]) - radius) < 1e-8
    total = run.energy().total
    np.testing.assert_allclose(total, mass * G * radius * np.cos(start), rtol=1e-7)


def ladder(angle):
    """A rod of length 2 in the plane whose tips are points, against a wall and on a floor."""
    scene = ist.Scene(dimension=2)
    tips = [(shapes.Point(dimension=2), (place, 0.0)) for place in ((0, 1), (0, -1))]
    rod = scene.add_body(
        name="rod",
        shapes=tips,
        apart=True,
        mass=1.0,
        inertia=1 / 3,
        position=(np.sin(angle), np.cos(angle)),
        angle=angle,
    )
    scene.add_contact(rod, scene.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(1, 0))), parts=[(0, 0)])
    scene.add_contact(rod, scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1))), parts=[(1, 0)])
    return scene


@pytest.mark.thorough
def test_a_ladder_leaves_its_wall_at_two_thirds_of_its_height():
    angle = 0.4
    run = ist.simulate(ladder(angle), ist.RadauContact(), tol=1e-9, duration=1.0)
    leaves = run.events[0]
    assert (leaves.kind, leaves.contact) == ("opens", 0)
    found = run.at([leaves.time]).position[0, 0]
    assert abs(found[1] - 2 / 3 * np.cos(angle)) < 1e-6
    assert abs(np.linalg.norm(found) - 1) < 1e-8


def test_a_particle_falls_on_a_box_and_rests_on_its_face():
    scene = ist.Scene()
    body = particle(scene, position=(0.1, 0.05, 0.5), velocity=(0.3, 0, 0, 0, 0, 0))
    scene.add_contact(body, scene.add_fixed(name="box", shape=shapes.Box((0.5, 0.3, 0.2))), friction=0.8)
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.6)
    assert abs(run.body("particle").position[-1, 2] - 0.2) < 1e-11
    assert np.linalg.norm(run.body("particle").velocity[-1]) < 1e-9
    assert abs(run.contact("particle", "box").normal_force[-1] - 2 * G) < 1e-9


def test_particles_on_a_floor_need_no_contact_of_their_own():
    """A rule for all bodies leaves out pairs of points."""
    scene = ist.Scene()
    for number in range(3):
        scene.add_body(name=f"p{number}", shape=shapes.Point(), mass=1.0, inertia=(1, 1, 1), position=(number, 0, 0))
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=0.3)
    assert scene.pair_count() == 3
    system, _ = scene.build()
    assert [names[1] for names in system.contact_names] == ["floor"] * 3


def test_a_point_is_no_ball_to_checks_of_size():
    found = extents([scene_part(shapes.Point()), scene_part(shapes.Sphere(0.5))])
    assert found.inner.tolist() == [np.inf, pytest.approx(0.5)]
    assert found.reach.tolist() == [0.0, pytest.approx(0.5)]
    assert found.lever.tolist() == [0.0, pytest.approx(0.0, abs=1e-7)]


def scene_part(shape):
    scene = ist.Scene()
    scene.add_body(name="a", shape=shape, mass=1.0, inertia=(1, 1, 1), position=(0, 0, 0))
    return scene.body_parts()[0][0]


def test_a_point_that_falls_through_an_undeclared_floor_is_told():
    scene = ist.Scene()
    particle(scene, position=(0, 0, 0.2))
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    with pytest.warns(ist.OverlapWarning, match="particle and floor overlap"):
        ist.simulate(scene, ist.GeometricallyImplicit(), h=0.02, duration=0.6)


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_point_is_drawn_as_a_dot_where_it_is(dimension):
    drawn = shapes.Point(length=0.5, dimension=dimension).mesh(4).vertices
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 0.01, rtol=1e-9)


@pytest.mark.parametrize("units", ["m", "mm"])
def test_a_scene_file_has_points(tmp_path, units):
    path = tmp_path / "points.toml"
    path.write_text(
        f'format = 1\nunits = "{units}"\n[[body]]\nname = "p"\nshape = {{ kind = "Point" }}\nmass = 1\n'
        "inertia = [1, 1, 1]\nposition = [0, 0, 3]\n[[body]]\nname = 'floor'\nfixed = true\n"
        "shape = { kind = 'HalfSpace', normal = [0, 0, 1] }\n[[contact]]\nbodies = ['p', 'floor']\n"
    )
    scene = ist.load_scene(path)
    scene.save(tmp_path / "again.toml")
    again = ist.load_scene(tmp_path / "again.toml")
    for found in (scene.body_parts()[0][0].shape, again.body_parts()[0][0].shape):
        assert found.parameters() == {"length": 1.0 if units == "m" else 0.001}
        assert found.shape_class == shapes.Point().shape_class


def test_a_body_with_a_point_and_others_takes_its_inertia_from_the_others():
    scene = ist.Scene()
    parts = [(shapes.Box((0.1, 0.2, 0.3)), ((0, 0, 0), UPRIGHT)), (shapes.Point(), ((0, 0, -0.3), UPRIGHT))]
    scene.add_body(name="both", shapes=parts, density=10.0, position=(0, 0, 1))
    scene.add_body(name="box", shape=parts[0][0], density=10.0, position=(0, 0, 1))
    system, _ = scene.build()
    np.testing.assert_allclose(system.inertia[0], system.inertia[1], rtol=1e-14)


def test_what_a_point_cannot_be_is_refused():
    scene = ist.Scene()
    for given in ({"mass": 1.0}, {"density": 1.0}):
        with pytest.raises(ValueError, match="a Point has neither volume nor inertia: give the body `mass`"):
            scene.add_body(name="a", shape=shapes.Point(), position=(0, 0, 0), **given)
    one, two = (
        scene.add_body(name=name, shape=shapes.Point(), mass=1.0, inertia=(1, 1, 1), position=(0, 0, 0)) for name in "ab"
    )
    with pytest.raises(ValueError, match="are both a Point, and two points have no normal"):
        scene.add_contact(one, two)
    for make in (
        lambda: shapes.Rounded(shapes.Point(), 0.1),
        lambda: shapes.cut(shapes.Point(), normal=(0, 0, 1)),
        lambda: shapes.Intersection([shapes.Point(), shapes.Sphere(1.0)]),
    ):
        with pytest.raises(shapes.ShapeError, match="a Point has nothing to cut or to round"):
            make()
    with pytest.raises(shapes.ShapeError, match="`length` = 0.0 must be positive"):
        shapes.Point(length=0)
    with pytest.raises(shapes.ShapeError, match="`dimension` = 4 must be 2 or 3"):
        shapes.Point(dimension=4)
    with pytest.raises(shapes.ShapeError, match="`dimension` = 2.0 must be 2 or 3"):
        shapes.Point(dimension=2.0)


def test_two_bodies_with_points_among_their_parts_are_told_to_name_pairs():
    scene = ist.Scene()
    parts = [(shapes.Box((0.1, 0.2, 0.3)), ((0, 0, 0), UPRIGHT)), (shapes.Point(), ((0, 0, -0.3), UPRIGHT))]
    for name in "ab":
        scene.add_body(name=name, shapes=parts, density=10.0, position=(0, 0, 1))
    scene.add_contacts()
    with pytest.raises(ValueError, match="'a' and 'b' have points among their parts"):
        scene.build()
