"""The kinds of errors that a user can meet, but for those that carry what was computed, which stand
beside what they carry. A docstring says what the error means, and in its second paragraph what to
do; `docs/errors.md` and the command `explain` say the same."""

from __future__ import annotations

from shapes.errors import Explained


class PrecisionError(Explained, ValueError):
    """JAX computes in single precision, which cannot resolve contact.

    Leave `jax_enable_x64` on, as the import of the package sets it."""


class BodyError(Explained, ValueError):
    """A body whose shapes, mass or inertia cannot be together.

    Give what the message asks for: `density`, or `mass`, or both `mass` and `inertia`."""


class PoseError(Explained, ValueError):
    """A position or an orientation that is none: of other length, not finite, not a rotation.

    Give a position [m] and a unit quaternion, w first; in the plane an angle [rad]."""


class FunctionError(Explained, ValueError):
    """A function or a formula of yours that the steps cannot use: a load, a motion, a joint, a gap.

    Write it with jax.numpy, of the arguments and with the shape of result that the message
    names."""


class NameTakenError(Explained, ValueError):
    """A name that cannot be given, as it is taken, or no text.

    Give each body, each joint and each parameter a name of its own."""


class PairError(Explained, ValueError):
    """Two bodies between which nothing can be: of other scenes, both fixed, one body, joined twice.

    Give two bodies of this scene of which one moves, and each pair once."""


class ContactLawError(Explained, ValueError):
    """A law of contact that cannot be: friction, restitution or compliance.

    Give coefficients in the range that the message names."""


class ContactRuleError(Explained, ValueError):
    """A rule of which bodies may touch that names no pairs.

    Give `among` or `between`, as Scene.add_contacts says."""


class JointError(Explained, ValueError):
    """A joint, or what acts along it, that cannot be: an argument, a coordinate, a limit, a gear.

    Give what the message asks for; joints.md lists the arguments of each joint."""


class OpenJointError(Explained, ValueError):
    """A joint whose points or axes are not together at the start, or are torn by velocities.

    Move the bodies, or let `project=True` move them; give both bodies velocities that fit."""


class StepperError(Explained, ValueError):
    """A stepper, or a tool beside it, that is asked for what it does not treat.

    Take a stepper that does: steppers.md has the table, and the message names some."""


class RunError(Explained, ValueError):
    """A run that cannot be as it is asked for: step, tolerance, duration, settings.

    Give what the message asks for; choosing.md says how to choose `h` and `tol`."""


class StartError(Explained, ValueError):
    """A state to start from that is none of this scene.

    Give a `State` or a `Trajectory` of a scene of the same bodies."""


class OverlapError(Explained, ValueError):
    """Bodies that overlap so deeply at the start that no step can part them in good order.

    Move them apart."""


class JumpError(Explained, ValueError):
    """A load or a motion that jumps in time where chosen steps need it to be continuous.

    Give `switches` for loads; make motions continuous."""


class BatchError(Explained, ValueError):
    """Parameters or states of a batch that do not fit the scene or each other.

    Give arrays with one entry a scene, of parameters that the message lists."""


class ComparisonError(Explained, ValueError):
    """Methods, steps and a reference that cannot be compared.

    Give what the message asks for; a reference of chosen steps has all times of its duration."""


class ForcesError(Explained, ValueError):
    """Contact forces or solutions that are not to be had for this scene or run.

    Give what the message asks for, or take the forces as recorded."""


class NoDerivativeError(Explained, NotImplementedError):
    """A derivative of steps that is not known.

    Take a stepper that has it: derivatives.md."""


class RunFileError(Explained, ValueError):
    """A file that is no saved run, or is damaged, or of another version.

    Take it from a copy, or run again."""


class NotRecordedError(Explained, ValueError):
    """A run is asked for what it does not hold.

    Run again, with the stepper that the message names."""


class OutsideRunError(Explained, ValueError):
    """A time that the run did not reach.

    Ask for times between its first and its last."""


class PictureError(Explained, ValueError):
    """A picture, film or page of what is not there.

    Give a run of one step or more, and what the message lists."""


class UnknownNameError(Explained, KeyError):
    """A body, contact or joint that the run has not.

    Take one of those that the message lists."""


class UnknownNumberError(Explained, IndexError):
    """The number of a body, contact or joint that the run has not.

    Take a number below the count that the message gives."""


class SliceError(Explained, TypeError):
    """A part of a run that is no run: every other step, or a single one.

    Give a range of steps, run[a:b]."""


class DimensionError(Explained, AttributeError):
    """The angle of a body in space, or the quaternion of one in the plane.

    Take the other one."""


class SceneFileError(Explained, ValueError):
    """A scene file that is not one, or whose scene cannot be; each is one of the kinds below.

    The message says where in the file; scene-files.md lists every key."""


class SceneTextError(SceneFileError):
    """A file that is no TOML, no text, or of another format.

    The first line is `format = 1`; text stands in quotes."""


class SceneKeyError(SceneFileError):
    """A key that is missing, not known, or stands beside one that excludes it.

    Compare it with the list of keys in scene-files.md."""


class SceneValueError(SceneFileError):
    """A value of another type or length than its key has, or out of its range.

    Give what the message asks for."""


class SceneLimitError(SceneFileError):
    """A file of more than is read: bytes, entries, depth.

    Make it smaller, or build the scene in Python, which has no such limits."""


class SceneBuildError(SceneFileError):
    """A file that can be read, and a scene that cannot be: the reason is that of the same call in
    Python.

    The message names the body, contact or joint; the error that is its cause has a code too."""


class RobotFileError(SceneFileError):
    """An MJCF or URDF file that cannot be read or stepped.

    See robots.md for what is read; the message names the element."""


class NotInAFileError(Explained, ValueError):
    """A part of a scene that no file can hold, as it is a function or a shape made in Python.

    Write it as a formula: Motion, MovingPose, Wrench, or an ImplicitShape in x, y, z."""


class CommandError(Explained, ValueError):
    """A name that a command is given and does not know, or a file that it would write over.

    Give a file, or one of the names that `implicit-stepper scenes` or `explain` lists."""


class MissingPackageError(Explained, ImportError):
    """A package of an extra is not installed.

    Run the `pip install` that the message gives."""


class CannotWriteError(Explained, OSError):
    """A folder that cannot be written.

    Give another one."""


class DeviceError(Explained, RuntimeError):
    """JAX has no such device.

    Run on the CPU, or install the driver and JAX for it."""


class ExactSolutionError(Explained, RuntimeError):
    """An exact solution of a scene of the paper left its equations.

    This is a mistake of ours: report it."""


class AccuracyWarning(Explained, UserWarning):
    """A run is less accurate than its tolerance asks.

    Do what the message says, or take the result as that much less accurate."""
