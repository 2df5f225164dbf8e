"""Derivatives along chosen steps against differences of the converged solver: `python benchmarks/chosen_derivatives.py
[scene ...]`.

Every input of a scene changes in a random direction; differences are central ones of two widths, extrapolated."""

from __future__ import annotations

import copy
import sys
import time

import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.model import rotation
from implicit_stepper.run import parameters

STEPPER = ist.RadauContact()
TOLERANCE = 1e-11
WIDTHS = (4e-3, 2e-3)  # their errors are 1e-11 / WIDTH and, extrapolated, WIDTH^4
TURNED = (0.9, 0.3, 0.1, 0.3)
FRICTION = ist.FrictionEllipsoid(0.3, 1.0, 0.8, 0.05, direction=(1.0, 0.2, 0.0))


def egg(velocity, *, friction=FRICTION, gap=0.02, **contact) -> ist.Scene:
    """An ellipsoid of three axes that falls by `gap` [m] onto a plane, pushed and turned by a constant wrench: a change of
    no input lets it overlap."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    axes = np.array([0.3, 0.25, 0.2])
    up = np.asarray(rotation.matrix(rotation.unit(np.array(TURNED))))[2]
    body = scene.add_body(
        name="egg", shape=shapes.Ellipsoid(axes), mass=1.3, inertia=(0.03, 0.035, 0.04), quaternion=TURNED,
        position=(0.0, 0.0, float(np.linalg.norm(axes * up)) + gap), velocity=velocity,
        wrench=(0.3, 0.2, -0.1, 0.02, 0.01, 0.03),
    )  # fmt: skip
    scene.add_contact(floor, body, friction=friction, **contact)
    return scene


def box() -> ist.Scene:
    """A box that slides on a face, pushed above its middle, and stops."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    body = scene.add_body(
        name="box", shape=shapes.Box((0.5, 0.3, 0.2)), mass=1.0, inertia=(0.05, 0.1, 0.12), position=(0.0, 0.0, 0.2),
        velocity=(0.6, 0.2, 0.0, 0.0, 0.0, 0.4), wrench=(0.5, 0.3, -0.2, 0.1, -0.15, 0.05),
    )  # fmt: skip
    scene.add_contact(floor, body, friction=ist.FrictionEllipsoid(0.25, e_r=0.1))
    return scene


