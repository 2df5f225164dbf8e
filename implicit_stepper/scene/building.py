"""A scene from its description, whatever format that came from."""

from __future__ import annotations

import dataclasses

from shapes.arguments import positive

from ..runtime.errors import SceneBuildError
from .description import (
    AlongDescription,
    BodyDescription,
    GearDescription,
    JointDescription,
    RuleDescription,
    SceneDescription,
)
from .scene import Scene

_Joined = JointDescription | AlongDescription | GearDescription
_SMALL = 1e-12  # [m^2], of a squared radius of gyration: no spin is too fast for it


def scene_of(description: SceneDescription) -> Scene:
    """The scene that has this description. Raises `SceneFileError` that names the body or contact
    that cannot be; what is wrong beside them, before volumes and inertias are found, which may take
    seconds."""
    if any(map(_takes_long, description.bodies)):
        _built(dataclasses.replace(description, bodies=tuple(map(_with_unit_mass, description.bodies))), _Unweighed)
    return _built(description, Scene)


class _Unweighed(Scene):
    """One whose bodies have numbers in the place of their masses and inertias."""

    _weighed = False


def _takes_long(body: BodyDescription) -> bool:
    """Whether its mass or inertia comes from a quadrature."""
    own = [body.shape] if body.shape is not None else [part for part, _ in body.shapes or ()]
    left_out = body.inertia is None and body.centre_of_mass is None and (body.mass is None) != (body.density is None)
    return not body.fixed and left_out and any(shape.shape_class.closed_form is None for shape in own)


def _with_unit_mass(body: BodyDescription) -> BodyDescription:
    """The body with numbers in the place of those that take long, for which contacts do not ask,
    nor joints but for whether they hold."""
    if not _takes_long(body):
        return body
    d = (body.shape or body.shapes[0][0]).dimension
    try:
        mass = positive("mass", body.mass) if body.density is None else positive("density", body.density)
    except ValueError as error:
        raise SceneBuildError(f"the body {body.name!r:.60}: {error}") from error
    return dataclasses.replace(body, mass=mass, inertia=(_SMALL * mass,) * 3 if d == 3 else _SMALL * mass, density=None)


def _built(description: SceneDescription, kind: type[Scene]) -> Scene:
    of = description
    try:
        scene = kind(
            gravity=of.gravity,
            dimension=of.dimension,
            length_scale=of.length_scale,
            acceleration_scale=of.acceleration_scale,
        )
    except ValueError as error:
        raise SceneBuildError(f"the scene: {error}") from error
    handles = {}
    for body in of.bodies:
        given = {name: value for name, value in vars(body).items() if name not in ("name", "fixed") and value is not None}
        try:
            add = scene.add_fixed if body.fixed else scene.add_body if body.pose is None else scene.add_moving
            handles[body.name] = add(name=body.name, **given)
        except (ValueError, ArithmeticError) as error:
            raise SceneBuildError(f"the body {body.name!r:.60}: {error}") from error
    for contact in of.contacts:
        pair = contact.first, contact.second
        try:
            laws = {key: getattr(contact, key) for key in ("friction", "compliance", "restitution", "parts")}
            scene.add_contact(*map(handles.__getitem__, pair), **laws)
        except KeyError as error:
            raise SceneBuildError(f"a contact names the body {error.args[0]!r:.60}, which there is not.") from error
        except ValueError as error:
            raise SceneBuildError(f"the contact of {pair}: {error}") from error
    for rule in of.rules:
        _let_touch(scene, rule, handles)
    for together in _added_together(of.joints):
        _join(scene, together, handles)
    scene.run = of.run
    return scene


def _let_touch(scene: Scene, rule: RuleDescription, handles: dict) -> None:
    """Adds a rule."""
    try:
        groups = [None if group is None else [handles[name] for name in group] for group in (rule.first, rule.second)]
        apart = [(handles[first], handles[second]) for first, second in rule.apart]
        laws = {key: getattr(rule, key) for key in ("friction", "compliance", "restitution")}
        if rule.first == rule.second:
            scene.add_contacts(among=groups[0], apart=apart, **laws)
        else:
            scene.add_contacts(between=groups, apart=apart, **laws)
    except KeyError as error:
        raise SceneBuildError(f"a contact names the body {error.args[0]!r:.60}, which there is not.") from error
    except ValueError as error:
        raise SceneBuildError(f"a contact of groups: {error}") from error


def _added_together(joints: tuple[_Joined, ...]) -> list[list[_Joined]]:
    """One by one, but for the low and the high limit of a coordinate that follow each other: which
    angles they can have depends on both."""
    found: list[list[_Joined]] = []
    for joint in joints:
        last = found[-1][-1] if found else None
        sides = [getattr(of, "side", None) for of in (last, joint)]
        if sides == ["low", "high"] and (last.joint, last.coordinate) == (joint.joint, joint.coordinate):
            found[-1].append(joint)
        else:
            found.append([joint])
    return found


def _join(scene: Scene, together: list[_Joined], handles: dict) -> None:
    """Adds a joint, or a spring, a motion or limits along one."""
    joint = together[0]
    try:
        if isinstance(joint, JointDescription):
            scene.add_joint(handles[joint.first], handles[joint.second], joint.joint, name=joint.name, project=joint.project)
        elif isinstance(joint, GearDescription):
            values = {"ratio": joint.ratio, "coordinates": joint.coordinates, "name": joint.name}
            scene.add_gear(joint.joint_1, joint.joint_2, **values)
        elif joint.side is not None:
            scene.add_limit(joint.joint, **{of.side: of.bound for of in together}, coordinate=joint.coordinate)
        elif joint.speed is not None:
            scene.add_motor(joint.joint, speed=joint.speed, most=joint.most, coordinate=joint.coordinate, name=joint.name)
        elif joint.motion is not None:
            scene.add_motion(joint.joint, joint.motion, coordinate=joint.coordinate, name=joint.name)
        else:
            values = {key: getattr(joint, key) for key in ("stiffness", "damping", "rest", "coordinate", "name")}
            scene.add_spring(joint.joint, **values)
    except KeyError as error:
        raise SceneBuildError(
            f"the joint {joint.name!r:.60} names the body {error.args[0]!r:.60}, which there is not."
        ) from error
    except (ValueError, ArithmeticError) as error:
        raise SceneBuildError(f"the joint {joint.name!r:.60}: {error}") from error
