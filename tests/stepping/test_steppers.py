"""The stepper protocol by hand: init, step, a smaller h after a larger one, jit, vmap and many
bodies."""

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.detection import cold_closest
from implicit_stepper.paper import scenes
from implicit_stepper.runtime.compilation import jit

STEPPER = ist.GeometricallyImplicit()
BEGIN, STEP = jit(STEPPER.init), jit(STEPPER.step)


def test_steps_by_hand_are_the_simulation():
    system, state = jax.tree.map(jnp.asarray, scenes.spin().build())
    memory = BEGIN(system, state)
    trajectory = ist.simulate(scenes.spin(), STEPPER, h=0.07, duration=0.35)
    for k in range(5):
        result = STEP(system, state, memory, 0.07)
        assert result.result == ist.Result.SOLVED
        assert result.state.velocity == pytest.approx(trajectory.velocity[k + 1], abs=1e-12)
        state, memory = result.state, result.memory


def test_h_may_change_from_step_to_step():
    """The memory is in physical units: a fall in steps of 10, 5 and 1 ms is what implicit Euler
    gives by hand."""
    system, state = jax.tree.map(jnp.asarray, scenes.spin().build())
    z, v = 5.0, 0.0
    state = dataclasses.replace(state, position=state.position.at[0, 2].set(z), velocity=jnp.zeros((1, 6)))
    memory = BEGIN(system, state)
    for h in (0.01, 0.005, 0.001, 0.01):
        result = STEP(system, state, memory, h)
        v -= 9.81 * h
        z += v * h
        assert result.state.position[0, 2] == pytest.approx(z, abs=1e-12)
        state, memory = result.state, result.memory


def test_vmap_over_scenes_equals_one_at_a_time():
    system, state = jax.tree.map(jnp.asarray, scenes.spin().build())
    spins = jnp.linspace(0.0, 1.962, 8)

    def run(spin):
        start = dataclasses.replace(state, velocity=state.velocity.at[0, 5].set(spin))

        def step(carry, _):
            result = STEPPER.step(system, *carry, 0.07)
            return (result.state, result.memory), (result.state.velocity, result.result)

        return jax.lax.scan(step, (start, STEPPER.init(system, start)), None, length=10)[1]

    together, outcome = jit(jax.vmap(run))(spins)
    assert np.all(outcome == ist.Result.SOLVED)
    slope = 1.962 * 0.07  # closed form, see the spinning sphere of the paper
    by_hand = np.maximum(np.asarray(spins)[:, None] - slope * np.arange(1, 11), 0)
    assert np.abs(together[:, :, 0, 5] - by_hand).max() <= 1e-10


@pytest.mark.thorough
def test_bodies_in_a_row_pass_momentum_on():
    """Two free spheres in a head-on inelastic impact: momentum is kept, both end with the mean
    velocity, two groups."""
    scene = ist.Scene(gravity=(0, 0, 0))
    fast = scene.add_body(name="fast", shape=shapes.Sphere(1.0), mass=1.0, position=(0, 0, 0), velocity=(2, 0, 0, 0, 0, 0))
    slow = scene.add_body(name="slow", shape=shapes.Sphere(1.0), mass=3.0, position=(2.05, 0, 0))
    wall = scene.add_fixed(name="wall", shape=shapes.HalfSpace(normal=(0, 1, 0), offset=-5.0))
    scene.add_contact(fast, slow, friction=0.3)
    scene.add_contact(slow, wall)
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=0.1)
    momentum = trajectory.velocity[:, 0, :3] + 3 * trajectory.velocity[:, 1, :3]
    assert np.abs(momentum - [2, 0, 0]).max() <= 1e-11
    assert trajectory.velocity[-1, :, 0] == pytest.approx([0.5, 0.5], abs=1e-10)
    assert trajectory.contact_names == (("fast", "slow"), ("slow", "wall"))
    assert trajectory.contacts.gap[-1] == pytest.approx([0, 4.0], abs=1e-10)


