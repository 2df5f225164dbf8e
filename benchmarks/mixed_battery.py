"""Random scenes of two to eight mixed bodies, audited by code that shares nothing with the solver.

    python benchmarks/mixed_battery.py --structures 40 --draws 5
    python benchmarks/mixed_battery.py --replay 17 3

Each structure (classes of bodies, compounds, floor, incline, corner or bin) is drawn several times:
sizes from 1e-3 to 100 m, mass ratios to 1e4, friction to mu = 2, isotropic or not, h sqrt(g/L) from
1e-3 to .3; at rest, dropped, thrown or stacked. Prints a Markdown table for docs/benchmarks.md:
steps, lost steps, the largest violation of any law in the audit, times.
"""

import argparse
import dataclasses
import itertools
import os
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import audit
import numpy as np
from audit import Contact, Plane, Side, World
from tqdm import tqdm

import implicit_stepper as ist
import shapes

GRAVITY = 9.81
STEPS = 100  # of a draw
ALLOWED = 1e-8  # in the audit, whose units are not quite the certificate's; that one asks for 1e-10
UPRIGHT = (1.0, 0.0, 0.0, 0.0)

# Of each kind, for a size L [m]: the library's shape and the auditor's solid.
TETRAHEDRON = 0.6 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])


def _frustum(L):
    bottom, top, height = 0.6 * L, 0.25 * L, 0.9 * L
    low = -height / 4 * (bottom**2 + 2 * bottom * top + 3 * top**2) / (bottom**2 + bottom * top + top**2)
    return shapes.Frustum(bottom, top, height), audit.frustum(bottom, top, low, low + height)


def _polytope(corners):
    return shapes.Polytope(vertices=corners), audit.polytope(corners)


KINDS = {
    "sphere": lambda L: (shapes.Sphere(0.5 * L), audit.ellipsoid([0.5 * L] * 3)),
    "ellipsoid": lambda L: (shapes.Ellipsoid((0.7 * L, 0.4 * L, 0.3 * L)), audit.ellipsoid((0.7 * L, 0.4 * L, 0.3 * L))),
    "superquadric 1.5": lambda L: _superquadric(L, 1.5),
    "superquadric 4": lambda L: _superquadric(L, 4.0),
    "superquadric 8": lambda L: _superquadric(L, 8.0),
    "box": lambda L: (shapes.Box((0.5 * L, 0.35 * L, 0.25 * L)), audit.box((0.5 * L, 0.35 * L, 0.25 * L))),
    "cylinder": lambda L: (shapes.Cylinder(0.4 * L, 0.3 * L), audit.frustum(0.4 * L, 0.4 * L, -0.3 * L, 0.3 * L)),
    "capsule": lambda L: (shapes.Capsule(0.25 * L, 0.4 * L), audit.capsule(0.25 * L, 0.4 * L)),
    "frustum": _frustum,
    "tetrahedron": lambda L: _polytope(TETRAHEDRON * L),
    "rounded box": lambda L: (
        shapes.Rounded(shapes.Box((0.45 * L, 0.3 * L, 0.2 * L)), 0.05 * L),
        audit.rounded_box((0.45 * L, 0.3 * L, 0.2 * L), 0.05 * L),
    ),
}
# Compound bodies: kinds of their parts, and where they are, in units of L.
COMPOUNDS = {
    "dumbbell": [("sphere", (-0.25, 0, 0)), ("sphere", (0.25, 0, 0))],
    "hammer": [("box", (0, 0, 0.4)), ("capsule", (0, 0, -0.1))],
}
PLACES = {"floor": 1, "incline": 1, "corner": 2, "bin": 5}
STARTS = ("rest", "dropped", "thrown", "stacked")


def _superquadric(L, power):
    axes = (0.5 * L, 0.4 * L, 0.35 * L)
    return shapes.Superquadric(axes, epsilon=(2 / power, 2 / power)), audit.superquadric(axes, power)


@dataclasses.dataclass(frozen=True)
class Structure:
    """What compiles anew: kinds of the bodies and the place."""

    kinds: tuple[str, ...]
    place: str


def structure(number):
    """Two to eight bodies of at most three kinds; in bins and corners fewer, as every pair is declared."""
    rng = np.random.default_rng([1, number])
    place = list(PLACES)[number % len(PLACES)]
    most = {"floor": 8, "incline": 6, "corner": 5, "bin": 4}[place]
    count = int(rng.integers(2, most + 1))
    chosen = rng.choice([*KINDS, *COMPOUNDS], size=min(count, int(rng.integers(1, 4))), replace=False)
    kinds = sorted(str(chosen[i % len(chosen)]) for i in range(count))
    if count > 4 and any(kind in COMPOUNDS for kind in kinds):
        kinds = kinds[:4]
    return Structure(tuple(kinds), place)


