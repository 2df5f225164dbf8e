"""Chakraborty's friction ellipsoid: the argmax of (4), its Fritz-John form (5) and both residual
forms have one solution."""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
from implicit_stepper.constraints.friction import FRICTION_ROWS, dissipation_defect

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import friction_ellipse  # noqa: E402


def samples(count, seed=0):
    """Random mu, p_n, semi-axes and slips (v_t, v_o, v_r); every tenth slip is zero, some p_n and
    mu are."""
    rng = np.random.default_rng(seed)
    mu, p_n, e = rng.uniform(0, 1.5, count), rng.uniform(0, 3, count), rng.uniform(0.01, 2, (count, 3))
    v = rng.normal(size=(count, 3))
    v[::10], p_n[3::50], mu[7::50] = 0.0, 0.0, 0.0
    return mu, p_n, e, v


def analytic(mu, p_n, e, v):
    """p maximising -v.p over the ellipsoid: -mu p_n e^2 v / |e v|."""
    length = np.linalg.norm(e * v, axis=1, keepdims=True)
    return -(mu * p_n)[:, None] * e**2 * v / np.where(length > 0, length, 1.0)


def test_no_admissible_impulse_dissipates_more():
    """Brute force over 500 points of each of 10^4 ellipsoids."""
    mu, p_n, e, v = samples(10_000)
    best = -np.einsum("ij,ij->i", v, analytic(mu, p_n, e, v))
    # a Fibonacci lattice: no point of the sphere is farther than about 2.7 / sqrt(500) = .12 rad
    # from it
    k = np.arange(500)
    height, turn = 1 - (2 * k + 1) / 500, np.pi * (1 + np.sqrt(5)) * k
    around = np.sqrt(1 - height**2)
    direction = np.stack([around * np.cos(turn), around * np.sin(turn), height], axis=1)
    trial = -np.einsum("ij,kj->ik", e * v, direction) * (mu * p_n)[:, None]
    assert np.all(trial.max(axis=1) <= best + 1e-8)
    assert np.all(trial.max(axis=1) >= np.cos(0.12) * best)  # and the best is nearly reached


@pytest.mark.parametrize("form", FRICTION_ROWS)
def test_rows_vanish_at_the_argmax_and_nowhere_near(form):
    mu, p_n, e, v = samples(10_000)
    y, w = analytic(mu, p_n, e, v) / e, e * v
    sigma = np.linalg.norm(w, axis=1)
    rows = jnp.vectorize(FRICTION_ROWS[form], signature="(),(k),(),(k)->(m)")
    assert np.abs(rows(mu * p_n, y, sigma, w)).max() <= 1e-12
    # any admissible y that dissipates measurably less is no root
    turned = y * np.array([1.0, -1.0, 1.0])
    less = np.einsum("ij,ij->i", w, turned - y) > 1e-3
    assert less.sum() > 5000
    assert np.abs(rows(mu * p_n, turned, sigma, w)).max(axis=1)[less].min() > 1e-5


def test_fritz_john_form_holds_at_the_argmax():
    """C(5): e^2 mu p_n v + p sigma = 0 and (mu p_n)^2 - sum (p/e)^2 >= 0, complementary to sigma =
    |e v|."""
    mu, p_n, e, v = samples(10_000)
    p, sigma = analytic(mu, p_n, e, v), np.linalg.norm(e * v, axis=1)
    zeta = (mu * p_n) ** 2 - np.sum((p / e) ** 2, axis=1)
    assert np.abs(e**2 * (mu * p_n)[:, None] * v + p * sigma[:, None]).max() <= 1e-8
    assert zeta.min() >= -1e-12
    assert np.abs(sigma * zeta).max() <= 1e-12


def test_dissipation_defect_is_the_distance_to_the_best():
    mu, p_n, e, v = samples(1000)
    rng = np.random.default_rng(2)
    y = rng.normal(size=(1000, 3))
    y *= (rng.uniform(size=1000) * mu * p_n / np.linalg.norm(y, axis=1))[:, None]
    defect = jnp.vectorize(dissipation_defect, signature="(),(),(k),(k)->()")(mu, p_n, y, e * v)
    best = -np.einsum("ij,ij->i", v, analytic(mu, p_n, e, v))
    assert defect == pytest.approx(best + np.einsum("ij,ij->i", v, e * y), abs=1e-12)
    assert defect.min() >= -1e-12


def test_a_coefficient_without_digits_is_refused():
    with pytest.raises(ValueError, match=r"`mu` = 1000000000.0 is above 1e\+06: .* 100 is enough"):
        ist.FrictionEllipsoid(mu=1e9)


@pytest.mark.parametrize("name", ["mu", "e_t", "e_o", "e_r"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "0.3"])
def test_bad_values_are_refused_by_name(name, value):
    arguments = {"mu": 0.2, "direction": (1, 0, 0)} | {name: value}
    with pytest.raises(ValueError, match=f"`{name}`"):
        ist.FrictionEllipsoid(**arguments)


def test_direction_is_an_axis_of_the_first_body():
    """Friction on particles that slide three ways on a turned floor is that which dissipates most
    within the ellipse that is turned with the floor."""
    off, wrong = friction_ellipse.check([friction_ellipse.friction(way) for way in (0.0, 1.0, 4.0)])
    assert off <= 1e-12
    assert wrong <= 1e-12


def test_anisotropy_needs_a_direction():
    with pytest.raises(ValueError, match="`direction`"):
        ist.FrictionEllipsoid(mu=0.2, e_t=1.0, e_o=0.5)
    with pytest.raises(ValueError, match="`direction`"):
        ist.FrictionEllipsoid(mu=0.2, direction=(0, 0, 0))
