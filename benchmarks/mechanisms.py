"""Mechanisms over ten thousand steps: how far joints open, what creeps that should hold, and what
happens at a singular position.

python benchmarks/mechanisms.py [--cases pendulum grip ...] [--steps 10000] [--h 0.001]
python benchmarks/mechanisms.py --energy [--cases pendulum double] [--tol 1e-8] [--seconds 1000]
python benchmarks/mechanisms.py --cost

With `--energy` chosen steps of mechanisms that lose none, and how far their energy gets from that
at the start. With `--cost` what ten boxes in a row on a floor cost, hinged and free, in turn.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
import time
import warnings

import numpy as np

import implicit_stepper as ist
import shapes

G, MU = 9.81, 0.5
PIN = ist.JointFriction(0.3, radius=0.05)


@dataclasses.dataclass
class Bars:
    """Bars in the plane, one after another from the origin, each with its `length` [m], its `angle`
    [rad] and its `spin` [rad/s]; `last`, the end of the last one, as a body and its point, `at`
    (2,) [m] with the `speed` (2,) [m/s]."""

    scene: ist.Scene

    def __post_init__(self):
        self.frame = self.scene.add_fixed(name="frame", shape=shapes.Disc(0.01))
        self.last, self.at, self.speed, self.count = (self.frame, (0, 0)), np.zeros(2), np.zeros(2), 0

    def add(self, length, angle, spin=0.0, friction=None):
        along = length / 2 * np.array([np.cos(angle), np.sin(angle)])
        turns, number = spin * np.array([-along[1], along[0]]), self.count
        bar = self.scene.add_body(
            name=f"bar {number}",
            shape=shapes.Ellipse((length / 2, 0.05)),
            mass=length,
            position=self.at + along,
            angle=angle,
            velocity=(*(self.speed + turns), spin),
        )
        pin = ist.BallJoint(self.last[1], (-length / 2, 0), friction=friction)
        self.scene.add_joint(self.last[0], bar, pin, name=f"pin {number}")
        self.last, self.count = (bar, (length / 2, 0)), number + 1
        self.at, self.speed = self.at + 2 * along, self.speed + 2 * turns
        return self

    def end(self, x) -> ist.Scene:
        """The last bar ends at the point (x, 0) of the frame."""
        self.scene.add_joint(self.last[0], self.frame, ist.BallJoint(self.last[1], (x, 0)), name="last pin", project=True)
        return self.scene


def flat_scene(gravity=G) -> ist.Scene:
    return ist.Scene(dimension=2, gravity=(0, -gravity))


def pendulum() -> ist.Scene:
    """A bar of 1 m, released level."""
    return Bars(flat_scene()).add(1.0, 0.0).scene


def double() -> ist.Scene:
    """Bars of 1 and .7 m."""
    return Bars(flat_scene()).add(1.0, 0.0).add(0.7, 0.5).scene


def four_bar() -> ist.Scene:
    """Bars of .5, 1.2 and 1 m on a frame of 1.5 m; the first may go all the way around."""
    end, far = 0.5 * np.array([np.cos(0.7), np.sin(0.7)]), np.array([1.5, 0.0])
    d = np.linalg.norm(far - end)
    coupler = np.arctan2(*(far - end)[::-1]) + np.arccos((1.2**2 + d**2 - 1.0) / (2.4 * d))
    tip = end + 1.2 * np.array([np.cos(coupler), np.sin(coupler)])
    return Bars(flat_scene()).add(0.5, 0.7).add(1.2, coupler).add(1.0, np.arctan2(*(far - tip)[::-1])).end(1.5)


def flat() -> ist.Scene:
    """A parallelogram of 1 and .5 m that turns without weight at 3 rad/s: twice a turn all bars are
    in line, where it may go on in two ways."""
    return Bars(flat_scene(0.0)).add(0.5, 1.0, 3.0).add(1.0, 0.0).add(0.5, 1.0 - np.pi, 3.0).end(1.0)


def slider_crank() -> ist.Scene:
    """A crank of .3 m, a rod of 1 m and a piston on its guide."""
    rod = -float(np.arcsin(0.3 * np.sin(1.0)))
    made = Bars(flat_scene()).add(0.3, 1.0).add(1.0, rod)
    piston = made.scene.add_body(name="piston", shape=shapes.Ellipse((0.1, 0.05)), mass=0.5, position=made.at)
    made.scene.add_joint(made.last[0], piston, ist.BallJoint(made.last[1], (0, 0)), name="gudgeon")
    made.scene.add_joint(made.frame, piston, ist.Slider((0, 0), (1, 0), (0, 0), (1, 0)), name="guide", project=True)
    return made.scene


def spatial() -> ist.Scene:
    """A parallelogram of hinges in space, with three equations more than it needs."""
    scene, axis = ist.Scene(), (0, 1, 0)
    frame = scene.add_fixed(name="frame", shape=shapes.Sphere(0.01))
    bar = {"shape": shapes.Ellipsoid((0.5, 0.05, 0.05)), "mass": 1.0}
    upright = (np.sqrt(0.5), 0, np.sqrt(0.5), 0)  # x points down
    left = scene.add_body(name="left", position=(0, 0, -0.5), quaternion=upright, velocity=(-1.0, 0, 0, 0, 2.0, 0), **bar)
    low = scene.add_body(name="low", position=(0.5, 0, -1.0), velocity=(-2.0, 0, 0, 0, 0, 0), **bar)
    right = scene.add_body(name="right", position=(1, 0, -0.5), quaternion=upright, velocity=(-1.0, 0, 0, 0, 2.0, 0), **bar)
    for first, second, point, other in (
        (frame, left, (0, 0, 0), (-0.5, 0, 0)),
        (left, low, (0.5, 0, 0), (-0.5, 0, 0)),
        (low, right, (0.5, 0, 0), (0.5, 0, 0)),
        (frame, right, (1, 0, 0), (-0.5, 0, 0)),
    ):
        scene.add_joint(first, second, ist.Hinge(point, axis, other, axis))
    return scene


def grip(share: float = 0.9) -> ist.Scene:
    """A disc that a jaw presses against a wall, as heavy as the `share` of what friction holds."""
    scene, force = flat_scene(), 10.0
    wall = scene.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(1, 0)))
    held = scene.add_body(name="held", shape=shapes.Disc(0.1), mass=share * 2 * MU * force / G, position=(0.1, 0))
    bearing = {"position": (0.2, 0), "wrench": (-force, 0, 0), "mass": 1.0, "inertia": 1.0}
    jaw = scene.add_body(name="jaw", shape=shapes.HalfPlane(normal=(-1, 0)), **bearing)
    scene.add_joint(wall, jaw, ist.Slider((0.2, 0), (1, 0), (0, 0), (1, 0)), name="guide")
    for side in (wall, jaw):
        scene.add_contact(side, held, friction=MU)
    return scene


def pin(share: float = 0.999) -> ist.Scene:
    """A wheel on a pin that rubs, under the `share` of the moment that it holds, mu r W."""
    scene, mass = flat_scene(), 2.0
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.01))
    moment = share * PIN.mu * PIN.radius * mass * G
    wheel = scene.add_body(name="wheel", shape=shapes.Disc(0.2), mass=mass, position=(0, 0), wrench=(0, 0, moment))
    scene.add_joint(wall, wheel, ist.BallJoint((0, 0), (0, 0), friction=PIN), name="pin")
    return scene


MOVES = {
    "pendulum": pendulum,
    "double": double,
    "slider crank": slider_crank,
    "four bar": four_bar,
    "spatial": spatial,
    "flat": flat,
}
HOLDS = {"grip": grip, "pin": pin}


def run(case: str, steps: int, h: float) -> ist.Trajectory:
    """So many steps of h [s] of it, or as many as are solved."""
    scene = (MOVES | HOLDS)[case]()
    return ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=steps * h, on_failure="return", progress=False)


def keep_energy(case: str, tol: float, seconds: float) -> None:
    """Prints, after every tenth of so many seconds of motion, the largest change of energy up to
    then, in `tol` of the largest kinetic energy, and of that and sum m g L, as a tolerance has
    it."""
    scene, begun = MOVES[case](), time.process_time()
    system, _ = scene.build()
    weight = float(np.sum(system.mass) * system.acceleration * system.length)
    # as one run of all these seconds asks for
    asked = ist.Tolerance(tol, energy=10 * tol / seconds)
    state, first, most, off, steps, short = None, None, 0.0, 0.0, 0, 0
    for _ in range(10):
        found = ist.simulate(scene, ist.RadauContact(), tol=asked, duration=seconds / 10, start=state, progress=False)
        energy, state = found.energy(), found.end
        first, most = energy.total[0] if first is None else first, max(most, float(np.max(energy.kinetic)))
        off, steps = max(off, float(np.max(np.abs(energy.total - first)))), steps + len(found)
        short += found.counts["one-stage steps"]
        spent = time.process_time() - begun
        print(
            f"{case:12}   {found.time[-1]:8.1f}   {steps:7}   {short:9}   {off / (tol * most):9.2f}   "
            f"{off / (tol * (most + weight)):14.2f}   {spent:7.1f}",
            flush=True,
        )


def boxes(hinged: bool, speed: float, spin: float) -> ist.Scene:
    """Ten boxes in a row on a floor, free or `hinged` about upright axes, which all move along the
    row at a `speed` [m/s] and around its middle with a `spin` [rad/s] at first."""
    scene, made = ist.Scene(), []
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    box = {"shape": shapes.Box((0.2, 0.1, 0.1)), "mass": 1.0}
    for i in range(10):
        x = 0.5 * i - 2.25
        made.append(scene.add_body(name=f"box {i}", position=(x, 0, 0.1), velocity=(speed, spin * x, 0, 0, 0, spin), **box))
        scene.add_contact(floor, made[-1], friction=0.3)
    for one, other in itertools.pairwise(made) if hinged else ():
        scene.add_joint(one, other, ist.Hinge((0.25, 0, 0), (0, 0, 1), (-0.25, 0, 0), (0, 0, 1)))
    return scene


ROWS = {"rest": (0.0, 0.0), "slide, then rest": (1.0, 0.0), "slide and turn, then rest": (1.0, 1.0)}


def compare_cost(repeats: int = 9) -> None:
    """Prints a table of CPU times of runs of 2 s at h = 10 ms, compiled before, in turn."""
    print("the boxes                    free [ms]   hinged [ms]   ratio (least, most)   Jacobians, free and hinged")
    for name, how in ROWS.items():
        scenes, spent, runs = [boxes(hinged, *how) for hinged in (False, True)], ([], []), [None, None]
        for number in range(repeats + 1):
            for i, scene in enumerate(scenes):
                begun = time.process_time()
                runs[i] = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=2.0, progress=False)
                spent[i].extend([time.process_time() - begun] if number else [])
        ratios = [hinged / free for free, hinged in zip(*spent, strict=True)]
        free, hinged = (1e3 * statistics.median(times) for times in spent)
        found = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})"
        jacobians = " and ".join(str(int(np.sum(run.stats.iterations))) for run in runs)
        print(f"{name:26}   {free:9.1f}   {hinged:11.1f}   {found:>19}   {jacobians}", flush=True)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=MOVES | HOLDS, default=list(MOVES | HOLDS))
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--h", type=float, default=1e-3)
    parser.add_argument("--energy", action="store_true")
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--seconds", type=float, default=1000.0)
    parser.add_argument("--cost", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", ist.OverlapWarning)  # bars pass each other
    if given.cost:
        compare_cost()
        return
    if given.energy:
        print("case             time [s]     steps   one stage   off [tol]   of K + m g L   CPU [s]")
        for case in given.cases if given.cases != list(MOVES | HOLDS) else [name for name in MOVES if name != "flat"]:
            keep_energy(case, given.tol, given.seconds)
        return
    print(f"h = {given.h} s; CPU time includes compiling")
    print("case           steps   lost   from other starts   joints open by   creeps at [m/s, rad/s]   CPU [s]")
    for case in given.cases:
        begun = time.process_time()
        found = run(case, given.steps, given.h)
        opens, other = np.max(np.abs(found.joints.closure)), np.count_nonzero(found.stats.rung)
        creeps = f"{np.max(np.abs(found.velocity)):.1e}" if case in HOLDS else "moves"
        spent, lost = time.process_time() - begun, given.steps - len(found)
        print(f"{case:12}   {len(found):5}   {lost:4}   {other:17}   {opens:14.1e}   {creeps:>22}   {spent:7.1f}")


if __name__ == "__main__":
    main()
