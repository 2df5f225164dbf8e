"""Units of length, mass and time must not matter: in units that are powers of two, a run has the
same digits."""

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from shapes.closest_points.surface import rough_interior_and_slope, surface

# Powers of two for 1 m, 1 kg and 1 s: a scene of .1 mm, one of 200 km, and one of dust.
UNITS = {"small": (2.0**-13, 2.0**-26, 2.0**-6), "large": (2.0**17, 2.0**20, 2.0**9), "light": (1.0, 2.0**-40, 1.0)}
SHAPES = {
    "box": lambda metre: shapes.Box((0.5 * metre, 0.3 * metre, 0.2 * metre)),
    "cone": lambda metre: shapes.Cone(0.3 * metre, 0.6 * metre),
}
# Whose origin is on their surface, and in a corner.
SOLIDS = SHAPES | {
    "half superquadric": lambda metre: shapes.cut(
        shapes.Superquadric((0.4 * metre, 0.3 * metre, 0.25 * metre), epsilon=(0.5, 0.5)), normal=(0, 0, 1), validate=False
    ),
    "corner": lambda metre: shapes.Intersection(
        [shapes.Ellipsoid((metre, metre, 0.5 * metre))] + [shapes.HalfSpace(normal=-n) for n in np.eye(3)], validate=False
    ),
}


def dropped(name, metre=1.0, kilogram=1.0, second=1.0):
    """A body that is thrown on a plane, tumbles and slides, with numbers in other units."""
    scene = ist.Scene(gravity=(0, 0, -9.75 * metre / second**2))
    body = scene.add_body(
        name=name,
        shape=SHAPES[name](metre),
        mass=30.0 * kilogram,
        inertia=np.array([1.0, 1.5, 2.0]) * kilogram * metre**2,
        position=(0, 0, 0.75 * metre),
        quaternion=(0.5, 0.7, -0.1, 0.5),
        velocity=np.array([2.0, -1.0, -2.0, 0, 0, 0]) * metre / second + np.array([0, 0, 0, 3.0, 5.0, -4.0]) / second,
    )
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contact(body, floor, friction=ist.FrictionEllipsoid(mu=0.5, e_r=0.0625 * metre))
    return ist.simulate(scene, ist.GeometricallyImplicit(), h=second / 64, duration=second, progress=False)


@pytest.mark.parametrize("name", SHAPES)
def test_units_do_not_matter(name):
    plain = dropped(name)
    assert np.any(plain.contacts.normal_impulse > 0)
    for metre, kilogram, second in UNITS.values():
        other = dropped(name, metre, kilogram, second)
        np.testing.assert_array_equal(other.stats.iterations, plain.stats.iterations)
        np.testing.assert_array_equal(other.position / metre, plain.position)
        np.testing.assert_array_equal(other.orientation, plain.orientation)
        impulse = kilogram * metre / second
        np.testing.assert_array_equal(other.contacts.normal_impulse / impulse, plain.contacts.normal_impulse)


@pytest.mark.parametrize("name", SOLIDS)
def test_what_a_search_begins_with_scales_with_the_shape(name):
    """Interior points, sizes and slopes, sampled and in traced code."""
    plain = SOLIDS[name](1.0)
    rough_of = jax.jit(rough_interior_and_slope, static_argnums=0)
    rough = rough_of(plain.shape_class, plain.theta)
    assert np.all(np.asarray(plain.value(surface(plain).interior)) < 0)
    for metre in (2.0**-30, 2.0**-13, 2.0**20):
        other = SOLIDS[name](metre)
        np.testing.assert_array_equal(surface(other).interior / metre, surface(plain).interior)
        assert surface(other).size / metre == surface(plain).size
        assert surface(other).sharpness == surface(plain).sharpness
        again = rough_of(other.shape_class, other.theta)
        np.testing.assert_allclose(again[0] / metre, rough[0], rtol=0, atol=1e-14)
        np.testing.assert_allclose(again[2] / metre, rough[2], rtol=1e-14)


def test_bodies_of_any_size_have_a_surface():
    """A ball of a thousand kilometres and one of a nanometre lie on a floor."""
    for radius in (1e-9, 1e6):
        scene = ist.Scene()
        ball = scene.add_body(name="ball", shape=shapes.Sphere(radius), mass=1.0, position=(0, 0, radius))
        floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
        scene.add_contact(ball, floor)
        h = 0.01 * np.sqrt(radius)
        end = ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=h, progress=False)
        np.testing.assert_allclose(end.contacts.normal_impulse[0], 9.81 * h, rtol=1e-10)


def test_without_loads_the_motion_sets_the_scale():
    """v^2 / L with L = sqrt(trace I / m); a start at rest has none."""
    for velocity, scale in (((3.0, 0, 0, 0, 0, 0), 9.0 / 0.5), ((0, 0, 0, 4.0, 0, 0), 16.0 * 0.5), (None, 1.0)):
        scene = ist.Scene(gravity=(0, 0, 0))
        scene.add_body(
            name="ball", shape=shapes.Sphere(1.0), mass=12.0, inertia=(1, 1, 1), position=(0, 0, 0), velocity=velocity
        )
        np.testing.assert_allclose(scene.build()[0].acceleration, scale, rtol=1e-15)


def test_parts_of_small_bodies_must_touch():
    """Two boxes of 1 um, half of one apart, fall apart as boxes of 1 m do."""
    upright = (1.0, 0, 0, 0)
    for size in (1e-6, 1.0):
        box = shapes.Box((size, size, size))
        parts = [(box, ((0, 0, 0), upright)), (box, ((0, 0, 2.5 * size), upright))]
        with pytest.raises(ValueError, match="does not touch the rest"):
            ist.Scene().add_body(name="pair", shapes=parts, density=1000.0, position=(0, 0, 0))
