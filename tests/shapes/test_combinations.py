"""Intersections, cuts and rounded bodies: their inequalities, and which of them are refused or
leave something out."""

import numpy as np
import pytest
import sympy

import shapes
from shapes import HalfSpace, ImplicitShape, Intersection, Rounded, ShapeError, cut, x, y, z
from shapes.checks.convexity import check
from shapes.checks.redundancy import endless

BALL, BOX = shapes.Sphere(1.0), shapes.Box((1.0, 1.0, 1.0))
DIAGONAL = np.ones(3) / np.sqrt(3)
UP = np.array([0.0, 0.0, 1.0])


def rays(dimension=3, count=10):
    points = np.random.default_rng(0).normal(size=(count, dimension))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_intersection_has_the_inequalities_of_its_parts():
    parts = [BALL, shapes.Ellipsoid((2.0, 0.5, 2.0)), HalfSpace(normal=UP, offset=0.5)]
    both = Intersection(parts)
    assert both.shape_class.count == 3
    assert set(both.parameters()) == {"radius_0", "a_1", "b_1", "c_1", "n_x_2", "n_y_2", "n_z_2", "offset_2"}
    for point in rays():
        np.testing.assert_array_equal(both.value(point), [part.value(point)[0] for part in parts])
        np.testing.assert_array_equal(both.gradient(point), [part.gradient(point)[0] for part in parts])


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        (shapes.Sphere(1.0), 2),
        (shapes.Ellipsoid((0.5, 1.0, 2.0)), 2),
        (shapes.Superquadric((0.5, 1.0, 2.0), epsilon=(0.5, 0.5)), 2),
        (shapes.Superquadric((0.5, 1.0, 2.0), epsilon=(1.5, 1.25)), 2),
        (shapes.Capsule(0.5, 1.0), 2),
        (shapes.Cylinder(0.5, 1.0), 3),  # its top is cut away
        (shapes.Box((0.5, 1.0, 2.0)), 6),  # so is one face of it
        (shapes.Disc(1.0), 2),
    ],
    ids=lambda value: value.shape_class.name if isinstance(value, shapes.Shape) else str(value),
)
def test_half_a_body_is_what_is_below_the_plane(shape, count):
    d = shape.dimension
    normal = np.eye(d)[-1]
    half = cut(shape, normal=normal, offset=0.2)
    assert half.shape_class.count == count
    assert half.shape_class.closed_form is None
    assert half.shape_class.support is None
    assert half.shape_class.name == f"cut {shape.shape_class.name}"
    for point in np.random.default_rng(1).uniform(-2, 2, (200, d)):
        expected = np.all(np.asarray(shape.value(point)) <= 0) and point[-1] <= 0.2
        assert np.all(np.asarray(half.value(point)) <= 0) == expected


def test_parameters_of_what_is_left_out_go_too():
    parts = [BOX, shapes.Box((1.0, 2.0, 0.5))]
    both = Intersection(parts)
    assert both.shape_class.count == 6
    # of two faces that coincide the last stays
    assert set(both.parameters()) == {"b_0", "a_1", "c_1"}
    for point in np.random.default_rng(1).uniform(-1.5, 1.5, (100, 3)):
        np.testing.assert_array_equal(np.max(both.value(point)) <= 0, np.max([part.value(point) for part in parts]) <= 0)


@pytest.mark.parametrize("depth", [1e-3, 1e-8])
@pytest.mark.parametrize("shape", [BALL, BOX, shapes.Cylinder(1.0, 0.5)], ids=lambda s: s.shape_class.name)
def test_a_plane_that_cuts_off_next_to_nothing_is_kept(shape, depth):
    top = {"Sphere": 1.0, "Box": np.sqrt(3), "Cylinder": (np.sqrt(2) + 0.5) / np.sqrt(3)}[shape.shape_class.name]
    normal = DIAGONAL
    assert cut(shape, normal=normal, offset=top - depth).shape_class.count == shape.shape_class.count + 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Intersection([BALL, shapes.Sphere(2.0)]), r"part 1 \(Sphere\) is never active, .* inequalities \[1\]"),
        (lambda: Intersection([shapes.Sphere(2.0), BALL]), r"part 0 \(Sphere\) is never active"),
        (lambda: Intersection([BALL, BOX]), r"part 1 \(Box\) is never active, .* \[1, 2, 3, 4, 5, 6\]. Leave it out"),
        (lambda: Intersection([BOX, BOX]), r"part 0 \(Box\) is never active"),
        (lambda: cut(BALL, normal=UP, offset=1.5), r"cut Sphere: part 1 \(HalfSpace\) is never active"),
        (lambda: cut(BALL, normal=UP, offset=1.0), r"cut Sphere: part 1 \(HalfSpace\) is never active"),
        (lambda: cut(BOX, normal=UP, offset=1.0), r"cut Box: part 1 \(HalfSpace\) is never active"),
        (lambda: cut(BOX, normal=DIAGONAL, offset=np.sqrt(3)), r"cut Box: part 1 \(HalfSpace\) is never active"),
        (lambda: cut(BALL, normal=UP, offset=-1.5), "cut Sphere is empty or flat: the deepest point"),
        (lambda: cut(BALL, normal=UP, offset=-1.0), "cut Sphere is empty or flat"),
        (lambda: cut(BALL, normal=UP, offset=-1 + 1e-12), "cut Sphere is empty or flat"),
        (lambda: cut(BALL, normal=(0, 0, 2)), "`normal` = .* has length 2: give a unit vector"),
        (lambda: cut(shapes.Disc(1.0), normal=UP), "`normal` has shape .*needs 2 numbers"),
        (lambda: cut(x**2, normal=UP), "`shape` = x\\*\\*2 must be a shape"),
        (lambda: cut(Rounded(BOX, 0.1), normal=UP), r"`parts`\[0\] is Rounded\(Box\): round the result, not a part of it"),
        (
            lambda: Intersection([ImplicitShape([(x + y + z) ** 2 + (x - y) ** 2 - 1]), HalfSpace(normal=(1, 0, 0))]),
            r"Intersection is unbounded: it never ends along \[-0.40824829 -0.40824829  0.81649658\]",
        ),
        (
            lambda: Intersection([ImplicitShape([x**2 + y**2 - z]), HalfSpace(normal=(1, 0, 0))]),
            "Intersection is unbounded: it never ends along .*, which only half-spaces alone may. Close it",
        ),
        (lambda: Intersection([BALL]), "`parts` = .* must be a list of two or more shapes"),
        (lambda: Intersection(BALL), "`parts` = .* must be a list of two or more shapes"),
        (lambda: Intersection([BALL, x]), "`parts` must be shapes"),
        (lambda: Intersection([BALL, shapes.Disc(1.0)]), "mixes planar and spatial"),
        (lambda: Rounded(BOX, 0.0), "`radius` = 0.0 must be positive"),
        (lambda: Rounded(x, 1.0), "`shape` = x must be a shape"),
    ],
)
def test_bad_combination_is_refused(make, says):
    with pytest.raises(ShapeError, match=says):
        make()


