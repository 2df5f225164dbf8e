"""Scene files: the same scene to the bit, units, formulas; and whatever is wrong in one is refused
where it stands."""

import dataclasses
import random
import runpy
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import implicit_stepper as ist
import shapes
from implicit_stepper.run.origin import Origin
from implicit_stepper.run.scene_run import given as given_settings
from implicit_stepper.run.scene_run import stepper_of
from implicit_stepper.runtime.errors import NotInAFileError, RunError, SceneLimitError
from implicit_stepper.scene import contact_tables, tables, toml, toml_text
from implicit_stepper.scene.toml_text import written
from shapes.expressions import parse
from shapes.expressions.compile import compile_jet
from shapes.volume import quadrature

ROOT = Path(__file__).parents[2]
SCENES = ROOT / "examples" / "scenes"
sys.path.insert(0, str(ROOT / "benchmarks"))
import fuzz_scene_files  # noqa: E402

NOT_A_FILE = {"complementarity_problem"}  # the solver alone: it has no scene
# h and duration [s] of those that call no `simulate`
STEPPED = {"by_hand": (0.07, 0.7), "farthest_roller": (0.01, 1.5), "fit_restitution": (0.01, 1.1)}
# those that run in a function
CALLED = {
    "dominoes": lambda own: own["fall"](12, 0.4 * own["HEIGHT"]),
    "wall": lambda own: own["falls"](2, 4, 0.5),
}
BALL = '[[body]]\nname = "ball"\nmass = 1\nposition = [0, 0, 1]\nshape = { kind = "Sphere", radius = 1 }\n'
FLOOR = '[[body]]\nname = "floor"\nfixed = true\nshape = { kind = "HalfSpace", normal = [0, 0, 1] }\n'
TOUCH = '[[contact]]\nbodies = ["floor", "ball"]\n'


def scene_of(text):
    return toml.scene_of(toml.read(f"format = 1\n{text}"))


def assert_same(first, second, but=""):
    """Built alike, to the bit, `but` one field of the state."""
    one, (system, state) = first.build(), second.build()
    other = system, dataclasses.replace(state, **{but: getattr(one[1], but)}) if but else state
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for name in ("names", "contact_names", "joint_names"):
        assert getattr(one[0], name) == getattr(other[0], name)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def again(scene, tmp_path):
    scene.save(tmp_path / "scene.toml")
    found = ist.load_scene(tmp_path / "scene.toml")
    assert_same(scene, found)
    return found


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem not in NOT_A_FILE)
)
def test_every_example_is_a_scene_file_too(name, tmp_path, monkeypatch):
    """The same system, state and settings, to the bit, as the example has when it runs."""

    class Asked(Exception):
        pass

    def asked(scene, stepper, **settings):
        raise Asked(scene, stepper, settings)

    def built(scene):
        raise Asked(scene, ist.GeometricallyImplicit(), dict(zip(("h", "duration"), STEPPED[name], strict=True)))

    with monkeypatch.context() as patched:
        for call in ("simulate", "simulate_batch"):
            patched.setattr(ist, call, asked)
        if name in STEPPED:
            patched.setattr(ist.Scene, "build", built)
        with pytest.raises(Asked) as call:
            CALLED.get(name, dict)(runpy.run_path(str(ROOT / "examples" / f"{name}.py")))
    scene, stepper, settings = call.value.args
    for other in ("states", "start"):  # other starts in this scene
        settings.pop(other, None)
    stored = ist.load_scene(SCENES / f"{name}.toml")
    if name == "aimed_throw":  # whose throw is sought: tests/docs/test_examples.py compares it
        assert_same(scene, stored, but="velocity")
    else:
        assert_same(scene, stored)
    assert stepper_of(stored.run) == stepper
    assert {key: getattr(stored.run, key) for key in settings} == settings
    again(scene, tmp_path)


