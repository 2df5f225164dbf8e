"""Geometrically implicit contact: collision detection and dynamics of rigid bodies as one complementarity problem a step.

Importing this package switches JAX to double precision, which contact needs.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec

import jax

jax.config.update("jax_enable_x64", True)

_found = find_spec("shapes")
if _found is None or PathFinder.find_spec("closest_points", _found.submodule_search_locations or []) is None:
    raise ImportError(
        f"`import shapes` finds {_found and (_found.origin or list(_found.submodule_search_locations))}, not the package of "
        "that name that belongs to implicit_stepper: rename that file or folder, which Python's path has first."
    )

import shapes  # noqa: E402  (shapes make no arrays at import, but everything after this line may)

from .certificate import certificate  # noqa: E402
from .compare import Adaptive, Comparison, ComparisonInterrupted, compare  # noqa: E402
from .compilation_cache import use_compilation_cache  # noqa: E402
from .compliance import Compliance  # noqa: E402
from .distance import ClosestPoints, closest_points  # noqa: E402
from .error_control import Tolerance  # noqa: E402
from .friction import FrictionEllipsoid  # noqa: E402
from .newton import solve_ncp  # noqa: E402
from .overlaps import OverlapWarning  # noqa: E402
from .results import ClosestPointsError, Interrupted, Result, StepError  # noqa: E402
from .scene import Scene  # noqa: E402
from .simulate import simulate  # noqa: E402
from .steppers import ClosedFormGap, ConeComplementarity, Convex, Explicit, GeometricallyImplicit, Linearized, RadauContact
from .threads import one_blas_thread  # noqa: E402
from .trajectory import Trajectory, load  # noqa: E402

__all__ = [
    "Adaptive",
    "ClosedFormGap",
    "ClosestPoints",
    "ClosestPointsError",
    "Comparison",
    "ComparisonInterrupted",
    "Compliance",
    "ConeComplementarity",
    "Convex",
    "Explicit",
    "FrictionEllipsoid",
    "GeometricallyImplicit",
    "Interrupted",
    "Linearized",
    "OverlapWarning",
    "RadauContact",
    "Result",
    "Scene",
    "StepError",
    "Tolerance",
    "Trajectory",
    "certificate",
    "closest_points",
    "compare",
    "load",
    "one_blas_thread",
    "shapes",
    "simulate",
    "solve_ncp",
    "use_compilation_cache",
]

__version__ = "0.1.0"
