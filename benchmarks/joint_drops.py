"""Mechanisms thrown on a floor and on each other: steps lost, and what they cost.

python benchmarks/joint_drops.py [--kinds chain doll ring loops pair] [--first 1] [--seeds 12]
[--steps 400]

A chain of five, joined in turn by hinges that rub and have limits and by ball joints; a rag doll of
ten bodies, whose ball joints and hinges rub and whose elbows and knees have limits; a ring of six,
closed by ball joints; two loops of four hinges, each with three equations more than it needs, the
upper of which rubs and has a limit, that fall on each other; and two chains of three that do.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.model import poses

H = 0.005  # [s]
HINGE_RUBS, BALL_RUBS = ist.JointFriction(0.3, radius=0.05), ist.JointFriction(0.3, radius=0.03)
# of the doll: name, half sizes, mass, centre [m], as it stands
PARTS = (
    ("torso", (0.12, 0.16, 0.28), 25.0, (0, 0, 0)),
    ("head", (0.09, 0.09, 0.12), 5.0, (0, 0, 0.42)),
    *((f"upper arm {i}", (0.045, 0.045, 0.16), 2.0, (0, side * 0.24, 0.06)) for i, side in ((1, 1), (2, -1))),
    *((f"forearm {i}", (0.04, 0.04, 0.17), 1.5, (0, side * 0.24, -0.26)) for i, side in ((1, 1), (2, -1))),
    *((f"thigh {i}", (0.07, 0.07, 0.22), 8.0, (0, side * 0.1, -0.48)) for i, side in ((1, 1), (2, -1))),
    *((f"shin {i}", (0.05, 0.05, 0.23), 4.0, (0, side * 0.1, -0.91)) for i, side in ((1, 1), (2, -1))),
)
# of the doll: what hangs on what, where, as it stands, and of a hinge the range of its angle [rad]
JOINTS = (
    ("torso", "head", (0, 0, 0.29), None),
    *(("torso", f"upper arm {i}", (0, side * 0.2, 0.22), None) for i, side in ((1, 1), (2, -1))),
    *((f"upper arm {i}", f"forearm {i}", (0, side * 0.24, -0.1), (-2.4, 0.1)) for i, side in ((1, 1), (2, -1))),
    *(("torso", f"thigh {i}", (0, side * 0.1, -0.26), None) for i, side in ((1, 1), (2, -1))),
    *((f"thigh {i}", f"shin {i}", (0, side * 0.1, -0.69), (-0.1, 2.4)) for i, side in ((1, 1), (2, -1))),
)


class Thrown:
    """Where what is thrown begins: turned at random, at a speed of some 2 m/s."""

    def __init__(self, seed: int):
        random = np.random.default_rng(seed)
        quaternion = random.normal(size=4)
        self.quaternion = quaternion / np.linalg.norm(quaternion)
        self.turn, self.velocity = poses.matrices(self.quaternion), random.normal(size=3)

    def add(self, scene: ist.Scene, name: str, half_sizes, mass, place, height, quaternion=(1, 0, 0, 0)):
        """An ellipsoid that touches the floor; `place` (3,) [m] and `quaternion` as it stands,
        lifted by a `height` [m]."""
        turned = product(self.quaternion, quaternion)
        position = self.turn @ np.asarray(place, float) + [0, 0, height]
        return scene.add_body(
            name=name,
            shape=shapes.Ellipsoid(half_sizes),
            mass=mass,
            position=position,
            quaternion=turned,
            velocity=(*self.velocity, 0, 0, 0),
        )


def product(a, b):
    """The quaternion of the rotation b and then a."""
    w, x, y, z = a
    return np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]]) @ b


def on_floor(bodies, scene: ist.Scene):
    """The floor, which all `bodies` touch."""
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    for body in bodies:
        scene.add_contact(floor, body, friction=0.5)


def row(scene: ist.Scene, thrown: Thrown, count: int, height: float, name: str):
    """`count` ellipsoids in a row, joined in turn by ball joints and hinges."""
    links = [thrown.add(scene, f"{name} {i}", (0.24, 0.1, 0.1), 1.0, (0.5 * i, 0, 0), height) for i in range(count)]
    for i in range(1, count):
        ends = links[i - 1], links[i]
        if i % 2:
            hinge = ist.Hinge((0.25, 0, 0), (0, 0, 1), (-0.25, 0, 0), (0, 0, 1), friction=HINGE_RUBS)
            scene.add_limit(scene.add_joint(*ends, hinge), low=-1.0, high=1.0)
        else:
            scene.add_joint(*ends, ist.BallJoint((0.25, 0, 0), (-0.25, 0, 0)))
    return links


def chain(seed: int) -> ist.Scene:
    """Five ellipsoids in a row, the first of them 2.5 m above the floor."""
    scene = ist.Scene()
    on_floor(row(scene, Thrown(seed), 5, 2.5, "link"), scene)
    return scene


def pair(seed: int) -> ist.Scene:
    """A row of three above another."""
    scene = ist.Scene()
    lower = row(scene, Thrown(2 * seed), 3, 1.5, "lower")
    upper = row(scene, Thrown(2 * seed + 1), 3, 4.0, "upper")
    for one in upper:
        for other in lower:
            scene.add_contact(one, other, friction=0.5)
    on_floor([*lower, *upper], scene)
    return scene


def doll(seed: int) -> ist.Scene:
    """The rag doll, 2 m above the floor."""
    scene, thrown = ist.Scene(), Thrown(seed)
    bodies, places = {}, {}
    for name, sizes, mass, place in PARTS:
        bodies[name], places[name] = thrown.add(scene, name, sizes, mass, place, 2.0), np.array(place, float)
    for one, other, there, bounds in JOINTS:
        points = [np.array(there) - places[name] for name in (one, other)]
        if bounds is None:
            joint = ist.BallJoint(*points, friction=BALL_RUBS)
        else:
            joint = ist.Hinge(points[0], (0, 1, 0), points[1], (0, 1, 0), friction=HINGE_RUBS)
        name = scene.add_joint(bodies[one], bodies[other], joint)
        if bounds is not None:
            scene.add_limit(name, low=bounds[0], high=bounds[1])
    on_floor(bodies.values(), scene)
    return scene


def ring(seed: int) -> ist.Scene:
    """Six ellipsoids in a closed ring of ball joints, 2 m above the floor."""
    scene, thrown, links = ist.Scene(), Thrown(seed), []
    for i in range(6):
        angle = np.pi / 3 * i
        away = 0.25 * np.sqrt(3) * np.array([np.cos(angle), np.sin(angle), 0])
        turn = (np.cos(angle / 2 + np.pi / 4), 0, 0, np.sin(angle / 2 + np.pi / 4))
        links.append(thrown.add(scene, f"link {i}", (0.24, 0.1, 0.1), 1.0, away, 2.0, turn))
    for i in range(6):
        scene.add_joint(links[i], links[(i + 1) % 6], ist.BallJoint((0.25, 0, 0), (-0.25, 0, 0)))
    on_floor(links, scene)
    return scene


def loop(scene: ist.Scene, thrown: Thrown, height: float, name: str, friction=None):
    """A square of four ellipsoids, joined by hinges across its plane: 20 equations of which three
    follow from the others. Returns its bodies and the name of its first hinge."""
    links, names = [], []
    for i in range(4):
        angle = np.pi / 2 * i
        away = 0.25 * np.array([np.cos(angle), np.sin(angle), 0])
        turn = (np.cos(angle / 2 + np.pi / 4), 0, 0, np.sin(angle / 2 + np.pi / 4))
        links.append(thrown.add(scene, f"{name} {i}", (0.24, 0.1, 0.1), 1.0, away, height, turn))
    for i in range(4):
        hinge = ist.Hinge((0.25, 0, 0), (0, 0, 1), (-0.25, 0, 0), (0, 0, 1), friction=friction)
        names.append(scene.add_joint(links[i], links[(i + 1) % 4], hinge))
    return links, names[0]


def loops(seed: int) -> ist.Scene:
    """A square loop above another."""
    scene = ist.Scene()
    lower, _ = loop(scene, Thrown(2 * seed), 1.5, "lower")
    upper, hinge = loop(scene, Thrown(2 * seed + 1), 3.0, "upper", friction=HINGE_RUBS)
    scene.add_limit(hinge, low=-1.0, high=1.0)
    for one in upper:
        for other in lower:
            scene.add_contact(one, other, friction=0.5)
    on_floor([*lower, *upper], scene)
    return scene


KINDS = {"chain": chain, "doll": doll, "ring": ring, "loops": loops, "pair": pair}


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    # links that no contact joins may pass through each other
    warnings.simplefilter("ignore", ist.OverlapWarning)
    stepper, lost, climbed, total = ist.GeometricallyImplicit(), 0, 0, 0
    print(f"h = {H} s; CPU time includes compiling\nkind   seed   steps   from other starts   worst violation   CPU [s]")
    for seed in range(given.first, given.first + given.seeds):
        for kind in given.kinds:
            begun = time.process_time()
            run = ist.simulate(
                KINDS[kind](seed), stepper, h=H, duration=given.steps * H, on_failure="return", progress=False
            )
            other, worst = int(np.count_nonzero(run.stats.rung)), max(np.max(v) for v in run.certificate.values())
            lost, climbed, total = lost + (len(run) < given.steps), climbed + other, total + len(run)
            spent = time.process_time() - begun
            print(f"{kind:5}   {seed:4}   {len(run):5}   {other:17}   {worst:15.1e}   {spent:7.1f}", flush=True)
    print(f"{total} steps, {climbed} from other starts than the warm one, {lost} throws that ended early")


if __name__ == "__main__":
    main()