def test_a_file_that_is_read_back_gives_the_same_run(tmp_path):
    stored = ist.load_scene(SCENES / "spinning_sphere.toml")
    first, second = ist.run_scene(stored), ist.run_scene(again(stored, tmp_path))
    for name in ("time", "position", "orientation", "velocity"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(first.contacts.friction_impulse, second.contacts.friction_impulse)
    assert first.velocity[14, 0, 5] == pytest.approx(0.03924, abs=1e-10)


def test_what_scenes_can_hold_is_read_back_the_same(tmp_path):
    """Every class of shape, cut, rounded and with parameters of any sign; laws, compounds, loads,
    scales."""
    a, b, plain = sympy.Symbol("a", positive=True), sympy.Symbol("b", real=True), sympy.Symbol("plain")
    own = shapes.ImplicitShape(
        [(shapes.x / a) ** 4 + shapes.y**2 + sympy.sqrt(1 + shapes.z**2) * 0.1 + b + plain - sympy.Rational(1, 3)],
        parameters={a: 0.7, b: 1 / 3, plain: -0.2},
    )
    made = [
        shapes.Superquadric((0.3, 0.2, 0.1), epsilon=(0.3, 0.7)),
        shapes.Superquadric((0.3, 0.2, 0.1), epsilon=(1.3, 1.1)),
        shapes.Polytope(np.random.default_rng(0).normal(size=(9, 3))),
        shapes.Rounded(shapes.Box((0.1, 0.2, 1 / 3)), 0.01),
        shapes.Rounded(shapes.Capsule(0.1, 0.3), 0.01),
        shapes.cut(shapes.Sphere(0.5), normal=(0.6, 0, 0.8), offset=0.1),
        shapes.HalfSpace(normal=(0.6, 0.48, 0.64), offset=-1 / 3),
        shapes.Cone(0.3, 0.7),
        shapes.Wedge(1, 2, 3),
        own,
    ]
    scene = ist.Scene(gravity=(0.1, 0, -9.8), length_scale=0.3, acceleration_scale=7)
    law = ist.FrictionEllipsoid(0.3, e_t=1, e_o=0.5, e_r=0.01, direction=(1, 2, 3))
    bodies = [
        scene.add_body(name=f'körper "{i}"\n', shape=shape, mass=1 + i / 3, inertia=np.eye(3) + 0.1, position=(i / 3, 0, 7))
        for i, shape in enumerate(made)
    ]
    pair = scene.add_body(
        name="pair",
        shapes=[(made[0], ((0.1, 0, 0), (0.6, 0.8, 0, 0))), (shapes.Sphere(0.2), ((0, 0, 0), (1, 0, 0, 0)))],
        density=1 / 7,
        position=(0, 9, 0),
        velocity=np.arange(6) / 3,
        wrench=(1, 2, 3, 4, 5, 6),
    )
    scene.add_body(
        name="driven", shape=made[0], density=3.0, position=(0, -9, 0), quaternion=(0.1, 0.7, 0.1, 0.7),
        wrench=ist.Wrench(("k*sin(t) + 0.1", 2, "-vz"), (0, "step(t - 1)", "max(x, wx)"), {"k": 1 / 3}),
    )  # fmt: skip
    scene.add_contact(bodies[0], pair, friction=law, compliance=ist.Compliance(1e5 / 3, 0.01))
    scene.run = ist.RunSettings(duration=1 / 3, stepper="Convex", settings={"scheme": "euler", "beta": 0.3}, h=0.01)
    found = again(scene, tmp_path)
    assert found.run == scene.run
    assert written(found.description()) == (tmp_path / "scene.toml").read_text()
    plane = ist.Scene(dimension=2)
    plane.add_body(name="disc", shape=shapes.Ellipse((1 / 3, 2)), mass=1, inertia=2, position=(0, 1), angle=1 / 3)
    plane.add_fixed(name="hill", shape=shapes.Polygon([(0, 0), (1, 0), (0.3, -1)]), angle=0.1)
    assert again(plane, tmp_path).description() == plane.description()


def test_joints_are_read_back_the_same(tmp_path):
    """Every kind of joint, a spring between points, and a spring and a motion along what joints
    leave free."""
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1), position=(1 / 3, 0, 0))
    p, q, u = (0.1, 1 / 3, 0), (0.1 + 1 / 3, 1 / 3, 0), (0, 1, 2)
    kinds = {
        "ball": ist.BallJoint(q, p),
        "hinge": ist.Hinge(q, u, p, u),
        "slider": ist.Slider(np.array(q), u, p, u),
        "cylinder": ist.Cylindrical(q, u, p, u),
        "planar": ist.Planar(q, u, p, u),
        "universal": ist.Universal(q, (1, 0, 0), p, (0, 1, 0)),
        "fixed": ist.Fixed(q, p),
        "rod": ist.Distance(p, p, 1 / 3),
        "spring": ist.Spring(p, q, 100 / 3, 0.1, 0.7),
    }
    for name, joint in kinds.items():
        body = scene.add_body(name=name, shape=shapes.Sphere(0.1), density=1000, position=(0, 0, 0))
        if name == "rod":
            scene.add_joint(body, wall, joint)
        else:
            scene.add_joint(body, wall, joint, name=name)
    scene.add_spring("hinge", stiffness=10 / 3, damping=0.1, rest=0.2)
    scene.add_motion("cylinder", ist.Motion("k*sin(t)", {"k": 1 / 3}), coordinate=1, name="drive")
    found = again(scene, tmp_path)
    assert found.description().joints == scene.description().joints
    scene.add_motion("slider", lambda time: 0.1 * time)
    with pytest.raises(ValueError, match="the motion 'motion of slider' is a function, which no file can hold"):
        scene.save(tmp_path / "b.toml")


