"""Contacts as tables of a file."""

from __future__ import annotations

from ..constraints.compliance import Compliance
from ..constraints.friction import FrictionEllipsoid
from ..constraints.restitution import Newton
from .description import ContactDescription
from .tables import SceneFileError, Table, refuse_more
from .units import Units

_MOST_CONTACTS, _MOST_PAIRS = 20_000, 500_000


def contacts_of(whole: Table, bodies: list[tuple[str, bool]], units: Units) -> tuple[ContactDescription, ...]:
    """Of pairs as they are listed; `bodies = "all"` stands for all pairs that are not, of which one body moves."""
    found, listed, rest = [], set(), []
    for table in whole.tables("contact"):
        pair = table.take("bodies")
        friction = table.take("friction", 0.0)
        law = _friction(table, friction, units)
        springs = table.table("compliance", None)
        compliance = None if springs is None else _compliance(springs)
        laws = law, compliance, _restitution(table)
        table.end()
        if pair == "all":
            rest.append((len(found), laws))
            continue
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise SceneFileError(f'{table.where}.bodies = {pair!r:.60} must be two names, or "all".')
        listed.add(frozenset(pair))
        found.append(ContactDescription(*pair, *laws))
        refuse_more("contact", found, _MOST_CONTACTS)
    if len(rest) > 1:
        raise SceneFileError('`bodies = "all"` stands in two contacts: one of them has the rest.')
    for place, laws in rest:
        refuse_more("contact", range(len(bodies) * (len(bodies) - 1) // 2), _MOST_PAIRS)
        pairs = [
            (a, b)
            for i, (a, a_fixed) in enumerate(bodies)
            for b, b_fixed in bodies[i + 1 :]
            if not (a_fixed and b_fixed) and frozenset((a, b)) not in listed
        ]
        refuse_more("contact", pairs, _MOST_CONTACTS)
        found[place:place] = [ContactDescription(*pair, *laws) for pair in pairs]
    return tuple(found)


def _friction(table: Table, found, units: Units) -> FrictionEllipsoid:
    """friction = 0.2, or a table of the arguments of `FrictionEllipsoid`."""
    where = f"{table.where}.friction"
    try:
        if not isinstance(found, dict):
            return FrictionEllipsoid(mu=table.value(found, where))
        inner = Table(found, where, table.parameters)
        law = {"mu": inner.number("mu")}
        law |= {name: inner.number(name, 1.0) for name in ("e_t", "e_o")}
        law["e_r"] = inner.number("e_r", 0.0, units.length)
        law["direction"] = inner.numbers("direction", None)
        inner.end()
        return FrictionEllipsoid(**law)
    except SceneFileError:
        raise
    except ValueError as error:
        raise SceneFileError(f"{where}: {error}") from error


def _restitution(table: Table) -> Newton | None:
    e = table.number("restitution", None)
    try:
        return None if e is None else Newton(e)
    except ValueError as error:
        raise SceneFileError(f"{table.where}.restitution: {error}") from error


def _compliance(table: Table) -> Compliance:
    given = {"stiffness": table.number("stiffness"), "dissipation_time": table.number("dissipation_time", 0.0)}
    table.end()
    try:
        return Compliance(**given)
    except ValueError as error:
        raise SceneFileError(f"{table.where}: {error}") from error
