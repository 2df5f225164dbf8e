"""What a superquadric loses as it rolls over the middle of its side, which bends nowhere.

    python benchmarks/flat_places.py
    python benchmarks/flat_places.py --powers 4 8 --tol 1e-8

One body without friction on a floor, tilted by .9 rad and turning by -3 rad/s, passes once over its
side within .5 s. Its energy stays, m (H' theta')^2 / 2 + I theta'^2 / 2 + m g H with the support
function H: that tells how fast it turns at the tilt at which a run ends. Prints a Markdown table.
"""

import argparse
import warnings

import numpy as np

import implicit_stepper as ist
import shapes

A, C, TILT, SPIN, DURATION, G = 0.2, 0.15, 0.9, 3.0, 0.5, 9.81
HEADER = (
    "| power | stepper | lost [J] | tilt [rad] | spin [rad/s] | spin that energy allows | steps | told |\n|" + "---|" * 8
)


def height(tilt, p):
    """The support function H [m] of the tilted body downwards, and H' [m]."""
    q, s, c = p / (p - 1), abs(np.sin(tilt)), abs(np.cos(tilt))
    S = (A * s) ** q + (C * c) ** q
    slope = A**q * s ** (q - 1) * c * np.sign(np.sin(tilt)) - C**q * c ** (q - 1) * np.sin(tilt)
    return S ** (1 / q), S ** (1 / q - 1) * slope


def scene_of(p):
    """The body on its floor, where it touches and does not approach."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    H, slope = height(TILT, p)
    body = scene.add_body(
        name="body",
        shape=shapes.Superquadric((A, A, C), epsilon=(2 / p, 2 / p)),
        mass=1.0,
        position=(0, 0, H),
        quaternion=(np.cos(TILT / 2), 0, np.sin(TILT / 2), 0),
        velocity=(0, 0, -SPIN * slope, 0, -SPIN, 0),
    )
    scene.add_contact(floor, body)
    return scene


def row(p, name, stepper, **how):
    """A line of the table."""
    scene = scene_of(p)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = ist.simulate(scene, stepper, duration=DURATION, progress=False, **how)
    system, _ = scene.build()
    inertia = float(np.asarray(system.inertia)[0, 1, 1])
    energy = run.energy().total
    tilt = 2 * np.arctan2(run.quaternion[-1, 0, 2], run.quaternion[-1, 0, 0])
    H, slope = height(tilt, p)
    H_0, slope_0 = height(TILT, p)
    begun = (inertia + slope_0**2) * SPIN**2 / 2 + G * H_0
    allowed = np.sqrt(max(2 * (begun - G * H) / (inertia + slope**2), 0.0))
    cells = [
        f"{p:g}",
        name,
        f"{energy[0] - energy[-1]:.1e}",
        f"{tilt:.4f}",
        f"{run.velocity[-1, 0, 4]:.4f}",
        f"{allowed:.4f}",
    ]
    return f"| {' | '.join([*cells, str(len(run)), 'yes' if told else 'no'])} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--powers", type=float, nargs="+", default=[2, 3, 4, 6, 8])
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-6, 1e-8])
    parser.add_argument("--h", type=float, nargs="*", default=[1e-3, 1e-4], help="[s], of GeometricallyImplicit")
    arguments = parser.parse_args()
    print(HEADER, flush=True)
    for p in arguments.powers:
        for tol in arguments.tol:
            print(row(p, f"radau, tol = {tol:g}", ist.RadauContact(), tol=tol), flush=True)
        for h in arguments.h:
            print(row(p, f"implicit, h = {h:g} s", ist.GeometricallyImplicit(), h=h), flush=True)


if __name__ == "__main__":
    main()