@pytest.mark.thorough
def test_a_pendulum_in_millimetres_swings():
    """A small swing on a ball joint, l = 1 m with a point-like bob: 2 pi sqrt(l / g) for a full
    turn, to h and the angle."""
    text = """units = "mm"
[[body]]
name = "bob"
shape = { kind = "Sphere", radius = 1 }
mass = 1
position = [10, 0, -1000]
[[body]]
name = "hook"
fixed = true
shape = { kind = "Sphere", radius = 1 }
position = [10, 0, 0]
[[joint]]
kind = "BallJoint"
bodies = ["hook", "bob"]
point_1 = [0, 0, 0]
point_2 = [0, 0, 1000]
"""
    scene = scene_of(text.replace("mass = 1", "mass = 1\nvelocity = [10, 0, 0]\nspin = [0, -0.01, 0]"))
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=1.0)
    swing = np.sqrt(9.81)
    exact = 0.01 + 0.01 / swing * np.sin(swing * run.time)
    np.testing.assert_allclose(run.body("bob").position[:, 0], exact, rtol=0, atol=1e-7)


WRONG_JOINTS = {
    'kind = "Hinge"\nbodies = ["ball", "floor"]': "lacks `point_1`",
    'kind = "Hinge"\nbodies = ["ball", "floor"]\npoint_2 = [0, 0, 0]': r"lacks `point_1`\.",
    'kind = "Hinge"\nbodies = ["ball", "floor"]\npont_1 = [0, 0, 0]\npoint_2 = [0, 0, 0]': (
        "lacks `point_1`, and has the key 'pont_1', which means nothing: did you mean `point_1`"
    ),
    'kind = "Rope"\nbodies = ["ball", "floor"]': "kind = 'Rope': the kinds are BallJoint",
    'kind = "BallJoint"\nbodies = ["ball"]\npoint_1 = [0, 0, 0]\npoint_2 = [0, 0, 0]': "must be two names",
    'kind = "BallJoint"\nbodies = ["ball", "roof"]\npoint_1 = [0, 0, 0]\npoint_2 = [0, 0, 0]': "names the body 'roof'",
    'kind = "BallJoint"\nbodies = ["ball", "floor"]\npoint_1 = [0, 0, 0]\npoint_2 = [0, 0, 0]': "is open by 1 m as it is",
    'kind = "spring along"\njoint = "a"\nstiffness = 1': "is no joint's name",
    'kind = "motion along"\njoint = "a"\nformula = "x"': "has the name 'x': known here are t",
}


@pytest.mark.parametrize("text", WRONG_JOINTS)
def test_a_wrong_joint_is_refused(text):
    with pytest.raises(ist.SceneFileError, match=WRONG_JOINTS[text]):
        scene_of(f"{BALL}{FLOOR}[[joint]]\n{text}\n")


