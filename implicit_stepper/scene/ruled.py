"""The part of a scene that lets groups of bodies touch, without naming their pairs one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ..constraints.compliance import Compliance
from ..constraints.friction import FrictionEllipsoid
from ..constraints.restitution import Newton, Poisson
from ..runtime.errors import ContactLawError, ContactRuleError
from .body import Body
from .compound import is_point
from .description import RuleDescription
from .grouping import Law
from .pairs import BodyPairs, Rule

_BODIES = "the handles of bodies in a list, for instance [ball, floor]"
_GROUPS = "two lists of the handles of bodies, for instance ([ball], [floor])"
_PAIRS = "pairs of handles in a list, for instance [(ball, floor)]"


class Ruled:
    """What `scene.Scene` has of rules, in `_rules` as they were given."""

    _rules: list[RuleDescription]

    def add_contacts(
        self,
        *,
        friction: FrictionEllipsoid | float = 0.0,
        among: Iterable[Body] | None = None,
        between: tuple[Iterable[Body], Iterable[Body]] | None = None,
        apart: Iterable[tuple[Body, Body]] = (),
        compliance: Compliance | None = None,
        restitution: Newton | Poisson | None = None,
    ) -> None:
        """Lets every two bodies touch: all of the scene, those added later too, all `among` some,
        or each of the first group with each of the second of `between`; but not two that are fixed
        or move as they are told, two that a joint joins, two points, and pairs to be kept `apart`.

        The law is given as in `add_contact`, whose pairs keep their own; of several rules the last
        holds. Friction with `e_t` != `e_o` in space needs `add_contact`, as its direction is in the
        frame of a first body. Runs of `GeometricallyImplicit`, `ConeComplementarity`, `Convex` and
        `Linearized` with many bodies find the pairs that may touch step by step; other runs declare
        all of them. Raises `ValueError`, also where no two of the bodies named may touch; `build`
        does so where joints added since leave none.
        """
        if among is not None and between is not None:
            raise ContactRuleError("`among` and `between` are both given: one call lets one kind of pairs touch.")
        law = checked_law(friction, compliance, restitution)
        if self.dimension == 3 and law.friction.e_t != law.friction.e_o:
            raise ContactRuleError(
                f"`friction` = {friction!r} has a direction in the frame of body 1, and of the pairs that a rule lets touch "
                "none is first: declare these contacts with `add_contact`."
            )
        self._refuse_mixed(restitution)
        groups = (None, None) if among is None else (_listed("among", among, _BODIES),) * 2
        if between is not None:
            groups = tuple(_listed("between", group, _GROUPS) for group in _listed("between", between, _GROUPS))
            if len(groups) != 2:
                raise ContactRuleError(f"`between` has {len(groups)} groups of bodies: give two.")
        for argument, bodies in (("among" if between is None else "between", group) for group in groups):
            self._refuse_group(argument, bodies)
        pairs = tuple(_listed("apart", pair, _PAIRS) for pair in _listed("apart", apart, _PAIRS))
        for pair in pairs:
            if len(pair) != 2:
                raise ContactRuleError(f"`apart` has {pair!r}: give pairs of bodies.")
            self._pair(*pair, "pair kept apart")
        names = [None if group is None else tuple(body.name for body in group) for group in groups]
        rules = [*self._rules, RuleDescription(*names, tuple((a.name, b.name) for a, b in pairs), *law)]
        self._refuse_idle(rules)
        self._rules = rules

    def body_pairs(self) -> BodyPairs:
        """Which bodies may touch, by their numbers."""
        handles = [spec.handle for spec in self._specs.values()]
        number = dict(zip((handle.name for handle in handles), self._numbers(*handles), strict=True))
        self._refuse_idle(self._rules)  # joints that were added since keep pairs apart too
        laws, named, rules, apart = {}, {}, [], set()
        for first, _, second, _, *law in self._contacts:
            named[number[first.name], number[second.name]] = laws.setdefault(Law(*law), len(laws))
        for rule in self._rules:
            law = laws.setdefault(Law(rule.friction, rule.compliance, rule.restitution), len(laws))
            groups = [number.values() if group is None else map(number.get, group) for group in (rule.first, rule.second)]
            rules.append(Rule(*map(frozenset, groups), law))
            apart |= {tuple(sorted((number[a], number[b]))) for a, b in rule.apart}
        if rules:
            apart |= self._points(number, apart)
        for first, second, _ in self._joints.values():
            apart.add(tuple(sorted((number[first.name], number[second.name]))))
        held = [name for name in self._specs if not self._is_free(name)]
        apart |= {tuple(sorted((number[a], number[b]))) for a, b in itertools.product(self._driven, held) if a != b}
        moving = sum(not handle.fixed for handle in handles)
        return BodyPairs(len(handles), moving, tuple(laws), named, tuple(rules), frozenset(apart))

    def _points(self, number: dict[str, int], apart: set[tuple[int, int]]) -> set[tuple[int, int]]:
        """The pairs of bodies that are a point each, which nothing lets touch. Raises `ValueError`
        for two of several parts with points among them, that are not kept `apart`."""
        points = {number[name]: list(map(is_point, spec.parts)) for name, spec in self._specs.items()}
        pairs = set(itertools.combinations(sorted(key for key, own in points.items() if any(own)), 2))
        for a, b in pairs - apart:
            if not all(points[a] + points[b]):
                names = {of: name for name, of in number.items()}
                raise ContactRuleError(
                    f"{names[a]!r} and {names[b]!r} have points among their parts, and two points cannot touch: keep the "
                    "pair `apart`, and add its contacts by `add_contact` with `parts`."
                )
        return pairs

    def _refuse_idle(self, rules: Sequence[RuleDescription]) -> None:
        """Raises `ValueError` where one of the `rules` names bodies of which no two may touch: what
        is meant to touch would pass through each other."""
        joined = ((first.name, second.name) for first, second, _ in self._joints.values())
        apart = {frozenset(pair) for pair in (*joined, *(pair for rule in rules for pair in rule.apart))}
        free = set(filter(self._is_free, self._specs))
        points = {name for name, spec in self._specs.items() if all(map(is_point, spec.parts))}

        def may(a: str, b: str) -> bool:
            return a != b and not (a in points and b in points) and frozenset((a, b)) not in apart

        for rule in rules:
            if rule.first is None or rule.second is None:
                continue  # of all bodies, those that are yet to be added too
            sides = (rule.first, rule.second), (rule.second, rule.first)
            if not any(may(a, b) for one, other in sides for a in one if a in free for b in other):
                among, groups = rule.first == rule.second, (list(rule.first), list(rule.second))
                argument, named = ("among", groups[0]) if among else ("between", groups)
                raise ContactRuleError(
                    f"`{argument}` = {repr(named):.200} lets no two bodies touch: give two, of which one moves freely and "
                    "one is no point, that no joint joins and that are not kept `apart`."
                )

    def _is_free(self, name: str) -> bool:
        """Whether a contact can change how a body moves: it is not fixed, nor told how to."""
        return not self._specs[name].handle.fixed and name not in self._driven

    def _refuse_mixed(self, restitution: Newton | Poisson | None) -> None:
        """Raises `ValueError` where contacts of the scene rebound by another law."""
        others = {type(given.restitution) for given in (*self._pairs, *self._rules)} - {type(None), type(restitution)}
        if restitution is not None and others:
            raise ContactLawError(
                f"`restitution` = {restitution!r} beside others of {others.pop().__name__}: an impact of several contacts "
                "needs one law for all of them."
            )

    def pair_count(self) -> int:
        """How many contacts the scene has, those of rules included."""
        parts = [len(own) for own in self.body_parts()]
        pairs = self.body_pairs()
        named = sum(parts[a] * parts[b] for a, b in pairs.named)
        return named + sum(parts[a] * parts[b] for a, b, _ in pairs.ruled())

    def _touching(self) -> list[tuple]:
        """All contacts: those added one by one, in their order, and those of rules."""
        if not self._rules:
            return self._contacts
        pairs, handles = self.body_pairs(), sorted((s.handle for s in self._specs.values()), key=lambda handle: handle.fixed)
        ruled = [(handles[a], handles[b], pairs.laws[law]) for a, b, law in pairs.ruled()]
        return self._contacts + [
            (first, i, second, j, *law)
            for first, second, law in ruled
            for i in range(len(self._specs[first.name].parts))
            for j in range(len(self._specs[second.name].parts))
        ]

    def _refuse_group(self, argument: str, bodies: Sequence | None) -> None:
        """Raises `ValueError` for what is not bodies of this scene."""
        if bodies is None:
            return
        if not bodies:
            raise ContactRuleError(f"`{argument}` has no body: leave it out to let all bodies touch.")
        for body in bodies:
            self._own(argument, body)


def _listed(argument: str, given, need: str) -> tuple:
    """The entries of a list in what is given. Raises `ValueError` for what is none."""
    if isinstance(given, str | Body) or not isinstance(given, Iterable):
        raise ContactRuleError(f"`{argument}` has {given!r:.60} where a list belongs: give {need}.")
    return tuple(given)


def checked_law(friction, compliance, restitution) -> Law:
    """The law that the arguments of a contact say. Raises `ValueError`."""
    if not isinstance(friction, FrictionEllipsoid):
        friction = FrictionEllipsoid(mu=friction)
    if compliance is not None and not isinstance(compliance, Compliance):
        raise ContactLawError(f"`compliance` = {compliance!r} must be a Compliance(stiffness=...), or None if rigid.")
    if restitution is not None and not isinstance(restitution, Newton | Poisson):
        raise ContactLawError(
            f"`restitution` = {restitution!r} must be a Newton(e), a Poisson(e), or None for impacts without rebound."
        )
    if restitution is not None and compliance is not None:
        raise ContactLawError("`restitution` is for rigid contacts: a `compliance` rebounds by its `dissipation_time`.")
    return Law(friction, compliance, restitution)
