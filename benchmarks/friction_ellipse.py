"""What `direction` of a `FrictionEllipsoid` refers to: friction of a particle that slides every way
on a floor that is turned.

    python benchmarks/friction_ellipse.py

Draws docs/figures/friction-ellipse.png, and prints how far the friction found is from the ellipse
and from what dissipates most on it.
"""

import itertools
from pathlib import Path

import numpy as np

import implicit_stepper as ist
import shapes

MU, E_T, E_O, TURN, WAYS = 0.5, 1.0, 0.4, np.radians(30.0), 24
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "friction-ellipse.png"


def friction(way: float) -> tuple[np.ndarray, np.ndarray]:
    """Friction (2,) on a particle per normal force, and its velocity (2,) [m/s], after a step; it
    was thrown `way` [rad] from the x axis of the inertial frame."""
    scene = ist.Scene()
    turned = (np.cos(TURN / 2), 0, 0, np.sin(TURN / 2))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)), quaternion=turned)
    velocity = (2 * np.cos(way), 2 * np.sin(way), 0, 0, 0, 0)
    point = scene.add_body(
        name="particle", shape=shapes.Point(), mass=1.0, inertia=(1, 1, 1), position=(0, 0, 0), velocity=velocity
    )
    scene.add_contact(floor, point, friction=ist.FrictionEllipsoid(MU, e_t=E_T, e_o=E_O, direction=(1, 0, 0)))
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.01)
    force = run.contact("floor", "particle").force[0]
    return force[:2] / force[2], run.velocity[-1, 0, :2]


def axes_of_floor() -> tuple[np.ndarray, np.ndarray]:
    """t and o (2,) in the inertial frame."""
    return np.array([np.cos(TURN), np.sin(TURN)]), np.array([-np.sin(TURN), np.cos(TURN)])


def check(found) -> tuple[float, float]:
    """How far friction per normal force is from the edge of the ellipse, relative to it, and from
    -mu E^2 v / |E v|, which dissipates most at the velocity v."""
    off, wrong = 0.0, 0.0
    for force, velocity in found:
        own, slip = (np.array([axis @ of for axis in axes_of_floor()]) for of in (force, velocity))
        e = np.array([E_T, E_O])
        off = max(off, abs(np.linalg.norm(own / e) / MU - 1))
        wrong = max(wrong, float(np.max(np.abs(own + MU * e**2 * slip / np.linalg.norm(e * slip)))))
    return off, wrong


def draw(found, path: Path) -> None:
    """The ellipse with its axes, and the friction found."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.4), layout="constrained")
    plane, (t, o), angle = figure.subplots(), axes_of_floor(), np.linspace(0, 2 * np.pi, 200)
    edge = MU * (E_T * np.cos(angle)[:, None] * t + E_O * np.sin(angle)[:, None] * o)
    plane.plot(*edge.T, color="0.6", label="edge: (p_t / e_t)² + (p_o / e_o)² = (mu p_n)²")
    forces, velocities = (np.array(part) for part in zip(*found, strict=True))
    ways = velocities / np.linalg.norm(velocities, axis=1, keepdims=True)
    plane.plot(*forces.T, "o", ms=4, color="tab:blue", label="friction on body 2")
    for force, way in itertools.islice(zip(forces, ways, strict=True), 1, None, 6):
        plane.annotate("", force + 0.16 * way, force, arrowprops={"arrowstyle": "->", "color": "tab:orange"})
    plane.plot([], [], color="tab:orange", label="its velocity relative to body 1")
    for axis, size, name in ((t, E_T, "t"), (o, E_O, "o")):
        plane.annotate("", MU * size * axis, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "black"})
        plane.annotate(name, (MU * size + 0.03) * axis, ha="center", va="center")
    plane.annotate("", (0.25, 0), (0, 0), arrowprops={"arrowstyle": "->", "color": "0.5", "ls": "--"})
    plane.annotate("x of the inertial frame", (0.0, -0.05), fontsize=8, color="0.4")
    plane.annotate(
        "t is `direction`, here (1, 0, 0) in the frame of body 1,\nwhich is turned by 30 degrees", (-0.66, -0.48), fontsize=8
    )
    plane.set(xlabel="p_x / p_n", ylabel="p_y / p_n", aspect="equal", xlim=(-0.7, 0.7), ylim=(-0.52, 0.66))
    plane.legend(fontsize=8, loc="upper left", frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Prints both differences, and draws."""
    found = [friction(way) for way in 2 * np.pi * np.arange(WAYS) / WAYS]
    print("off the ellipse {:.1e}, off what dissipates most {:.1e}".format(*check(found)))
    draw(found, FIGURE)


if __name__ == "__main__":
    main()
