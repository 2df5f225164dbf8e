"""Which runs find the pairs that may touch step by step, and what these cannot do yet."""

from __future__ import annotations

import numpy as np

from ..constraints import impact_friction
from ..runtime.errors import StepperError
from ..scene.scene import Scene
from ..stepping.capabilities import FindsPairs
from ..stepping.stepper import refuse_second_coefficient

# pairs that may touch, from which on they are found step by step: those of bodies with faces, which
# leave more unknowns, count twice; and in scenes with joints
_MANY, _MANY_JOINTED = 200, 1000


def finds_pairs(scene: Scene, stepper) -> bool:
    """Whether a run of `scene` with this `stepper` finds the pairs that may touch step by step."""
    can = stepper.can
    if can.finds_pairs != FindsPairs.BY_SIZE:
        return can.finds_pairs == FindsPairs.ALWAYS
    if not can.compliance and _compliant(scene):  # which it refuses by itself
        return False
    pairs = scene.pair_count()
    if _by_parts(scene) or pairs <= _MANY / 2:
        return False
    if can.normals_at_start:  # contacts are found before the step
        return pairs > _MANY and not scene.joint_specs()
    rebounds = any(law.restitution is not None for law in scene.body_pairs().laws)
    if rebounds and (can.sequential or _rubbing(scene)):
        return False
    if scene.joint_specs():
        return pairs > _MANY_JOINTED
    return pairs > _MANY or (not rebounds and pairs + _of_faces(scene) > _MANY)


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
    _refuse_static_friction(scene, stepper)
    if any(law.restitution is not None for law in scene.body_pairs().laws):
        _refuse_rebounds(scene, stepper)


def _refuse_static_friction(scene: Scene, stepper) -> None:
    """Raises `ValueError` for a `mu_s` between two bodies that the `stepper` does not know."""
    own = scene.body_pairs()
    sticks = np.array([law.friction.mu_s is not None for law in own.laws], bool)
    if stepper.can.static_friction or not np.any(sticks):
        return
    bodies = np.stack(np.triu_indices(own.count, 1), axis=1)
    law, _ = own.laws_of(bodies)
    for pair in bodies[(law >= 0) & sticks[law]][:1]:
        names = scene.build(contacts=False)[0].names
        refuse_second_coefficient(stepper, " and ".join(names[number] for number in pair))


def _refuse_rebounds(scene: Scene, stepper) -> None:
    """Raises `ValueError` for what such runs do not know of rebounds."""
    if not stepper.can.rebounds:
        raise StepperError(f"{type(stepper).__name__} knows no restitution: take GeometricallyImplicit.")
    if stepper.can.sequential:
        raise StepperError(
            '`jacobian` = "sparse" finds pairs, of which `impacts` = "sequential" knows none: leave one of the two out.'
        )
    if _rubbing(scene):
        raise StepperError(
            '`jacobian` = "sparse" finds pairs, of which a restitution beside joints with friction knows none: leave it '
            '"by size".'
        )
