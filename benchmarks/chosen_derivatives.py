"""Derivatives of runs against differences of the converged solver:
`python benchmarks/chosen_derivatives.py [scene ...]`, of chosen steps, and of steps of one length
where no event has to be met.

Every input of a scene changes in a random direction; differences are central ones of two widths,
extrapolated."""

from __future__ import annotations

import copy
import sys
import time
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.model import rotation
from implicit_stepper.run import parameters

STEPPER, FIRST_ORDER = ist.RadauContact(), ist.GeometricallyImplicit()
TOLERANCE, H = 1e-11, 0.01
WIDTHS = (4e-3, 2e-3)  # their errors are 1e-11 / WIDTH and, extrapolated, WIDTH^4
# of steps of one length: those of order five are of 1e-13; a step in which something changes has a
# kink nearby
ONE_LENGTH = {STEPPER: (1e-3, 5e-4), FIRST_ORDER: (2e-5, 1e-5)}
# a body whose centre is at (.3, 0, -.4), about the y axis
TURNS = np.array([[-0.4, 0.0, -0.3, 0.0, 1.0, 0.0]])
TURNED = (0.9, 0.3, 0.1, 0.3)
PUSH = (0.3, 0.2, -0.1, 0.02, 0.01, 0.03)  # [N, N m]
FRICTION = ist.FrictionEllipsoid(0.3, 1.0, 0.8, 0.05, direction=(1.0, 0.2, 0.0))


