"""Sparse systems some of whose unknowns follow from the others, on the host."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from implicit_stepper.solvers.sparse_condensation import SparseCondensed, SparseFactors, entries

ROUNDS, MEMBERS, OWN, REST = 2, 3, 2, 7


@pytest.fixture
def both():
    """A system and the whole matrix that it is of: [[K, k], [A, B]] with K of small blocks."""
    drawn = np.random.default_rng(4)
    local = ROUNDS * MEMBERS * OWN
    blocks = drawn.normal(size=(ROUNDS, MEMBERS, OWN, OWN)) + 3 * np.eye(OWN)
    K = np.zeros((local, local))
    for number, block in enumerate(blocks.reshape(-1, OWN, OWN)):
        place = slice(OWN * number, OWN * (number + 1))
        K[place, place] = block
    k, A, B = (drawn.normal(size=shape) for shape in ((local, REST), (REST, local), (REST, REST)))
    follow = np.linalg.solve(K, k)
    parts = [entries(csr_array(a)) for a in (B - A @ follow, follow, A)]
    return SparseCondensed(parts[0], (np.linalg.inv(blocks),), *parts[1:]), np.block([[K, k], [A, B]])


def test_factors_solve_the_whole_system(both):
    system, whole = both
    F = np.random.default_rng(5).normal(size=len(whole))
    np.testing.assert_allclose(whole @ system.factorised().solve(F), F, rtol=0, atol=1e-12)


@pytest.mark.parametrize("damping", [1e-12, 1e-2, 1.0])
def test_damped_steps_are_least_squares_of_what_is_left(both, damping):
    system, whole = both
    F = np.random.default_rng(6).normal(size=len(whole))
    local = len(whole) - REST
    alone = np.linalg.solve(whole[:local, :local], F[:local])
    right = np.concatenate([F[local:] - whole[local:, :local] @ alone, np.zeros(REST)])
    stacked = np.concatenate([system.rest.matrix.toarray(), np.sqrt(damping) * np.eye(REST)])
    expected = -np.linalg.lstsq(stacked, right, rcond=None)[0]
    step = system.damped_step(F, damping)
    np.testing.assert_allclose(step[local:], expected, rtol=0, atol=1e-10)
    follows = -alone - system.follow.matrix @ expected
    np.testing.assert_allclose(step[:local], follows, rtol=0, atol=1e-10)


def test_rows_of_their_own_give_what_they_say(both):
    system, whole = both
    which = np.zeros(len(whole), bool)
    which[-2:] = True
    F = np.random.default_rng(7).normal(size=len(whole))
    solved = system.with_rows_of_their_own(which).factorised().solve(F)
    np.testing.assert_allclose(solved[-2:], F[-2:], rtol=0, atol=1e-14)
    whole[-2:] = np.eye(len(whole))[-2:]
    np.testing.assert_allclose(whole @ solved, F, rtol=0, atol=1e-12)


def test_a_singular_system_gives_no_numbers_and_none_gives_no_step(both):
    system, whole = both
    zero = entries(csr_array(np.zeros((REST, REST))))
    singular = SparseFactors(SparseCondensed(zero, system.inverses, system.follow, system.lead), True)
    F = np.ones(len(whole))
    assert np.all(np.isnan(singular.solve(F)))
    assert singular.least_pivot() == 0
    none = SparseFactors(None, False)
    assert np.all(none.solve(F) == 0)
    assert none.least_pivot() == 0


def test_a_system_is_kept_without_its_factors(both):
    """As checkpoints keep it: SuperLU's are no arrays, and are found anew with the same digits."""
    system, whole = both
    F = np.random.default_rng(8).normal(size=len(whole))
    solved, again = system.factorised().solve(F), pickle.loads(pickle.dumps(system))
    assert "factors" not in vars(again)
    np.testing.assert_array_equal(again.factorised().solve(F), solved)