def _parts(kind, L):
    """[(shape, solid, position)] of a body of a kind."""
    if kind in KINDS:
        return [(*KINDS[kind](L), np.zeros(3))]
    return [(*KINDS[own](0.6 * L), L * np.array(at)) for own, at in COMPOUNDS[kind]]


def _planes(place, L):
    up = np.array([0.0, 0.0, 1.0])
    walls = [(np.array([sx, sy, 0.0]), -2.6 * L) for sx, sy in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    if place == "corner":
        return [(up, 0.0), (np.array([0.8, 0.0, 0.6]), -1.5 * L)]
    return [(up, 0.0), *(walls if place == "bin" else [])]


def draw(number, again):
    """The `again`-th scene of a structure: (scene, world for the audit, h, how it starts)."""
    made, rng = structure(number), np.random.default_rng([2, number, again])
    L, start = 10 ** rng.uniform(-3, 2), STARTS[(number + again) % len(STARTS)]
    h = 10 ** rng.uniform(-3, np.log10(0.3)) * np.sqrt(L / GRAVITY)
    tilt = rng.uniform(0.1, 0.5) if made.place == "incline" else 0.0
    gravity = GRAVITY * np.array([np.sin(tilt), 0.0, -np.cos(tilt)])
    scene = ist.Scene(gravity=gravity)
    bodies = [_parts(kind, L) for kind in made.kinds]
    mass = 1000.0 * L**3 * 10 ** rng.uniform(-2, 2, len(bodies))
    inertia = mass[:, None] * L**2 * rng.uniform(0.1, 0.16, (len(bodies), 3))
    poses = _poses(rng, start, bodies, L, h)
    handles = []
    for i, (parts, (position, quaternion, velocity)) in enumerate(zip(bodies, poses, strict=True)):
        own = [(shape, (at, UPRIGHT)) for shape, _, at in parts]
        handle = scene.add_body(
            name=f"{made.kinds[i]} {i}",
            shapes=own,
            mass=mass[i],
            inertia=inertia[i],
            position=position,
            quaternion=quaternion,
            velocity=velocity,
        )
        handles.append(handle)
    contacts = []
    sides = [[Side(i, solid, at) for _, solid, at in parts] for i, parts in enumerate(bodies)]
    for k, (normal, offset) in enumerate(_planes(made.place, L)):
        handle = scene.add_fixed(name=f"plane {k}", shape=shapes.HalfSpace(normal=normal, offset=offset))
        for own, side in zip(handles, sides, strict=True):
            law = _friction(rng, L)
            scene.add_contact(handle, own, friction=law)
            contacts += [_contact(Side(None, Plane(normal, offset)), one, law) for one in side]
    for i, j in itertools.combinations(range(len(handles)), 2):
        law = _friction(rng, L)
        scene.add_contact(handles[i], handles[j], friction=law)
        contacts += [_contact(one, two, law) for one in sides[i] for two in sides[j]]
    length = float(np.max(np.sqrt(np.sum(inertia, axis=1) / mass)))
    return scene, World(mass, inertia, gravity, length, tuple(contacts)), h, start


def _friction(rng, L):
    mu = float(rng.choice([0.0, 0.1, 0.3, 0.6, 1.0, 2.0]))
    e_t, e_o = (1.0, 1.0) if rng.uniform() < 0.7 else (1.0, float(rng.uniform(0.3, 1.0)))
    e_r = float(rng.choice([0.0, 0.05 * L, 0.3 * L]))
    return ist.FrictionEllipsoid(mu=mu, e_t=e_t, e_o=e_o, e_r=e_r, direction=None if e_t == e_o else (0.36, 0.48, 0.8))


def _contact(first, second, law):
    return Contact(first, second, law.mu, np.array([law.e_t, law.e_o, law.e_r]))


def _poses(rng, start, bodies, L, h):
    """(position, quaternion, velocity) of every body: none overlap, and what flies arrives within the run."""
    radii = [max(np.linalg.norm(at) + solid.radius for _, solid, at in parts) for parts in bodies]
    down, up, speed = np.array([0, 0, -1.0]), np.array([0, 0, 1.0]), np.sqrt(GRAVITY * L)
    below = [max(solid.support(down) + at @ down for _, solid, at in parts) for parts in bodies]
    above = [max(solid.support(up) + at @ up for _, solid, at in parts) for parts in bodies]
    grid, poses, top = 2.2 * max(radii), [], 0.0
    for i in range(len(bodies)):
        place = np.array([grid * (i % 2 - 0.5), grid * (i // 2 % 2 - 0.5), 0.0])
        layer, quaternion, velocity = i // 4, np.array(UPRIGHT), np.zeros(6)
        if start == "stacked":
            place = np.array([0.02 * L * (i % 2), 0.0, top + below[i]])
            top += below[i] + above[i]
        elif start == "rest" and layer == 0:
            place[2] = below[i]
        else:
            quaternion = rng.normal(size=4)
            quaternion /= np.linalg.norm(quaternion)
            fall = 0.5 * GRAVITY * (rng.uniform(5, 40) * h) ** 2
            if start == "thrown":
                velocity[:3] = speed * rng.uniform(0, 2) * rng.normal(size=3)
                velocity[2] = -abs(velocity[2])
                velocity[3:] = speed / L * rng.uniform(0, 4) * rng.normal(size=3)
                fall += abs(velocity[2]) * 20 * h
            place[2] = max(radii) + min(fall, 3 * L) + (grid + min(fall, L)) * layer
        poses.append((place, quaternion, velocity))
    return poses


@dataclasses.dataclass
class Tally:
    """What draws add up to; `worst` violation by law; `wrong` and `lost` name theirs."""

    draws: int = 0
    steps: int = 0
    slowest: float = 0.0
    seconds: float = 0.0
    worst: dict = dataclasses.field(default_factory=dict)
    lost: list = dataclasses.field(default_factory=list)
    wrong: list = dataclasses.field(default_factory=list)
    fallback: int = 0

    def merge(self, other):
        """What other draws add up to."""
        for name in ("draws", "steps", "seconds", "fallback", "lost", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest = max(self.slowest, other.slowest)
        for law, value in other.worst.items():
            self.worst[law] = max(self.worst.get(law, 0.0), value)

    def row(self, name):
        """A Markdown table row."""
        worst = " / ".join(f"{self.worst.get(law, 0.0):.0e}" for law in LAWS)
        return (
            f"| {name} | {self.draws} | {self.steps} | {len(self.lost)} | {len(self.wrong)} | {self.fallback} | {worst} | "
            f"{1e3 * self.seconds / max(self.steps, 1):.2f} | {self.slowest:.1f} |"
        )


LAWS = ("momentum", "poses", "distance", "penetration", "p_n _|_ gap", "cone", "dissipation", "tangent")
HEADER = (
    f"| place | draws | steps | lost | wrong | not by the warm start | worst {' / '.join(LAWS)} | ms a step, CPU | "
    "slowest draw [CPU s] |\n|" + "---|" * 9
)


def run(number, again, tally):
    """One draw, simulated and audited, into `tally`."""
    scene, world, h, start = draw(number, again)
    begun, label = time.process_time(), f"{number} {again} ({structure(number).place}, {start})"
    try:
        trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=STEPS * h, progress=False)
    except ist.StepError as error:
        trajectory = error.trajectory
        tally.lost.append(f"{label}: {error}")
    spent = time.process_time() - begun
    tally.draws, tally.steps = tally.draws + 1, tally.steps + len(trajectory)
    tally.seconds, tally.slowest = tally.seconds + spent, max(tally.slowest, spent)
    tally.fallback += int(np.sum(trajectory.stats.rung > 0))
    if len(trajectory):
        for law, (value, step) in audit.audit(world, trajectory, h).items():
            tally.worst[law] = max(tally.worst.get(law, 0.0), value)
            if not value <= ALLOWED:
                tally.wrong.append(f"{label}: {law} {value:.1e} at step {step}")
    return trajectory


def whole(structures, *, first=0, draws=5, report=None, seconds=np.inf):
    """So many structures, each drawn `draws` times, as far as `seconds` of wall time allow; a printed
    row per place; returns what they add up to. `report`, a file, gets a line per draw as it comes."""
    tallies, total, end = {place: Tally() for place in PLACES}, Tally(), time.monotonic() + seconds
    for number, again in tqdm(list(itertools.product(range(first, first + structures), range(draws))), disable=None):
        if time.monotonic() > end:
            break
        one = Tally()
        run(number, again, one)
        tallies[structure(number).place].merge(one)
        if report:
            with report.open("a") as file:
                kinds = " ".join(structure(number).kinds)
                print(number, again, kinds, f"{one.seconds:.1f} CPU s", *one.lost, *one.wrong, file=file)
    print(HEADER)
    for place, tally in tallies.items():
        print(tally.row(place))
        total.merge(tally)
    print(total.row("all"), *(f"lost: {t}" for t in total.lost), *(f"wrong: {t}" for t in total.wrong), sep="\n")
    return total


def main():
    """All structures, a table row per place."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--structures", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first structure")
    parser.add_argument("--draws", type=int, default=5, help="of each structure")
    parser.add_argument("--seconds", type=float, default=np.inf, help="wall time after which no draw begins")
    parser.add_argument("--report", type=Path, help="file to which a line is added after every draw")
    parser.add_argument("--replay", type=int, nargs=2, metavar=("STRUCTURE", "DRAW"), help="one draw alone")
    arguments = parser.parse_args()
    if arguments.replay:
        tally = Tally()
        run(*arguments.replay, tally)
        print(structure(arguments.replay[0]), HEADER, tally.row("replay"), *tally.lost, *tally.wrong, sep="\n")
        return
    settings = {name: getattr(arguments, name) for name in ("first", "draws", "report", "seconds")}
    whole(arguments.structures, **settings)


if __name__ == "__main__":
    main()
