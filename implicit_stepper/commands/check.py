"""`implicit-stepper check`: what was understood of a scene, before it is run."""

from __future__ import annotations

import argparse
import itertools
import warnings

import jax
import numpy as np

from shapes import Shape

from ..constraints import joint_rows
from ..constraints.detection import closest_points
from ..model.bodies import State
from ..model.system import System
from ..radau.refusals import refuse_overlap
from ..run import found_pairs
from ..run.joint_start import check_joints
from ..run.overlaps import Undeclared, check_start
from ..run.scene_run import arguments_of, step_of, stepper_of
from ..run.settings import refuse_settings
from ..scene.description import AlongDescription, BodyDescription, GearDescription, JointDescription, SceneDescription
from ..scene.scene import Scene
from ..stepping.run_certificate import first_gaps
from .scene_argument import HELP, scene_from


def add_parser(commands) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of `implicit-stepper`."""
    command = commands.add_parser(
        "check",
        help="what was understood of a scene",
        description="Prints the bodies of a scene with their masses and inertias, its contacts with their gaps and "
        "friction, degrees of freedom, unknowns and run settings, and warns of bodies that overlap. Nothing is run or "
        "written. Exit code: 0, or 2 when the scene cannot be read or built, or not be run by its own settings.",
    )
    command.add_argument("scene", metavar="SCENE", help=HELP)
    command.add_argument("--device", choices=["cpu", "gpu"], default="cpu", help=argparse.SUPPRESS)
    return command


def run(arguments: argparse.Namespace) -> None:
    """Prints the report. Raises `ValueError` and `OSError` for what is no scene."""
    scene = scene_from(arguments.scene)
    print(*report(scene), sep="\n")


def report(scene: Scene) -> list[str]:
    """All lines of it. Raises `ValueError`."""
    if scene.run is not None:
        refuse_settings(stepper_of(scene.run), **arguments_of(scene.run))
    system, state = jax.device_put(scene.build())
    closest = closest_points(system, state)
    gaps = np.asarray(first_gaps(system, closest))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if scene.run is not None:
            _refuse_run(scene, system, state, gaps)
        check_start(scene, system, closest, 0.01 if scene.run is None or scene.run.h is None else scene.run.h)
        Undeclared(scene, system).look(jax.tree.map(lambda a: np.asarray(a)[None], state))
    described = scene.description()
    return [
        *_bodies(described, system, state),
        *_contacts(scene, system, gaps),
        *_joints(described),
        *_sizes(system, state),
        *_settings(described),
        *(f"warning: {one.message}" for one in told),
    ]


def _refuse_run(scene: Scene, system: System, state: State, gaps) -> None:
    """Raises `ValueError` where the run of the scene's own settings would not begin."""
    stepper, chosen = stepper_of(scene.run), scene.run.h is None
    if found_pairs.finds_pairs(scene, stepper) and not chosen:
        found_pairs.refuse(scene, stepper)
    else:
        check_joints(stepper, system, state, fixed=not chosen)
    if chosen:
        refuse_overlap(system, gaps)


def _bodies(described: SceneDescription, system: System, state: State) -> list[str]:
    numbers, lines = itertools.count(), []
    for body in described.bodies:
        if body.fixed:
            lines.append(f"body {body.name!r}: {_shapes(body)}, fixed")
            continue
        i = next(numbers)
        moments = np.linalg.eigvalsh(system.inertia[i])
        inertia = ", ".join(f"{moment:.4g}" for moment in moments)
        at = ", ".join(f"{x:.4g}" for x in state.position[i])
        loads = "" if body.wrench is None else ", with a load"
        lines.append(
            f"body {body.name!r}: {_shapes(body)}, {system.mass[i]:.6g} kg, principal inertias {inertia} kg m^2, centre of "
            f"mass at ({at}) m{loads}"
        )
    return lines


def _shapes(body: BodyDescription) -> str:
    every = [body.shape] if body.shapes is None else [shape for shape, _ in body.shapes]
    return " + ".join(map(_shape, every))


def _shape(shape: Shape) -> str:
    values = ", ".join(f"{name}={value:.4g}" for name, value in list(shape.parameters().items())[:6])
    more = ", ..." if len(shape.parameters()) > 6 else ""
    return f"{shape.shape_class.name}({values}{more})"


def _contacts(scene: Scene, system: System, gaps: np.ndarray) -> list[str]:
    lines = []
    for i, ((first, second), contact) in enumerate(zip(system.contact_names, scene.part_contacts(), strict=True)):
        law = contact.friction
        friction = f"mu = {law.mu:g}" + ("" if law.mu_s is None else f", mu_s = {law.mu_s:g}")
        friction += "" if law.e_r == 0 else f", e_r = {law.e_r:g} m"
        soft = "" if contact.compliance is None else f", stiffness {contact.compliance.stiffness:g} N/m"
        lines.append(f"contact {i}: {first!r} and {second!r}, gap {gaps[i]:.4g} m, {friction}{soft}")
    return lines or ["no contacts: bodies pass through each other"]


def _joints(described: SceneDescription) -> list[str]:
    lines = []
    for joint in described.joints:
        if isinstance(joint, JointDescription):
            lines.append(f"joint {joint.name!r}: {joint.first!r} and {joint.second!r}, {joint.joint!r:.200}")
        elif isinstance(joint, GearDescription):
            coordinates = " and ".join(map(repr, (joint.joint_1, joint.joint_2)))
            lines.append(f"joint {joint.name!r}: gear of ratio {joint.ratio:g} of {coordinates}")
        else:
            lines.append(f"joint {joint.name!r}: {_along(joint)} along coordinate {joint.coordinate} of {joint.joint!r}")
    return lines


def _along(joint: AlongDescription) -> str:
    if joint.motion is not None:
        return f"motion {joint.motion!r:.80}"
    if joint.side is not None:
        return f"bound {joint.bound:g}"
    if joint.speed is not None:
        return f"motor of speed {joint.speed:g} and at most {joint.most:g}"
    return f"stiffness {joint.stiffness:g}, damping {joint.damping:g}"


def _sizes(system: System, state: State) -> list[str]:
    freedom = system.body_count * (6 if system.dimension == 3 else 3)
    rows, rank = joint_rows.rows_and_rank(system, state) if joint_rows.rigid(system) else (0, 0)
    again = f", by {rows} equations, of which {rows - rank} are redundant where the bodies are" if rank < rows else ""
    joined = f", of which joints take {rank}{again}" if rows else ""
    kinds = f"{len(system.groups)} kind{'s' * (len(system.groups) != 1)}"
    return [
        f"degrees of freedom: {freedom}{joined}; contacts: {system.contact_count}, of {kinds} to compile; "
        f"unknowns a step: {system.unknown_count}"
    ]


def _settings(described: SceneDescription) -> list[str]:
    if described.run is None:
        return ["no run settings: `run` takes h = 0.01 s and a duration of 1 s, unless it is told"]
    of = described.run
    return [f"run: {stepper_of(of)!r:.200}, {step_of(of)}, {of.duration:g} s"]
