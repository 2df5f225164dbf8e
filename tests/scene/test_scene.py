"""What a user can get wrong is refused with the argument, its value and a remedy; what is left out
comes from the shape."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper import FrictionEllipsoid, GeometricallyImplicit, Scene, load_scene, simulate
from implicit_stepper.implicit_euler import ncp

BALL, DISC, FLOOR = shapes.Sphere(0.5), shapes.Disc(0.5), shapes.HalfSpace(normal=(0, 0, 1))
TURN = np.array([0.5, 0.5, 0.5, 0.5])
NAN, ONE = float("nan"), np.float32(1)


def body(scene=None, **changed):
    """Adds a good moving ball, with some arguments changed."""
    good = {"name": "ball", "shape": BALL, "position": [0.0, 0.0, 1.0], "mass": 1.0}
    return (scene or Scene()).add_body(**{**good, **changed})


def fixed(scene=None, **changed):
    good = {"name": "floor", "shape": FLOOR}
    return (scene or Scene()).add_fixed(**{**good, **changed})


def planar(**changed):
    good = {"name": "disc", "shape": DISC, "position": [0.0, 1.0], "mass": 1.0}
    return Scene(dimension=2, gravity=(0.0, -9.81)).add_body(**{**good, **changed})


def ball_on_floor(**friction):
    scene = Scene()
    scene.add_contact(fixed(scene), body(scene), **friction)
    return scene


BAD_BODIES = {
    # mass and inertia
    "mass zero": (lambda: body(mass=0.0), ["`mass` = 0.0", "must be positive"]),
    "mass negative": (lambda: body(mass=-2.0), ["`mass` = -2.0", "must be positive"]),
    "mass nan": (lambda: body(mass=NAN), ["`mass`", "nan", "not finite"]),
    "mass an array": (lambda: body(mass=[1.0, 2.0]), ["`mass`", "(2,)"]),
    "mass text": (lambda: body(mass="heavy"), ["`mass`", "heavy"]),
    "mass missing": (lambda: body(mass=None), ["`mass` is missing", "or density"]),
    "mass float32": (lambda: body(mass=ONE), ["`mass` is float32", "give float64"]),
    "density and mass": (lambda: body(density=1.0), ["`density` = 1.0 together with `mass`", "give one or the other"]),
    "density and inertia": (lambda: body(mass=None, density=1.0, inertia=[1.0, 1.0, 1.0]), ["`density` = 1.0", "`inertia`"]),
    "density negative": (lambda: body(mass=None, density=-1.0), ["`density` = -1.0", "must be positive"]),
    "inertia triangle": (lambda: body(inertia=[1.0, 2.0, 3.1]), ["`inertia`", "1, 2, 3.1", "exceeds the sum of the others"]),
    "inertia ragged": (lambda: body(inertia=[[1.0], [1.0, 2.0]]), ["`inertia` = [[1.0], [1.0, 2.0]]", "(3,) or a matrix"]),
    "inertia not symmetric": (
        lambda: body(inertia=[[1.0, 0.1, 0], [0, 1, 0], [0, 0, 1]]),
        ["`inertia`", "0.1", "is not symmetric"],
    ),
    "inertia not positive": (lambda: body(inertia=[0.0, 1.0, 1.0]), ["`inertia`", "must be positive"]),
    "inertia indefinite": (
        lambda: body(inertia=[[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]),
        ["`inertia`", "principal moment -1", "must be positive"],
    ),
    "inertia nan": (lambda: body(inertia=[NAN, 1.0, 1.0]), ["`inertia`", "nan", "not finite"]),
    "inertia two numbers": (lambda: body(inertia=[1.0, 1.0]), ["`inertia` has shape (2,)", "(3,) or a matrix (3, 3)"]),
    "inertia float32": (lambda: body(inertia=np.ones(3, np.float32)), ["`inertia` is float32", "give float64"]),
    # poses and velocities
    "quaternion not unit": (lambda: body(quaternion=[1.0, 0.1, 0, 0]), ["`quaternion`", "1.00498756", "give a unit"]),
    "quaternion zero": (lambda: body(quaternion=[0.0, 0, 0, 0]), ["`quaternion`", "length 0", "give a unit quaternion"]),
    "quaternion nan": (lambda: body(quaternion=[1.0, NAN, 0, 0]), ["`quaternion`", "nan", "not finite"]),
    "quaternion short": (lambda: body(quaternion=[1.0, 0, 0]), ["`quaternion` has shape (3,)", "needs 4 numbers"]),
    "quaternion float32": (lambda: body(quaternion=TURN.astype(np.float32)), ["`quaternion` is float32", "give float64"]),
    "position nan": (lambda: body(position=[0.0, 0, NAN]), ["`position`", "nan", "not finite"]),
    "position inf": (lambda: body(position=[0.0, 0, np.inf]), ["`position`", "inf", "not finite"]),
    "position short": (lambda: body(position=[0.0, 1.0]), ["`position` has shape (2,)", "needs 3 numbers"]),
    "position float32": (lambda: body(position=np.zeros(3, np.float32)), ["`position` is float32", "give float64"]),
    "position complex": (lambda: body(position=[0, 0, 1j]), ["`position`", "3 real numbers"]),
    "position ragged": (lambda: body(position=[[1.0], [1.0, 2.0]]), ["`position`", "must be 3 real numbers"]),
    "velocity short": (lambda: body(velocity=[0.0, 0, 1]), ["`velocity` has shape (3,)", "needs 6 numbers"]),
    "velocity nan": (lambda: body(velocity=[NAN] * 6), ["`velocity`", "nan", "not finite"]),
    "velocity float32": (lambda: body(velocity=jnp.zeros(6, jnp.float32)), ["`velocity` is float32", "give float64"]),
    "fixed position nan": (lambda: fixed(position=[NAN, 0, 0]), ["`position`", "nan", "not finite"]),
    "fixed quaternion": (lambda: fixed(quaternion=[2.0, 0, 0, 0]), ["`quaternion`", "length 2", "give a unit quaternion"]),
    # loads
    "wrench short": (lambda: body(wrench=[0.0, 0, 1]), ["`wrench` has shape (3,)", "needs 6 numbers"]),
    "wrench nan": (lambda: body(wrench=[NAN] * 6), ["`wrench`", "nan", "not finite"]),
    "wrench function short": (
        lambda: body(wrench=lambda time, position, orientation, velocity: jnp.zeros(3)),
        ["`wrench(0, position, orientation, velocity)` has shape (3,)", "needs 6 numbers"],
    ),
    "wrench function of one argument": (
        lambda: body(wrench=lambda time: jnp.zeros(6)),
        ["`wrench`", "(time, position, orientation, velocity)"],
    ),
    "wrench function of numpy": (
        lambda: body(wrench=lambda time, position, orientation, velocity: np.append(np.sin(time), np.zeros(5))),
        ["`wrench`", "cannot be traced by JAX", "jax.numpy in place of numpy"],
    ),
    "wrench function that asks": (
        lambda: body(wrench=lambda time, position, orientation, velocity: jnp.ones(6) if time > 1 else jnp.zeros(6)),
        ["`wrench`", "cannot be traced by JAX", "jnp.where in place of `if`"],
    ),
    "wrench function nan": (
        lambda: body(wrench=lambda time, position, orientation, velocity: jnp.full(6, jnp.nan)),
        ["`wrench(0, position, orientation, velocity)`", "nan", "not finite"],
    ),
    "wrench function that raises": (
        lambda: body(wrench=lambda time, position, orientation, velocity: [1.0][3]),
        ["`wrench`", "it raises IndexError: list index out of range"],
    ),
    "wrench without a value at the start": (
        lambda: body(wrench=ist.Wrench(["1/t", 0, 0])),
        ["`wrench` = Wrench(force=('1/t'", "has a value at time 0"],
    ),
    # names and shapes
    "name empty": (lambda: body(name=""), ["`name` = ''", "must be a non-empty string"]),
    "name a number": (lambda: body(name=3), ["`name` = 3", "must be a non-empty string"]),
    "shape a string": (lambda: body(shape="ball"), ["`shape` = 'ball'", "shapes.Sphere(1.0)"]),
    "shape an expression": (lambda: body(shape=shapes.x), ["`shape` = x", "shapes.Sphere(1.0)"]),
    "shape a function": (lambda: fixed(shape=shapes.Sphere), ["`shape`", "shapes.Sphere(1.0)"]),
    # planar and spatial
    "planar shape in space": (lambda: body(shape=DISC), ["`shape` has dimension 2 in a scene of dimension 3"]),
    "spatial shape in the plane": (lambda: planar(shape=BALL), ["`shape` has dimension 3 in a scene of dimension 2"]),
    "angle in space": (lambda: body(angle=0.1), ["`angle` = 0.1 in a spatial scene", "give `quaternion`"]),
    "quaternion in the plane": (lambda: planar(quaternion=TURN), ["`quaternion`", "in a planar scene", "give `angle`"]),
    "spatial position in the plane": (lambda: planar(position=[0.0, 0, 0]), ["`position` has shape (3,)", "needs 2"]),
    "spatial velocity in the plane": (lambda: planar(velocity=np.zeros(6)), ["`velocity` has shape (6,)", "needs 3"]),
    "spatial inertia in the plane": (lambda: planar(inertia=[1.0, 1, 1]), ["`inertia` has shape (3,)", "needs 1 number"]),
    "planar inertia zero": (lambda: planar(inertia=0.0), ["`inertia` = 0.0", "must be positive"]),
    "planar angle nan": (lambda: planar(angle=NAN), ["`angle`", "nan", "not finite"]),
    "spatial gravity in the plane": (
        lambda: Scene(dimension=2, gravity=(0, 0, -9.81)),
        ["`gravity` has shape (3,)", "needs 2 numbers"],
    ),
    # the scene itself
    "dimension a float": (lambda: Scene(dimension=2.0), ["`dimension` = 2.0", "must be 2 or 3"]),
    "dimension": (lambda: Scene(dimension=4), ["`dimension` = 4", "must be 2 or 3"]),
    "faster than light": (lambda: body(Scene(), velocity=[1e300, 0, 0, 0, 0, 0]), ["`velocity` = ", "faster than light"]),
    "spins faster than light": (
        lambda: body(Scene(), velocity=[0, 0, 0, 0, 1e9, 0]),
        ["`velocity` = ", "turns the body at"],
    ),
    "gravity nan": (lambda: Scene(gravity=(0, 0, NAN)), ["`gravity`", "nan", "not finite"]),
    "gravity float32": (lambda: Scene(gravity=np.zeros(3, np.float32)), ["`gravity` is float32", "give float64"]),
    "length_scale": (lambda: Scene(length_scale=0.0), ["`length_scale` = 0.0", "must be positive"]),
    "acceleration_scale": (lambda: Scene(acceleration_scale=-1.0), ["`acceleration_scale` = -1.0", "must be positive"]),
    "empty": (lambda: Scene().build(), ["no moving body", "use add_body"]),
    "only fixed bodies": (lambda: (scene := Scene(), fixed(scene), scene.build()), ["no moving body", "use add_body"]),
}

BAD_FRICTION = {
    "mu negative": (lambda: FrictionEllipsoid(mu=-0.1), ["`mu` = -0.1", "is negative: use 0 to switch it off"]),
    "mu nan": (lambda: FrictionEllipsoid(mu=NAN), ["`mu` = nan", "must be one finite number"]),
    "mu text": (lambda: FrictionEllipsoid(mu="rough"), ["`mu` = 'rough'", "must be one finite number"]),
    "mu an array": (lambda: FrictionEllipsoid(mu=np.ones(2)), ["`mu`", "must be one finite number"]),
    "e_t negative": (lambda: FrictionEllipsoid(0.2, e_t=-1.0), ["`e_t` = -1.0", "is negative"]),
    "e_o negative": (lambda: FrictionEllipsoid(0.2, e_o=-1.0), ["`e_o` = -1.0", "is negative"]),
    "e_r negative": (lambda: FrictionEllipsoid(0.2, e_r=-0.3), ["`e_r` = -0.3", "is negative"]),
    "e_r infinite": (lambda: FrictionEllipsoid(0.2, e_r=np.inf), ["`e_r` = inf", "must be one finite number"]),
    "e_t without direction": (lambda: FrictionEllipsoid(0.2, e_t=2.0), ["`e_t` = 2.0 differs from `e_o`", "`direction`"]),
    "direction zero": (lambda: FrictionEllipsoid(0.2, direction=(0, 0, 0)), ["`direction`", "points nowhere"]),
    "direction short": (lambda: FrictionEllipsoid(0.2, direction=(1, 0)), ["`direction` has shape (2,)", "needs 3 numbers"]),
    "direction nan": (lambda: FrictionEllipsoid(0.2, direction=(NAN, 0, 1)), ["`direction`", "not finite"]),
    "contact mu negative": (lambda: ball_on_floor(friction=-0.1), ["`mu` = -0.1", "is negative"]),
    "contact friction text": (lambda: ball_on_floor(friction="rough"), ["`mu` = 'rough'", "must be one finite number"]),
}

BAD_RUNS = {
    "h zero": ({"h": 0.0}, ["`h` = 0.0", "must be positive"]),
    "h negative": ({"h": -0.01}, ["`h` = -0.01", "must be positive"]),
    "h nan": ({"h": NAN}, ["`h`", "nan", "not finite"]),
    "h an array": ({"h": [0.01, 0.02]}, ["`h` has shape (2,)"]),
    "duration": ({"duration": -1.0}, ["`duration` = -1.0", "must be positive"]),
    "duration infinite": ({"duration": np.inf}, ["`duration`", "inf", "not finite"]),
    "certificate_tolerance": ({"certificate_tolerance": 0.0}, ["`certificate_tolerance` = 0.0", "must be positive"]),
    "on_failure": ({"on_failure": "ignore"}, ["`on_failure` = 'ignore'", "must be 'raise' or 'return'"]),
    "stepper missing": ({"stepper": None}, ["`stepper` = None", "GeometricallyImplicit()"]),
    "stepper a class": ({"stepper": GeometricallyImplicit}, ["`stepper`", "GeometricallyImplicit()"]),
    "scene a system": ({"scene": ball_on_floor().build()[0]}, ["`scene`", "must be a Scene"]),
}

BAD_STEPPERS = {
    "tolerance": ({"tolerance": 0.0}, ["`tolerance` = 0.0", "must be positive"]),
    "tolerance nan": ({"tolerance": NAN}, ["`tolerance`", "nan", "not finite"]),
    "max_iterations": ({"max_iterations": 0}, ["`max_iterations` = 0", "must be a positive integer"]),
    "max_iterations a float": ({"max_iterations": 2.5}, ["`max_iterations` = 2.5", "must be a positive integer"]),
    "max_iterations a truth value": ({"max_iterations": True}, ["`max_iterations` = True", "must be a positive integer"]),
    "friction a list": ({"friction": ["projection"]}, ["`friction` = ['projection']", "projection, fischer-burmeister"]),
    "rounds": ({"rounds": -1}, ["`rounds` = -1", "must be a positive integer"]),
    "sweeps": ({"sweeps": 0}, ["`sweeps` = 0", "must be a positive integer"]),
    "friction": ({"friction": "coulomb"}, ["`friction` = 'coulomb'", "projection, fischer-burmeister"]),
}


def check_refusal(attempt, fragments):
    with pytest.raises(ValueError, match="`|no moving body") as caught:
        attempt()
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_body_or_scene_is_refused_with_a_remedy(name):
    check_refusal(*BAD_BODIES[name])


@pytest.mark.parametrize("name", BAD_FRICTION)
def test_bad_friction_is_refused_with_a_remedy(name):
    check_refusal(*BAD_FRICTION[name])


@pytest.mark.parametrize("name", BAD_RUNS)
def test_bad_simulate_argument_is_refused_with_a_remedy(name):
    changed, fragments = BAD_RUNS[name]
    arguments = {"scene": ball_on_floor(), "stepper": GeometricallyImplicit(), "h": 0.01, "duration": 0.1, **changed}
    check_refusal(lambda: simulate(**arguments), fragments)


@pytest.mark.parametrize("name", BAD_STEPPERS)
def test_bad_stepper_setting_is_refused_with_a_remedy(name):
    settings, fragments = BAD_STEPPERS[name]
    check_refusal(lambda: GeometricallyImplicit(**settings), fragments)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: Scene(gravty=(0, 0, -1)),
        lambda: body(masses=1.0),
        lambda: fixed(mass=1.0),
        lambda: ball_on_floor(mu=0.2),
        lambda: FrictionEllipsoid(mu=0.2, er=0.3),
        lambda: GeometricallyImplicit(tol=1e-9),
        lambda: GeometricallyImplicit(1e-9),
        lambda: simulate(ball_on_floor(), GeometricallyImplicit(), h=0.01, duration=0.1, steps=10),
    ],
)
def test_unknown_keyword_is_a_type_error(attempt):
    with pytest.raises(TypeError, match="argument"):
        attempt()


def test_duplicate_name_is_refused():
    scene = Scene()
    body(scene)
    for add in (body, fixed):
        check_refusal(lambda add=add: add(scene, name="ball"), ["`name` = 'ball'", "is taken", "every body needs its own"])


def test_a_body_is_not_called_as_a_part_of_another():
    """Neither could be asked for by its name."""
    two = [(shapes.Disc(0.1), ((0, 0), 0.0)), (shapes.Disc(0.1), ((0.15, 0), 0.0))]
    scene = ist.Scene(dimension=2)
    scene.add_body(name="bar", shapes=two, density=10.0, position=(0, 1))
    scene.add_fixed(name="bar[2]", shape=shapes.Disc(0.1))
    scene.add_fixed(name="peg[1]", shape=shapes.Disc(0.1))
    with pytest.raises(ValueError, match=r"`name` = 'bar\[1\]': 'bar\[1\]' is what a part of 'bar' is called"):
        scene.add_fixed(name="bar[1]", shape=shapes.Disc(0.1))
    with pytest.raises(ValueError, match=r"`name` = 'peg': 'peg\[1\]' is what a part of 'peg' is called"):
        scene.add_body(name="peg", shapes=two, density=10.0, position=(0, 1))


def test_refused_body_leaves_the_scene_as_it_was():
    scene = Scene()
    check_refusal(lambda: body(scene, mass=-1.0), ["`mass`"])
    check_refusal(lambda: body(scene, wrench=[1.0]), ["`wrench`"])
    assert body(scene).number == 0


def test_later_changes_to_a_users_arrays_do_not_reach_the_scene():
    scene, position = Scene(), np.array([0.0, 0.0, 1.0])
    body(scene, position=position)
    position[:] = 7.0
    np.testing.assert_array_equal(scene.build()[1].position, [[0.0, 0.0, 1.0]])


def test_contact_that_makes_no_sense_is_refused():
    scene, other = Scene(), Scene()
    ball, floor, wall = body(scene), fixed(scene), fixed(scene, name="wall")
    stranger, namesake = body(other, name="stranger"), fixed(other, name="ball")
    scene.add_contact(floor, ball)
    for first, second, fragments in (
        (ball, ball, ["`second` = 'ball'", "a contact is between two bodies"]),
        (floor, wall, ["'floor' and 'wall' are both fixed", "would change nothing"]),
        (floor, ball, ["'floor' and 'ball' are in contact already", "one contact serves a pair"]),
        (ball, floor, ["'ball' and 'floor' are in contact already", "one contact serves a pair"]),
        (stranger, ball, ["`first` = 'stranger'", "belongs to another scene"]),
        (floor, namesake, ["`second` = 'ball'", "belongs to another scene"]),
        ("floor", ball, ["`first` = 'floor'", "must be a handle returned by add_body or add_fixed"]),
        (floor, BALL, ["`second`", "must be a handle returned by add_body or add_fixed"]),
    ):
        with pytest.raises(ValueError, match="contact|scene|handle|touch") as caught:
            scene.add_contact(first, second)
        assert all(fragment in str(caught.value) for fragment in fragments)
    assert scene.build()[0].contact_names == (("floor", "ball"),)


def test_parts_of_two_bodies_touch_by_laws_of_their_own(tmp_path):
    """Also in a file, and in either order of the bodies; no two parts touch twice."""
    scene = Scene()
    floor, upright = fixed(scene), (1, 0, 0, 0)
    three = [(shapes.Sphere(1.0), ((x, 0, 0), upright)) for x in (0, 1, 2)]
    body_ = scene.add_body(name="three", shapes=three, position=(0, 0, 3), mass=1.0)
    assert scene.add_contact(floor, body_, friction=0.2, parts=[(0, 0), (0, 2)]) == (0, 1)
    assert scene.add_contact(body_, floor, friction=0.7, parts=np.array([[1, 0]])) == (2,)
    scene.save(tmp_path / "scene.toml")
    for made in (scene, load_scene(tmp_path / "scene.toml")):
        assert made.build()[0].contact_names == (("floor", "three[0]"), ("floor", "three[2]"), ("three[1]", "floor"))
        assert [contact.friction.mu for contact in made.part_contacts()] == [0.2, 0.2, 0.7]
    for parts, fragment in (
        ([(0, 1)], "one contact serves a pair"),
        ([(0, 3)], "not (0, 3)"),
        ([(0, 1), (0, 1)], "each once"),
        ([], "must list pairs"),
        ([1], "not 1"),
    ):
        with pytest.raises(ValueError, match="parts|contact") as caught:
            scene.add_contact(floor, body_, parts=parts)
        assert fragment in str(caught.value)


def test_shape_that_is_not_convex_never_reaches_a_scene():
    x, y, z = shapes.x, shapes.y, shapes.z
    with pytest.raises(shapes.ShapeError, match="not convex"):
        body(shape=shapes.ImplicitShape([x**2 + y**2 - z**2 - 1, z**2 - 4]))


def test_friction_may_be_switched_off():
    for off in (0, 0.0, FrictionEllipsoid(mu=0.0), FrictionEllipsoid(mu=0.2, e_r=0.0), FrictionEllipsoid(0.3, e_t=0, e_o=0)):
        system, _ = ball_on_floor(friction=off).build()
        assert system.contact_count == 1
    assert ball_on_floor().build()[0].groups[0].mu == [0.0]


def test_friction_direction_is_normalised():
    assert FrictionEllipsoid(0.2, e_t=2.0, direction=(0, 3, 4)).direction == (0, 0.6, 0.8)


def test_quaternion_within_a_millionth_of_unit_length_is_normalised():
    scene = Scene()
    body(scene, quaternion=TURN * (1 + 9e-7))
    np.testing.assert_allclose(scene.build()[1].orientation, [TURN], rtol=2 * np.finfo(float).eps)
    check_refusal(lambda: body(quaternion=TURN * (1 + 2e-6)), ["`quaternion`", "give a unit quaternion"])


def test_quaternions_of_parts_are_normalised_as_well():
    scene = Scene()
    box = shapes.Box((1.0, 1.0, 1.0))
    scene.add_body(name="box", shapes=[(box, ((0, 0, 0), (0.707107, 0.707107, 0, 0)))], density=1.0, position=(0, 0, 0))
    (part,) = scene.body_parts()[0]
    np.testing.assert_allclose(part.rotation @ part.rotation.T, np.eye(3), rtol=0, atol=1e-15)


# --- what follows from the shape
# -------------------------------------------------------------------

BALL_MASS = 1000 * 4 / 3 * np.pi * 0.5**3
CLOSED_FORMS = {  # shape, mass at a density of 1000, inertia per mass
    "ball": (BALL, BALL_MASS, np.diag([0.4 * 0.25] * 3)),
    "ellipsoid": (
        shapes.Ellipsoid((1.0, 2.0, 3.0)),
        1000 * 4 / 3 * np.pi * 6,
        np.diag([(4 + 9) / 5, (1 + 9) / 5, (1 + 4) / 5]),
    ),
    "disc": (DISC, 1000 * np.pi * 0.25, [[0.25 / 2]]),
    "ellipse": (shapes.Ellipse((1.0, 2.0)), 1000 * np.pi * 2, [[5 / 4]]),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_mass_and_inertia_follow_from_the_density(name):
    shape, mass, per_mass = CLOSED_FORMS[name]
    d = shape.dimension
    scene = Scene(dimension=d, gravity=np.zeros(d))
    scene.add_body(name="by density", shape=shape, position=np.zeros(d), density=1000.0)
    scene.add_body(name="by mass", shape=shape, position=np.zeros(d), mass=7.0)
    system, _ = scene.build()
    np.testing.assert_allclose(system.mass, [mass, 7.0], rtol=1e-14)
    np.testing.assert_allclose(system.inertia, [mass * np.array(per_mass), 7.0 * np.array(per_mass)], rtol=1e-14, atol=1e-12)


def test_the_centre_of_mass_turns_with_its_body():
    """A quarter turn about z takes a centre of mass on the body's x axis to the y axis; in the
    plane alike."""
    quarter = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
    scene = Scene()
    given = {"mass": 1.0, "inertia": (1.0, 1.0, 1.0), "centre_of_mass": (0.1, 0.0, 0.2)}
    scene.add_body(name="ball", shape=shapes.Sphere(1.0), position=(1, 2, 3), quaternion=quarter, **given)
    system, state = scene.build()
    np.testing.assert_allclose(state.position[0], [1.0, 2.1, 3.2], rtol=0, atol=1e-15)
    flat = Scene(dimension=2)
    given = {"mass": 1.0, "inertia": 1.0, "centre_of_mass": (0.1, 0.0)}
    flat.add_body(name="disc", shape=shapes.Disc(1.0), position=(1, 2), angle=np.pi / 2, **given)
    np.testing.assert_allclose(flat.build()[1].position[0], [1.0, 2.1], rtol=0, atol=1e-15)


def test_inertia_may_be_principal_moments_or_a_matrix():
    moments, matrix = [1.0, 2.0, 2.5], np.array([[1.0, 0.1, 0], [0.1, 2, 0], [0, 0, 2.5]])
    scene = Scene()
    body(scene, inertia=moments)
    body(scene, name="other", inertia=matrix)
    np.testing.assert_array_equal(scene.build()[0].inertia, [np.diag(moments), matrix])


def test_a_rod_may_reach_the_limit_of_the_triangle_inequality():
    scene = Scene()
    body(scene, inertia=[1.0, 1.0, 2.0])  # a flat disc
    np.testing.assert_array_equal(scene.build()[0].inertia, [np.diag([1.0, 1.0, 2.0])])


def test_defaults_are_at_rest_in_the_frame_of_the_world():
    scene = Scene()
    body(scene)
    fixed(scene)
    system, state = scene.build()
    np.testing.assert_array_equal(state.position, [[0, 0, 1]])
    np.testing.assert_array_equal(state.orientation, [[1, 0, 0, 0]])
    np.testing.assert_array_equal(state.velocity, np.zeros((1, 6)))
    np.testing.assert_array_equal(system.fixed_position, np.zeros((1, 3)))
    np.testing.assert_array_equal(system.gravity, [0, 0, -9.81])
    np.testing.assert_array_equal(system.wrench, np.zeros((1, 6)))
    assert all(np.asarray(leaf).dtype == np.float64 for leaf in dataclasses.astuple(state))


def test_scales_are_the_radius_of_gyration_and_the_load():
    scene = Scene(gravity=(0, 0, -2.0))
    body(scene, mass=2.0, wrench=[0, 6.0, 0, 0, 0, 0])
    system, _ = scene.build()
    # sqrt(trace I / m)
    np.testing.assert_allclose(system.length, np.sqrt(3 * 0.4 * 0.25), rtol=1e-15)
    np.testing.assert_allclose(system.acceleration, 6.0 / 2.0, rtol=1e-15)  # more than gravity


def test_scales_may_be_given():
    scene = Scene(length_scale=3.0, acceleration_scale=4.0)
    body(scene)
    system, _ = scene.build()
    assert (system.length, system.acceleration) == (3.0, 4.0)


# --- how contacts are grouped
# ----------------------------------------------------------------------


def test_contacts_are_grouped_by_the_classes_of_their_shapes():
    scene = Scene()
    floor = fixed(scene)
    small, large = body(scene, name="small"), body(scene, name="large", shape=shapes.Sphere(2.0))
    egg = body(scene, name="egg", shape=shapes.Ellipsoid((1, 2, 3)))
    numbers = [
        scene.add_contact(floor, small, friction=0.1),
        scene.add_contact(floor, egg, friction=0.2),
        scene.add_contact(floor, large, friction=0.3),
        scene.add_contact(small, large, friction=0.4),
        scene.add_contact(egg, small, friction=0.5),
    ]
    assert numbers == [(0,), (1,), (2,), (3,), (4,)]
    system, _ = scene.build()
    assert system.names == ("small", "large", "egg", "floor")
    assert system.contact_names == (
        ("floor", "small"), ("floor", "egg"), ("floor", "large"), ("small", "large"), ("egg", "small")
    )  # fmt: skip
    found = {tuple(kind.name for kind in (g.pair.first, g.pair.second)): g for g in system.groups}
    assert {key: (g.numbers, g.bodies, g.moving) for key, g in found.items()} == {
        ("HalfSpace", "Sphere"): ((0, 2), ((3, 0), (3, 1)), (False, True)),
        ("HalfSpace", "Ellipsoid"): ((1,), ((3, 2),), (False, True)),
        ("Sphere", "Sphere"): ((3,), ((0, 1),), (True, True)),
        ("Ellipsoid", "Sphere"): ((4,), ((2, 0),), (True, True)),
    }
    np.testing.assert_array_equal(found["HalfSpace", "Sphere"].mu, [0.1, 0.3])
    np.testing.assert_array_equal(found["HalfSpace", "Sphere"].theta_2, [[0.5], [2.0]])


def test_one_step_has_the_papers_number_of_unknowns():
    """Section V-C: 6 velocities and 2 x 11 contact unknowns for a sphere on two fixed spheres."""
    scene = Scene()
    ball = body(scene)
    for name, place in (("left", [0, 0, 0]), ("right", [0, 1, 0])):
        base = fixed(scene, name=name, shape=BALL, position=place)
        scene.add_contact(base, ball, friction=FrictionEllipsoid(0.2, e_r=0.3))
    assert ncp.layout(scene.build()[0]).size == 28


def test_planar_disc_on_a_half_plane_has_ten_unknowns():
    """3 velocities, 2 x 2 coordinates of the closest points, and p_n, p_t, sigma; section V-A
    leaves sigma out."""
    scene = Scene(dimension=2, gravity=(0.0, -9.81))
    disc = scene.add_body(name="disc", shape=DISC, position=[0.0, 0.5], mass=1.0)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    scene.add_contact(floor, disc, friction=0.4)
    assert ncp.layout(scene.build()[0]).size == 10


def test_single_precision_is_named_and_not_an_argument():
    """Switched off after import, JAX would make every array that passes through it float32."""
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(ValueError, match="`jax_enable_x64` was switched off after implicit_stepper was imported"):
            body(inertia=None, density=1000.0, mass=None)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_a_rule_has_no_first_body_that_friction_could_have_a_direction_in():
    scene = Scene()
    scene.add_body(name="box", shape=shapes.Box((1.0, 1.0, 1.0)), density=1.0, position=(0, 0, 1))
    with pytest.raises(ValueError, match="declare these contacts with `add_contact`"):
        scene.add_contacts(friction=FrictionEllipsoid(0.5, e_t=1.0, e_o=0.2, direction=(1, 0, 0)))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ist.Wrench(1.0), "`force` = 1.0 must be a list"),
        (lambda: ist.Wrench((0, 0, 1), None), "`moment` = None must be a list"),
        (lambda: ist.MovingPose("t"), "`position` = 't' must be a list"),
        (lambda: ist.Motion(None), "`formula`.* must be one finite number"),
        (lambda: ist.Motion(float("nan")), "`formula` = nan is not finite"),
        (lambda: ist.Motion(["t"]), "`formula`"),
        (lambda: ist.Tolerance("1"), "`relative`.* must be one finite number"),
        (lambda: ist.Tolerance([1e-6]), "`relative`"),
    ],
)
def test_what_is_no_formula_or_number_is_refused_by_name(make, says):
    with pytest.raises(ValueError, match=says):
        make()
    assert ist.Motion("2*t")(3.0) == 6.0
    assert ist.Motion(2)(3.0) == 2.0
