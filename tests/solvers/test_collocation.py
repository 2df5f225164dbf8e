"""Radau IIA tableaus and the polynomials through the stages, against the conditions that define
them."""

import jax
import numpy as np
import pytest

from implicit_stepper.solvers.collocation import radau


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_butcher_conditions(stages):
    """B(2 s - 1), C(s) and c_s = 1 of Hairer and Wanner IV.5."""
    method = radau(stages)
    assert method.c[-1] == 1.0
    for k in range(1, stages + 1):
        np.testing.assert_allclose(method.A @ method.c ** (k - 1), method.c**k / k, atol=1e-15)
    weights = method.A[-1]  # stiffly accurate
    for k in range(1, 2 * stages):
        assert weights @ method.c ** (k - 1) == pytest.approx(1 / k, abs=1e-15)
    assert abs(weights @ method.c ** (2 * stages - 1) - 1 / (2 * stages)) > 1e-3  # and no further


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_polynomials_reproduce_their_own_degree(stages):
    method, theta = radau(stages), np.array([-0.2, 0.0, 0.3, 1.0, 1.4])
    p = np.polynomial.Polynomial([0.7, -1.2, 0.4][:stages])
    np.testing.assert_allclose(method.basis(theta) @ p(method.c), p(theta), atol=1e-14)
    np.testing.assert_allclose(method.at_start @ p(method.c), p(0.0), atol=1e-14)


@pytest.mark.parametrize("switch", [0.7, 100.0, 1e5, -3.0])
@pytest.mark.parametrize("h", [1e-9, 1e-3, 1.0])
def test_stages_see_loads_before_they_jump_at_the_end(switch, h):
    """Also where a share of h is less than the last digit of the time; and the times move with it
    as those of the nodes do."""
    method, begun = radau(3), switch - h
    seen = np.asarray(method.seen(begun, h))
    assert np.all(seen < switch)
    np.testing.assert_allclose(seen, begun + method.c * h, rtol=2e-15, atol=1e-14 * h)
    by = jax.jacfwd(method.seen, argnums=(0, 1))(begun, h)
    np.testing.assert_array_equal(by, [np.ones(3), method.c])
