"""Geometrically implicit contact: collision detection and dynamics of rigid bodies as one
complementarity problem a step.

Importing this package imports `shapes`, which switches JAX to double precision. Modules are
imported once one of their names is asked for: the list is `__init__.pyi`.
"""

import ast
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

_found = find_spec("shapes")
if _found is None or PathFinder.find_spec("closest_points", _found.submodule_search_locations or []) is None:
    raise ImportError(
        f"`import shapes` finds {_found and (_found.origin or list(_found.submodule_search_locations))}, not the package of "
        "that name that belongs to implicit_stepper: rename that file or folder, which Python's path has first.\n"
        "[ImportError] docs/errors.md#another-package-named-shapes"
    )

import shapes  # noqa: E402, F401  (switches JAX to double precision, before anything of ours makes an array)

_NEED_MATPLOTLIB = ("drawing", "plots")
_LISTED = [  # (room and module, its name, the public name)
    (node.module, name.name, name.asname)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for name in node.names
]
_HOMES = {public: (module, name) for module, name, public in _LISTED}
__all__ = sorted(({"shapes"} | set(_HOMES)).difference(_NEED_MATPLOTLIB, ["__version__"]))


def __getattr__(name: str):
    """A public name, whose module is imported by its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.")
    module, own = _HOMES[name]
    room = import_module(f".{module}", __name__)
    globals()[name] = found = getattr(room, own, None) or import_module(f".{module}.{own}", __name__)
    return found


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, *_NEED_MATPLOTLIB, "__version__"])
