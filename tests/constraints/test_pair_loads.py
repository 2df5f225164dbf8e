"""Loads between two bodies: against the library's own spring and an integrator of its own, and what
is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import implicit_stepper as ist
import shapes
from implicit_stepper.model import bodies
from implicit_stepper.stepping.loop import certificates

MASSES, STIFF, DAMPS, CUBIC = np.array([1.0, 3.0]), 40.0, 0.7, 90.0


def linear(one, other, time):
    """A spring of no length and a damper between the centres; body 1 carries the damper round."""
    away = other[0] - one[0]
    rate = other[2][:2] - one[2][:2] - one[2][2] * jnp.stack([-away[1], away[0]])
    return jnp.append(-STIFF * away - DAMPS * rate, 0.0)


def cubic(one, other, time):
    """A spring that is stiffer the longer it is."""
    away = other[0] - one[0]
    return jnp.append(-CUBIC * jnp.sum(away**2) * away, 0.0)


def scene(joint):
    made = ist.Scene(dimension=2, gravity=(0, 0), length_scale=0.3, acceleration_scale=10.0)
    first = made.add_body(name="first", shape=shapes.Disc(0.1), mass=MASSES[0], position=(0, 0), velocity=(0, 1, 2))
    second = made.add_body(name="second", shape=shapes.Disc(0.1), mass=MASSES[1], position=(0.5, 0), velocity=(0.3, 0, -1))
    made.add_joint(first, second, joint, name="pull")
    return made


@pytest.mark.parametrize(
    "stepper", [ist.GeometricallyImplicit(), pytest.param(ist.RadauContact(), marks=pytest.mark.thorough)]
)
def test_a_linear_one_is_the_spring_of_the_library(stepper):
    own, spring = (
        ist.simulate(scene(joint), stepper, h=0.05, duration=1.0)
        for joint in (ist.PairLoad(linear), ist.Spring((0, 0), (0, 0), stiffness=STIFF, damping=DAMPS))
    )
    np.testing.assert_allclose(own.position, spring.position, rtol=0, atol=1e-11)
    np.testing.assert_allclose(own.velocity, spring.velocity, rtol=0, atol=1e-9)


def test_one_that_is_not_linear_against_an_integrator():
    run = ist.simulate(scene(ist.PairLoad(cubic)), ist.RadauContact(), tol=1e-9, duration=2.0)

    def moves(time, y):
        away = y[2:4] - y[:2]
        force = -CUBIC * away @ away * away
        return np.concatenate([y[4:], -force / MASSES[0], force / MASSES[1]])

    begun = [0, 0, 0.5, 0, 0, 1, 0.3, 0]
    exact = solve_ivp(moves, (0, 2.0), begun, rtol=1e-12, atol=1e-13).y[:, -1]
    np.testing.assert_allclose(run.position[-1].reshape(-1), exact[:4], rtol=0, atol=1e-8)
    momenta = np.einsum("b,tbi->ti", MASSES, run.velocity[..., :2])
    np.testing.assert_allclose(momenta, momenta[:1] + np.zeros_like(momenta), rtol=0, atol=1e-12)


def test_a_stiff_one_needs_no_small_steps():
    """A damper of 10^6 N s/m makes the bodies move as one within one step of 50 ms."""

    def damper(one, other, time):
        return jnp.append(-1e6 * (other[2][:2] - one[2][:2]), 0.0)

    run = ist.simulate(scene(ist.PairLoad(damper)), ist.GeometricallyImplicit(), h=0.05, duration=0.5)
    together = MASSES @ np.array([[0, 1], [0.3, 0]]) / np.sum(MASSES)
    np.testing.assert_allclose(run.velocity[1:, :, :2], np.broadcast_to(together, (10, 2, 2)), rtol=0, atol=1e-4)


def test_its_force_is_certified():
    made, stepper, h = scene(ist.PairLoad(linear)), ist.GeometricallyImplicit(), 0.05
    run = ist.simulate(made, stepper, h=h, duration=0.2)
    system, _ = made.build()
    states = bodies.State(run.time, run.position, run.orientation, run.velocity)
    first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (0, slice(1, None)))
    for change in (0.0, 1e-6):
        joints = dataclasses.replace(run.joints, multipliers=run.joints.multipliers + change)
        lies = dataclasses.replace(run.contacts, joints=joints)
        found = certificates(stepper, system, first, ends, lies, np.full(len(run), h))
        for name in ("closure", "reaction"):
            assert (np.min(found[name]) > 1e-8) == bool(change), name


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'pull' is a PairLoad of a function of yours, which no file can hold"):
        scene(ist.PairLoad(linear)).save(tmp_path / "scene.toml")
    for load, told in (
        (3, "`load` = 3 must be a function"),
        (lambda a, b, t: b[0], "it needs 3 finite numbers"),
        (lambda a, b, t: linear(a, b, t) / 0, "it needs 3 finite numbers"),
        (lambda a, b: b[2], "cannot be traced by JAX"),
    ):
        with pytest.raises(ValueError, match=told):
            scene(ist.PairLoad(load))
