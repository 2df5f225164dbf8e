"""Random drops of bodies with edges and faces that rebound: how many runs come to their end, by
steps of given length and by chosen ones, and why the others do not.

    python benchmarks/rebounds.py
    python benchmarks/rebounds.py --kinds box bricks --drops 40 --tol 1e-6

Every drop draws e of .2, .5 and .8, by Newton's law or Poisson's, mu of 0, .3 and .6, and a step of
2, 5 or 10 ms. Prints a Markdown table, and below it the drops that ended early.
"""

import argparse
import signal
import time
import warnings

import numpy as np

import implicit_stepper as ist
import shapes

DURATION = 1.2  # [s]
HEADER = "| bodies | steps | drops | at the end | energy raised | other errors | out of time | CPU s |\n|" + "---|" * 8
GAINS = "can raise energy"


def turned(rng):
    """A quaternion at random."""
    q = rng.normal(size=4)
    return tuple(q / np.linalg.norm(q))


def dropped(shape, height=0.35, spin=4.0):
    """One body over a floor, thrown at random."""

    def add(scene, floor, rng, contact):
        thrown = (*rng.uniform(-1, 1, 3), *rng.uniform(-spin, spin, 3))
        body = scene.add_body(
            name="body", shape=shape, mass=1.0, position=(0, 0, height), quaternion=turned(rng), velocity=thrown
        )
        scene.add_contact(floor, body, **contact)

    return add


def plate(scene, floor, rng, contact):
    """A plate that lands nearly flat."""
    tilt = np.r_[1, 0.05 * rng.normal(size=3)]
    body = scene.add_body(
        name="plate",
        shape=shapes.Box((0.2, 0.15, 0.02)),
        mass=1.0,
        position=(0, 0, 0.15),
        quaternion=tuple(tilt / np.linalg.norm(tilt)),
        velocity=(*rng.uniform(-0.5, 0.5, 3), *rng.uniform(-1, 1, 3)),
    )
    scene.add_contact(floor, body, **contact)


def bricks(scene, floor, rng, contact):
    """Two boxes, one over the other."""
    made = [
        scene.add_body(
            name=f"box {i}",
            shape=shapes.Box((size, size, size)),
            mass=mass,
            position=(*(i * rng.uniform(-0.05, 0.05, 2)), 0.2 + 0.3 * i),
            quaternion=turned(rng),
        )
        for i, (size, mass) in enumerate(((0.1, 1.0), (0.08, 0.5)))
    ]
    for pair in ((floor, made[0]), (floor, made[1]), tuple(made)):
        scene.add_contact(*pair, **contact)


KINDS = {
    "box": dropped(shapes.Box((0.1, 0.1, 0.1))),
    "brick": dropped(shapes.Box((0.1, 0.06, 0.15))),
    "rod": dropped(shapes.Box((0.02, 0.02, 0.2))),
    "cylinder": dropped(shapes.Cylinder(0.1, 0.1)),
    "cone": dropped(shapes.Cone(0.1, 0.2)),
    "plate": plate,
    "bricks": bricks,
}


def drop(kind, seed):
    """The scene of a drop, its step of given length [s], and what it drew."""
    rng = np.random.default_rng(seed)
    law, e = rng.choice([ist.Newton, ist.Poisson]), float(rng.choice([0.2, 0.5, 0.8]))
    mu, h = float(rng.choice([0.0, 0.3, 0.6])), float(rng.choice([0.002, 0.005, 0.01]))
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    KINDS[kind](scene, floor, rng, {"friction": mu, "restitution": law(e)})
    return scene, h, f"{kind} {seed}: {law.__name__}({e:g}), mu = {mu:g}, h = {h:g} s"


def outcome(scene, h, tol, seconds):
    """What became of a run, by chosen steps if `tol` is given, in so many `seconds` at most."""
    how = (ist.GeometricallyImplicit(), {"h": h}) if tol is None else (ist.RadauContact(), {"tol": tol})
    signal.alarm(seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ist.simulate(scene, how[0], duration=DURATION, progress=False, **how[1])
    except ist.Interrupted:
        return "out of time", ""
    except ist.StepError as error:
        gained = GAINS in str(error) or set(error.certificate or ()) == {"energy"}
        return ("gains" if gained else "error"), str(error).split(" The ")[0]
    finally:
        signal.alarm(0)
    return "end", ""


def _ring(*_) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Prints a table; the first run of a kind compiles its programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--drops", type=int, default=20)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--seconds", type=int, default=120, help="most for one run")
    given, ended = parser.parse_args(), []
    signal.signal(signal.SIGALRM, _ring)
    print(HEADER)
    for kind in given.kinds:
        for steps, tol in (("given", None), (f"tol = {given.tol:g}", given.tol)):
            found, begun = [], time.process_time()
            for seed in range(given.drops):
                scene, h, told = drop(kind, seed)
                what, why = outcome(scene, h, tol, given.seconds)
                found.append(what)
                if what != "end":
                    ended.append(f"{told}, {steps}: {what}. {why}")
            counts = " | ".join(str(found.count(what)) for what in ("end", "gains", "error", "out of time"))
            print(f"| {kind} | {steps} | {given.drops} | {counts} | {time.process_time() - begun:.0f} |", flush=True)
    print("\n" + "\n".join(ended))


if __name__ == "__main__":
    main()
