"""Mixing in a rotating drum: discs of two colours, one above the other, in a drum that turns as it
is told.

    python benchmarks/drum.py [--discs 40] [--turns 2] [--mu 0.3 0.6]

In the plane. The drum is one body of thirty discs in a ring, which moves by `add_moving`; pairs are
found step by step, and the drive stands among them as a joint. Prints a Markdown table for
docs/benchmarks.md and draws docs/figures/drum.png.

The discs are mixed as far as a disc is near to discs of the other colour: of its six nearest ones
so many are expected to be of the other colour if places were drawn by lot, and the index is 1
there, and 0 where only the same are.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from scipy.spatial import cKDTree

import implicit_stepper as ist
import shapes
from implicit_stepper.output.plots import COLOURS, styled

H, SPEED = 0.005, 3.0  # [s], [rad/s]
RING, LINING, RADIUS = 30, 0.06, 0.5  # discs of the drum, their radius [m], and that of their circle [m]
SMALL, LARGE, DENSITY, NEAR = 0.03, 0.04, 64.0, 6  # radii of discs [m], [kg/m^2], neighbours that count
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "drum.png"


def turning(time):
    """The pose of the drum: it starts smoothly, within about .1 s."""
    return jnp.zeros(2), jnp.array([SPEED * (time - 0.05 * jnp.tanh(time / 0.05))])


def drum(count, mu):
    """A scene of `count` discs in a drum, in rows."""
    scene, rng = ist.Scene(dimension=2), np.random.default_rng(0)
    angles = 2 * np.pi * np.arange(RING) / RING
    ring = [(shapes.Disc(LINING), ((RADIUS * np.cos(a), RADIUS * np.sin(a)), 0.0)) for a in angles]
    scene.add_moving(name="drum", shapes=ring, mass=10.0, inertia=2.0, pose=turning)
    across = 8
    row, column = np.divmod(np.arange(count), across)
    places = np.stack([column - (across - 1) / 2 + 0.2 * (row % 2 - 0.5), row], axis=1) * 2.05 * LARGE - (0, 0.27)
    for number, place in enumerate(places):
        shape = shapes.Disc(rng.uniform(SMALL, LARGE))
        scene.add_body(name=f"disc {number}", shape=shape, density=DENSITY, position=place)
    scene.add_contacts(friction=mu)
    return scene


def mixed(places, red):
    """The index () of discs at `places` (n, 2) of which some are `red` (n,)."""
    _, near = cKDTree(places).query(places, NEAR + 1)
    unlike = np.mean(red[near[:, 1:]] != red[:, None])
    share = np.mean(red)
    return unlike / (2 * share * (1 - share) * len(red) / (len(red) - 1))


def measured(count, turns, mu):
    """The run, its index step by step, and CPU milliseconds a step."""
    scene, steps = drum(count, mu), int(2 * np.pi * turns / SPEED / H)
    begun = time.process_time()
    stepper = ist.GeometricallyImplicit(jacobian="sparse", tolerance=1e-10)
    run = ist.simulate(scene, stepper, h=H, duration=steps * H, on_failure="return")
    spent = (time.process_time() - begun) / max(len(run), 1) * 1e3
    discs = [run.names.index(f"disc {k}") for k in range(count)]
    red = np.arange(count) < count // 2
    index = np.array([mixed(places[discs], red) for places in run.position])
    drive = run.joint("drive of drum").moment[:, -1]
    worst = max(np.max(v) for v in run.certificate.values())
    print(
        f"| {mu} | {count} | {len(run)} of {steps} | {run.stats.iterations.mean():.1f} ({run.stats.iterations.max()}) | "
        f"{np.sum(run.stats.rung > 0)} | {np.nanmin(run.contacts.gap):.0e} | {worst:.0e} | {index[0]:.2f} | "
        f"{np.mean(index[-200:]):.2f} +- {np.std(index[-200:]):.2f} | {np.mean(drive[-400:]):.2f} | {spent:.0f} |",
        flush=True,
    )
    return run, index, red


@styled
def drawn(found):
    """The drum at the end of the first run, and the index of all."""
    figure = Figure(figsize=(8.8, 3.6), layout="constrained")
    picture, curves = figure.subplots(1, 2, width_ratios=(1, 1.4))
    (mu, (run, _, red)), *_ = found.items()
    angle, body = run.orientation[-1, run.names.index("drum"), 0], run.names.index("drum")
    for k in range(RING):
        a = angle + 2 * np.pi * k / RING
        place = run.position[-1, body] + RADIUS * np.array([np.cos(a), np.sin(a)])
        picture.add_patch(Circle(place, LINING, color="0.75" if k else "0.3"))
    rng = np.random.default_rng(0)
    for k, own in enumerate(red):
        place, radius = run.position[-1, run.names.index(f"disc {k}")], rng.uniform(SMALL, LARGE)
        picture.add_patch(Circle(place, radius, color=COLOURS[0 if own else 1]))
    picture.set(aspect="equal", xlim=(-0.6, 0.6), ylim=(-0.6, 0.6), xlabel="x [m]", ylabel="y [m]")
    picture.set_title(f"mu = {mu}, after {angle / 2 / np.pi:.1f} turns")
    for mu, (run, index, _) in found.items():
        curves.plot(SPEED * run.time / 2 / np.pi, index, label=f"mu = {mu}")
    curves.axhline(1.0, color="0.5", linestyle=":")
    curves.set(xlabel="turns of the drum", ylabel="index of mixing", ylim=(0, 1.3))
    curves.legend()
    figure.savefig(FIGURE, dpi=100)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--discs", type=int, default=40)
    options.add_argument("--turns", type=float, default=2.0)
    options.add_argument("--mu", type=float, nargs="+", default=[0.3, 0.6])
    asked = options.parse_args()
    print(
        "| mu | discs | steps solved | Jacobians a step (most) | by other starts | least gap [m] | violation | "
        "mixed at first | in the last second | moment of the drive [N m] | CPU ms a step |\n" + "|---" * 11 + "|"
    )
    drawn({mu: measured(asked.discs, asked.turns, mu) for mu in asked.mu})
