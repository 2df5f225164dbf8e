"""Lemke's method against known solutions, enumeration, least squares, cycling and problems without
a solution."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls

from implicit_stepper.runtime.compilation import jit
from implicit_stepper.solvers.lemke import lemke

solve = jit(lemke)


def violation(M, q, z):
    """Largest |min(z_i, w_i)|."""
    return np.max(np.abs(np.minimum(z, M @ z + q)))


def enumerated(M, q):
    """All solutions that a complementary basis has."""
    n, found = len(q), []
    for basic in itertools.product((False, True), repeat=n):
        B = np.where(basic, -M, np.eye(n))
        if abs(np.linalg.det(B)) > 1e-9:
            values = np.linalg.solve(B, q)
            if np.all(values >= -1e-12):
                found.append(np.where(basic, values, 0.0))
    return found


def friction_problem(random, contacts, velocities, facets=6):
    """Matrix and vector of the LCP of Stewart and Trinkle: copositive, with as many impulses as
    make it redundant."""
    rows = random.normal(size=(contacts, 3, velocities))
    angle = 2 * np.pi * np.arange(facets) / facets
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    columns = np.concatenate([rows[:, :1], np.einsum("fk,ckv->cfv", around, rows[:, 1:])], axis=1)
    size, nu = facets + 2, random.normal(size=velocities)
    M, q = np.zeros((contacts, size, contacts, size)), np.zeros((contacts, size))
    M[:, :-1, :, :-1] = np.einsum("cfv,dgv->cfdg", columns, columns)
    for c in range(contacts):
        M[c, 1:-1, c, -1], M[c, -1, c, 1:-1], M[c, -1, c, 0] = 1.0, -1.0, 0.5
    # the gap opens at a speed that all contacts can have together, so that there is a solution
    q[:, :-1] = columns @ nu
    q[:, 0] += np.maximum(columns[:, 0] @ random.normal(size=velocities), 0.0)
    return M.reshape(contacts * size, -1), q.reshape(-1)


@pytest.mark.parametrize("n", [3, 12, 40])
def test_semidefinite_problems(n):
    """M = B B^T + S, of half the rank and with a skew part, and q for which a solution is known to
    exist."""
    random = np.random.default_rng(n)
    for k in range(25):
        B, S = random.normal(size=(n, n // 2)), random.normal(size=(n, n)) * (k % 2)
        M = B @ B.T + S - S.T
        z = np.maximum(random.normal(size=n), 0.0)
        q = np.where(z > 0, 0.0, np.maximum(random.normal(size=n), 0.0)) - M @ z
        found = solve(M, q)
        assert found.solved
        assert violation(M, q, found.z) <= 1e-10


@pytest.mark.parametrize(("contacts", "velocities"), [(1, 3), (4, 6)])
def test_copositive_problems(contacts, velocities):
    random = np.random.default_rng(contacts)
    for _ in range(40):
        M, q = friction_problem(random, contacts, velocities)
        found = solve(M, q)
        assert found.solved
        assert violation(M, q, found.z) <= 1e-10


@pytest.mark.parametrize("n", [3, 5])
def test_positive_definite_problems_have_the_one_solution_that_enumeration_finds(n):
    random = np.random.default_rng(n)
    for _ in range(20):
        B, S = random.normal(size=(n, n)), random.normal(size=(n, n))
        M, q = B @ B.T + 0.1 * np.eye(n) + S - S.T, random.normal(size=n)
        (expected,) = enumerated(M, q)
        assert solve(M, q).z == pytest.approx(expected, abs=1e-10)


def test_least_squares():
    """min |B z - c| over z >= 0 is the LCP with M = B^T B, q = -B^T c."""
    random = np.random.default_rng(3)
    B, c = random.normal(size=(30, 12)), random.normal(size=30)
    assert solve(B.T @ B, -B.T @ c).z == pytest.approx(nnls(B, c)[0], abs=1e-10)


def test_cycling():
    """Kostreva's matrix: with ties broken badly, six bases come round for ever."""
    M = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0], [2.0, 0.0, 1.0]])
    found = solve(M, -np.ones(3))
    assert found.solved
    assert found.z == pytest.approx(np.full(3, 1 / 3), abs=1e-14)
    # the bad choices: after z_0 has entered, in the row of w_3, let the rows of these variables
    # leave one after the other
    every = np.concatenate([np.eye(3), -M, -np.ones((3, 1))], axis=1)
    basis, entering, seen = [6, 3, 2], 4, []
    for leaving in (3, 2, 4, 0, 5, 1):
        seen.append(set(basis))
        inverse = np.linalg.inv(every[:, basis])
        column, values = inverse @ every[:, entering], inverse @ -np.ones(3)
        ratios = np.where(column > 1e-12, values / np.where(column > 1e-12, column, 1.0), np.inf)
        row = basis.index(leaving)
        assert ratios[row] == pytest.approx(np.min(ratios), abs=1e-12)
        basis[row], entering = entering, (leaving + 3) % 6
    assert set(basis) == seen[0]
    assert entering == 4