def test_contacts_keep_the_order_in_which_they_were_added():
    """Groups of different shapes interleave: plane, sphere, plane; gaps are known by hand."""
    scene = ist.Scene(gravity=(0, 0, 0))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(1.0), mass=1.0, position=(0, 0, 0))
    low = scene.add_fixed(name="low", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=-3.0))
    other = scene.add_fixed(name="other", shape=shapes.Sphere(0.5), position=(5, 0, 0))
    side = scene.add_fixed(name="side", shape=shapes.HalfSpace(normal=(0, 1, 0), offset=-4.0))
    for body in (low, other, side):
        scene.add_contact(ball, body)
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=0.02)
    assert trajectory.contacts.gap[-1] == pytest.approx([2.0, 3.5, 3.0], abs=1e-12)
    assert trajectory.contacts.normal[-1] == pytest.approx(np.array([[0, 0, -1], [1, 0, 0], [0, -1, 0]]), abs=1e-12)


def test_a_scene_without_contacts_flies():
    scene = ist.Scene()
    scene.add_body(name="stone", shape=shapes.Sphere(1.0), mass=1.0, position=(0, 0, 0), velocity=(1, 0, 0, 0, 0, 0))
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=1.0)
    assert trajectory.velocity[-1, 0] == pytest.approx([1, 0, -9.81, 0, 0, 0], abs=1e-11)


def test_anisotropic_friction_turns_with_the_body():
    """e_t along body 1's x axis: a block that slides diagonally is braked e_t^2 : e_o^2 by the
    argmax of Chakraborty (4)."""
    scene = ist.Scene(length_scale=1.0)
    axes = ist.FrictionEllipsoid(mu=0.3, e_t=1.0, e_o=0.5, direction=(1, 0, 0))
    # a heavy spin inertia keeps the sphere from rolling, so that it slides like a block
    block = scene.add_body(
        name="block",
        shape=shapes.Sphere(1.0),
        mass=1.0,
        inertia=(1e9, 1e9, 1e9),
        position=(0, 0, 1),
        velocity=(2, 2, 0, 0, 0, 0),
    )
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contact(block, floor, friction=axes)
    h = 0.001
    trajectory = ist.simulate(scene, STEPPER, h=h, duration=h)
    v = trajectory.velocity[1, 0, :2]  # the law holds with the velocities at the end of the step
    slip = np.array([1.0, 0.25]) * v / np.linalg.norm(np.array([1.0, 0.5]) * v)
    assert trajectory.velocity[1, 0, :2] - 2 == pytest.approx(-0.3 * 9.81 * h * slip, abs=1e-11)


def _rolling():
    """A sphere on a plane, which every stepper takes: the system, and the state as a function of
    its speed [m/s]."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.5), mass=1.0, inertia=3 * (0.1,), position=(0, 0, 0.5))
    scene.add_contact(floor, ball, friction=0.3)
    system, state = jax.tree.map(jnp.asarray, scene.build())
    return system, lambda speed: dataclasses.replace(state, velocity=state.velocity.at[0, 0].set(speed))


EVERY = [kind() for name in ist.__all__ if isinstance(kind := getattr(ist, name), type) and hasattr(kind, "restarts")]
assert len(EVERY) == 7


WITHOUT = [stepper for stepper in EVERY if not isinstance(stepper, ist.GeometricallyImplicit)]


@pytest.mark.parametrize("stepper", WITHOUT, ids=lambda stepper: type(stepper).__name__)
def test_derivatives_of_a_step_are_refused(stepper):
    """They would be those of the solver's iterations."""
    system, at = _rolling()
    functions = [
        lambda x: stepper.init(system, at(x)),
        lambda x: stepper.step(system, at(x), None, 0.01),
        lambda x: stepper.step(dataclasses.replace(system, mass=x[None]), at(1.0), None, 0.01),
        lambda x: stepper.step(system, at(1.0), memory=None, h=x),
        jax.vmap(lambda x: stepper.step(system, at(x), None, 0.01), axis_size=1, in_axes=None),
    ]
    for function in functions:
        with pytest.raises(NotImplementedError, match="no derivatives yet.*finite differences.*stop_gradient"):
            jax.jvp(function, (1.0,), (1.0,))