def two() -> ist.Scene:
    """A ball falls on a ball, which falls on a plane, and slides off it."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    lower = scene.add_body(
        name="lower", shape=shapes.Ellipsoid((0.5, 0.5, 0.5)), mass=2.0, inertia=(0.2, 0.2, 0.2), position=(0.0, 0.0, 0.51),
        velocity=(0.3, 0.1, 0.0, -0.2, 0.6, 0.0),
    )  # fmt: skip
    upper = scene.add_body(
        name="upper", shape=shapes.Ellipsoid((0.3, 0.3, 0.3)), mass=0.7, inertia=(0.025, 0.025, 0.025),
        position=(0.4, 0.0, 0.54 + np.sqrt(0.8**2 - 0.4**2)), velocity=(0.3, 0.1, 0.0, 0.0, 0.0, 0.0),
    )  # fmt: skip
    scene.add_contact(floor, lower, friction=0.8)
    scene.add_contact(lower, upper, friction=0.4)
    return scene


def pendulum() -> ist.Scene:
    """A bar on a pin that rubs by its own reaction, until it sticks."""
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0), offset=-9.0))
    bar = scene.add_body(
        name="bar", shape=shapes.Ellipsoid((0.05, 0.05, 0.5)), mass=1.2, inertia=(0.1, 0.1, 0.01),
        position=(0.3, 0.0, -0.4), quaternion=(0.9**0.5, 0.0, -(0.1**0.5), 0.0),
    )  # fmt: skip
    pin, axis = ist.JointFriction(0.4, radius=0.1), (0.0, 1.0, 0.0)
    scene.add_joint(wall, bar, ist.Hinge((0.0, 0.0, 0.0), axis, (0.0, 0.0, 0.5), axis, friction=pin), name="pin")
    return scene


SCENES = {
    "an ellipsoid sticks and rolls": (egg((0.2, -0.3, 0.0, 1.2, 0.8, 0.0), friction=ist.FrictionEllipsoid(
        2.0, 1.0, 0.8, 0.05, direction=(1.0, 0.2, 0.0))), 0.3),
    "slips": (egg((3.0, 1.0, 0.0, 0.5, 0.3, 2.0)), 0.12),
    "lands and sticks": (egg((0.3, 0.1, 0.0, 0.5, 0.3, 0.2)), 0.3),
    "lands, bounces": (egg((1.0, 0.5, -0.6, 0.5, 0.3, 2.0), restitution=ist.Newton(0.6)), 0.2),
    "bounces by Poisson's law": (egg((1.0, 0.5, -0.6, 0.5, 0.3, 2.0), restitution=ist.Poisson(0.6)), 0.2),
    "a box slides on a face, and stops": (box(), 0.5),
    "a compliant landing": (egg((1.0, 0.5, -0.6, 0.5, 0.3, 2.0), compliance=ist.Compliance(
        stiffness=2e3, dissipation_time=0.02)), 0.2),
    "a ball slides off a rolling ball": (two(), 0.6),
    "a pendulum whose pin rubs": (pendulum(), 1.5),
}  # fmt: skip


# changes of these lift a face off, or press it in
_LEAVES_FACES = (
    "position",
    "orientation",
    "fixed_position",
    "fixed_orientation",
    "shape of box",
    "shape of floor",
    "velocity",
)


def directions(system, start, rng) -> dict[str, np.ndarray]:
    """For every input, a random direction that keeps what it must be."""
    found, flat = {}, any(not group.pair.smooth for group in system.groups)
    for name in parameters.names(system):
        value = np.asarray(parameters.read(system, start, name))
        direction = rng.uniform(-1, 1, value.shape) * np.maximum(np.abs(value), 0.1)
        if name in ("e_t", "e_o", "e_r"):
            direction *= value != 0
        if "orientation" in name and value.shape[-1:] == (4,):
            direction -= value * np.sum(value * direction, axis=-1, keepdims=True)
        if name == "inertia":
            direction = direction * np.eye(value.shape[-1])
        if value.size and not (flat and name in _LEAVES_FACES):
            found[name] = direction
    return found


def changed_scene(scene: ist.Scene, values) -> ist.Scene:
    """The scene with other `values`, by name."""
    own = copy.copy(scene)

    def build(**named):
        system, start = parameters.changed(*scene.build(**named), values)
        for name in ("fixed_orientation", "orientation"):
            if np.size(of := getattr(start if name == "orientation" else system, name)) and system.dimension == 3:
                system, start = parameters.changed(system, start, {name: rotation.unit(np.asarray(of))})
        return system, start

    own.build = build
    return own


def end(scene: ist.Scene, duration: float) -> np.ndarray:
    """The last state of a run."""
    run = ist.simulate(scene, STEPPER, tol=TOLERANCE, duration=duration, progress=False)
    return vector(run.end)


def vector(state) -> np.ndarray:
    """Its numbers (n,) without its time."""
    return np.concatenate([np.ravel(a) for a in (state.position, state.orientation, state.velocity)])


def errors(scene: ist.Scene, duration: float) -> tuple[dict[str, float], list[str]]:
    """By input, how far the derivative is from the difference, relative to it; and the events of the run."""
    run = ist.simulate(scene, STEPPER, tol=TOLERANCE, duration=duration, progress=False)
    system, start = scene.build()
    own, found = directions(system, start, np.random.default_rng(0)), {}
    slopes = ist.sensitivities(scene, STEPPER, run, list(own))
    for name, direction in own.items():
        value, last = np.asarray(parameters.read(system, start, name)), slopes[name]
        fields = (np.asarray(getattr(last, field))[-1] for field in ("position", "orientation", "velocity"))
        axes = tuple(range(-direction.ndim, 0))
        ours = np.concatenate([np.ravel(np.sum(a * direction, axis=axes)) for a in fields])
        differences = []
        for width in WIDTHS:
            ends = [end(changed_scene(scene, {name: value + sign * width * direction}), duration) for sign in (1, -1)]
            differences.append((ends[0] - ends[1]) / (2 * width))
        difference = differences[1] + (differences[1] - differences[0]) / 3
        # below .01, rounding leaves differences fewer than seven digits
        found[name] = float(np.linalg.norm(ours - difference) / max(np.linalg.norm(difference), 0.01))
    return found, [event.kind for event in run.events]


def main(names) -> None:
    """The table."""
    print(
        "| scene | events | largest relative difference of all inputs | of which | CPU s |\n|---|---|---|---|---|",
        flush=True,
    )
    for name in names or SCENES:
        begun = time.process_time()
        found, events = errors(*SCENES[name])
        worst = max(found, key=lambda key: found[key] if found[key] == found[key] else np.inf)
        told = f"{found[worst]:.0e} | {worst} ({len(found)} inputs) | {time.process_time() - begun:.0f}"
        print(f"| {name} | {', '.join(events) or 'none'} | {told} |", flush=True)
        print({k: f"{v:.1e}" for k, v in found.items()}, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