def test_what_no_file_can_hold_is_refused(tmp_path):
    scene = ist.Scene()
    scene.add_body(name="ball", shape=shapes.Sphere(1), mass=1, position=(0, 0, 0), wrench=lambda *_: jnp.zeros(6))
    with pytest.raises(ValueError, match="the load on 'ball' is a function, which no file can hold: write it as formulas"):
        scene.save(tmp_path / "a.toml")
    odd = sympy.Symbol("odd", positive=True, integer=True)
    scene = ist.Scene()
    shape = shapes.ImplicitShape([shapes.x**2 + shapes.y**2 + shapes.z**2 - odd], parameters={odd: 1})
    scene.add_body(name="ball", shape=shape, mass=1, position=(0, 0, 0))
    with pytest.raises(ValueError, match="ImplicitShape cannot be written to a scene file"):
        scene.save(tmp_path / "a.toml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_numbers_of_numpy_and_jax_are_written_as_those_of_python(array, tmp_path):
    scene = scene_of(BALL)
    own = {"stages": array(2), "tolerance": array(1e-9)}
    scene.run = ist.RunSettings(duration=array(3), h=array(0.1)[()], switches=array([0.1, 0.2]), settings=own)
    plain = ist.RunSettings(3, None, {"stages": 2, "tolerance": 1e-9}, h=0.1, switches=(0.1, 0.2))
    assert scene.run == plain
    assert again(scene, tmp_path).run == plain
    assert "h = 0.1\n" in (tmp_path / "scene.toml").read_text()


@pytest.mark.parametrize("settings_", [{"settings": {"a": object()}}, {"settings": {"a": [1]}}])
def test_run_settings_that_no_file_can_hold_are_named(settings_, tmp_path):
    """And a run in memory, whose origin tells them, has none."""
    scene = scene_of(BALL)
    scene.run = ist.RunSettings(duration=1.0, **settings_)
    with pytest.raises(NotInAFileError, match=r"`settings\.a` = .* is nothing that a file can hold: give"):
        scene.save(tmp_path / "a.toml")
    assert Origin(scene.description(), {}, {}).text() is None


@pytest.mark.parametrize(
    ("settings_", "says"),
    [
        ({"h": -1}, "`h` = -1.0 must be positive"),
        ({"h": object()}, "`h` = .* must be one finite number"),
        ({"h": 1j}, "`h` = 1j must be one finite number"),
        ({"duration": None}, "`duration` = None must be one finite number"),
        ({"tol": "small"}, "`tol` = 'small' must be one finite number"),
        ({"certificate_tolerance": 0}, "`certificate_tolerance` = 0.0 must be positive"),
        ({"switches": 0.5}, "`switches` = 0.5 must be a list of times"),
        ({"switches": ["now"]}, "`switches` = .* must be 1 real numbers"),
        ({"stepper": ist.RadauContact()}, "`stepper` = RadauContact.* must be the name of a stepper as text"),
        ({"settings": 3}, "`settings` = 3 must be a dictionary"),
    ],
)
def test_run_settings_that_no_run_has_are_refused_at_once(settings_, says):
    with pytest.raises(ValueError, match=says):
        ist.RunSettings(**({"duration": 1.0} | settings_))


@pytest.mark.parametrize("settings_", [{"h": 0.01, "duration": 0.1}, "run", 0.1])
def test_what_is_no_run_settings_is_refused_as_it_is_set(settings_):
    scene = scene_of(BALL)
    with pytest.raises(RunError, match=r"`run` = .* must be None or an implicit_stepper.RunSettings"):
        scene.run = settings_
    assert scene.run is None


LARGE = {
    "MOST_BODIES": (2, "3 bodies, and a file at most 2", "`body` has 3 entries"),
    "MOST_CONTACTS": (1, "2 contacts, and a file at most 1", "`contact` has 2 entries"),
    "LONGEST": (99, "bytes as a file, and a file at most 99", "more than 99 bytes"),
    "MOST_NUMBERS": (3, "4 switches, and a file at most 3", "run.switches .* has more than 3 entries"),
}


@pytest.mark.parametrize("limit", LARGE)
def test_what_no_file_could_be_read_of_is_not_saved_and_a_run_has_it_nevertheless(limit, tmp_path, monkeypatch):
    """The limits of files that come from strangers."""
    egg = BALL.replace('"ball"', '"egg"').replace("[0, 0, 1]", "[3, 0, 1]")
    scene = scene_of(FLOOR + BALL + egg + TOUCH + TOUCH.replace("ball", "egg"))
    scene.run = ist.RunSettings(duration=1.0, tol=1e-6, switches=(0.1, 0.2, 0.3, 0.4))
    scene.save(tmp_path / "small.toml")
    text = (tmp_path / "small.toml").read_text()
    for module in (tables, toml, toml_text, contact_tables):
        monkeypatch.setattr(module, limit, LARGE[limit][0], raising=False)
    with pytest.raises(SceneLimitError, match=LARGE[limit][1]):
        scene.save(tmp_path / "large.toml")
    assert not (tmp_path / "large.toml").exists()
    with pytest.raises(SceneLimitError, match=LARGE[limit][2]):
        ist.load_scene(tmp_path / "small.toml")
    assert written(Origin(text, {}, {}).built().description()) == text


def test_units_are_converted_at_the_door():
    metric = scene_of(
        FLOOR + BALL.replace("[0, 0, 1]", "[0, 0, 0.07]").replace("= 1 }", "= 0.07 }") + "velocity = [0.3, 0, 0]"
    )
    text = FLOOR + BALL.replace("[0, 0, 1]", "[0, 0, 70]").replace("= 1 }", "= 70 }").replace("mass = 1", "mass = 1000")
    other = scene_of('units = { length = "mm", mass = "g" }\n' + text + "velocity = [300, 0, 0]")
    assert_same(metric, other)
    own = '{ kind = "ImplicitShape", inequalities = ["(x**2 + y**2 + z**2)/a**2 - 1"], parameters = { a = 2 } }'
    inches = scene_of('units = "in"\n' + BALL.replace('{ kind = "Sphere", radius = 1 }', own)).description().bodies[0].shape
    assert inches.value([0.0508, 0, 0])[0] == pytest.approx(0, abs=1e-15)  # two inches
    box = BALL.replace("mass = 1", "density = 1e-6").replace("radius = 1", "radius = 1000")
    assert scene_of('units = "mm"\n' + box).build()[0].mass[0] == pytest.approx(1000 * 4 / 3 * np.pi, rel=1e-14)
    with pytest.raises(ist.SceneFileError, match=r"units.length = 'furlong': known are m, cm, mm"):
        scene_of('units = "furlong"\n' + BALL)


def test_numbers_may_be_formulas_of_parameters():
    scene = scene_of(
        '[parameters]\nr = 0.5\nm = "4*r"\n' + BALL.replace("mass = 1", 'mass = "m"').replace("= 1 }", '= "r/2" }')
    )
    assert scene.build()[0].mass[0] == 2.0
    assert scene.description().bodies[0].shape.theta[0] == 0.25


def test_loads_are_formulas():
    """An oscillating force on a free body, against implicit Euler's sum by hand; and all variables
    and functions."""
    scene = scene_of("[scene]\ngravity = [0, 0, 0]\nacceleration_scale = 1\n" + BALL + 'force = ["2*cos(3*t)", 0, 0]\n')
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.1, duration=1.0)
    np.testing.assert_allclose(run.velocity[1:, 0, 0], np.cumsum(0.1 * 2 * np.cos(0.3 * np.arange(10))), rtol=0, atol=1e-10)
    load = ist.Wrench(("t*x", "min(y, z)", "max(vx, vy)"), ("vz*wx", "step(wy)", "abs(wz)*q"), {"q": 3})
    value = load(2.0, jnp.array([3.0, 5.0, 4.0]), jnp.zeros(4), jnp.array([1.0, 7.0, 2.0, 6.0, -0.1, -2.0]))
    np.testing.assert_array_equal(value, [6, 4, 7, 12, 0, 6])
    plane = ist.Wrench(("angle*w", "vx + vy"), ("x*y",))
    value = plane(0.0, jnp.array([2.0, 3.0]), jnp.array([5.0]), jnp.array([1.0, 2.0, 7.0]))
    np.testing.assert_array_equal(value, [35, 3, 6])
    assert load == ist.Wrench(("t*x", "min(y, z)", "max(vx, vy)"), ("vz*wx", "step(wy)", "abs(wz)*q"), {"q": 3.0})
    with pytest.raises(ValueError, match=r"`force`\[0\]: the formula 'u' has the name 'u': known here are t, x"):
        ist.Wrench(("u", 0, 0))
    with pytest.raises(ValueError, match="'t' cannot be a parameter"):
        ist.Wrench(("t", 0, 0), (), {"t": 1})
    with pytest.raises(ValueError, match="'lambda' is no name for a parameter"):
        ist.Wrench(("t", 0, 0), (), {"lambda": 1})


