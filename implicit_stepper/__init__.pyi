"""Where each public name is: `__init__.py` reads this list and imports a module once one of its
names is asked for; editors and the reference of the documentation read it too."""

import shapes as shapes

from .collision.closest_points import (
    ClosestPoints as ClosestPoints,
)
from .collision.closest_points import (
    closest_points as closest_points,
)
from .constraints.compliance import Compliance as Compliance
from .constraints.friction import (
    FrictionEllipsoid as FrictionEllipsoid,
)
from .constraints.friction import (
    JointFriction as JointFriction,
)
from .constraints.joints import (
    BallJoint as BallJoint,
)
from .constraints.joints import (
    Cylindrical as Cylindrical,
)
from .constraints.joints import (
    Distance as Distance,
)
from .constraints.joints import (
    Fixed as Fixed,
)
from .constraints.joints import (
    Hinge as Hinge,
)
from .constraints.joints import (
    Planar as Planar,
)
from .constraints.joints import (
    Screw as Screw,
)
from .constraints.joints import (
    Slider as Slider,
)
from .constraints.joints import (
    Spring as Spring,
)
from .constraints.joints import (
    Universal as Universal,
)
from .constraints.of_users import (
    PairLoad as PairLoad,
)
from .constraints.of_users import (
    UserConstraint as UserConstraint,
)
from .constraints.of_users import (
    VelocityConstraint as VelocityConstraint,
)
from .constraints.restitution import Newton as Newton
from .constraints.restitution import Poisson as Poisson
from .implicit_euler.certificate import certificate as certificate
from .implicit_euler.closed_form_gap import ClosedFormGap as ClosedFormGap
from .implicit_euler.geometrically_implicit import GeometricallyImplicit as GeometricallyImplicit
from .model.bodies import State as State
from .model.results import (
    ClosestPointsError as ClosestPointsError,
)
from .model.results import (
    Interrupted as Interrupted,
)
from .model.results import (
    Result as Result,
)
from .model.results import (
    StepError as StepError,
)
from .output import drawing as drawing
from .output import plots as plots
from .output.served import view as view
from .radau.error_control import Tolerance as Tolerance
from .radau.radau_contact import RadauContact as RadauContact
from .run.batch import Batch as Batch
from .run.batch import simulate_batch as simulate_batch
from .run.checkpoint import CheckpointError as CheckpointError
from .run.compare import (
    Adaptive as Adaptive,
)
from .run.compare import (
    ComparisonInterrupted as ComparisonInterrupted,
)
from .run.compare import (
    compare as compare,
)
from .run.comparison import Comparison as Comparison
from .run.contact_states import ContactStates as ContactStates
from .run.contact_states import contact_states as contact_states
from .run.force_ranges import ForceRanges as ForceRanges
from .run.force_ranges import force_ranges as force_ranges
from .run.joint_states import JointStates as JointStates
from .run.joint_states import joint_states as joint_states
from .run.least_forces import least_forces as least_forces
from .run.one_sided import one_sided as one_sided
from .run.overlaps import OverlapWarning as OverlapWarning
from .run.richardson import ErrorEstimate as ErrorEstimate
from .run.rollout import Rollout as Rollout
from .run.rollout import rollout as rollout
from .run.scene_run import run_scene as run_scene
from .run.sensitivities import sensitivities as sensitivities
from .run.simulate import simulate as simulate
from .run.solutions import Solution as Solution
from .run.solutions import solutions as solutions
from .run.trajectory import Trajectory as Trajectory
from .run.trajectory_file import load as load
from .runtime import errors as errors
from .runtime.compilation_cache import use_compilation_cache as use_compilation_cache
from .runtime.errors import SceneFileError as SceneFileError
from .runtime.interpreter import faster_tracing as faster_tracing
from .runtime.threads import one_blas_thread as one_blas_thread
from .runtime.version import VERSION as __version__  # noqa: F401
from .scene.description import RunSettings as RunSettings
from .scene.formula import Motion as Motion
from .scene.formula import MovingPose as MovingPose
from .scene.formula import Wrench as Wrench
from .scene.mjcf import load_mjcf as load_mjcf
from .scene.scene import Scene as Scene
from .scene.toml import load_scene as load_scene
from .solvers.newton import solve_ncp as solve_ncp
from .time_lagged.cone_complementarity import ConeComplementarity as ConeComplementarity
from .time_lagged.convex import Convex as Convex
from .time_lagged.explicit import Explicit as Explicit
from .time_lagged.linearized import Linearized as Linearized
