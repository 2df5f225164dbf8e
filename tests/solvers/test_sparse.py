"""Sparse systems of nodes and links against dense ones, and the order of least degree."""

import numpy as np
import pytest

from implicit_stepper.solvers.sparse import Left, factorised, least_degree


def test_a_system_of_nodes_and_links_is_that_of_its_dense_matrix():
    rng = np.random.default_rng(0)
    count, w, own = 12, 3, 4
    nodes = rng.normal(size=(count, w, w)) + 6 * np.eye(w)
    pairs = np.array([(a, b) for a in range(count) for b in (a + 1, a + 4) if b < count])
    singles = np.arange(0, count, 2)[:, None]
    links, stiff, dense = [], [], np.zeros((count * w, count * w))
    for node in range(count):
        dense[node * w : (node + 1) * w, node * w : (node + 1) * w] += nodes[node]
    right_nodes, right_links, right = rng.normal(size=(count, w)), [], [np.zeros(0)]
    extra_rows, extra_columns, corner = [], [], []
    for numbers in (pairs, singles):
        m, acting = len(numbers), numbers.shape[1] * w
        left = rng.uniform(size=(m, own)) < 0.4
        shifted = np.take_along_axis(left, rng.permuted(np.tile(np.arange(own), (m, 1)), axis=1), axis=1)
        rest = rng.normal(size=(m, own + acting, own + acting))
        rest[:3, :own, :own] = 0.0  # unknowns that only the nodes determine
        stiff.append(int(np.sum(np.any(left[3:], axis=1))))
        links.append(Left(numbers, left, shifted, rest))
        right_links.append(rng.normal(size=(m, own + acting)))
        for k in range(m):
            at = np.concatenate([np.arange(n * w, (n + 1) * w) for n in numbers[k]])
            dense[np.ix_(at, at)] += rest[k, own:, own:]
            np.add.at(right_nodes, numbers[k], 0.0)
            for row in np.flatnonzero(left[k]):
                line = np.zeros(count * w)
                line[at] = rest[k, row, own:]
                extra_rows.append(line)
                right.append(right_links[-1][k, row : row + 1])
            for column in np.flatnonzero(shifted[k]):
                line = np.zeros(count * w)
                line[at] = rest[k, own:, column]
                extra_columns.append(line)
            corner.append(rest[k][np.ix_(np.flatnonzero(left[k]), np.flatnonzero(shifted[k]))])
    size = sum(len(block) for block in corner)
    own_block, first = np.zeros((size, size)), 0
    for block in corner:
        own_block[first : first + len(block), first : first + len(block)] = block
        first += len(block)
    whole = np.block([[dense, np.array(extra_columns).T], [np.array(extra_rows), own_block]])
    total = right_nodes.copy()
    for link, pushed in zip(links, right_links, strict=True):
        for k, numbers in enumerate(link.nodes):
            total[numbers] += pushed[k, own:].reshape(-1, w)
    expected = np.linalg.solve(whole, np.concatenate([total.reshape(-1), *right]))
    system = factorised(nodes, links)
    assert [sum(len(part.members) for part in parts) for parts in system.condensed] == stiff
    found, left = system.solve(right_nodes, right_links)
    assert np.max(np.abs(found.reshape(-1) - expected[: count * w])) < 1e-10
    values = np.concatenate([part[link.columns] for part, link in zip(left, links, strict=True)])
    assert np.max(np.abs(values - expected[count * w :])) < 1e-10


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_entries_that_are_no_numbers_are_refused(left, value):
    """Comparisons with NaN are false: it was left out as entries are that are slight."""
    rest = np.eye(3)[None]
    assert factorised(np.ones((2, 1, 1)), [Left(np.array([[0, 1]]), np.full((1, 1), left), np.full((1, 1), left), rest)])
    rest[0, 1, 2] = value
    assert not factorised(np.ones((2, 1, 1)), [Left(np.array([[0, 1]]), np.full((1, 1), left), np.full((1, 1), left), rest)])


def filled(rank, edges) -> int:
    """Edges between nodes that are left when each is eliminated, summed."""
    neighbours = {n: set() for n in range(len(rank))}
    for a, b in edges.tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    entries = 0
    for node in np.argsort(rank).tolist():
        near = neighbours.pop(node)
        entries += len(near)
        for other in near:
            neighbours[other] |= near - {other}
            neighbours[other].discard(node)
    return entries


def test_the_order_of_least_degree_fills_a_tree_nowhere():
    rng = np.random.default_rng(0)
    names = rng.permutation(300)
    edges = names[np.stack([np.arange(1, 300), [rng.integers(k) for k in range(1, 300)]], axis=1)]
    rank = least_degree(300, edges)
    assert sorted(rank.tolist()) == list(range(300))
    assert filled(rank, edges) == 299
    assert filled(names, edges) > 2 * 299


def test_the_order_of_least_degree_of_a_grid_fills_less_than_its_rows_in_turn():
    side = 20
    numbers = np.arange(side**2).reshape(side, side)
    across, down = (numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])
    edges = np.concatenate([np.stack([a.reshape(-1), b.reshape(-1)], axis=1) for a, b in (across, down)])
    assert filled(least_degree(side**2, edges), edges) < 0.7 * filled(np.arange(side**2), edges)


def test_links_that_couple_nothing_have_no_part_in_the_system():
    rest = np.zeros((3, 5, 5))
    rest[1, 1:, 1:], rest[2, 1:, 1:] = 1e-17, 0.5
    left = np.array([[True], [False], [False]])
    numbers = np.array([[0, 1], [1, 2], [2, 3]])
    assert Left(numbers, left, left, rest).acts().tolist() == [True, False, True]
