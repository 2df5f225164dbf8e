"""Random drops of every kind of shape, onto a plane and onto each other: is any step lost, and at
what cost?

    python benchmarks/drop_battery.py --steps 300000 --save lost/
    python benchmarks/drop_battery.py --replay lost/box-onto-plane-17.npz

Prints a Markdown table for docs/benchmarks.md. Every drop is seeded by its family and number, so
that it can be repeated; the state before a lost step is saved with `--save` and stepped again with
`--replay`.
"""

import argparse
import dataclasses
import itertools
import os
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np
from tqdm import tqdm

import implicit_stepper as ist
import shapes
from implicit_stepper.model.bodies import State

GRAVITY = 9.81
RUNGS = len(ist.GeometricallyImplicit.rungs) + 1  # and sub-steps
HEIGHT = 1.3  # [m] between the centres of two dropped bodies, more than the largest diameter


def polytope_of_20_faces():
    """A polytope with 20 faces in random directions."""
    normals = np.random.default_rng(5).normal(size=(20, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return shapes.Polytope(normals=normals, offsets=np.full(20, 0.3))


def table():
    """A top on four legs."""
    leg, top = shapes.Box((0.03, 0.03, 0.15)), shapes.Box((0.3, 0.2, 0.03))
    upright = (1.0, 0.0, 0.0, 0.0)
    corners = itertools.product((-0.25, 0.25), (-0.15, 0.15))
    return [(top, ((0, 0, 0.18), upright)), *((leg, ((x, y, 0.0), upright)) for x, y in corners)]


def dumbbell():
    """Two balls on a rod."""
    ball, rod = shapes.Sphere(0.15), shapes.Capsule(0.05, 0.25)
    upright = (1.0, 0.0, 0.0, 0.0)
    return [(ball, ((0, 0, -0.3), upright)), (rod, ((0, 0, 0), upright)), (ball, ((0, 0, 0.3), upright))]


def superquadric(exponent):
    """Sum of |x_i/a_i|^exponent."""
    return shapes.Superquadric((0.4, 0.3, 0.25), epsilon=(2 / exponent, 2 / exponent))


# What is dropped: one shape, or the parts of a compound body.
FAMILIES = {
    "box": lambda: shapes.Box((0.5, 0.3, 0.2)),
    "cylinder": lambda: shapes.Cylinder(0.3, 0.2),
    "cone": lambda: shapes.Cone(0.3, 0.6),
    "frustum": lambda: shapes.Frustum(0.35, 0.15, 0.5),
    "capsule": lambda: shapes.Capsule(0.15, 0.3),
    "lens": lambda: shapes.Lens(0.5, 0.5, 0.25),
    "wedge": lambda: shapes.Wedge(0.6, 0.4, 0.3),
    "tetrahedron": lambda: shapes.Polytope(vertices=0.3 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])),
    "polytope, 20 faces": polytope_of_20_faces,
    "rounded box": lambda: shapes.Rounded(shapes.Box((0.4, 0.2, 0.1)), 0.05),
    "half superquadric": lambda: shapes.cut(superquadric(4), normal=(0, 0, 1), offset=0.0),
    "superquadric 1.2": lambda: superquadric(1.2),
    "superquadric 3": lambda: superquadric(3),
    "superquadric 8": lambda: superquadric(8),
    "superquadric 20": lambda: superquadric(20),
    "ellipsoid 1:20": lambda: shapes.Ellipsoid((0.6, 0.12, 0.03)),
    "table": table,
    "dumbbell": dumbbell,
}
ONTO = ("plane", "each other")


@dataclasses.dataclass
class Tally:
    """What a family's drops add up to. Lengths [m]; `gain` relative to the energy at the start;
    `lost` the failures."""

    steps: int = 0
    seconds: list = dataclasses.field(default_factory=list)
    rungs: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(RUNGS, int))
    substeps: int = 0
    iterations: list = dataclasses.field(default_factory=list)
    residual: float = 0.0
    penetration: float = 0.0
    gain: float = 0.0
    lost: list = dataclasses.field(default_factory=list)

    def add(self, trajectory, seconds):
        """One drop's trajectory."""
        stats = trajectory.stats
        self.steps += len(trajectory)
        self.seconds.append(seconds / len(trajectory))
        self.rungs += np.bincount(stats.rung, minlength=RUNGS)
        self.substeps += int(np.sum(stats.substeps > 1))
        self.iterations.append(stats.iterations)
        self.residual = max(self.residual, np.max(stats.residual, initial=0.0))
        self.penetration = max(self.penetration, -np.min(trajectory.contacts.gap, initial=0.0))
        energy = trajectory.kinetic_energy() + GRAVITY * trajectory.position[:, :, 2] @ trajectory.mass
        self.gain = max(self.gain, np.max(energy / energy[0]) - 1)

    def merge(self, other):
        """What another family's drops add up to."""
        for name in ("steps", "seconds", "rungs", "substeps", "iterations", "lost"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("residual", "penetration", "gain"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))

    def row(self, name):
        """A Markdown table row."""
        iterations = np.concatenate(self.iterations)
        return (
            f"| {name} | {self.steps} | {len(self.lost)} | {' / '.join(map(str, self.rungs))} | "
            f"{100 * self.rungs[0] / self.steps:.2f} | {iterations.mean():.2f} / {np.percentile(iterations, 99):.0f} | "
            f"{self.residual:.0e} | {self.penetration:.0e} | {self.gain:.0e} | {1e3 * np.median(self.seconds):.2f} |"
        )