def test_choices_and_steps_of_numbers_and_parameters_are_numbers():
    """In loads, motions and poses; jax.numpy is given the same numbers."""
    load = ist.Wrench(("max(1, 2)*t", "min(q, pi)", "step(q - 1) + step(0)"), ("step(-q)", "t**max(1, 2)", 0), {"q": 0.5})
    zeros = jnp.zeros(3), jnp.zeros(4), jnp.zeros(6)
    np.testing.assert_array_equal(load(3.0, *zeros), [6, 0.5, 1, 0, 9, 0])
    motion = ist.Motion("min(t, max(q, 2)) + step(t - max(q, 1))", {"q": 1.5})
    for time in (1.0, 1.5, 4.0):
        assert float(motion(time)) == min(time, 2.0) + (time >= 1.5)
    pose = ist.MovingPose(position=("max(q, 2)*t", 0), angle="step(q)", parameters={"q": -1})
    position, angle = pose(2.0)
    np.testing.assert_array_equal([*position, angle], [4, 0, 0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("AbsPower(-3, 3)", 27.0),
        ("AbsPower(-2, 2.5)", 2**2.5),
        ("AbsPower(3, 2)", 9.0),
        ("AbsPower(2, -1)", 0.5),
        ("PositivePower(4, 1.5)", 8.0),
        ("PositivePower(-4, 1.5)", 0.0),
        ("PositivePower(0, 2)", 0.0),
        ("Norm(3, -4, 2)", 5.0),
        ("Norm(0, 0, 3)", 0.0),
        ("Norm(1, 1, 3)", 2 ** (1 / 3)),
    ],
)
def test_powers_and_norms_of_numbers_are_numbers(text, value):
    """As Python has them, and as they are where the numbers are coordinates."""
    assert float(parse.parse(text, {})) == pytest.approx(value, rel=1e-15)
    name, *numbers = text.replace("(", ",").replace(")", "").split(",")
    made = parse.FUNCTIONS[name][1](*(shapes.x, shapes.y)[: len(numbers) - 1], sympy.Float(numbers[-1]))
    place = np.array([float(n) for n in numbers[:-1]] + [0.0])[:2]
    compiled = compile_jet((made,), 2, (), backend="numpy").value(place, np.zeros(0))
    assert compiled[0] == pytest.approx(value, rel=1e-15, abs=1e-15)


@pytest.mark.parametrize("text", ["AbsPower(0, -1)", "Norm(1, 1, 0)", "AbsPower(1e300, 200)"])
def test_powers_without_a_finite_value_are_refused(text):
    with pytest.raises(shapes.ShapeError, match="formula"):
        parse.parse(text, {})


def test_all_pairs_that_are_not_listed():
    more = BALL.replace('"ball"', '"egg"').replace("[0, 0, 1]", "[3, 0, 1]")
    scene = scene_of(FLOOR + BALL + more + TOUCH + 'friction = 0.3\n[[contact]]\nbodies = "all"\nfriction = 0.1')
    pairs = [(c.first, c.second, c.friction.mu) for c in scene.description().contacts]
    assert pairs == [("floor", "ball", 0.3), ("floor", "egg", 0.1), ("ball", "egg", 0.1)]


