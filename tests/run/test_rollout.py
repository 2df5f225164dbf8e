"""Derivatives of steps against differences of the converged solver and closed forms, in forward and
reverse mode, and that rollouts are the steps of `simulate`."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.detection import closest_points
from implicit_stepper.model import rotation
from implicit_stepper.paper import scenes as paper
from implicit_stepper.run.parameters import changed

STEPPER = ist.GeometricallyImplicit()
# of central differences: their error is about WIDTH^2 times a third derivative, and 1e-13 / WIDTH
# of rounding
WIDTH = 1e-5
TURNED = (0.9, 0.3, 0.1, 0.3)
FRICTION = ist.FrictionEllipsoid(0.3, 1.0, 0.8, 0.05, direction=(1.0, 0.2, 0.0))


@dataclasses.dataclass(frozen=True)
class Case:
    """A scene, its step h [s], how many of them, and whether some need more than their warm
    start."""

    scene: ist.Scene
    h: float
    steps: int
    cuts: bool = False


def ball(
    velocity, *, height=0.25, friction=FRICTION, compliance=None, wrench=(0.3, 0.2, -0.1, 0.02, 0.01, 0.03),
    inertia=(0.03, 0.035, 0.04),
) -> Case:  # fmt: skip
    """An ellipsoidal ball above or on a plane."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    moving = scene.add_body(
        name="ball", shape=shapes.Ellipsoid((0.25, 0.25, 0.25)), mass=1.3, inertia=inertia, quaternion=TURNED,
        position=(0.0, 0.0, height), velocity=velocity, wrench=wrench,
    )  # fmt: skip
    scene.add_contact(floor, moving, friction=friction, compliance=compliance)
    return Case(scene, 0.01, 12, cuts=compliance is None)


def _box() -> Case:
    """A box that slides on a face, pushed above its middle: the centre of pressure moves."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    box = scene.add_body(
        name="box", shape=shapes.Box((0.5, 0.3, 0.2)), mass=1.0, inertia=(0.05, 0.1, 0.12), position=(0.0, 0.0, 0.2),
        velocity=(1.5, 0.4, 0.0, 0.0, 0.0, 0.7), wrench=(0.5, 0.3, -0.2, 0.1, -0.15, 0.05),
    )  # fmt: skip
    scene.add_contact(floor, box, friction=ist.FrictionEllipsoid(0.25, e_r=0.1))
    return Case(scene, 0.01, 8, cuts=True)


def _two() -> Case:
    """A ball that rolls on another, which rolls on a plane."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    lower = scene.add_body(
        name="lower", shape=shapes.Ellipsoid((0.5, 0.5, 0.5)), mass=2.0, inertia=(0.2, 0.2, 0.2), position=(0.0, 0.0, 0.5),
        velocity=(0.3, 0.1, 0.0, -0.2, 0.6, 0.1), quaternion=TURNED,
    )  # fmt: skip
    upper = scene.add_body(
        name="upper", shape=shapes.Ellipsoid((0.3, 0.3, 0.3)), mass=0.7, inertia=(0.02, 0.025, 0.03),
        position=(0.08, 0.0, 0.5 + np.sqrt(0.8**2 - 0.08**2)), velocity=(0.6, 0.2, 0.0, 0.0, 0.0, 0.3), quaternion=TURNED,
    )  # fmt: skip
    scene.add_contact(floor, lower, friction=0.8)
    scene.add_contact(lower, upper, friction=0.9)
    return Case(scene, 0.01, 12)


def cases() -> dict[str, Case]:
    """By what happens in them."""
    soft = ist.Compliance(stiffness=2e3, dissipation_time=0.02)
    stiff_friction = ist.FrictionEllipsoid(2.0, 1.0, 0.8, 0.05, direction=(1.0, 0.2, 0.0))
    return {
        "stick": ball((0.2, -0.3, 0.0, 1.2, 0.8, 0.0), friction=stiff_friction),
        "slip": ball((3.0, 1.0, 0.0, 0.5, 0.3, 2.0)),
        "slip to stick": ball((0.3, 0.1, 0.0, 0.5, 0.3, 2.0)),
        "separation": ball((1.0, 0.5, 0.0, 0.5, 0.3, 2.0), wrench=(0.3, 0.2, 14.0, 0.02, 0.01, 0.03)),
        "landing": ball((1.0, 0.5, -0.6, 0.5, 0.3, 2.0), height=0.29),
        "face contact": _box(),
        "compliance": ball((1.0, 0.5, -0.6, 0.5, 0.3, 2.0), height=0.27, compliance=soft),
        "two bodies rolling": _two(),
    }