def test_half_spaces_alone_may_be_open():
    valley = Intersection([HalfSpace(normal=(0.6, 0.0, 0.8)), HalfSpace(normal=(-0.6, 0.0, 0.8))])
    assert valley.shape_class.count == 2
    with pytest.raises(ShapeError, match="part 2 .* is never active"):
        Intersection([*(HalfSpace(normal=(s, 0.0, 0.8)) for s in (0.6, -0.6)), HalfSpace(normal=UP, offset=1.0)])


def test_check_can_be_left_out():
    assert Intersection([BALL, shapes.Sphere(2.0)], validate=False).shape_class.count == 2
    assert cut(BALL, normal=UP, offset=2.0, validate=False).shape_class.count == 2


@pytest.mark.parametrize("seed", range(6))
def test_a_direction_without_end_is_found_wherever_it_points(seed):
    """Tubes and paraboloids along directions that no sampled ray has; cut off at the far end they
    are bounded."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    u, v, w = axes @ np.array([x, y, z])
    narrow, rise = 10 ** rng.uniform(-2, 0, 2)
    for f in (u**2 + (v / narrow) ** 2 - 1, u**2 + (v / narrow) ** 2 - rise * w - 0.1):
        for closed in (False, True):
            shape = ImplicitShape([f, *([w - 50, -w - 50] if closed else [])])
            direction = endless(shape.shape_class, shape.theta, check(shape.shape_class, shape.theta))
            if closed:
                assert direction is None
            else:
                np.testing.assert_allclose(abs(direction @ axes[2]), 1.0, atol=1e-5)


def test_rounded_body_keeps_its_inequalities_and_has_its_radius_last():
    rounded = Rounded(BOX, 0.1)
    kind = rounded.shape_class
    assert kind.name == "Rounded(Box)"
    assert kind.rounded
    assert kind.expressions == BOX.shape_class.expressions
    assert kind.closed_form is None
    assert rounded.parameters() == {"a": 1.0, "b": 1.0, "c": 1.0, "rounding": 0.1}
    assert kind.radius(rounded.theta) == 0.1
    for point in rays():
        np.testing.assert_array_equal(rounded.value(point), BOX.value(point))
        np.testing.assert_array_equal(rounded.gradient(point), BOX.gradient(point))


def test_rounding_twice_adds_the_radii():
    twice, once = Rounded(Rounded(BOX, 0.1), 0.2), Rounded(BOX, 0.3)
    assert twice.shape_class == once.shape_class
    np.testing.assert_allclose(twice.theta, once.theta, rtol=1e-15)


def test_rounded_superquadric_keeps_its_support_function():
    shape = shapes.Superquadric((0.5, 1.0, 2.0), epsilon=(1.5, 1.5))
    rounded = Rounded(shape, 0.1)
    n = rays(count=1)[0]
    got = rounded.shape_class.support_jet.gradient(n, rounded.theta)
    np.testing.assert_array_equal(got, shape.shape_class.support_jet.gradient(n, shape.theta))


def test_rounding_does_not_hide_a_parameter_of_that_name():
    rounding = sympy.Symbol("rounding", positive=True)
    own = ImplicitShape([x**2 + y**2 + z**2 - rounding**2], parameters={rounding: 1.0})
    with pytest.raises(ShapeError, match="has a parameter `rounding` of its own: give it another name"):
        Rounded(own, 0.1)
