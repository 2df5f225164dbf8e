"""Smoothed steps against their own closed forms and the hard ones, and derivatives from either side
of a switch."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
from implicit_stepper.paper import scenes

STEPPER, G, RADIUS, H = ist.GeometricallyImplicit(), 9.81, 0.25, 0.01
SYSTEM, START = scenes.landing_ball().build()


@jax.jit
def slopes(gap, speed, kappa):
    """Three smoothed steps of a ball that is `gap` above the ground, with `speed` along it:
    derivatives of the velocities by all three; positions, velocities, results and violations."""

    def run(gap, speed, kappa):
        position, velocity = jnp.zeros((1, 3)).at[0, 2].set(RADIUS + gap), jnp.zeros((1, 6)).at[0, 0].set(speed)
        start = dataclasses.replace(START, position=position, velocity=velocity)
        run = ist.rollout(SYSTEM, STEPPER, H, 3, start=start, kappa=kappa)
        return run.states.velocity[:, 0], (run.states.position[:, 0], run.states.velocity[:, 0], run.result, run.violation)

    return jax.jacfwd(run, (0, 1, 2), has_aux=True)(gap, speed, kappa)


def ends(gap, speed, kappa):
    return slopes(gap, speed, kappa)[1]


def unit_of_gaps():
    return H * np.sqrt(float(SYSTEM.acceleration) * float(SYSTEM.length))


@pytest.mark.thorough
def test_a_body_at_rest_hovers_by_its_bias():
    """p psi = kappa^2 in units of m g h and h sqrt(g L)."""
    kappa = 0.1
    position, velocity, result, violation = ends(kappa**2 * unit_of_gaps(), 0.0, kappa)
    assert np.all(result == ist.Result.SOLVED)
    assert np.abs(position[:, 2] - position[0, 2]).max() <= 1e-12
    assert np.abs(velocity).max() <= 1e-10
    assert violation[0] == pytest.approx(kappa**2, rel=1e-6)  # how far that is from a hard contact


def test_contacts_act_before_they_touch_with_the_derivative_of_the_closed_form():
    """(v + g h) (d + h v) = kappa^2 g h h sqrt(g L) after one step from rest at the gap d."""
    kappa, d = 0.3, 0.02
    _, velocity, result, _ = ends(d, 0.0, kappa)
    assert np.all(result == ist.Result.SOLVED)
    v, product = float(velocity[1, 2]), kappa**2 * G * H * unit_of_gaps()
    assert (v + G * H) * (d + H * v) == pytest.approx(product, rel=1e-9)
    (by_gap, _, by_kappa), _ = slopes(d, 0.0, kappa)
    steep = d + H * v + H * (v + G * H)
    assert by_gap[1, 2] == pytest.approx(-(v + G * H) / steep, rel=1e-9)
    assert by_kappa[1, 2] == pytest.approx(2 * product / kappa / steep, rel=1e-9)


def test_friction_acts_as_a_damper_and_tends_to_the_hard_one():
    """While it slides at the hovering height a ball loses mu g h w / sqrt(w^2 + (kappa g h)^2) a
    step, w the slip after it."""
    mu, found = float(SYSTEM.groups[0].mu[0]), []
    for kappa in (0.1, 0.01):
        _, velocity, result, _ = ends(kappa**2 * unit_of_gaps(), 2.0, kappa)
        assert np.all(result == ist.Result.SOLVED)
        velocity = np.asarray(velocity)
        slip = velocity[1, 0] - RADIUS * velocity[1, 4]
        loss = mu * G * H * slip / np.hypot(slip, kappa * G * H)
        assert velocity[1, 0] - 2.0 == pytest.approx(-loss, rel=1e-9)
        found.append(abs(float(velocity[3, 0]) - (2.0 - 3 * mu * G * H)))
    assert found[1] <= 1.1e-2 * found[0]  # the bias falls with kappa^2


@pytest.mark.thorough
def test_both_sides_of_the_step_in_which_a_spin_ends():
    """A sphere's spin falls by mu g e_r m h / I a step, until it is zero."""
    system, start = scenes.spin().build()
    h = 0.14
    loss = 0.2 * G * 0.4 / 0.4 * h
    memory = STEPPER.init(system, start)

    @jax.jit
    def both(spin):
        def after(spin):
            begun = dataclasses.replace(start, velocity=jnp.zeros((1, 6)).at[0, 5].set(spin))
            return ist.rollout(system, STEPPER, h, 1, start=begun, memory=memory).states.velocity[-1, 0, 5]

        return ist.one_sided(after, spin, jnp.ones(()))

    at_switch, above = both(jnp.asarray(loss)), both(jnp.asarray(2 * loss))
    assert at_switch.below == pytest.approx(0.0, abs=1e-9)
    assert at_switch.above == pytest.approx(1.0, abs=1e-9)
    assert above.below == pytest.approx(1.0, abs=1e-9)
    assert above.above == pytest.approx(1.0, abs=1e-9)


def test_bad_arguments_are_named():
    for kappa in (0.0, -1.0, 2.0, float("nan")):
        with pytest.raises(ValueError, match=r"`kappa` = .* must be in \(0, 1\]"):
            ist.rollout(SYSTEM, STEPPER, H, 3, start=START, kappa=kappa)
    with pytest.raises(ValueError, match="`direction` has the shapes"):
        ist.one_sided(jnp.sum, jnp.zeros(3), jnp.zeros(2))
    with pytest.raises(ValueError, match="`offset`"):
        ist.one_sided(jnp.sum, jnp.zeros(3), jnp.zeros(3), offset=0.0)