@pytest.mark.parametrize("n", [3, 12])
def test_degenerate_problems(n):
    """All ratios tie; every solution of the first shares one load among n equal contacts."""
    ones = np.ones((n, n))
    found = solve(ones, -np.ones(n))
    assert found.solved
    assert np.sum(found.z) == pytest.approx(1.0, abs=1e-12)
    random = np.random.default_rng(n)
    for _ in range(10):  # whole numbers: many ratios are equal, many w_i and z_i zero together
        B, S = random.integers(-1, 2, size=(n, n)), random.integers(-1, 2, size=(n, n))
        M = 1.0 * (B @ B.T + S - S.T)
        q = -M @ random.integers(0, 2, size=n)
        found = solve(M, q)
        assert found.solved
        assert violation(M, q, found.z) <= 1e-10


def test_nothing_to_do():
    for q in (np.zeros(3), np.array([0.0, 1.0, 2.0])):
        found = solve(-np.eye(3), q)
        assert found.solved
        assert found.pivots == 0
        np.testing.assert_array_equal(found.z, np.zeros(3))
    assert solve(np.zeros((0, 0)), np.zeros(0)).solved


@pytest.mark.parametrize("M", [np.zeros((3, 3)), -np.eye(3), np.diag([1.0, 0.0, 1.0])])
def test_ray(M):
    assert not solve(M, -np.ones(3)).solved


def test_cap_on_pivots():
    random = np.random.default_rng(0)
    B = random.normal(size=(12, 12))
    M, q = B @ B.T, random.normal(size=12)
    needed = int(solve(M, q).pivots)
    capped = jit(lambda most: lemke(M, q, max_pivots=most))
    assert capped(needed).solved
    cut = capped(needed - 1)
    assert not cut.solved
    assert cut.pivots == needed - 1


def test_units_of_rows_and_columns_do_not_matter():
    """w' = R w and z = C z' with factors from 1e-8 to 1e8."""
    random = np.random.default_rng(5)
    M, q = friction_problem(random, 4, 6)
    R, C = 10.0 ** random.uniform(-8, 8, size=(2, len(q)))
    plain, scaled = solve(M, q), solve(R[:, None] * M * C, R * q)
    assert plain.solved
    assert scaled.solved
    assert violation(M, q, C * scaled.z) <= 1e-10
    for size in (1e-9, 1e9):
        assert solve(M, size * q).z == pytest.approx(size * np.array(plain.z), rel=1e-9, abs=size * 1e-12)


def test_vmap_is_one_at_a_time():
    random = np.random.default_rng(6)
    problems = [friction_problem(random, 1, 3) for _ in range(7)] + [(np.zeros((8, 8)), -np.ones(8))]
    M, q = (jnp.array(part) for part in zip(*problems, strict=True))
    together = jit(jax.vmap(lemke))(M, q)
    for i in range(8):
        alone = solve(M[i], q[i])
        assert alone.solved == together.solved[i] == (i < 7)
        assert alone.pivots == together.pivots[i]
        assert together.z[i] == pytest.approx(np.array(alone.z), abs=1e-12)
