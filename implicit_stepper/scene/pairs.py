"""Which bodies may touch, and by which law: pairs named one by one, and rules for all pairs of
groups of bodies."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np

from .grouping import Law


@dataclasses.dataclass(frozen=True)
class Rule:
    """Every body of `first` may touch every one of `second`, numbers of bodies, by the law of that
    number."""

    first: frozenset[int]
    second: frozenset[int]
    law: int


@dataclasses.dataclass(frozen=True)
class BodyPairs:
    """Pairs of `count` bodies, of which the first ones are `moving`: `laws`; `named`, the law of
    (body 1, body 2) of contacts added one by one, in their order; `rules`, of which the last that
    fits a pair holds; and what stays `apart`, (lower, higher)."""

    count: int
    moving: int
    laws: tuple[Law, ...]
    named: dict[tuple[int, int], int]
    rules: tuple[Rule, ...]
    apart: frozenset[tuple[int, int]]

    @functools.cached_property
    def _named(self) -> tuple[np.ndarray, np.ndarray]:
        """Sorted keys of named pairs, and their laws."""
        keys = np.array([a * self.count + b for a, b in self.named], dtype=int)
        order = np.argsort(keys)
        return keys[order], np.array(list(self.named.values()), dtype=int)[order]

    @functools.cached_property
    def _apart(self) -> np.ndarray:
        return np.array(sorted(a * self.count + b for a, b in self.apart), dtype=int)

    @functools.cached_property
    def _masks(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(_mask(rule.first, self.count), _mask(rule.second, self.count)) for rule in self.rules]

    def laws_of(self, bodies) -> tuple[np.ndarray, np.ndarray]:
        """The numbers (m,) of the laws of pairs of `bodies` (m, 2), -1 where they may not touch;
        and whether (m,) the pair was named in the other order."""
        keys, numbers = self._named
        first, second = bodies.T
        law = np.full(len(bodies), -1)
        for rule, (one, two) in zip(self.rules, self._masks, strict=True):
            law[(one[first] & two[second]) | (one[second] & two[first])] = rule.law
        low, high = np.minimum(first, second), np.maximum(first, second)
        law[_found(self._apart, low * self.count + high)[1]] = -1
        turned = np.zeros(len(bodies), bool)
        for one, two, reverse in ((first, second, False), (second, first, True)):
            at, found = _found(keys, one * self.count + two)
            law[found], turned[found] = numbers[at[found]], reverse
        law[(first == second) | ((first >= self.moving) & (second >= self.moving))] = -1
        return law, turned

    def kinds(self, body, kind) -> set[tuple[int, int, bool]]:
        """For parts of the bodies `body` (np,) with the kinds `kind` (np,): the combinations of
        kinds that may touch, in the order of their contacts, and whether they comply."""
        found = set()
        for rule, (one, two) in zip(self.rules, self._masks, strict=True):
            compliant = self.laws[rule.law].compliance is not None
            sides = np.unique(kind[one[body]]), np.unique(kind[two[body]])
            found |= {(*sorted((int(a), int(b))), compliant) for a, b in itertools.product(*sides)}
        of_body = {int(b): np.unique(kind[body == b]) for b in np.unique(body)} if self.named else {}
        for (first, second), law in self.named.items():
            compliant = self.laws[law].compliance is not None
            found |= {(int(a), int(b), compliant) for a, b in itertools.product(of_body[first], of_body[second])}
        fixed = {int(k) for k in np.unique(kind[body >= self.moving])}
        return {(a, b, c) for a, b, c in found if not (a in fixed and b in fixed)}

    def ruled(self) -> list[tuple[int, int, int]]:
        """All that may touch by a rule and are not named, as (body 1, body 2, law), lower numbers
        first."""
        bodies = np.stack(np.triu_indices(self.count, 1), axis=1)
        law, _ = self.laws_of(bodies)
        free = law >= 0
        if self.named:
            low_high = {tuple(sorted(pair)) for pair in self.named}
            free &= [tuple(pair) not in low_high for pair in bodies.tolist()]
        return [(a, b, own) for (a, b), own in zip(bodies[free].tolist(), law[free].tolist(), strict=True)]


def _mask(bodies, count: int) -> np.ndarray:
    mask = np.zeros(count, bool)
    mask[list(bodies)] = True
    return mask


def _found(keys, wanted) -> tuple[np.ndarray, np.ndarray]:
    """Where `wanted` (m,) stand in sorted `keys`, and whether they do."""
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    return at, (keys[at] == wanted) if len(keys) else np.zeros(len(wanted), bool)