def given(case: Case):
    """(system, start, h) as arrays."""
    return jax.tree.map(lambda a: jnp.asarray(a, float), (*case.scene.build(), case.h))


def along(arguments, name: str, change):
    """A direction of `arguments` in which the input `name` alone changes."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(arguments)
    return tree.unflatten([jnp.asarray(change) if jax.tree_util.keystr(p) == name else jnp.zeros_like(a) for p, a in leaves])


def changes(arguments) -> dict[str, Callable]:
    """For each input that has derivatives, a change of (system, start, h) as a function of a random
    generator."""
    system, start, h = arguments

    def changed(path, leaf, rng):
        direction = rng.uniform(-1, 1, np.shape(leaf)) * np.maximum(np.abs(leaf), 0.1)
        if path.endswith(".e"):  # zero switches an axis off
            return direction * (leaf != 0)
        if ".orientation" in path or "_orientation" in path:  # unit quaternions stay so
            return direction - leaf * np.sum(leaf * direction, axis=-1, keepdims=True)
        return direction + np.swapaxes(direction, -1, -2) if ".inertia" in path else direction

    found = {}
    units = (".length", ".acceleration", ".time", ".slope_", ".interior_")  # they change no root
    for path, leaf in jax.tree_util.tree_leaves_with_path(arguments):
        name = jax.tree_util.keystr(path)
        if np.size(leaf) and not any(unit in name for unit in units):
            found[name] = functools.partial(changed, name, leaf)
    return found


def end(steps: int, cuts: bool, closest, arguments):
    """The last state of `steps` from (system, start, h), as `vector`, and whether all were
    solved."""
    system, start, h = arguments
    memory = STEPPER.init(system, start, closest)
    if cuts:
        run = ist.rollout(system, STEPPER, h, steps, start=start, memory=memory)
        return vector(jax.tree.map(lambda a: a[-1], run.states)), jnp.all(run.result == ist.Result.SOLVED)

    def step(carry, _):
        result = STEPPER.step(system, *carry, h)
        return (result.state, result.memory), result.result

    (state, _), results = jax.lax.scan(step, (start, memory), None, length=steps)
    return vector(state), jnp.all(results == ist.Result.SOLVED)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _moved(steps: int, cuts: bool, closest, arguments, direction):
    return jax.jvp(functools.partial(end, steps, cuts, closest), (arguments,), (direction,), has_aux=True)


def moved(case: Case, arguments, direction=None):
    """`end`, and in between the change of its state in a direction of (system, start, h)."""
    direction = jax.tree.map(jnp.zeros_like, arguments) if direction is None else direction
    return _moved(case.steps, case.cuts, closest_points(*arguments[:2]), arguments, direction)


def vector(state):
    """A state's numbers (n,), without its time."""
    return jnp.concatenate([jnp.ravel(a) for a in (state.position, state.orientation, state.velocity)])


def _with_unit_quaternions(arguments):
    system, start, h = arguments
    system = dataclasses.replace(system, fixed_orientation=rotation.unit(system.fixed_orientation))
    return system, dataclasses.replace(start, orientation=rotation.unit(start.orientation)), h


def errors(case: Case) -> dict[str, float]:
    """Per input, the relative difference between derivative and central difference, both in one
    random direction."""
    arguments = given(case)
    rng, found = np.random.default_rng(0), {}
    for name, change in changes(arguments).items():
        direction = along(arguments, name, change(rng))
        _, ours, solved = moved(case, arguments, direction)
        assert solved
        ends = []
        for sign in (1, -1):
            nearby = jax.tree.map(lambda a, d, sign=sign: a + sign * WIDTH * d, arguments, direction)
            state, _, solved = moved(case, _with_unit_quaternions(nearby))
            assert solved
            ends.append(state)
        difference = (ends[0] - ends[1]) / (2 * WIDTH)
        # below .01, rounding leaves differences fewer than seven digits
        found[name] = float(jnp.linalg.norm(ours - difference) / jnp.maximum(jnp.linalg.norm(difference), 0.01))
    return found


