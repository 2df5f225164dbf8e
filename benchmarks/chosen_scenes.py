"""Scenes of boxes and cylinders as users set them up, by chosen steps: what they cost, how many
steps are of first order, and by how much the end depends on the tolerance.

    python benchmarks/chosen_scenes.py
    python benchmarks/chosen_scenes.py --scenes column incline --tol 1e-7 1e-8

Prints a Markdown table; a run is compared with that of the last, least tolerance.
"""

import argparse
import itertools
import time

import numpy as np

import implicit_stepper as ist
import shapes

HEADER = "| scene | tol | steps | of first order | problems | CPU s | off the last one at the end [m] |\n|" + "---|" * 7


def turned(axis, angle):
    """A quaternion."""
    axis = np.asarray(axis, float)
    return (np.cos(angle / 2), *(np.sin(angle / 2) * axis / np.linalg.norm(axis)))


def scene_of(friction, bodies, normal=(0, 0, 1)):
    """Bodies, each a shape and what else `add_body` takes, on a plane and each other."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=normal))
    made = [scene.add_body(name=f"body {i}", shape=shape, mass=1.0, **rest) for i, (shape, rest) in enumerate(bodies)]
    for pair in (*((floor, body) for body in made), *itertools.combinations(made, 2)):
        scene.add_contact(*pair, friction=friction)
    return scene


def column():
    """A column dropped on a corner, which falls over."""
    lean = turned((1, 0.3, 0), 0.2)
    return scene_of(0.4, [(shapes.Box((0.05, 0.05, 0.3)), {"position": (0, 0, 0.35), "quaternion": lean})]), 1.5


def incline():
    """A box that tumbles down an incline."""
    up = np.array([np.sin(0.6), 0, np.cos(0.6)])
    box = shapes.Box((0.1, 0.1, 0.1)), {"position": tuple(0.2 * up), "quaternion": turned((1, 1, 0), 0.3)}
    return scene_of(0.8, [box], tuple(up)), 1.0


def collision():
    """A box that slides against another one, off its middle."""
    cube = shapes.Box((0.1, 0.1, 0.1))
    first = {"position": (-0.3, 0, 0.1), "velocity": (1.5, 0, 0, 0, 0, 0)}
    return scene_of(0.3, [(cube, first), (cube, {"position": (0, 0.05, 0.1)})]), 1.0


def pair():
    """Two bricks that fall one after the other, both inclined."""
    bricks = [
        (
            shapes.Box((0.1, 0.12, 0.08)),
            {"position": (0.03 * i, 0, 0.2 + 0.3 * i), "quaternion": turned((1, 2, 3 * i), 0.3 + 0.2 * i)},
        )
        for i in range(2)
    ]
    return scene_of(0.5, bricks), 1.5


def cylinder():
    """A cylinder dropped on its rim."""
    how = {"position": (0, 0, 0.4), "quaternion": turned((1, 0, 0), 0.5)}
    return scene_of(0.4, [(shapes.Cylinder(0.1, 0.15), how)]), 1.5


SCENES = {make.__name__: make for make in (column, incline, collision, pair, cylinder)}


def rows(name, tolerances):
    """Rows of the table for a scene, each as the run ends but for its comparison with the last."""
    made = []
    for tol in tolerances:
        (scene, duration), begun = SCENES[name](), time.process_time()
        try:
            run = ist.simulate(scene, ist.RadauContact(), tol=tol, duration=duration, progress=False)
        except ist.StepError as error:
            print(f"{name}, tol = {tol:g}: {error}")
            continue
        made.append((tol, run, time.process_time() - begun))
    for tol, run, spent in made:
        off = np.max(np.abs(run.position[-1] - made[-1][1].position[-1]))
        short, solves = (run.counts[kind] for kind in ("one-stage steps", "solves"))
        yield f"| {name} | {tol:g} | {len(run)} | {short} | {solves} | {spent:.1f} | {off:.0e} |"


def main() -> None:
    """Prints a table; the first run of a scene compiles its programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-6, 1e-7, 1e-8])
    given = parser.parse_args()
    print(HEADER)
    for name in given.scenes:
        for row in rows(name, given.tol):
            print(row, flush=True)


if __name__ == "__main__":
    main()
