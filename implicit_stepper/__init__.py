"""Geometrically implicit contact: collision detection and dynamics of rigid bodies as one
complementarity problem a step.

Importing this package switches JAX to double precision, which contact needs.
"""

from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec

import jax

jax.config.update("jax_enable_x64", True)

_found = find_spec("shapes")
if _found is None or PathFinder.find_spec("closest_points", _found.submodule_search_locations or []) is None:
    raise ImportError(
        f"`import shapes` finds {_found and (_found.origin or list(_found.submodule_search_locations))}, not the package of "
        "that name that belongs to implicit_stepper: rename that file or folder, which Python's path has first.\n"
        "[ImportError] docs/errors.md#another-package-named-shapes"
    )

import shapes  # noqa: E402  (shapes make no arrays at import, but everything after this line may)

from .collision.closest_points import ClosestPoints, closest_points  # noqa: E402
from .constraints.compliance import Compliance  # noqa: E402
from .constraints.friction import FrictionEllipsoid, JointFriction  # noqa: E402
from .constraints.joints import (  # noqa: E402
    BallJoint,
    Cylindrical,
    Distance,
    Fixed,
    Hinge,
    Planar,
    Screw,
    Slider,
    Spring,
    Universal,
)
from .constraints.of_users import PairLoad, UserConstraint, VelocityConstraint  # noqa: E402
from .constraints.restitution import Newton, Poisson  # noqa: E402
from .implicit_euler.certificate import certificate  # noqa: E402
from .implicit_euler.closed_form_gap import ClosedFormGap  # noqa: E402
from .implicit_euler.geometrically_implicit import GeometricallyImplicit  # noqa: E402
from .model.bodies import State  # noqa: E402
from .model.results import ClosestPointsError, Interrupted, Result, StepError  # noqa: E402
from .radau.error_control import Tolerance  # noqa: E402
from .radau.radau_contact import RadauContact  # noqa: E402
from .run.batch import Batch, simulate_batch  # noqa: E402
from .run.checkpoint import CheckpointError  # noqa: E402
from .run.compare import Adaptive, Comparison, ComparisonInterrupted, compare  # noqa: E402
from .run.contact_states import ContactStates, contact_states  # noqa: E402
from .run.force_ranges import ForceRanges, force_ranges  # noqa: E402
from .run.least_forces import least_forces  # noqa: E402
from .run.one_sided import one_sided  # noqa: E402
from .run.overlaps import OverlapWarning  # noqa: E402
from .run.richardson import ErrorEstimate  # noqa: E402
from .run.rollout import Rollout, rollout  # noqa: E402
from .run.scene_run import run_scene  # noqa: E402
from .run.sensitivities import sensitivities  # noqa: E402
from .run.simulate import simulate  # noqa: E402
from .run.solutions import Solution, solutions  # noqa: E402
from .run.trajectory import Trajectory  # noqa: E402
from .run.trajectory_file import load  # noqa: E402
from .runtime import errors  # noqa: E402
from .runtime.compilation_cache import use_compilation_cache  # noqa: E402
from .runtime.errors import SceneFileError  # noqa: E402
from .runtime.threads import one_blas_thread  # noqa: E402
from .runtime.version import VERSION  # noqa: E402
from .scene.description import RunSettings  # noqa: E402
from .scene.formula import Motion, MovingPose, Wrench  # noqa: E402
from .scene.mjcf import load_mjcf  # noqa: E402
from .scene.scene import Scene  # noqa: E402
from .scene.toml import load_scene  # noqa: E402
from .solvers.newton import solve_ncp  # noqa: E402
from .time_lagged.cone_complementarity import ConeComplementarity  # noqa: E402
from .time_lagged.convex import Convex  # noqa: E402
from .time_lagged.explicit import Explicit  # noqa: E402
from .time_lagged.linearized import Linearized  # noqa: E402

__all__ = [
    "Adaptive",
    "BallJoint",
    "Batch",
    "CheckpointError",
    "ClosedFormGap",
    "ClosestPoints",
    "ClosestPointsError",
    "Comparison",
    "ComparisonInterrupted",
    "Compliance",
    "ConeComplementarity",
    "ContactStates",
    "Convex",
    "Cylindrical",
    "Distance",
    "ErrorEstimate",
    "Explicit",
    "Fixed",
    "ForceRanges",
    "FrictionEllipsoid",
    "GeometricallyImplicit",
    "Hinge",
    "Interrupted",
    "JointFriction",
    "Linearized",
    "Motion",
    "MovingPose",
    "Newton",
    "OverlapWarning",
    "PairLoad",
    "Planar",
    "Poisson",
    "RadauContact",
    "Result",
    "Rollout",
    "RunSettings",
    "Scene",
    "SceneFileError",
    "Screw",
    "Slider",
    "Solution",
    "Spring",
    "State",
    "StepError",
    "Tolerance",
    "Trajectory",
    "Universal",
    "UserConstraint",
    "VelocityConstraint",
    "Wrench",
    "certificate",
    "closest_points",
    "compare",
    "contact_states",
    "errors",
    "force_ranges",
    "least_forces",
    "load",
    "load_mjcf",
    "load_scene",
    "one_blas_thread",
    "one_sided",
    "rollout",
    "run_scene",
    "sensitivities",
    "shapes",
    "simulate",
    "simulate_batch",
    "solutions",
    "solve_ncp",
    "use_compilation_cache",
]

__version__ = VERSION
_NEED_MATPLOTLIB = ("drawing", "plots")


def __getattr__(name: str):
    """`drawing` and `plots`, once they are asked for: they need matplotlib."""
    if name in _NEED_MATPLOTLIB:
        return import_module(f".output.{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.")


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, *_NEED_MATPLOTLIB, "__version__"])