def test_rules_keep_their_pairs_beside_all_others():
    """Those of their groups and those that they keep apart; the rest has the law of "all"."""
    names = ["a", "b", "c", "d", "e"]
    more = "".join(BALL.replace('"ball"', f'"{name}"').replace("[0", f"[{3 * i}") for i, name in enumerate(names))
    rules = """
    [[contact]]
    among = ["a", "b", "c"]
    apart = [["a", "b"], ["d", "e"]]
    friction = 0.3
    [[contact]]
    between = [["d"], ["a", "floor"]]
    friction = 0.4
    [[contact]]
    bodies = "all"
    friction = 0.1
    """
    system, _ = scene_of(FLOOR + more + rules).build()
    pairs = {}
    for group in system.groups:
        for number, mu in zip(group.numbers, group.mu, strict=True):
            pairs.setdefault(float(mu), set()).add("".join(sorted(name[0] for name in system.contact_names[number])))
    assert pairs == {0.3: {"ac", "bc"}, 0.4: {"ad", "df"}, 0.1: {"ae", "be", "ce", "bd", "cd", "af", "bf", "cf", "ef"}}


WRONG = {
    "": "the scene has no moving body|`format`",
    "x = ": "it is no TOML",
    "a = " + "[" * 5000: "it is no TOML",
    "a" + ".a" * 30 + " = 1": "a key of more than 20 parts",
    "a" + ".'a'" * 30 + " = 1": "a key of more than 20 parts",
    BALL + "colour = 3": r"body\[0\] \('ball'\) has the key 'colour', which means nothing: known here are name",
    BALL.replace("mass", "mas"): "has the key 'mas', which means nothing: did you mean `mass`",
    BALL + "[run]\nh = 0.1": "run lacks `duration`",
    BALL + "[run]\nh = 0.1\nduration = -1": "run.duration = -1 must be positive",
    BALL + "[run]\nduration = 1\ntol = 0": "run.tol = 0 must be positive",
    BALL + BALL: "the name 'ball' is taken",
    BALL + TOUCH: "a contact names the body 'floor', which there is not",
    BALL.replace("radius = 1", "radius = -1"): r"body\[0\] \('ball'\).shape: `radius` = -1.0 must be positive",
    BALL.replace("Sphere", "Ball"): "kind = 'Ball': the kinds are Sphere",
    BALL.replace("[0, 0, 1]", "[0, 0, nan]"): r"position\[2\] = nan must be a finite number",
    BALL.replace("[0, 0, 1]", "[0, 0]"): "`position` has shape",
    BALL.replace("position = [0, 0, 1]", ""): "lacks `position`",
    BALL + 'force = ["x.__class__", 0, 0]': "has Attribute",
    BALL + 'force = ["sin(t, t=2)", 0, 0]': "calls 'sin': the functions are abs",
    BALL + 'force = ["AbsPower(t, 3)", 0, 0]': "calls 'AbsPower': the functions are abs",
    BALL + 'force = ["sin(t)", 0]': "force needs 3 numbers or formulas",
    '[parameters]\n"__import__" = 1\n' + BALL: "is no name for a parameter",
    "[parameters]\npi = 1\n" + BALL: "'pi' cannot be a parameter",
    FLOOR + BALL + TOUCH + "friction = -1": r"contact\[0\].friction: `mu` = -1.0 is negative",
    FLOOR + BALL + TOUCH + "compliance = { stiffness = 0 }": "`stiffness` = 0.0 must be positive",
    BALL.replace("position", "positon"): "lacks `position`, and has the key 'positon', .* did you mean `position`",
    BALL + "[run]\nh = 0.1\ndurration = 1": "run lacks `duration`, and has the key 'durration', .* `duration`",
    BALL.replace("radius", "radus"): r"shape lacks `radius`, and has the key 'radus', .* `radius`",
    "format = 2": "it is no TOML|`format`",
}


def test_formulas_have_as_many_decimal_points_as_they_need():
    """Which chain no key."""
    scene = scene_of(BALL + f'force = ["{"+".join(["1.5*t"] * 24)}", 0, 0]')
    (body,) = scene.description().bodies
    assert body.wrench(2.0, np.zeros(3), np.array([1.0, 0, 0, 0]), np.zeros(6))[0] == 72.0


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_file_is_refused_where_it_is_wrong(text):
    with pytest.raises(ValueError, match=WRONG[text]):
        scene_of(text).build()


def test_what_else_is_wrong_is_said_before_volumes_are_found(monkeypatch):
    """A volume may take seconds: a joint that there is not is refused without it; and without the
    joint the file is a scene."""
    asked = []
    monkeypatch.setattr(quadrature, "integrate", lambda *shape: asked.append(shape) or shapes.Sphere(0.3).moments())
    egg = """
    [[body]]
    name = "egg"
    shape = { kind = "ImplicitShape", name = "egg", inequalities = ["16*x**4 + 4*y**2 + z**2 - 1"] }
    position = [0, 0, 1]
    """
    limit = '\n[[joint]]\nkind = "limit along"\njoint = "hinge"\nside = "low"\nbound = 0.0\n'
    with pytest.raises(ist.SceneFileError, match="'hinge' is no joint's name"):
        scene_of(f"{egg} density = 500.0{limit}")
    with pytest.raises(ist.SceneFileError, match="'egg': `density` = -2"):
        scene_of(f"{egg} density = -2{limit}")
    joint = '\n[[joint]]\nkind = "BallJoint"\nbodies = ["egg", "egg"]\nproject = true\n'
    joint += "point_1 = [0, 0, 0]\npoint_2 = [0, 0, 1]\n"
    with pytest.raises(ist.SceneFileError, match="'egg' is the first body too"):  # projected or not
        scene_of(f"{egg} density = 500.0{joint}")
    assert asked == []
    assert scene_of(f"{egg} density = 500.0").build()[0].mass[0] == pytest.approx(500 * 4 / 3 * np.pi * 0.3**3)
    assert len(asked) == 1