def egg(velocity, *, friction=FRICTION, gap=0.02, wrench=PUSH, **contact) -> ist.Scene:
    """An ellipsoid of three axes that falls by `gap` [m] onto a plane, pushed and turned by a
    `wrench`: a change of no input lets it overlap."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    axes = np.array([0.3, 0.25, 0.2])
    up = np.asarray(rotation.matrix(rotation.unit(np.array(TURNED))))[2]
    body = scene.add_body(
        name="egg", shape=shapes.Ellipsoid(axes), mass=1.3, inertia=(0.03, 0.035, 0.04), quaternion=TURNED,
        position=(0.0, 0.0, float(np.linalg.norm(axes * up)) + gap), velocity=velocity,
        wrench=wrench,
    )  # fmt: skip
    scene.add_contact(floor, body, friction=friction, **contact)
    return scene


def pull(time, position, orientation, velocity):
    """A wrench (6,) [N, N m] that lifts the ellipsoid off after some .2 s."""
    return jnp.array([0.3, 0.2, 0.0, 0.02, 0.01, 0.03]) + 60.0 * time * jnp.eye(6)[2]


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


def pendulum(velocity=TURNS[0]) -> ist.Scene:
    """A bar that swings down on a pin that rubs by its own reaction."""
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0), offset=-9.0))
    bar = scene.add_body(
        name="bar", shape=shapes.Ellipsoid((0.05, 0.05, 0.5)), mass=1.2, inertia=(0.1, 0.1, 0.01),
        position=(0.3, 0.0, -0.4), quaternion=(0.9**0.5, 0.0, -(0.1**0.5), 0.0), velocity=velocity,
    )  # fmt: skip
    pin, axis = ist.JointFriction(0.4, radius=0.1), (0.0, 1.0, 0.0)
    scene.add_joint(wall, bar, ist.Hinge((0.0, 0.0, 0.0), axis, (0.0, 0.0, 0.5), axis, friction=pin), name="pin")
    return scene


class Case(NamedTuple):
    """A scene and a `duration` [s] of it, with chosen steps, and with steps of one length of the
    `fixed` steppers; of joints, the `velocity` that they allow; whether it begins at `rest`, and
    chosen steps have no derivative by it."""

    scene: ist.Scene
    duration: float
    chosen: bool = True
    fixed: tuple = ()
    velocity: np.ndarray | None = None
    rest: bool = False


STICKS = ist.FrictionEllipsoid(2.0, 1.0, 0.8, 0.05, direction=(1.0, 0.2, 0.0))
FALLS, GLIDES = (1.0, 0.5, -0.6, 0.5, 0.3, 2.0), (0.3, 0.1, 0.0, 0.5, 0.3, 0.2)
SOFT = ist.Compliance(stiffness=2e3, dissipation_time=0.02)
SCENES = {
    "an ellipsoid sticks and rolls": Case(egg((0.2, -0.3, 0.0, 1.2, 0.8, 0.0), friction=STICKS), 0.3),
    "slips": Case(egg((3.0, 1.0, 0.0, 0.5, 0.3, 2.0)), 0.12),
    "lands and sticks": Case(egg(GLIDES), 0.3),
    "is lifted off": Case(egg(GLIDES, wrench=pull), 0.4),
    "bounces": Case(egg(FALLS, restitution=ist.Newton(0.6)), 0.2),
    "bounces by Poisson's law": Case(egg(FALLS, restitution=ist.Poisson(0.6)), 0.2),
    "bounces until it rests": Case(egg(FALLS, restitution=ist.Newton(0.6)), 0.4),
    "a box slides on a face, and stops": Case(box(), 0.2, fixed=(STEPPER,)),
    "a compliant landing": Case(egg(FALLS, compliance=SOFT), 0.2, fixed=(STEPPER,)),
    "a ball slides off a rolling ball": Case(two(), 0.6),
    "a pendulum whose pin rubs": Case(pendulum(), 0.4, fixed=(STEPPER, FIRST_ORDER), velocity=TURNS),
    "the same from rest": Case(pendulum(0 * TURNS[0]), 0.4, fixed=(STEPPER,), velocity=TURNS, rest=True),
}


# changes of these lift a face off, or press it in
_POSES = ("position", "orientation", "fixed_position", "fixed_orientation")
_LEAVES_FACES = (*_POSES, "shape of box", "shape of floor", "velocity")


def directions(case: Case, rng) -> dict[str, np.ndarray]:
    """For every input, a random direction that keeps what it must be: no face is lifted off, and no
    joint torn."""
    system, start = case.scene.build()
    found, flat = {}, any(not group.pair.smooth for group in system.groups)
    left_out = _LEAVES_FACES if flat else _POSES if system.joints else ()
    for name in parameters.names(system):
        value = np.asarray(parameters.read(system, start, name))
        direction = rng.uniform(-1, 1, value.shape) * np.maximum(np.abs(value), 0.1)
        if name in ("e_t", "e_o", "e_r"):
            direction *= value != 0
        if "orientation" in name and value.shape[-1:] == (4,):
            direction -= value * np.sum(value * direction, axis=-1, keepdims=True)
        if name == "inertia":
            direction = direction * np.eye(value.shape[-1])
        if name == "velocity" and case.velocity is not None:
            direction = case.velocity
        if value.size and name not in left_out:
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


def vector(state) -> np.ndarray:
    """Its numbers (n,) without its time."""
    return np.concatenate([np.ravel(a) for a in (state.position, state.orientation, state.velocity)])


def runs(case: Case, stepper, h: float | None, share: float = 1.0, values=None) -> ist.Trajectory:
    """The run of a case with other `values`, of chosen steps or of steps of h [s], h and the
    duration times `share`."""
    scene = case.scene if values is None else changed_scene(case.scene, values)
    size = {"tol": TOLERANCE} if h is None else {"h": h * share}
    return ist.simulate(scene, stepper, duration=case.duration * share, progress=False, **size)


def errors(case: Case, stepper=STEPPER, h: float | None = None) -> tuple[dict[str, float], list[str]]:
    """By input, how far the derivative is from the difference, relative to it; and the events of
    the run."""
    run, (system, start) = runs(case, stepper, h), case.scene.build()
    own, found = directions(case, np.random.default_rng(0)), {}
    widths = WIDTHS if h is None else ONE_LENGTH[stepper]
    if h is not None:
        own["h"] = np.array(h)
    elif case.rest:
        del own["velocity"]
    slopes = ist.sensitivities(case.scene, stepper, run, list(own))
    for name, direction in own.items():
        fields = (np.asarray(getattr(slopes[name], field))[-1] for field in ("position", "orientation", "velocity"))
        axes = tuple(range(-direction.ndim, 0))
        ours = np.concatenate([np.ravel(np.sum(a * direction, axis=axes)) for a in fields])
        differences = []
        for width in widths:
            ends = []
            for step in (width, -width):
                if name == "h":
                    nearby = runs(case, stepper, h, 1 + step)
                else:
                    value = np.asarray(parameters.read(system, start, name)) + step * direction
                    nearby = runs(case, stepper, h, values={name: value})
                ends.append(vector(nearby.end))
            differences.append((ends[0] - ends[1]) / (2 * width))
        difference = differences[1] + (differences[1] - differences[0]) / 3
        # below .01, rounding leaves differences fewer than seven digits
        found[name] = float(np.linalg.norm(ours - difference) / max(np.linalg.norm(difference), 0.01))
    return found, [event.kind for event in run.events]


def main(names) -> None:
    """The table."""
    print(
        "| scene | steps | events | largest relative difference of all inputs | of which | CPU s |\n" + "|---" * 6 + "|",
        flush=True,
    )
    for name in names or SCENES:
        case = SCENES[name]
        for stepper, h in [(STEPPER, None)] * case.chosen + [(stepper, H) for stepper in case.fixed]:
            begun = time.process_time()
            found, events = errors(case, stepper, h)
            worst = max(found, key=lambda key: found[key] if found[key] == found[key] else np.inf)
            told = f"{found[worst]:.0e} | {worst} ({len(found)} inputs) | {time.process_time() - begun:.0f}"
            size = "chosen" if h is None else f"{type(stepper).__name__}, {h:g} s"
            print(f"| {name} | {size} | {', '.join(events) or 'none'} | {told} |", flush=True)
            print({k: f"{v:.1e}" for k, v in found.items()}, file=sys.stderr, flush=True)


if __name__ == "__main__":
    ist.use_compilation_cache()
    main(sys.argv[1:])
