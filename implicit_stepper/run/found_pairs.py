"""Which runs find the pairs that may touch step by step, and what these cannot do yet."""

from __future__ import annotations

from ..constraints import impact_friction
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..runtime.errors import StepperError
from ..scene.scene import Scene
from ..time_lagged.cone_complementarity import ConeComplementarity
from ..time_lagged.convex import Convex
from ..time_lagged.linearized import Linearized

# pairs that may touch, from which on they are found step by step: those of bodies with faces, which
# leave more unknowns, count twice; and in scenes with joints
_MANY, _MANY_JOINTED = 200, 1000


def finds_pairs(scene: Scene, stepper) -> bool:
    """Whether a run of `scene` with this `stepper` finds the pairs that may touch step by step."""
    if isinstance(stepper, GeometricallyImplicit):
        if stepper.gap != "in_ncp" or stepper.jacobian == "dense":
            return False
        if stepper.jacobian == "sparse":
            return True
    elif not _finds_beforehand(scene, stepper):
        return False
    pairs = scene.pair_count()
    if _by_parts(scene) or pairs <= _MANY / 2:
        return False
    implicit = isinstance(stepper, GeometricallyImplicit)
    rebounds = any(law.restitution is not None for law in scene.body_pairs().laws)
    if not implicit:
        return pairs > _MANY and not scene.joint_specs()
    if rebounds and (stepper.impacts == "sequential" or _rubbing(scene)):
        return False
    if scene.joint_specs():
        return pairs > _MANY_JOINTED
    return pairs > _MANY or (not rebounds and pairs + _of_faces(scene) > _MANY)


def _finds_beforehand(scene: Scene, stepper) -> bool:
    """Whether a method that finds contacts before it solves can find their pairs too; those that
    know no compliant contacts refuse them by themselves."""
    if isinstance(stepper, Convex):
        return stepper.approximation == "convex"
    relaxed = isinstance(stepper, ConeComplementarity) and stepper.relaxed
    return (relaxed or isinstance(stepper, Linearized)) and not _compliant(scene)


def _of_faces(scene: Scene) -> int:
    """How many contacts are of bodies with faces."""
    return sum(len(group.bodies) for group in scene.build()[0].groups if not group.pair.smooth)


def _compliant(scene: Scene) -> bool:
    return any(law.compliance is not None for law in scene.body_pairs().laws)


def _rubbing(scene: Scene) -> bool:
    """Whether a joint rubs: its friction in an impact is bounded by what the impact makes of it."""
    return bool(scene.joint_specs()) and bool(impact_friction.groups(scene.build(contacts=False)[0]))


def _by_parts(scene: Scene) -> bool:
    """Whether contacts were added for some parts of their bodies only."""
    return any(contact.parts is not None for contact in scene.description().contacts)


def refuse(scene: Scene, stepper) -> None:
    """Raises `ValueError` for what runs that find their pairs cannot do yet."""
    if _by_parts(scene):
        raise StepperError('`jacobian` = "sparse" knows no contacts of some `parts` of two bodies: leave it "by size".')
    if any(law.restitution is not None for law in scene.body_pairs().laws):
        _refuse_rebounds(scene, stepper)


def _refuse_rebounds(scene: Scene, stepper) -> None:
    """Raises `ValueError` for what such runs do not know of rebounds."""
    if not isinstance(stepper, GeometricallyImplicit):
        raise StepperError(f"{type(stepper).__name__} knows no restitution: take GeometricallyImplicit.")
    if stepper.impacts == "sequential":
        raise StepperError(
            '`jacobian` = "sparse" finds pairs, of which `impacts` = "sequential" knows none: leave one of the two out.'
        )
    if _rubbing(scene):
        raise StepperError(
            '`jacobian` = "sparse" finds pairs, of which a restitution beside joints with friction knows none: leave it '
            '"by size".'
        )