HEADER = (
    f"| body, onto | steps | lost | solved by {' / '.join(ist.GeometricallyImplicit.rungs)} / sub-steps | "
    "warm start [%] | Jacobians, mean / 99 % | "
    "worst residual | worst penetration [m] | energy gained, relative | ms a step, median |\n|" + "---|" * 10
)


def drop(family, onto, number, *, speed=5.0, spin=20.0):
    """A scene of one drop: random pose, mu 0, .3 or 1, velocities up to `speed` [m/s] and `spin`
    [rad/s]."""
    rng = np.random.default_rng([list(FAMILIES).index(family), ONTO.index(onto), number])
    made = FAMILIES[family]()
    shape = {"shapes": made} if isinstance(made, list) else {"shape": made}
    friction = ist.FrictionEllipsoid(mu=rng.choice([0.0, 0.3, 1.0]), e_r=0.05)

    def ball(radius):
        direction = rng.normal(size=3)
        return radius * rng.uniform() * direction / np.linalg.norm(direction)

    scene = ist.Scene(gravity=(0, 0, -GRAVITY))
    bodies = []
    for i in range(1 + ONTO.index(onto)):
        quaternion = rng.normal(size=4)
        body = scene.add_body(
            name=f"{family} {i}",
            **shape,
            density=1000.0,
            position=(0, 0, 1 + HEIGHT * i),
            quaternion=quaternion / np.linalg.norm(quaternion),
            velocity=np.concatenate([ball(speed), ball(spin)]),
        )
        bodies.append(body)
    plane = scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    for body in bodies:
        scene.add_contact(body, plane, friction=friction)
    if len(bodies) == 2:
        scene.add_contact(*bodies, friction=friction)
    return scene


def run(family, onto, numbers, *, h, duration, speed=5.0, spin=20.0, save=None):
    """Drops `numbers` of a family; the median time a step leaves out those that compiled."""
    tally = Tally()
    for number in numbers:
        scene = drop(family, onto, number, speed=speed, spin=spin)
        start = time.perf_counter()
        try:
            trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=duration, progress=False)
        except ist.StepError as error:
            trajectory = error.trajectory
            tally.lost.append((number, str(error)))
            if save:
                record(save, family, onto, number, h, error)
        if len(trajectory):
            tally.add(trajectory, time.perf_counter() - start)
    return tally


def record(folder, family, onto, number, h, error):
    """Saves what `replay` needs: which drop, h, and the state before the lost step."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {field.name: getattr(error.state, field.name) for field in dataclasses.fields(error.state)}
    name = f"{family}-onto-{onto}-{number}.npz".replace(" ", "-").replace(":", "-").replace(",", "")
    np.savez(folder / name, family=family, onto=onto, number=number, h=h, message=str(error), **state)


def replay(path):
    """Steps once from a saved state; raises the `StepError` again unless it is mended."""
    stored = np.load(path)
    scene = drop(str(stored["family"]), str(stored["onto"]), int(stored["number"]))
    state = State(**{field.name: stored[field.name] for field in dataclasses.fields(State)})
    h = float(stored["h"])
    trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=h, start=state)
    print(f"solved on rung {trajectory.stats.rung[0]}")


def whole(steps, *, only="", **settings):
    """About `steps` steps over all families whose row begins with `only`: prints rows, returns what
    they add up to."""
    cases, total = list(itertools.product(FAMILIES, ONTO, (0.01, 0.002))), Tally()
    print(HEADER)
    for family, onto, h in tqdm(cases, disable=None):
        count = max(1, round(steps / len(cases) / round(1.5 / h)))
        if not f"{family}, {onto}".startswith(only):
            continue
        tally = run(family, onto, range(count), h=h, duration=1.5, **settings)
        print(tally.row(f"{family}, {onto}, h = {h}"), flush=True)
        for number, message in tally.lost:
            print(f"lost: {number}: {message}", flush=True)
        total.merge(tally)
    print(total.row("all"))
    return total


def main():
    """The whole battery, a table row per family."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=20_000, help="steps over all families")
    parser.add_argument("--save", type=Path, help="folder for the states before lost steps")
    parser.add_argument("--replay", type=Path, help="step once more from a saved state")
    parser.add_argument("--only", default="", help="families whose row begins with this, for instance 'table, plane'")
    parser.add_argument("--fast", action="store_true", help="20 m/s and 60 rad/s instead of 5 and 20")
    arguments = parser.parse_args()
    if arguments.replay:
        replay(arguments.replay)
        return
    speed, spin = (20.0, 60.0) if arguments.fast else (5.0, 20.0)
    whole(arguments.steps, only=arguments.only, speed=speed, spin=spin, save=arguments.save)


if __name__ == "__main__":
    main()