def test_derivatives_of_a_step_are_refused_by_every_transformation():
    system, at = _rolling()
    stepper = ist.ClosedFormGap()
    memory = jax.eval_shape(lambda state: stepper.init(system, state, tuple(cold_closest(system, state))), at(1.0))
    memory, step = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), memory), jax.jit(stepper.step)

    def speed(start):
        return step(system, at(start), memory, 0.01).state.velocity[0, 0]

    for transformed in (jax.jacfwd, jax.jacrev, jax.grad, jax.hessian, lambda f: lambda x: jax.linearize(f, x)):
        with pytest.raises(NotImplementedError, match="no derivatives yet"):
            transformed(speed)(1.0)
    constant = jax.eval_shape(jax.grad(lambda x: x * speed(jax.lax.stop_gradient(x))), 1.0)
    assert constant.shape == ()


LANDING = [ist.ClosedFormGap(land=True) if stepper == ist.ClosedFormGap() else stepper for stepper in EVERY]
QUICK = (ist.GeometricallyImplicit, ist.Convex)


@pytest.mark.parametrize(
    "stepper",
    [
        pytest.param(own, id=type(own).__name__, marks=[] if isinstance(own, QUICK) else pytest.mark.thorough)
        for own in LANDING
    ],
)
def test_steps_under_shard_map_keep_their_types(stepper):
    """Loops that start with constants go on with what varies between devices; no devices are needed
    to see it."""
    system, at = _rolling()

    def run(speed):
        state = jax.tree.map(lambda leaf: leaf + 0 * speed, at(speed))
        start = state, stepper.init(system, state, tuple(cold_closest(system, state)))
        return jax.lax.scan(lambda at, _: _certified(stepper, system, *at), start, None, length=2)[0][0]

    by_hand = (jax.sharding.AxisType.Auto,)  # newer JAX else wants arguments that are shared out already
    over, mesh = jax.sharding.PartitionSpec("devices"), jax.sharding.AbstractMesh((2,), ("devices",), axis_types=by_hand)
    end = jax.eval_shape(jax.shard_map(jax.vmap(run), mesh=mesh, in_specs=over, out_specs=over), jnp.arange(4.0))
    assert end.velocity.shape == (4, 1, 6)


def _certified(stepper, system, state, memory):
    step = stepper.step(system, state, memory, 0.01)
    return (step.state, step.memory), stepper.certificate(system, state, step.state, step.contacts, 0.01)


TWO_DEVICES = """
import dataclasses, jax, jax.numpy as jnp, numpy as np
import implicit_stepper as ist
from implicit_stepper.paper import scenes

system, state = jax.tree.map(jnp.asarray, scenes.spin().build())
stepper = ist.GeometricallyImplicit()

def run(spin):
    start = dataclasses.replace(state, velocity=state.velocity.at[0, 5].set(spin))
    start = jax.tree.map(lambda leaf: leaf + 0 * spin, start)

    def step(carry, _):
        result = stepper.step(system, *carry, 0.07)
        return (result.state, result.memory), (result.state.velocity[0, 5], result.result)

    return jax.lax.scan(step, (start, stepper.init(system, start)), None, length=3)[1]

over, mesh = jax.sharding.PartitionSpec("devices"), jax.sharding.Mesh(jax.devices(), ("devices",))
run = jax.jit(jax.shard_map(jax.vmap(run), mesh=mesh, in_specs=over, out_specs=over))
spins, results = run(jnp.array([0.1, 0.2, 1.0, 1.9]))
assert len(spins.sharding.device_set) == 2, spins.sharding
assert np.all(results == ist.Result.SOLVED), results
print(*np.asarray(spins).ravel())
"""


@pytest.mark.thorough
def test_scenes_shared_out_over_two_devices_equal_the_closed_form():
    """In a process of its own, for the number of devices is fixed once JAX has started."""
    settings = os.environ | {"XLA_FLAGS": os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"}
    script = subprocess.run(
        [sys.executable, "-c", TWO_DEVICES], capture_output=True, text=True, env=settings, check=True, timeout=500
    )
    spins = np.array(script.stdout.split(), float).reshape(4, 3)
    by_hand = np.maximum(np.array([0.1, 0.2, 1.0, 1.9])[:, None] - 1.962 * 0.07 * np.arange(1, 4), 0)
    np.testing.assert_allclose(spins, by_hand, rtol=0, atol=1e-10)
