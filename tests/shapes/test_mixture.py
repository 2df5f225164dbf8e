"""Contacts of several smooth classes compiled as one: the same numbers as each class alone."""

import jax
import jax.numpy as jnp
import numpy as np

import implicit_stepper as ist
import shapes
from shapes.closest_points.mixture import Mixture, mixed, packed, query_of

SHAPES = {
    "ball": shapes.Sphere(0.5),
    "egg": shapes.Ellipsoid((0.5, 0.4, 0.35)),
    "round box": shapes.Superquadric((0.5, 0.5, 0.5), epsilon=(0.8, 0.8)),
    "rounded ball": shapes.Rounded(shapes.Ellipsoid((0.4, 0.3, 0.3)), 0.1),
}


def scene(names, sliding=False):
    """Bodies thrown on a floor, or sliding on it, 3 m apart."""
    made = ist.Scene()
    floor = made.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    for name in names:
        place = 3.0 * list(SHAPES).index(name)
        thrown = made.add_body(
            name=name, shape=SHAPES[name], mass=1.0, inertia=(0.1, 0.12, 0.11),
            position=(place, 0, SHAPES[name].theta[-1] if sliding else 0.6),
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


def test_bodies_of_four_classes_make_one_group_and_move_as_alone():
    together = scene(SHAPES)
    system, _ = together.build()
    assert len(system.groups) == 1
    run = ist.simulate(together, ist.GeometricallyImplicit(), h=0.01, duration=0.3)
    number, name = 3, "rounded ball"
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
    pairs = [shapes.closest_points.conditions.PairClass(floor, kind) for kind in (ball, egg)]
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
