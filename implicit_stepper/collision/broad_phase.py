"""Which balls overlap, of thousands: the first question about bodies that may touch.

A k-d tree answers it for balls of alike radii; balls are sorted into classes, each of at most twice
the least radius in it, and every two classes are asked for with the sum of their largest radii.
"""

from __future__ import annotations

import itertools

import numpy as np


def overlapping(centres, radii) -> np.ndarray:
    """Numbers (m, 2), i < j, of the balls with `centres` (n, d) [m] and `radii` (n,) [m] that
    overlap or touch, sorted."""
    # here, as few runs need it and it takes a twentieth of the package's import
    from scipy.spatial import cKDTree

    centres, radii = np.asarray(centres, float), np.asarray(radii, float)
    if not len(radii):
        return np.zeros((0, 2), int)
    scale = np.max(radii, initial=0.0)
    with np.errstate(divide="ignore"):
        sizes = np.where(radii > 0, np.floor(np.log2(radii / scale if scale > 0 else radii)), -np.inf)
    classes = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
    trees = [cKDTree(centres[own]) for own in classes]
    found = []
    for (own, tree), (others, other_tree) in itertools.combinations_with_replacement(zip(classes, trees, strict=True), 2):
        reach = np.max(radii[own]) + np.max(radii[others])
        if tree is other_tree:
            near = own[tree.query_pairs(reach, output_type="ndarray")]
        else:
            close = tree.sparse_distance_matrix(other_tree, reach, output_type="ndarray")
            near = np.stack([own[close["i"]], others[close["j"]]], axis=1)
        found.append(near.reshape(-1, 2))
    pairs = np.sort(np.concatenate(found), axis=1)
    first, second = pairs.T
    apart = np.linalg.norm(centres[first] - centres[second], axis=1)
    pairs = pairs[apart <= radii[first] + radii[second]]
    return pairs[np.lexsort(pairs.T[::-1])]
