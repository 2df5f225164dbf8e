"""Contacts of several classes compiled as one: the same numbers as each class alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.run import parameters
from shapes.closest_points.conditions import PairClass
from shapes.closest_points.mixture import Mixture, form_of, mixed, packed, put_together, query_of, slopes
from shapes.closest_points.surface import surface

SHAPES = {
    "ball": shapes.Sphere(0.5),
    "egg": shapes.Ellipsoid((0.5, 0.4, 0.35)),
    "round box": shapes.Superquadric((0.5, 0.5, 0.5), epsilon=(0.8, 0.8)),
    "rounded ball": shapes.Rounded(shapes.Ellipsoid((0.4, 0.3, 0.3)), 0.1),
}
WITH_FACES = {
    "box": shapes.Box((0.4, 0.3, 0.2)),
    "cylinder": shapes.Cylinder(0.3, 0.4),
    "cone": shapes.Cone(0.4, 0.5),
    "sharp egg": shapes.Ellipsoid((0.5, 0.1, 0.4)),
}
CAPSULE = shapes.Capsule(0.2, 0.5)


def scene(names, sliding=False):
    """Bodies thrown on a floor, or sliding on it, 3 m apart."""
    made = ist.Scene()
    floor = made.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    every = SHAPES | WITH_FACES
    for name in names:
        place = 3.0 * list(every).index(name)
        thrown = made.add_body(
            name=name, shape=every[name], mass=1.0, inertia=(0.1, 0.12, 0.11),
            position=(place, 0, every[name].theta[-1] if sliding else 0.6),
            velocity=(2, 0, 0, 0, 0, 1) if sliding else (0.5, 0, -1, 0.3, 2, 1),
        )  # fmt: skip
        made.add_contact(floor, thrown, friction=ist.FrictionEllipsoid(0.3, e_r=0.1))
    return made


def test_jet_is_that_of_the_class_that_theta_numbers():
    classes = tuple(dict.fromkeys(shape.shape_class for shape in SHAPES.values()))
    mixture = Mixture(classes)
    point = jnp.array([0.3, 0.4, 0.1])
    for shape in SHAPES.values():
        theta = jnp.asarray(packed(mixture, shape))
        for part in ("value", "gradient", "hessian"):
            own = getattr(shape.shape_class.jet, part)
            np.testing.assert_array_equal(getattr(mixture.jet, part)(point, theta), own(point, shape.theta))
            slope = jax.jacfwd(getattr(mixture.jet, part))(point, theta)
            np.testing.assert_array_equal(slope, jax.jacfwd(own)(point, shape.theta))
        assert mixture.radius(theta) == shape.shape_class.radius(shape.theta)


def test_bodies_with_fewer_faces_are_filled_up_with_some_far_off():
    classes = tuple(shape.shape_class for shape in WITH_FACES.values())
    mixture, point = Mixture(classes), jnp.array([0.1, -0.2, 0.3])
    assert mixture.count == 6
    for shape in WITH_FACES.values():
        own, theta = shape.shape_class.count, jnp.asarray(packed(mixture, shape))
        for part in ("value", "gradient", "hessian"):
            found, alone = (getattr(of.jet, part) for of in (mixture, shape.shape_class))
            np.testing.assert_array_equal(found(point, theta)[:own], alone(point, shape.theta))
            rest = -100 * surface(shape).size if part == "value" else 0.0
            np.testing.assert_array_equal(found(point, theta)[own:], np.full_like(found(point, theta)[own:], rest))
        np.testing.assert_array_equal(slopes(mixture, shape), [*surface(shape).slope, *np.ones(6 - own)])


def test_what_is_put_together_grows_by_little_and_keeps_support_functions_apart():
    box, cylinder, cone, egg = (shape.shape_class for shape in WITH_FACES.values())
    ball, capsule = SHAPES["ball"].shape_class, CAPSULE.shape_class
    turns = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    column = np.stack([np.cos(turns), np.sin(turns), np.zeros(40)], axis=1)
    many = shapes.Polytope(normals=[*column, (0, 0, 1), (0, 0, -1)], offsets=np.ones(42)).shape_class
    pairs = [PairClass(kind, box, eliminate=False) for kind in (egg, many, cone, box, cylinder)]
    assert put_together(pairs) == [[pairs[1]], [pairs[3], pairs[2], pairs[4], pairs[0]]]
    rounded, swept = PairClass(ball, ball), PairClass(capsule, box, eliminate=False)
    assert len({form_of(pair) for pair in (pairs[0], rounded, swept)}) == 3
    together = mixed([swept, PairClass(capsule, cone, eliminate=False)])
    assert (together.first, together.second) == (capsule, Mixture((box, cone)))


@pytest.mark.parametrize(
    ("names", "number"),
    [
        pytest.param(tuple(SHAPES), 3, id="smooth", marks=pytest.mark.thorough),
        pytest.param(tuple(WITH_FACES), 2, id="faces"),
    ],
)
def test_bodies_of_four_classes_make_one_group_and_move_as_alone(names, number):
    together = scene(names)
    system, _ = together.build()
    assert len(system.groups) == 1
    run = ist.simulate(together, ist.GeometricallyImplicit(), h=0.01, duration=0.3)
    name = names[number]
    alone = ist.simulate(scene([name]), ist.GeometricallyImplicit(), h=0.01, duration=0.3)
    assert np.any(alone.contacts.normal_impulse > 0)
    np.testing.assert_allclose(run.position[:, number], alone.position[:, 0], atol=1e-9)
    np.testing.assert_allclose(run.velocity[:, number], alone.velocity[:, 0], atol=1e-9)


def test_closed_forms_serve_mixed_pairs():
    """A ball that rolls on a plane against a fixed ball: with formulas as with equations."""
    made = ist.Scene()
    rolling = made.add_body(
        name="rolling", shape=shapes.Sphere(0.5), position=(0, 0, 0.5), mass=1.0, velocity=(1, 0, 0, 0, 2, 0)
    )
    for name, shape, place in (
        ("floor", shapes.HalfSpace(normal=(0, 0, 1)), (0, 0, 0)),
        ("rock", shapes.Sphere(0.3), (1.0, 0.1, 0.3)),
    ):
        made.add_contact(made.add_fixed(name=name, shape=shape, position=place), rolling, friction=0.2)
    system, _ = made.build()
    assert len(system.groups) == 1
    runs = [
        ist.simulate(made, stepper, h=0.01, duration=0.5) for stepper in (ist.GeometricallyImplicit(), ist.ClosedFormGap())
    ]
    assert np.all(np.any(runs[0].contacts.normal_impulse > 0, axis=0))
    np.testing.assert_allclose(runs[1].position, runs[0].position, atol=1e-9)


def test_a_query_is_asked_of_the_pair_that_a_contact_is():
    ball, egg = SHAPES["ball"].shape_class, SHAPES["egg"].shape_class
    floor = shapes.HalfSpace(normal=(0, 0, 1)).shape_class
    pairs = [PairClass(floor, kind) for kind in (ball, egg)]
    pair = mixed(pairs)
    assert (pair.first, pair.second, pair.members) == (floor, Mixture((ball, egg)), tuple(pairs))
    find = query_of(
        pair, lambda member: lambda _, unknowns, first, second, length: unknowns + second.theta[0] + len(second.theta)
    )
    for shape in (SHAPES["ball"], SHAPES["egg"]):
        placed = shapes.closest_points.conditions.Placed(
            jnp.asarray(packed(pair.second, shape)), jnp.ones(1), jnp.zeros(3), jnp.eye(3)
        )
        np.testing.assert_array_equal(find(pair, jnp.zeros(6), placed, placed, 1.0), shape.theta[0] + len(shape.theta))


def test_another_method_takes_mixtures():
    names, stepper = ["ball", "egg"], ist.ConeComplementarity()
    runs = [ist.simulate(scene(own, sliding=True), stepper, h=0.01, duration=0.2) for own in (names, names[1:])]
    assert np.any(runs[1].contacts.normal_impulse > 0)
    np.testing.assert_allclose(runs[0].position[:, 1], runs[1].position[:, 0], atol=1e-9)


@pytest.mark.thorough
def test_parameters_of_shapes_in_mixtures_are_read_set_and_differentiated():
    """A ball at rest beside an egg rises by what its radius grows; a box and a cone keep theirs."""
    made = scene(("ball", "egg"), sliding=True)
    system, start = made.build()
    np.testing.assert_array_equal(parameters.read(system, start, "shape of egg"), SHAPES["egg"].theta)
    run = ist.simulate(made, ist.GeometricallyImplicit(), h=0.01, duration=0.02)
    found = ist.sensitivities(made, ist.GeometricallyImplicit(), run, ["shape of ball"])["shape of ball"]
    np.testing.assert_allclose(found.position[1:, :, 2, 0], [[1.0, 0.0]] * 2, rtol=0, atol=1e-8)
    system, start = scene(("box", "cone")).build()
    other, _ = parameters.changed(system, start, {"shape of box": [0.6, 0.5, 0.4], "shape of cone": 0.7})
    assert parameters.shape_class(other, "shape of cone") is WITH_FACES["cone"].shape_class
    np.testing.assert_array_equal(parameters.read(other, start, "shape of box"), [0.6, 0.5, 0.4])
    np.testing.assert_array_equal(parameters.read(other, start, "shape of cone"), [0.7, 0.7, 0.7])
    np.testing.assert_array_equal(
        parameters.read(other, start, "shape of floor"), parameters.read(system, start, "shape of floor")
    )


def test_derivatives_in_reverse_are_those_of_the_class_that_theta_numbers():
    """A half-space's normal would be the radius 0 of a sphere; what is not chosen has no share."""
    floor, ball = shapes.HalfSpace(normal=(0, 0, 1), offset=0.0), shapes.Sphere(0.5)
    mixture = Mixture((floor.shape_class, ball.shape_class))
    for shape in (floor, ball):
        theta, point = jnp.asarray(packed(mixture, shape)), jnp.array([0.0, 0.0, 0.7])
        for part in ("value", "gradient"):
            forward, back = (of(getattr(mixture.jet, part), (0, 1))(point, theta) for of in (jax.jacfwd, jax.jacrev))
            assert all(np.all(np.isfinite(own)) for own in back)
            for one, other in zip(forward, back, strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)
