"""Derivatives of roots that are known in closed form, and linear systems without a unique
solution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from implicit_stepper.solvers.implicit_function import root, solved


def _square(theta, z):
    return z**2 - theta


def _linearized(theta, z):
    return _square(theta, z), jnp.diag(2 * z)


@jax.jit
def _compiled(theta):
    return root(_square, _linearized, theta, jax.lax.stop_gradient(jnp.sqrt(theta)))


def test_derivatives_of_all_orders_and_modes_are_those_of_the_root():
    theta = jnp.array([2.0, 3.0])
    first, second = 0.5 / jnp.sqrt(theta), -0.25 * theta**-1.5
    for jacobian in (jax.jacfwd, jax.jacrev):
        assert np.abs(jax.jit(jacobian(_compiled))(theta) - jnp.diag(first)).max() <= 1e-15
    hessian = jax.jit(jax.vmap(jax.jacfwd(jax.jacrev(lambda t: jnp.sum(_compiled(t))))))
    assert np.abs(hessian(theta[None]) - jnp.diag(second)).max() <= 1e-15


def test_nothing_is_computed_without_derivatives():
    text = jax.jit(lambda theta: root(_square, _linearized, theta, theta + 1)).lower(jnp.ones(2)).as_text()
    assert "multiply" not in text
    assert "custom_call" not in text


def test_systems_whose_rows_change_places_are_solved_both_ways():
    """Pivots lead around a circle of three, which is not its own inverse."""
    matrix = np.array([[0.1, 0.2, 5.0], [4.0, 0.3, 0.1], [0.2, 3.0, 0.4]])
    right, weights = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(solved(matrix, right), np.linalg.solve(matrix, right), rtol=1e-14)
    gradient = jax.grad(lambda right: solved(matrix, right) @ weights)(right)
    np.testing.assert_allclose(gradient, np.linalg.solve(matrix.T, weights), rtol=1e-14)


def test_redundant_rows_give_what_is_unique_where_it_exists():
    """x0 is asked for twice, and x1 + x2 are the forces that ask: what is consistent moves x0, and
    never x1 or x2 alone."""
    matrix = jnp.array([[0.0, 1.0, 1.0], [2.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    x = jax.jit(solved)(matrix, jnp.array([1.0, 4.0, 4.0]))
    assert x[0] == pytest.approx(2.0, abs=1e-14)
    assert np.all(np.isnan(x[1:]))
    assert np.all(np.isnan(solved(matrix, jnp.array([1.0, 4.0, 5.0]))))
    gradient = jax.grad(lambda right: solved(matrix, right)[0])(jnp.ones(3))
    assert np.all(np.isnan(gradient))


def test_what_stands_apart_from_a_singular_block_keeps_its_derivative():
    """The closest points of parallel faces that do not touch: x1 and x2 are not determined, x0 does
    not depend on them."""
    matrix = jnp.array([[3.0, 0.0, 0.0], [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    for right in ([3.0, 1.0, 2.0], [3.0, 1.0, 5.0]):
        x = solved(matrix, jnp.array(right))
        assert x[0] == pytest.approx(1.0, abs=1e-14)
        assert np.all(np.isnan(x[1:]))
    gradient = jax.grad(lambda right: solved(matrix, right)[0])(jnp.ones(3))
    assert np.abs(gradient - jnp.array([1 / 3, 0, 0])).max() <= 1e-14
    assert np.all(np.isnan(jax.grad(lambda right: solved(matrix, right)[1])(jnp.ones(3))))
