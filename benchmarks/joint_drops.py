"""Chains with hinges that rub and have limits, and ball joints, thrown on a floor: steps lost, and what they cost.

python benchmarks/joint_drops.py [--seeds 12] [--steps 400]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.model import poses

LINKS, H = 5, 0.005  # links of a chain, [s]


def chain(seed: int) -> ist.Scene:
    """Ellipsoids in a row, in any direction 2 m above the floor, at a speed of some 2 m/s."""
    random = np.random.default_rng(seed)
    quaternion = random.normal(size=4)
    quaternion /= np.linalg.norm(quaternion)
    along, velocity = poses.matrices(quaternion)[:, 0], random.normal(size=3)
    scene, last = ist.Scene(), None
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    for i in range(LINKS):
        place = {"position": np.array([0, 0, 2.0]) + 0.5 * i * along, "quaternion": quaternion}
        shape = shapes.Ellipsoid((0.24, 0.1, 0.1))
        link = scene.add_body(name=f"link {i}", shape=shape, mass=1.0, velocity=(*velocity, 0, 0, 0), **place)
        scene.add_contact(floor, link, friction=0.5)
        if last is not None and i % 2:
            rubs = ist.JointFriction(0.3, radius=0.05)
            hinge = ist.Hinge((0.25, 0, 0), (0, 0, 1), (-0.25, 0, 0), (0, 0, 1), friction=rubs)
            scene.add_limit(scene.add_joint(last, link, hinge), low=-1.0, high=1.0)
        elif last is not None:
            scene.add_joint(last, link, ist.BallJoint((0.25, 0, 0), (-0.25, 0, 0)))
        last = link
    return scene


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    warnings.simplefilter("ignore", ist.OverlapWarning)  # links that no contact joins may pass through each other
    stepper, lost, climbed, total = ist.GeometricallyImplicit(), 0, 0, 0
    print(
        f"chains of {LINKS}, h = {H} s; CPU time includes compiling\n"
        "seed   steps   from other starts   worst violation   CPU [s]"
    )
    for seed in range(1, given.seeds + 1):
        begun = time.process_time()
        run = ist.simulate(chain(seed), stepper, h=H, duration=given.steps * H, on_failure="return", progress=False)
        other, worst = int(np.count_nonzero(run.stats.rung)), max(np.max(v) for v in run.certificate.values())
        lost, climbed, total = lost + given.steps - len(run), climbed + other, total + len(run)
        print(f"{seed:4}   {len(run):5}   {other:17}   {worst:15.1e}   {time.process_time() - begun:7.1f}", flush=True)
    print(f"{total} steps, {climbed} from other starts than the warm one, {lost} lost")


if __name__ == "__main__":
    main()