def test_a_joint_is_asked_whether_it_holds_when_masses_are_known(monkeypatch):
    """Points and bounds that meet but for rounding of 1e-13 m, far from the origin; and one that is
    open by 1e-6 m."""
    monkeypatch.setattr(quadrature, "integrate", lambda *shape: shapes.Sphere(0.3).moments())
    x = 987.3
    at = f"position = [{x}, 0, 0]\nquaternion = [0.8, 0, 0.6, 0]\n"  # turns x to (.28, 0, -.96)
    egg = '[[body]]\nname = "egg"\ndensity = 500\n' + at
    egg += 'shape = { kind = "ImplicitShape", name = "egg", inequalities = ["16*x**4 + 4*y**2 + z**2 - 1"] }\n'
    post = f'[[body]]\nname = "post"\nfixed = true\nshape = {{ kind = "Sphere", radius = 0.1 }}\nposition = [{x}, 0, 0]\n'
    joint = '[[joint]]\nkind = "Slider"\nname = "rail"\nbodies = ["post", "egg"]\npoint_1 = [{0}, 0, -24]\n'
    joint += "axis_1 = [0.28, 0, -0.96]\npoint_2 = [25, 0, 0]\naxis_2 = [1, 0, 0]\n"
    limit = '[[joint]]\nkind = "limit along"\njoint = "rail"\nside = "low"\nbound = {0}\n'
    system, _ = scene_of(egg + post + joint.format(7) + limit.format(1e-13)).build()
    assert system.joint_names == ("rail", "low limit of rail")
    open_by = (7 + 1e-6, 0.0, "'rail' is open by 9.6e-07 m"), (7, 1e-6, "'low limit of rail' is open by 1e-06")
    for place, bound, told in open_by:
        with pytest.raises(ist.SceneFileError, match=told):
            scene_of(egg + post + joint.format(place) + limit.format(bound))


def test_files_of_other_kinds_are_refused_by_name(tmp_path):
    for content, says in (
        (b"\xff\xfe", "it is not text in UTF-8"),
        (b"format = 7", "`format` = 7"),
        (b"format = true", "`format` = True"),
        (b"format = 1.0", "`format` = 1.0"),
        (b"#" * 600_000, "bytes"),
    ):
        (tmp_path / "a.toml").write_bytes(content)
        with pytest.raises(ist.SceneFileError, match=rf"a.toml'.*{says}"):
            ist.load_scene(tmp_path / "a.toml")
    with pytest.raises(FileNotFoundError):
        ist.load_scene(tmp_path / "none.toml")


