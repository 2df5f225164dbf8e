"""Tables of a file, taken apart key by key: what is missing, of another type or not known is
refused where it stands."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sympy

from shapes import ShapeError
from shapes.expressions.parse import parse

from ..runtime.errors import SceneBuildError, SceneKeyError, SceneLimitError, SceneValueError

# what a file has at most, as it may come from a stranger: bytes, joints as many as bodies, parts of
# a body, contacts, and in a list numbers (a polytope of so many faces takes a second to build)
LONGEST, MOST_BODIES, MOST_PARTS, MOST_CONTACTS, MOST_NUMBERS = 500_000, 1000, 50, 20_000, 200
MOST_PAIRS_OF_PARTS = MOST_PARTS**2
_LARGEST = 1e300
_MISSING = object()

_ALIKE = 0.75  # of two keys, from which on one may be a slip of the other: `mu_s` is none of `mu`


class Table:
    """One table at the place `where`, whose keys are each taken once; `parameters` are the file's
    own numbers by name. It may have any number of entries unless it is `bounded`."""

    def __init__(self, data: object, where: str, parameters: Mapping[str, float], bounded: bool = True):
        if not isinstance(data, dict):
            raise SceneValueError(f"{where} must be a table, not {data!r:.60}.")
        self.left, self.where, self.parameters = dict(data), where, parameters
        self.known: list[str] = []
        self.bounded = bounded

    def place(self, key: str) -> str:
        """Where `key` stands."""
        return f"{self.where}.{key}" if self.where else key

    def expect(self, keys: Iterable[str]) -> None:
        """Says of `keys` that they will be taken, so that none is held for a slip of another."""
        self.known += [key for key in keys if key not in self.known]

    def take(self, key: str, default=_MISSING) -> Any:
        """What stands under `key`, or `default`."""
        self.expect([key])
        if key in self.left:
            return self.left.pop(key)
        if default is _MISSING:
            near = difflib.get_close_matches(key, [other for other in self.left if other not in self.known], 1, _ALIKE)
            meant = f", and has the key {near[0]!r:.60}, which means nothing: did you mean `{key}`?" if near else "."
            raise SceneKeyError(f"{self.where or 'the file'} lacks `{key}`{meant}")
        return default

    def text(self, key: str, default=_MISSING) -> str | None:
        """Text."""
        found = self.take(key, default)
        if found is not default and not isinstance(found, str):
            raise SceneValueError(f"{self.place(key)} = {found!r:.60} must be text.")
        return found

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        found = self.take(key, default)
        if not isinstance(found, bool):
            raise SceneValueError(f"{self.place(key)} = {found!r:.60} must be true or false.")
        return found

    def entries(self, key: str, default=_MISSING) -> list:
        """A list."""
        found = self.take(key, default)
        if found is not default and not isinstance(found, list):
            raise SceneValueError(f"{self.place(key)} = {found!r:.60} must be a list.")
        return found

    def number(self, key: str, default=_MISSING, unit: Callable[[float], float] = float) -> float | None:
        """A number, or a formula of the file's parameters, in SI by `unit`."""
        found = self.take(key, default)
        return found if found is default else unit(self.value(found, self.place(key)))

    def numbers(self, key: str, default=_MISSING, unit: Callable[[float], float] = float) -> tuple | None:
        """Numbers in lists of any depth, as tuples."""
        found = self.take(key, default)
        return found if found is default else self._tuples(found, self.place(key), unit, 0)

    def _tuples(self, found, where: str, unit: Callable[[float], float], depth: int):
        if not isinstance(found, list):
            return unit(self.value(found, where))
        if depth == 3 or (self.bounded and len(found) > MOST_NUMBERS):
            raise SceneLimitError(f"{where} is nested too deeply, or has more than {MOST_NUMBERS} entries.")
        return tuple(self._tuples(part, f"{where}[{i}]", unit, depth + 1) for i, part in enumerate(found))

    def value(self, found: object, where: str) -> float:
        """A finite number that is one, or a formula of the file's parameters."""
        if isinstance(found, str):
            try:
                found = parse(found, {name: sympy.Float(value) for name, value in self.parameters.items()})
                found = float(found)
            except (ShapeError, TypeError, OverflowError) as error:
                raise SceneBuildError(f"{where}: {error}") from error
        if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) <= _LARGEST:
            raise SceneValueError(f"{where} = {found!r:.60} must be a finite number.")
        return float(found)

    def table(self, key: str, default=_MISSING) -> Table | None:
        """A table."""
        found = self.take(key, default)
        return found if found is default else self._inner(found, self.place(key))

    def tables(self, key: str) -> list[Table]:
        """Tables [[key]], none of them where there is no such key."""
        return [self._inner(part, f"{self.place(key)}[{i}]") for i, part in enumerate(self.entries(key, []))]

    def _inner(self, data: object, where: str) -> Table:
        return Table(data, where, self.parameters, self.bounded)

    def refuse_more(self, key: str, entries: Sequence, most: int) -> None:
        """Raises `SceneFileError`."""
        if self.bounded and len(entries) > most:
            raise SceneLimitError(f"`{key}` has {len(entries)} entries: a file has at most {most}.")

    def end(self) -> None:
        """Raises `SceneFileError` for keys that nobody took: a word with a slip in it would else be
        left out in silence."""
        for key in self.left:
            near = difflib.get_close_matches(key, self.known, 1)
            meant = f"did you mean `{near[0]}`?" if near else f"known here are {', '.join(self.known)}."
            raise SceneKeyError(f"{self.where or 'the file'} has the key {key!r:.60}, which means nothing: {meant}")
