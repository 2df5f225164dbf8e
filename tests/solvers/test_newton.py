"""`solve_ncp` on standard problems with known solutions, `damped_step` against numpy, and chord
iterations.

Where a solution has no closed form an independent method gives it: non-negative least squares, or
best responses.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from implicit_stepper import solve_ncp
from implicit_stepper.solvers.chord import Apart, chord, newton_again
from implicit_stepper.solvers.linear import Dense, Inverse, damped_inverse, damped_step
from implicit_stepper.solvers.newton import LEAST_DAMPING, damped_newton, dense, linearized, newton

EPS = np.finfo(float).eps
TOLERANCE = 1e-10  # of solve_ncp, on the Fischer-Burmeister residual


def all_of(n):
    return np.ones(n, dtype=bool)


@functools.cache
def solver(function, n):
    """z0 to the solution of 0 <= z _|_ F(z) >= 0, compiled once for all starts."""
    return jax.jit(lambda z0: solve_ncp(function, z0, all_of(n)))


def check_solution(function, solution, complementary):
    """The problem itself: min(z, F) = 0, or F = 0. Tseng (1996): |min(z, F)| is at most the
    residual / (2 - sqrt 2)."""
    assert bool(solution.converged)
    assert solution.residual <= TOLERANCE
    z, F = np.asarray(solution.z), np.asarray(function(solution.z))
    violation = np.where(complementary, np.minimum(z, F), F)
    assert np.max(np.abs(violation)) <= TOLERANCE / (2 - np.sqrt(2)) + 100 * EPS * np.max(np.abs(F))


# --- nonlinear problems of the literature
# ----------------------------------------------------------


def kojima(third):
    """Kojima and Shindo (1986), and Josephy (1979) with other coefficients in rows 2 and 3."""
    a, b, c = third

    def F(x):
        x1, x2, x3, x4 = x
        return jnp.stack(
            [
                3 * x1**2 + 2 * x1 * x2 + 2 * x2**2 + x3 + 3 * x4 - 6,
                2 * x1**2 + x1 + x2**2 + a * x3 + 2 * x4 - 2,
                3 * x1**2 + x1 * x2 + 2 * x2**2 + 2 * x3 + b * x4 - c,
                x1**2 + 3 * x2**2 + 2 * x3 + 3 * x4 - 3,
            ]
        )

    return F


KOJIMA_SHINDO, JOSEPHY = kojima((10, 9, 9)), kojima((3, 3, 1))
DEGENERATE_ROOT, REGULAR_ROOT = np.array([np.sqrt(6) / 2, 0, 0, 0.5]), np.array([1.0, 0, 3, 0])
NEAR = [np.ones(4), np.array([1.25, 0, 0, 0.5]), np.array([1.0, 0, 1, 0])]
FAR = [np.zeros(4), np.full(4, 10.0), np.array([1.0, 2, 3, 4])]


@pytest.mark.parametrize("start", NEAR + FAR, ids=str)
def test_kojima_shindo_is_solved_at_one_of_its_two_roots(start):
    solution = solver(KOJIMA_SHINDO, 4)(start)
    check_solution(KOJIMA_SHINDO, solution, all_of(4))
    # at the first root x3 = F3 = 0, so |z - root| is at most about the residual over the least
    # slope, 1e-10 / 0.1
    assert min(np.max(np.abs(solution.z - root)) for root in (DEGENERATE_ROOT, REGULAR_ROOT)) <= 1e-9


def test_both_roots_of_kojima_shindo_are_found_from_nearby():
    for root in (DEGENERATE_ROOT, REGULAR_ROOT):
        solution = solver(KOJIMA_SHINDO, 4)(root + 0.05)
        np.testing.assert_allclose(solution.z, root, rtol=0, atol=1e-9)


@pytest.mark.parametrize("start", NEAR, ids=str)
def test_josephy_is_solved_at_its_root(start):
    solution = solver(JOSEPHY, 4)(start)
    check_solution(JOSEPHY, solution, all_of(4))
    np.testing.assert_allclose(solution.z, DEGENERATE_ROOT, rtol=0, atol=1e-9)


def billups(x):
    """(x - 1)^2 - 1.01: the only root is 1 + sqrt(1.01), but near x = 0 min(x, F) is almost zero,
    and stays negative."""
    return (x - 1) ** 2 - 1.01


@pytest.mark.parametrize("start", [1.0, 2.0, 5.0])
def test_billups_problem_is_solved_at_its_root(start):
    solution = solver(billups, 1)(np.array([start]))
    check_solution(billups, solution, all_of(1))
    np.testing.assert_allclose(solution.z, [1 + np.sqrt(1.01)], rtol=1e-9)


def test_billups_false_root_is_not_taken_for_one():
    """From 0, descent methods stay at the local minimum of the residual; what counts is not to call
    it a root."""
    solution = solver(billups, 1)(np.array([0.0]))
    assert not bool(solution.converged) or abs(solution.z[0] - 1 - np.sqrt(1.01)) <= 1e-9


@pytest.mark.parametrize("problem", [KOJIMA_SHINDO, JOSEPHY], ids=["Kojima-Shindo", "Josephy"])
def test_convergence_is_claimed_only_at_roots(problem):
    """From anywhere in [0, 10]^4."""
    starts = np.random.default_rng(0).uniform(0, 10, (200, 4)) * np.random.default_rng(1).uniform(0, 1, (200, 1))
    solutions = jax.jit(jax.vmap(solver(problem, 4)))(starts)
    roots = np.array([DEGENERATE_ROOT, REGULAR_ROOT])[: 2 if problem is KOJIMA_SHINDO else 1]
    errors = np.min(np.max(np.abs(solutions.z[:, None] - roots), axis=2), axis=1)
    np.testing.assert_array_equal(solutions.converged, errors <= 1e-9)
    # free steps alone cycle on Josephy's problem; descent takes over
    assert np.mean(solutions.converged) >= 0.95


# c, K, beta; Murphy et al. (1982)
COSTS = np.array([[10, 5, 1.2], [8, 5, 1.1], [6, 5, 1.0], [4, 5, 0.9], [2, 5, 0.8]])


def revenue_slope(own, total):
    """d(p(Q) q)/dq for the demand p = (5000 / Q)^(1 / 1.1)."""
    price = (5000 / total) ** (1 / 1.1)
    return price - own * price / (1.1 * total)


def marginal_cost(own, cost):
    c, K, beta = cost
    return c + (own / K) ** (1 / beta)


def test_nash_cournot_equilibrium_matches_best_responses():
    """Five firms; the oracle lets each in turn maximise its profit by bisection until nobody
    moves."""

    def F(q):
        return marginal_cost(q, COSTS.T) - revenue_slope(q, jnp.sum(q))

    best = np.full(5, 10.0)
    for _ in range(200):
        for i in range(5):
            others = best.sum() - best[i]

            def loss(q, i=i, others=others):
                return marginal_cost(q, COSTS[i]) - revenue_slope(q, q + others)

            best[i] = scipy.optimize.brentq(loss, 1e-6, 500, xtol=1e-13)
    solution = solve_ncp(F, np.full(5, 10.0), all_of(5))
    check_solution(F, solution, all_of(5))
    np.testing.assert_allclose(solution.z, best, rtol=1e-9)


# --- linear complementarity problems
# ---------------------------------------------------------------


def linear(M, q):
    return lambda z: jnp.asarray(M) @ z + jnp.asarray(q)


@pytest.mark.parametrize("n", [1, 2, 5, 10, 20])
def test_murty_problem_is_solved_by_the_last_unit_vector(n):
    """M upper triangular with 1 on and 2 above the diagonal, q = -1: M e_n + q = (1, .., 1, 0).
    Pivoting needs 2^n steps."""
    M = np.eye(n) + 2 * np.triu(np.ones((n, n)), 1)
    solution = solve_ncp(linear(M, -np.ones(n)), np.zeros(n), all_of(n))
    check_solution(linear(M, -np.ones(n)), solution, all_of(n))
    np.testing.assert_allclose(solution.z, np.eye(n)[-1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_symmetric_problem_matches_non_negative_least_squares(seed):
    """M = A^T A, q = -A^T b: the optimality conditions of min |A z - b| over z >= 0, by active sets
    in scipy."""
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(12, 8)), rng.normal(size=12)
    M, q = A.T @ A, -A.T @ b
    expected, _ = scipy.optimize.nnls(A, b)
    solution = solve_ncp(linear(M, q), np.zeros(8), all_of(8))
    check_solution(linear(M, q), solution, all_of(8))
    np.testing.assert_allclose(solution.z, expected, rtol=0, atol=10 * TOLERANCE / np.linalg.eigvalsh(M)[0])


def test_obstacle_problem_has_the_free_boundary_of_the_string():
    """A string u on [0, 1] with unit load above an obstacle at -1/32: it touches from l = 1/4 to 1
    - l, and the parabolas (x - l)^2 / 2 - 1/32 join the ends. Second differences are exact for
    parabolas, and l is a node: so is the solution."""
    n = 63
    node = np.arange(1, n + 1) / (n + 1)
    differences = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    height = np.where(np.abs(node - 0.5) >= 0.25, (np.abs(node - 0.5) - 0.25) ** 2 / 2, 0.0)
    # of the height z = u + 1/32
    F = linear(differences, 1 / (n + 1) ** 2 - differences @ np.full(n, 1 / 32))
    solution = solve_ncp(F, np.full(n, 1 / 32), all_of(n))
    check_solution(F, solution, all_of(n))
    # 1e-10 times the condition ((n + 1) / pi)^2
    np.testing.assert_allclose(solution.z, height, rtol=0, atol=1e-7)


def test_mixed_problem_has_its_free_variables_where_the_equations_put_them():
    """min |x|^2 / 2 - (1, 2, 3).x over x >= 0 with x1 + x2 + x3 = 1: x = (0, 0, 1), multiplier 2 by
    hand."""

    def F(z):
        x, multiplier = z[:3], z[3]
        return jnp.concatenate([x - jnp.array([1.0, 2.0, 3.0]) + multiplier, jnp.sum(x)[None] - 1])

    complementary = np.array([True, True, True, False])
    solution = solve_ncp(F, np.zeros(4), complementary)
    check_solution(F, solution, complementary)
    np.testing.assert_allclose(solution.z, [0, 0, 1, 2], rtol=0, atol=1e-9)


def test_free_variables_may_be_negative():
    solution = solve_ncp(lambda z: z + 3.0, np.zeros(2), np.array([True, False]))
    np.testing.assert_allclose(solution.z, [0.0, -3.0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("start", [np.zeros(3), np.ones(3), np.array([1e-8, 0, 3])], ids=str)
def test_degenerate_problem_is_solved(start):
    """z = (0, 0, 1) with F = (0, 1, 0): the first pair vanishes altogether, a kink of the
    residual."""
    M, q = np.array([[2.0, 1, 0], [1, 2, 0], [0, 0, 1]]), np.array([0.0, 1, -1])
    solution = solve_ncp(linear(M, q), start, all_of(3))
    check_solution(linear(M, q), solution, all_of(3))
    np.testing.assert_allclose(solution.z, [0, 0, 1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("free", [True, False])
def test_singular_jacobian_at_the_root_only_slows_it_down(free):
    """F(z) = (z - 1)^3: every step takes a third of the error, and |F| <= 1e-10 means |z - 1| <=
    1e-10^(1/3)."""
    solution = solve_ncp(lambda z: (z - 1) ** 3, np.array([3.0]), np.array([not free]))
    assert bool(solution.converged)
    np.testing.assert_allclose(solution.z, [1.0], rtol=0, atol=(2 * TOLERANCE) ** (1 / 3))
    assert 3 < solution.iterations < 100


def test_singular_jacobian_everywhere_still_gives_a_root():
    """x + y = 1 twice: a line of roots, of which the shortest step finds the nearest."""
    solution = solve_ncp(lambda z: jnp.stack([z[0] + z[1] - 1] * 2), np.array([2.0, 0.0]), np.array([False, False]))
    assert bool(solution.converged)
    np.testing.assert_allclose(solution.z, [1.5, -0.5], rtol=0, atol=1e-8)


@pytest.mark.parametrize("kappa", [1e-3, 0.1])
def test_smoothed_problem_has_the_product_kappa_squared(kappa):
    """F(z) = z - 1 with z F = kappa^2: z = (1 + sqrt(1 + 4 kappa^2)) / 2."""
    solution = solve_ncp(lambda z: z - 1, np.array([2.0]), all_of(1), kappa=kappa)
    np.testing.assert_allclose(solution.z, [(1 + np.sqrt(1 + 4 * kappa**2)) / 2], rtol=1e-9)


# --- how it ends
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_linear_equations_take_one_step(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(6, 6)) + 5 * np.eye(6), rng.normal(size=6)
    solution = solve_ncp(lambda z: A @ z - b, np.zeros(6), np.zeros(6, dtype=bool))
    assert int(solution.iterations) == 1
    # the damping is 1e-12
    np.testing.assert_allclose(solution.z, np.linalg.solve(A, b), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("function", "complementary"),
    [
        (lambda z: 0 * z - 1, True),
        (lambda z: -z - 1, True),
        (lambda z: z**2 + 1, False),
        (lambda z: jnp.sqrt(-1 - z**2), False),
    ],
    ids=["F = -1", "F = -z - 1", "no real root", "not a number"],
)
def test_a_problem_without_a_solution_is_not_called_solved(function, complementary):
    solution = solve_ncp(function, np.array([0.5]), np.array([complementary]), max_iterations=50)
    assert not bool(solution.converged)
    assert not solution.residual <= TOLERANCE
    assert int(solution.iterations) <= 50


def test_too_few_iterations_are_not_called_solved():
    solution = solve_ncp(KOJIMA_SHINDO, np.full(4, 10.0), all_of(4), max_iterations=2)
    assert not bool(solution.converged)
    assert int(solution.iterations) == 2


@pytest.mark.parametrize(
    "complementary",
    [np.ones(2, dtype=bool), np.ones(3), np.ones((3, 1), dtype=bool), True],
    ids=["short", "float", "matrix", "one"],
)
def test_bad_complementary_is_refused_by_name(complementary):
    with pytest.raises(ValueError, match=r"`complementary` (.|\n)*must be booleans of shape \(3,\)"):
        solve_ncp(lambda z: z, np.zeros(3), complementary)


def test_batched_and_compiled_solves_equal_single_ones():
    starts = np.array(NEAR + FAR)
    solve = solver(KOJIMA_SHINDO, 4)
    batch = jax.jit(jax.vmap(solve))(starts)
    assert np.all(batch.converged)
    for i, start in enumerate(starts):
        single = solve(start)
        assert int(batch.iterations[i]) == int(single.iterations)
        np.testing.assert_allclose(batch.z[i], single.z, rtol=0, atol=1e-9)


# --- the linear step
# -------------------------------------------------------------------------------


@pytest.mark.parametrize("damping", [1e-12, 1e-6, 1.0])
@pytest.mark.parametrize("rank", [7, 5, 1, 0])
def test_damped_step_is_the_regularised_least_squares_solution(rank, damping):
    """numpy's lstsq (singular values) on the stacked matrix. A rank-deficient J is as
    ill-conditioned as sqrt(damping)."""
    rng = np.random.default_rng(rank)
    J, F = rng.normal(size=(7, rank)) @ rng.normal(size=(rank, 7)), rng.normal(size=7)
    if rank == 7:
        J = J + 10 * np.eye(7)
    stacked, right = np.vstack([J, np.sqrt(damping) * np.eye(7)]), np.concatenate([-F, np.zeros(7)])
    expected = np.linalg.lstsq(stacked, right, rcond=None)[0]
    singular = np.linalg.svd(stacked)[1]
    # backward stable: eps times the condition, and times its square for the residual (Golub and Van
    # Loan, section 5.3)
    condition, residual = singular[0] / singular[-1], np.linalg.norm(stacked @ expected - right)
    tolerance = 20 * EPS * (condition * np.linalg.norm(expected) + condition * residual / singular[-1])
    np.testing.assert_allclose(damped_step(J, F, damping), expected, rtol=0, atol=tolerance)


def test_damped_step_of_a_consistent_singular_system_is_the_shortest_solution():
    rng = np.random.default_rng(0)
    J = rng.normal(size=(6, 4)) @ rng.normal(size=(4, 6))
    F = J @ rng.normal(size=6)
    shortest = np.linalg.lstsq(J, -F, rcond=1e-10)[0]
    least = np.linalg.svd(J)[1][3]
    # what the damping of 1e-12 changes, and rounding of F over sqrt(damping) in the null space
    tolerance = (1e-12 / least**2 + 20 * EPS * np.linalg.norm(J) / 1e-6) * np.linalg.norm(shortest)
    np.testing.assert_allclose(damped_step(J, F, 1e-12), shortest, rtol=0, atol=tolerance)


def test_damped_inverse_gives_every_damped_step():
    rng = np.random.default_rng(0)
    J = rng.normal(size=(7, 5)) @ rng.normal(size=(5, 7))
    B = damped_inverse(J, 1e-6)
    for F in rng.normal(size=(3, 7)):
        # a condition of |J| / 1e-3 and a least singular value of 1e-3, see the test before the last
        np.testing.assert_allclose(-B @ F, damped_step(J, F, 1e-6), rtol=0, atol=20 * EPS * np.linalg.norm(J) / 1e-6)


# --- chord iterations with a kept inverse
# -----------------------------------------------------------


def curved(shift):
    """A smooth F with a root that moves with `shift`, and a Jacobian that changes with z."""
    return lambda z: jnp.stack([z[0] + 0.1 * z[1] ** 2, z[1] + 0.1 * z[0] * z[1], z[2] + 0.1 * jnp.sin(z[0])]) - shift


@functools.cache
def kept_solver():
    """(shift, z0, kept) to `newton_again` on `curved`, and the chord iterations that it begins
    with."""

    def solve(shift, z0, kept):
        F = curved(shift)
        return newton_again(F, dense(linearized(F)), z0, Inverse(kept), tolerance=TOLERANCE), chord(
            F, z0, Inverse(kept), TOLERANCE
        )

    return jax.jit(solve)


def test_the_next_problem_of_a_kind_needs_no_jacobian():
    first, tried = kept_solver()(jnp.ones(3), jnp.ones(3), jnp.zeros((3, 3)))
    assert bool(first.converged)
    assert int(first.iterations) > 0
    assert int(tried.count) == 1  # the start alone: zeros are no inverse
    second, tried = kept_solver()(jnp.full(3, 1.001), first.z, first.kept.matrix)
    assert bool(second.converged & tried.solved)
    assert int(second.iterations) == 0
    assert 3 <= int(tried.count) <= 9
    np.testing.assert_array_equal(second.z, tried.z)
    np.testing.assert_array_equal(second.kept.matrix, first.kept.matrix)
    # one correction more than the tolerance asks for: far below it
    assert second.residual == np.max(np.abs(tried.F)) <= 1e-2 * TOLERANCE


def test_a_start_within_the_tolerance_is_still_corrected():
    first, _ = kept_solver()(jnp.ones(3), jnp.ones(3), jnp.zeros((3, 3)))
    again, tried = kept_solver()(jnp.ones(3), first.z + 0.5 * TOLERANCE, first.kept.matrix)
    assert int(again.iterations) == 0
    assert int(tried.count) == 2
    np.testing.assert_allclose(again.z, first.z, rtol=0, atol=1e-2 * TOLERANCE)


@pytest.mark.parametrize("factor", [-1.0, 0.05, 1e3, np.nan, 0.0], ids=str)
def test_a_bad_inverse_changes_nothing_but_the_cost(factor):
    """It diverges, crawls, throws far, is not a number or is none: Newton's method then has the
    start to itself."""
    z0 = jnp.array([2.0, -1.0, 0.5])
    F = curved(jnp.ones(3))
    alone = newton(linearized(F), z0, tolerance=TOLERANCE)
    solution, tried = kept_solver()(jnp.ones(3), z0, factor * jnp.eye(3))
    assert not bool(tried.solved)
    assert int(tried.count) <= 6
    assert int(solution.iterations) == int(alone.iterations) > 0
    np.testing.assert_allclose(solution.z, alone.z, rtol=0, atol=20 * EPS)
    # renewed
    np.testing.assert_allclose(solution.kept.matrix @ jax.jacfwd(F)(alone.z), np.eye(3), rtol=0, atol=1e-3)


def test_a_slow_inverse_solves_once_and_is_renewed():
    """Contraction by a quarter: within the bound, but more than eight iterations from 1e-1 to
    1e-10."""
    F = curved(jnp.zeros(3))
    z0 = jnp.full(3, 0.1)
    solution, tried = kept_solver()(jnp.zeros(3), z0, 0.75 * jnp.eye(3))
    assert bool(tried.solved & solution.converged)
    assert int(tried.count) > 9
    assert int(solution.iterations) == 1
    np.testing.assert_allclose(solution.kept.matrix @ jax.jacfwd(F)(solution.z), np.eye(3), rtol=0, atol=1e-7)


def test_what_follows_begins_at_the_better_of_two_starts():
    """If chord iterations do not solve; the other start costs an evaluation then, and none if they
    do."""
    F, near, far, none = curved(jnp.zeros(3)), jnp.full(3, 1e-3), jnp.ones(3), jnp.full(3, jnp.nan)
    for first, other in ((near, far), (far, near), (near, none), (none, near)):
        tried = chord(F, first, Inverse(jnp.zeros((3, 3))), TOLERANCE, other)
        np.testing.assert_array_equal(tried.start, near)
        assert int(tried.count) == 2
        assert not bool(tried.solved)
    alone, beside = (chord(F, near, Inverse(jnp.eye(3)), TOLERANCE, *more) for more in ((), (far,)))
    assert bool(beside.solved)
    assert int(beside.count) == int(alone.count)
    np.testing.assert_array_equal(beside.z, alone.z)


def test_a_kink_beside_the_tolerance_is_crossed():
    """|F| is 10 times the tolerance before the kink and 500 times behind it, where the root is:
    rounding may put a start there, and steps that shorten until |F| falls go nowhere."""

    def F(z):
        return jnp.where(z < 0, z - 5e-12, 1e2 * z - 5e-12)

    found = newton(linearized(F), jnp.array([-5e-12]), tolerance=1e-12)
    assert int(found.iterations) == 2
    np.testing.assert_allclose(found.z, 5e-14, rtol=1e-12)


def test_what_is_within_the_tolerance_once_is_the_end_of_what_shakes_it():
    """The second evaluation has |F| of .5 of the tolerance, and the corrections after it go to and
    fro above the tolerance."""
    tolerance, values = 1e-12, jnp.array([1e-11, 5e-13, 4e-12, 3e-12, 4e-12, 3e-12, 4e-12, 3e-12, 4e-12, 3e-12])
    tried = chord(lambda z: values[jnp.round(z).astype(int)], jnp.zeros(1), Counting(), tolerance)
    assert bool(tried.solved)
    np.testing.assert_allclose(tried.z, 1.0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Counting:
    """An inverse of one unknown whose every correction leads to the next number."""

    contraction, quick, unseen, shaken, valid = 0.5, 16, 0.0, 10.0, True

    def solve(self, F):
        return -jnp.ones_like(F)


@pytest.mark.parametrize(("shaken", "throws", "end"), [(0.0, 2e-11, None), (10.0, 2e-11, 0.0), (10.0, 1e-9, 4e-13)])
def test_a_start_within_the_tolerance_may_be_shaken_or_stays(shaken, throws, end):
    """A correction throws |F| from .4 to 20 or 1000 times the tolerance, and the next leads to the
    root. Where the first may go so far, that is the end; where it may not, and another Jacobian
    would lead no less far, the start is."""
    start, tolerance = jnp.array([4e-13]), 1e-12
    kept = Shaken(shaken, throws)
    tried = chord(lambda z: z, start, kept, tolerance)
    assert bool(tried.solved) == bool(tried.quick) == (end is not None)
    if end is not None:
        np.testing.assert_allclose(tried.z, end, rtol=0, atol=1e-25)
        assert float(jnp.max(jnp.abs(tried.F))) == end


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Shaken:
    """An inverse of one unknown that `throws` what is near the tolerance."""

    shaken: float = dataclasses.field(metadata={"static": True})
    throws: float = dataclasses.field(metadata={"static": True})
    contraction, quick, unseen, valid = 0.5, 16, 0.0, True

    def solve(self, F):
        """F, and of what is near 1e-12 minus what it `throws`."""
        return jnp.where((jnp.abs(F) > 1e-13) & (jnp.abs(F) < 1e-12), F - self.throws, F)


def test_infinite_residuals_end_chord_iterations():
    """No bound holds an infinite |F|, and the iteration must not go on for ever under an infinite
    bound."""
    infinite = jnp.full(2, jnp.inf)
    tried = chord(lambda z: infinite, jnp.ones(2), Inverse(jnp.eye(2)), TOLERANCE)
    assert not bool(tried.solved)
    assert int(tried.count) == 2


def test_what_no_other_row_depends_on_is_found_apart():
    """The kept inverse knows nothing of the last unknown, y^3 = x: chord iterations for both end, x
    alone is found, then y."""

    def F(z):
        return jnp.stack([z[0] + 0.1 * z[0] ** 2 - 1.1, z[1] ** 3 - 8 * z[0]])

    own, kept = jnp.array([False, True]), Inverse(jnp.diag(jnp.array([1 / 1.2, 7.0])))

    def apart(solve):
        return Apart(own, start=jnp.array([0.9, 1.0]), solve=solve, follow=lambda z, F: (z, F))

    z0 = jnp.array([0.9, 1.5])
    exact = chord(F, z0, kept, TOLERANCE, z0, apart=apart(lambda z, _: z.at[1].set(2 * jnp.cbrt(z[0]))))
    assert bool(exact.solved & exact.quick)
    np.testing.assert_allclose(exact.z, [1.0, 2.0], rtol=1e-12)
    # what is found is judged by all rows
    near = chord(F, z0, kept, TOLERANCE, z0, apart=apart(lambda z, _: z.at[1].set(2.0001)))
    assert not bool(near.solved)
    np.testing.assert_allclose(near.start, [1.0, 2.0001], rtol=1e-12)
    far = chord(F, z0, kept, TOLERANCE, z0, apart=apart(lambda z, _: z.at[1].set(9.0)))
    assert not bool(far.solved)
    np.testing.assert_array_equal(far.start, z0)
    assert not bool(chord(F, z0, kept, TOLERANCE, z0).solved)


def test_what_the_damping_holds_back_near_a_root_is_followed_where_it_stalls():
    """A singular value of 1e-8: damping of 1e-12 takes a ten-thousandth of what is left off with
    each iteration."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Large(Dense):
        slight = 1e-6

    def F(z):
        return jnp.stack([z[0] + 0.1 * jnp.sin(z[0]) - 1.0, 1e-8 * z[1] - 1e-6])

    def linearize(z, *_):
        values, jacobian = linearized(F)(z)
        return values, Large(jacobian)

    end = jax.jit(lambda z: damped_newton(linearize, z, Large(jnp.zeros((2, 2))), TOLERANCE, 40, LEAST_DAMPING))(
        jnp.zeros(2)
    )
    assert np.max(np.abs(end.F)) <= TOLERANCE
    np.testing.assert_allclose(end.z[1], 100.0, rtol=0, atol=1e8 * TOLERANCE)
