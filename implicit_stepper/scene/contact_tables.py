"""Contacts as tables of a file."""

from __future__ import annotations

import numpy as np

from ..constraints.compliance import Compliance
from ..constraints.friction import FrictionEllipsoid
from ..constraints.restitution import Newton, Poisson
from ..runtime.errors import SceneBuildError, SceneFileError, SceneKeyError, SceneValueError
from .description import ContactDescription, RuleDescription
from .tables import MOST_CONTACTS, MOST_PAIRS_OF_PARTS, Table
from .units import Units

_MOST_PAIRS = 500_000  # of which a file says "all"


def contacts_of(
    whole: Table, bodies: list[tuple[str, bool]], units: Units
) -> tuple[tuple[ContactDescription, ...], tuple[RuleDescription, ...]]:
    """Pairs as they are listed, of which `bodies = "all"` stands for those of `_rest`; and rules,
    `among` or `between` groups of bodies."""
    found, listed, rest, rules = [], set(), [], []
    for table in whole.tables("contact"):
        groups = _groups(table)
        pair = table.take("bodies") if groups is None else None
        friction = table.take("friction", 0.0)
        law = _friction(table, friction, units)
        springs = table.table("compliance", None)
        compliance = None if springs is None else _compliance(springs)
        laws, parts = (law, compliance, _restitution(table)), _parts(table)
        table.end()
        if groups is not None:
            if parts is not None:
                raise SceneKeyError(f"{table.where}.parts stands beside groups of bodies: name two in `bodies`.")
            rules.append(RuleDescription(*groups, *laws))
            whole.refuse_more("contact", rules, MOST_CONTACTS)
            continue
        if pair == "all":
            if parts is not None:
                raise SceneKeyError(f'{table.where}.parts stands beside bodies = "all": name two bodies.')
            rest.append((len(found), laws))
            continue
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise SceneValueError(f'{table.where}.bodies = {pair!r:.60} must be two names, or "all".')
        listed.add(frozenset(pair))
        found.append(ContactDescription(*pair, *laws, parts))
        whole.refuse_more("contact", found, MOST_CONTACTS)
    if len(rest) > 1:
        raise SceneKeyError('`bodies = "all"` stands in two contacts: one of them has the rest.')
    for place, laws in rest:
        whole.refuse_more("contact", range(len(bodies) * (len(bodies) - 1) // 2), _MOST_PAIRS)
        pairs = _rest(bodies, listed, rules)
        whole.refuse_more("contact", pairs, MOST_CONTACTS)
        found[place:place] = [ContactDescription(*pair, *laws) for pair in pairs]
    return tuple(found), tuple(rules)


def _rest(
    bodies: list[tuple[str, bool]], listed: set[frozenset[str]], rules: list[RuleDescription]
) -> list[tuple[str, str]]:
    """The pairs, of which one body moves, that no contact lists and of which no rule says that they
    may touch or stay apart."""
    number, fixed = {name: i for i, (name, _) in enumerate(bodies)}, np.array([fixed for _, fixed in bodies], dtype=bool)
    taken = np.outer(fixed, fixed)

    def take(first, second) -> None:
        groups = [np.array([number[name] for name in group if name in number], dtype=int) for group in (first, second)]
        taken[np.ix_(*groups)] = True

    for pair in (*map(tuple, listed), *(pair for rule in rules for pair in rule.apart)):
        take(pair[:1], pair[1:])
    for rule in rules:
        take(number if rule.first is None else rule.first, number if rule.second is None else rule.second)
    names = [name for name, _ in bodies]
    return [(names[i], names[j]) for i, j in np.argwhere(np.triu(~(taken | taken.T), 1)).tolist()]


def _groups(table: Table) -> tuple | None:
    """Two groups of names, None for all bodies, and the pairs kept apart, of `among = "all"`,
    `among = [...]` or `between = [[...], [...]]`, with `apart = [[...], ...]`; None where the table
    is of one pair."""
    among, between = table.take("among", None), table.take("between", None)
    if among is None and between is None:
        return None
    if among is not None and between is not None:
        raise SceneKeyError(f"{table.where}: `among` and `between` are both given: a contact has one of them.")
    apart = tuple(_names(table, "apart", pair) for pair in _list(table, "apart", table.take("apart", [])))
    if any(len(pair) != 2 for pair in apart):
        raise SceneValueError(f"{table.where}.apart must be pairs of names.")
    if among is not None:
        names = None if among == "all" else _names(table, "among", among)
        return names, names, apart
    groups = tuple(_names(table, "between", group) for group in _list(table, "between", between))
    if len(groups) != 2:
        raise SceneValueError(f"{table.where}.between has {len(groups)} groups of names: give two.")
    return *groups, apart


def _list(table: Table, key: str, found) -> list:
    if not isinstance(found, list):
        raise SceneValueError(f"{table.where}.{key} = {found!r:.60} must be a list.")
    return found


def _names(table: Table, key: str, found) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in _list(table, key, found)):
        raise SceneValueError(f"{table.where}.{key} = {found!r:.60} must be names of bodies.")
    return tuple(found)


def _parts(table: Table) -> tuple[tuple[int, int], ...] | None:
    """parts = [[0, 0], [1, 0]], numbers of the parts that touch."""
    found = table.entries("parts", None)
    if found is None:
        return None
    table.refuse_more("parts", found, MOST_PAIRS_OF_PARTS)
    pairs = [pair for pair in found if isinstance(pair, list) and len(pair) == 2]
    if len(pairs) < len(found) or not all(type(number) is int for pair in pairs for number in pair):
        raise SceneValueError(f"{table.where}.parts = {found!r:.60} must be a list of pairs of whole numbers.")
    return tuple(map(tuple, pairs))


def _friction(table: Table, found, units: Units) -> FrictionEllipsoid:
    """friction = 0.2, or a table of the arguments of `FrictionEllipsoid`."""
    where = f"{table.where}.friction"
    try:
        if not isinstance(found, dict):
            return FrictionEllipsoid(mu=table.value(found, where))
        inner = Table(found, where, table.parameters)
        inner.expect(("mu", "e_t", "e_o", "e_r", "direction", "mu_s"))
        law = {"mu": inner.number("mu")}
        law |= {name: inner.number(name, 1.0) for name in ("e_t", "e_o")}
        law["e_r"] = inner.number("e_r", 0.0, units.length)
        law["direction"] = inner.numbers("direction", None)
        law["mu_s"] = inner.number("mu_s", None)
        inner.end()
        return FrictionEllipsoid(**law)
    except SceneFileError:
        raise
    except ValueError as error:
        raise SceneBuildError(f"{where}: {error}") from error


def _restitution(table: Table) -> Newton | Poisson | None:
    """restitution = 0.5 or { newton = 0.5 }, or { poisson = 0.5 }."""
    found = table.take("restitution", None)
    if found is None:
        return None
    try:
        if not isinstance(found, dict):
            return Newton(table.value(found, f"{table.where}.restitution"))
        inner = Table(found, f"{table.where}.restitution", table.parameters)
        given = {law: inner.number(key, None) for key, law in (("newton", Newton), ("poisson", Poisson))}
        inner.end()
        laws = [law(e) for law, e in given.items() if e is not None]
        if len(laws) != 1:
            raise SceneKeyError(f"{inner.where} must have one of `newton` and `poisson`.")
        return laws[0]
    except SceneFileError:
        raise
    except ValueError as error:
        raise SceneBuildError(f"{table.where}.restitution: {error}") from error


def _compliance(table: Table) -> Compliance:
    given = {"stiffness": table.number("stiffness"), "dissipation_time": table.number("dissipation_time", 0.0)}
    table.end()
    try:
        return Compliance(**given)
    except ValueError as error:
        raise SceneBuildError(f"{table.where}: {error}") from error