CASES, G = cases(), 9.81


@pytest.mark.parametrize(
    "name",
    [
        n if n not in ("stick", "face contact", "two bodies rolling") else pytest.param(n, marks=pytest.mark.thorough)
        for n in CASES
    ],
)
def test_derivatives_are_those_of_the_converged_solver(name):
    """For every input that has derivatives, in a random direction of it; differences of the eighth
    digit."""
    found = errors(CASES[name])
    assert len(found) >= 13
    assert {input_: error for input_, error in found.items() if not error <= 1e-6} == {}


def _changed(velocity, input_, change, **scene):
    """The end state, and its change, of a round ball (13 numbers: position, quaternion, velocity)
    by one input."""
    inertia = 3 * (0.4 * 1.3 * 0.25**2,)
    case = ball(velocity, friction=0.3, wrench=np.zeros(6), inertia=inertia, **scene)
    arguments = given(case)
    state, change, solved = moved(case, arguments, along(arguments, input_, change))
    assert solved
    return state, change, case.h, case.steps


def test_derivatives_of_sliding_and_rolling_are_those_of_the_closed_forms():
    """While it slides, a ball loses mu g h a step; 2 v / (7 mu g) after it was pushed it rolls with
    5/7 v, whatever mu."""
    mu = "[0].groups[0].mu"
    _, change, h, n = _changed((3, 0, 0, 0, 0, 0), mu, [1.0])
    assert change[7] == pytest.approx(-G * n * h, abs=1e-9)
    assert change[0] == pytest.approx(-G * h**2 * n * (n + 1) / 2, abs=1e-9)
    assert change[11] == pytest.approx(G * n * h / (0.4 * 0.25), abs=1e-8)
    _, change, h, n = _changed((0.3, 0, 0, 0, 0, 0), mu, [1.0])
    assert np.abs(change[7:]).max() <= 1e-9
    state, change, *_ = _changed((0.3, 0, 0, 0, 0, 0), "[1].velocity", np.eye(6)[:1])
    assert state[7] == pytest.approx(0.3 * 5 / 7, abs=1e-12)
    assert change[7] == pytest.approx(5 / 7, abs=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("friction", ["projection", "fischer-burmeister"])
def test_what_slides_without_friction_has_a_derivative_by_it(friction):
    """v falls by mu g t, of a disc on a floor and of a cart on a rail, and the spin that drives the
    disc on by mu m g r t / I. Beside its rail, or on its way from it, the cart does not begin."""
    scene = ist.Scene(dimension=2, gravity=(0, -9.81))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    disc = {"shape": shapes.Disc(0.2), "mass": 1.0, "inertia": 0.02, "position": (0, 0.2), "velocity": (1, 0, 0.5)}
    scene.add_contact(scene.add_body(name="disc", **disc), floor)
    cart = scene.add_body(name="cart", shape=shapes.Disc(0.1), mass=2.0, position=(0, 1), velocity=(-1, 0, 0))
    rail = ist.Slider((0, 1), (1, 0), (0, 0), (1, 0), friction=ist.JointFriction(0.0))
    scene.add_joint(floor, cart, rail, name="rail")
    system, start = scene.build()
    stepper = ist.GeometricallyImplicit(friction=friction)

    def velocities(mu, lift, rise):
        own, begun = changed(system, start, {"mu": mu[:1], "mu of rail": mu[1]})
        beside, leaves = (
            start.position + jnp.array([[0, 0], [0, lift]]),
            start.velocity + jnp.array([[0, 0, 0], [0, rise, 0]]),
        )
        found = ist.rollout(own, stepper, 0.01, 3, start=dataclasses.replace(begun, position=beside, velocity=leaves))
        return found.states.velocity[-1], found

    slope = jax.jit(jax.jacfwd(velocities, has_aux=True))
    for lift, rise in ((0.01, 0.0), (0.0, 0.2)):
        _, torn = slope(jnp.zeros(2), lift, rise)
        assert np.all(torn.result == ist.Result.OPEN_JOINTS)
        assert np.all(np.isnan(torn.states.position[1:]))
    slopes, found = slope(jnp.zeros(2), 0.0, 0.0)
    assert np.all(found.result == ist.Result.SOLVED)
    slowed, t = np.zeros((2, 3, 2)), 0.03
    slowed[0, [0, 2], 0] = -9.81 * t, -9.81 * 0.2 * t / 0.02
    slowed[1, 0, 1] = 9.81 * t
    np.testing.assert_allclose(slopes, slowed, rtol=0, atol=1e-9)


def test_derivatives_of_flight_and_landing_are_those_of_the_closed_forms():
    """Implicit Euler falls g h^2 n (n + 1) / 2; where a ball has landed does not depend on how it
    fell; and one that falls without any slip does not stick to what is far below it."""
    _, change, h, n = _changed((1, 0, 0, 0, 0, 0), "[0].gravity", [0, 0, 1.0], height=1.0)
    assert change[2] == pytest.approx(h**2 * n * (n + 1) / 2, abs=1e-9)
    assert change[9] == pytest.approx(h * n, abs=1e-9)
    _, change, *_ = _changed((0, 0, 0, 0, 0, 0), "[1].velocity", np.eye(6)[:1], height=1.0)
    assert change[7:] == pytest.approx(np.eye(6)[0], abs=1e-12)
    _, change, *_ = _changed((0, 0, -0.5, 0, 0, 0), "[1].velocity", np.eye(6)[2:3], height=0.27)
    assert np.abs(change).max() <= 1e-9
    _, change, *_ = _changed((0, 0, -0.5, 0, 0, 0), "[0].groups[0].theta_2", [[0.0, 0.0, 0.0]], height=0.27)
    assert np.abs(change).max() == 0


def test_reverse_mode_and_second_derivatives():
    """The gradient is that of forward mode, its own derivative symmetric and that of
    differences."""
    case = CASES["slip to stick"]
    system, start, h = arguments = given(case)

    closest = closest_points(system, start)

    def loss(inputs):
        mu, velocity = inputs[0], inputs[1:].reshape(1, 6)
        group = system.groups[0]
        own = dataclasses.replace(system, groups=(dataclasses.replace(group, mu=mu[None]),))
        state, _ = end(case.steps, False, closest, (own, dataclasses.replace(start, velocity=velocity), h))
        return jnp.sum(state[7:] ** 2)

    @jax.jit
    def both(inputs):
        gradient = jax.grad(loss)
        return jax.jacfwd(lambda x: (gradient(x),) * 2, has_aux=True)(inputs)

    at = jnp.concatenate([system.groups[0].mu, start.velocity[0]])
    hessian, gradient = both(at)
    state, change, _ = moved(case, arguments, along(arguments, "[0].groups[0].mu", [1.0]))
    assert gradient[0] == pytest.approx(float(2 * jnp.dot(state[7:], change[7:])), abs=1e-10)
    assert np.abs(hessian - hessian.T).max() <= 1e-9 * np.abs(hessian).max()
    width = 1e-5
    for i in (0, 1, 5):
        ends = [both(at + sign * width * jnp.eye(7)[i])[1] for sign in (1, -1)]
        assert np.abs((ends[0] - ends[1]) / (2 * width) - hessian[i]).max() <= 1e-6 * np.abs(hessian).max()


def test_rollouts_are_the_steps_of_a_simulation_and_say_what_failed():
    case = CASES["landing"]
    system, start, h = given(case)
    state, _, solved = moved(case, (system, start, h))
    trajectory = ist.simulate(case.scene, STEPPER, h=case.h, duration=case.steps * case.h)
    assert solved
    assert np.abs(state - vector(trajectory.end)).max() <= 1e-11
    state, _, solved = moved(case, (system, dataclasses.replace(start, velocity=start.velocity * jnp.nan), h))
    assert not solved
    assert np.all(np.isnan(state))


def test_few_states_are_kept_of_what_has_no_contacts():
    """A disc that flies, whose record of contacts has a width of 0."""
    scene = ist.Scene(dimension=2, gravity=(0, -9.81))
    scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0), velocity=(1, 0, 0))
    system, start = scene.build()
    run = ist.rollout(system, STEPPER, 0.01, 5, start=start, economical=True)
    np.testing.assert_allclose(run.states.position[:, 0, 0], 0.01 * np.arange(6), rtol=1e-12)
    assert run.contacts.gap.shape == (5, 0)


