"""Damped least squares in both ways, against NumPy."""

import jax
import numpy as np
import pytest

from implicit_stepper.solvers import linear

DAMPING = 1e-12


def matrices(n=28):
    """A Jacobian of full rank, one that leaves an unknown free, and one with two rows that ask for
    the same."""
    full = np.random.default_rng(0).normal(size=(n, n))
    free, twice = full.copy(), full.copy()
    free[:, 3] = 0.0
    twice[5] = twice[9]
    return {"full rank": full, "free unknown": free, "redundant rows": twice}


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
@pytest.mark.parametrize("name", matrices())
def test_steps_are_the_shortest_that_solve(name, backend, monkeypatch):
    """Against singular values: x = - V s / (s^2 + damping) U^T F, of which directions with s = 0
    get nothing. Along these, rounding of J or of J^T J over the damping is left."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    J, F = matrices()[name], np.random.default_rng(1).normal(size=28)
    if name == "redundant rows":
        F[5] = F[9]
    U, s, V = np.linalg.svd(J)
    s[s < 1e-13 * s[0]] = 0.0
    expected = -V.T @ (s / (s**2 + DAMPING) * (U.T @ F))
    step = linear.damped_step(J, F, DAMPING)
    assert np.abs(J @ (step - expected)).max() <= 1e-9 * np.abs(F).max()
    assert np.abs(step - expected).max() <= 1e-5 * np.abs(expected).max()
    kept = -linear.damped_inverse(J, linear.KEPT_DAMPING) @ F
    assert np.abs(J @ (kept - expected)).max() <= 1e-5 * np.abs(F).max()
    assert np.abs(kept - expected).max() <= 1e-5 * np.abs(expected).max()


def test_factors_exist_where_damping_is_less_than_rounding(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cuda")
    for J in matrices().values():
        step = linear.damped_step(1e3 * J, np.ones(28), 1e-20)
        assert np.all(np.isfinite(step))