def test_a_file_may_begin_with_the_mark_that_windows_writes(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(f"format = 1\n{BALL}", encoding="utf-8-sig")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert_same(ist.load_scene(path), scene_of(BALL))


def test_run_settings_are_replaced_and_checked():
    scene = scene_of(BALL)
    with pytest.raises(ValueError, match="the scene has no run settings: give `duration`"):
        ist.run_scene(scene)
    scene.run = ist.RunSettings(duration=1.0, stepper="RadauContact", settings={"stages": 2}, tol=1e-6, switches=(0.5,))
    assert given_settings(scene, h=0.1) == ist.RunSettings(1.0, "RadauContact", {"stages": 2}, h=0.1)
    assert given_settings(scene, stepper="Convex", h=0.1).settings == {}
    assert stepper_of(scene.run) == ist.RadauContact(stages=2)
    scene.run = ist.RunSettings(duration=1.0, h=0.1)
    assert stepper_of(given_settings(scene, tol=1e-6)) == ist.RadauContact()
    with pytest.raises(ValueError, match="GeometricallyImplicit has no setting 'speed': it has tolerance"):
        stepper_of(ist.RunSettings(1.0, settings={"speed": 1}))
    with pytest.raises(ValueError, match="`stepper` = 'Euler': there are GeometricallyImplicit"):
        stepper_of(ist.RunSettings(1.0, "Euler"))


def test_mutated_files_are_a_scene_or_a_clean_error():
    """A slice of benchmarks/fuzz_scene_files.py, whose whole run stands in docs/scene-files.md."""
    rng, texts = random.Random(7), [path.read_text() for path in fuzz_scene_files.SCENES]
    made = [
        *(fuzz_scene_files.mutated(rng.choice(texts), rng) for _ in range(180)),
        *(fuzz_scene_files.made(rng) for _ in range(50)),
    ]
    found = [fuzz_scene_files.outcome(text) for text in made]
    assert set(found) == {"scene", "refused"}


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(fuzz_scene_files.files())
def test_files_that_hypothesis_chooses_are_a_scene_or_a_clean_error(text):
    assert fuzz_scene_files.outcome(text) in ("scene", "refused")


@given(st.text(max_size=60))
@example("__import__('os').system('true')")
@example("(10**200)**200")
@example("9**9**9**9")
@example("x" + "**2" * 50)
@example("(" * 150 + "x")
@example("log(-1) + exp(1e9)")
@example("x*(9**99 - 10**200)**(1/3)")
@example("\x00")
def test_any_text_is_a_formula_or_a_shape_error(text):
    try:
        found = parse.parse(text, {"x": shapes.x})
    except shapes.ShapeError:
        return
    assert isinstance(found, sympy.Expr)


_leaves = st.sampled_from(["x", "y", "a", "2", "0.1", "1/3", "3.7e-5", "pi"])
_formulas = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", " - ", "*"]), inner).map(lambda t: f"({''.join(t)})"),
        st.tuples(inner, st.sampled_from(["2", "3", "0.5", "(-1)"])).map(lambda t: f"({t[0]} + 7)**{t[1]}"),
        st.tuples(st.sampled_from(["sqrt", "exp", "cos"]), inner).map(lambda t: f"{t[0]}({t[1]} + 9)"),
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(_formulas)
def test_formulas_mean_what_python_means_and_are_written_back(text):
    """Against Python's own arithmetic; and `written` is read as the same expression."""
    names = {"x": shapes.x, "y": shapes.y, "a": sympy.Symbol("a", positive=True)}
    try:
        found = parse.parse(text, names)
    except shapes.ShapeError:
        return  # a constant out of range
    assert parse.parse(parse.written(found), names) == found
    values = {"x": 0.3, "y": 1.7, "a": 0.9}
    plain = eval(text, {"__builtins__": {}, "pi": np.pi, "sqrt": np.sqrt, "exp": np.exp, "cos": np.cos}, values)
    if np.isfinite(plain) and abs(plain) < 1e12:
        ours = float(found.subs({names[k]: v for k, v in values.items()}))
        assert ours == pytest.approx(float(plain), rel=1e-6, abs=1e-6)


def test_settings_stay_with_the_stepper_that_is_meant():
    """Also where the file does not name it."""
    scene = ist.Scene()
    scene.run = ist.RunSettings(duration=1.0, tol=1e-8, settings={"stages": 2})
    assert stepper_of(given_settings(scene, stepper="RadauContact")) == ist.RadauContact(stages=2)
    assert stepper_of(given_settings(scene, h=0.01)) == ist.GeometricallyImplicit()


@pytest.mark.parametrize(
    ("written", "law"),
    [("0.5", ist.Newton(0.5)), ("{ newton = 0.5 }", ist.Newton(0.5)), ("{ poisson = 0.5 }", ist.Poisson(0.5))],
)
def test_laws_of_impact_have_names(written, law, tmp_path):
    path = tmp_path / "scene.toml"
    text = """format = 1
[scene]
dimension = 2
[[body]]
name = "floor"
fixed = true
shape = { kind = "HalfPlane", normal = [0, 1] }
[[body]]
name = "disc"
shape = { kind = "Disc", radius = 0.1 }
mass = 1.0
position = [0, 1]
[[contact]]
bodies = ["floor", "disc"]
restitution = %s
"""
    path.write_text(text % written)
    assert ist.load_scene(path).part_contacts()[0].restitution == law
    path.write_text(text % "{ newton = 0.5, poisson = 0.5 }")
    with pytest.raises(ValueError, match="must have one of `newton` and `poisson`"):
        ist.load_scene(path)


def test_joints_of_a_file_are_in_the_order_of_the_scene(tmp_path):
    """Those that drive bodies come first, whatever was added first."""
    scene = ist.Scene(dimension=2)
    disc = {"shape": shapes.Disc(0.1), "mass": 1.0}
    a, b = (scene.add_body(name=name, position=(x, 0), **disc) for name, x in (("a", 0), ("b", 1)))
    scene.add_joint(a, b, ist.BallJoint((1, 0), (0, 0)), name="pin")
    scene.add_moving(name="plate", pose=ist.MovingPose(position=("t", "0"), angle="0"), **disc)
    scene.save(tmp_path / "scene.toml")
    orders = [made.build()[0].joint_names for made in (scene, ist.load_scene(tmp_path / "scene.toml"))]
    assert orders == [("drive of plate", "pin")] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[contact]]\namong = "all"\nparts = [[0, 0]]', "parts stands beside groups of bodies"),
        (
            '[[joint]]\nkind = "limit along"\njoint = "pin"\nside = "low"\nbound = 0\nname = "stop"',
            "name = 'stop': a limit is called 'low limit of pin'",
        ),
    ],
)
def test_what_would_be_left_out_is_refused(text, message, tmp_path):
    path = tmp_path / "scene.toml"
    path.write_text(f"format = 1\n[scene]\ndimension = 2\n{text}\n")
    with pytest.raises(ValueError, match=message):
        ist.load_scene(path)