@pytest.mark.thorough
def test_rollouts_of_several_stages_have_the_derivatives_of_the_closed_form():
    """A sphere's spin falls by mu e_r m g / I a second under a moment of mu e_r m g; what lands
    within a step is flagged."""
    stepper, h, steps, weight = ist.RadauContact(), 0.07, 3, 9.81
    system, start = paper.spin().build()

    def end(numbers):
        own, begun = changed(system, start, {"mu": numbers[:1]})
        velocity = jnp.array(start.velocity).at[0, 5].set(numbers[1])
        begun = dataclasses.replace(begun, velocity=velocity, position=start.position + numbers[2] * jnp.eye(3)[2])
        found = ist.rollout(own, stepper, h, steps, start=begun)
        return jnp.stack([found.states.velocity[-1, 0, 5], found.contacts.friction_impulse[-1, 0, 2]]), found

    both = jax.jit(jax.jacrev(end, has_aux=True))
    derivative, found = both(jnp.array([0.2, 1.962, 0.0]))
    assert np.all(found.result == ist.Result.SOLVED)
    assert np.max(found.violation) <= 1e-10
    np.testing.assert_allclose(found.states.velocity[:, 0, 5], 1.962 - 0.2 * weight * h * np.arange(steps + 1), rtol=1e-12)
    np.testing.assert_allclose(found.contacts.normal_impulse[:, 0], weight * h, rtol=1e-12)
    expected = [[-weight * steps * h, 1.0], [-0.4 * weight * h, 0.0]]
    np.testing.assert_allclose(derivative[:, :2], expected, rtol=1e-11, atol=1e-11)
    lands = both(jnp.array([0.2, 1.962, 0.01]))[1]
    assert lands.result[0] != ist.Result.SOLVED
    assert np.all(np.isnan(lands.states.velocity[1:]))


def test_rollouts_of_what_is_none_are_refused_by_name():
    scene = paper.disc()
    system, start = scene.build()
    two = jax.tree.map(lambda a: jnp.concatenate([a, a]) if jnp.ndim(a) else a, start)
    asked = {"system": (scene, start, None), "start": (system, None, None), "kappa": (system, start, "a")}
    asked |= {"start.position": (system, two, None)}
    for name, (of, begun, kappa) in asked.items():
        with pytest.raises(ValueError, match=f"`{name}`"):
            ist.rollout(of, ist.GeometricallyImplicit(), 0.01, 3, start=begun, kappa=kappa)


@pytest.mark.thorough
def test_limits_are_refused_in_steps_of_several_stages():
    """Which may meet one between two stages, from where they would rebound."""
    scene = ist.Scene(dimension=2)
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.1))
    arm = scene.add_body(name="arm", shape=shapes.Disc(0.1), mass=1.0, position=(1, 0))
    scene.add_limit(scene.add_joint(wall, arm, ist.BallJoint((0, 0), (-1, 0)), name="pin"), low=-1.0)
    system, start = scene.build()
    with pytest.raises(ValueError, match="'low limit of pin' may be met in one"):
        ist.rollout(system, ist.RadauContact(), 0.01, 3, start=start)


def test_bad_arguments_of_rollouts_are_named():
    system, start = paper.spin().build()
    with pytest.raises(ValueError, match="`stepper` = .* has no rollouts"):
        ist.rollout(system, ist.ClosedFormGap(), 0.01, 3, start=start)
    with pytest.raises(ValueError, match="`stepper` = .* smooths no contacts"):
        ist.rollout(system, ist.RadauContact(), 0.01, 3, start=start, kappa=0.1)
    with pytest.raises(ValueError, match=r"`kappa` = \[0.1\] must be in"):
        ist.rollout(system, ist.GeometricallyImplicit(), 0.01, 3, start=start, kappa=[0.1])
    with pytest.raises(ValueError, match="`steps`"):
        ist.rollout(system, ist.GeometricallyImplicit(), 0.01, 0, start=start)
    for h in (0.0, -0.01, jnp.nan):
        with pytest.raises(ValueError, match="`h` = "):
            ist.rollout(system, ist.GeometricallyImplicit(), h, 3, start=start)
