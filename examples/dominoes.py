"""A row of dominoes falls, and its wave runs as fast as the law of van Leeuwen says.

    python examples/dominoes.py [--n 100]

The law: dominoes turn about their lower edges and lean on the next one after each impact, which is
inelastic, so that the whole row behind the front has one degree of freedom; friction between
dominoes is Coulomb's. J. M. J. van Leeuwen, "The domino effect", American Journal of Physics 78
(2010) 721. It is computed here from the angles alone, without this library.
"""

import argparse

import numpy as np

import implicit_stepper as ist
import shapes

HEIGHT, THICKNESS, GRAVITY = 0.048, 0.0075, 9.81  # [m], [m/s^2]
FRICTION, FLOOR = 0.2, 2.0  # between dominoes; on the floor, where they do not slide
PUSH = 8.0  # [rad/s] of the first
INERTIA = (HEIGHT**2 + THICKNESS**2) / 3  # about the lower edge, of 1 kg


def row(count, spacing):
    """Dominoes in the plane, `spacing` [m] from face to face, of which the first tips over."""
    scene = ist.Scene(dimension=2)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    x, z = THICKNESS / 2, HEIGHT / 2
    shape, pitch = shapes.Polygon([(-x, -z), (x, -z), (x, z), (-x, z)]), spacing + THICKNESS
    dominoes = [
        # angles count against the clock, and the first turns about its lower right edge
        scene.add_body(
            name=f"domino {i}",
            shape=shape,
            mass=0.01,
            position=(i * pitch, z),
            velocity=(PUSH * z, PUSH * x, -PUSH) if i == 0 else (0, 0, 0),
        )
        for i in range(count)
    ]
    scene.add_contacts(friction=FLOOR, between=(dominoes, [floor]))
    for one, other in zip(dominoes, dominoes[1:], strict=False):
        scene.add_contact(one, other, friction=FRICTION)
    return scene


def speeds(trajectory, spacing):
    """Of the wave [m/s] from the second domino to the third, and so on: these begin to turn as they
    are hit, within the step in which they first have a speed."""
    turns = np.abs(trajectory.velocity[:, 1:, 2]) > 1e-3 * PUSH
    return (spacing + THICKNESS) / np.diff(trajectory.time[np.argmax(turns, axis=0)])


def leaning(front, count, pitch):
    """Angles (count,) [rad] of the foremost domino and of those that lean on it, one on the other,
    and their derivatives by the first: an upper corner lies on the next one's face."""
    angles, rates = [front], [1.0]
    for _ in range(count - 1):
        sine = (pitch * np.cos(angles[-1]) - THICKNESS) / HEIGHT
        rates.append(rates[-1] * (1 - pitch / HEIGHT * np.sin(angles[-1]) / np.sqrt(1 - sine**2)))
        angles.append(angles[-1] + np.arcsin(sine))
    return np.array(angles), np.array(rates)


def weights(angles, pitch):
    """By which the equations of moments of all dominoes are summed, so that what they press on each
    other with, and its friction, drops out."""
    apart = np.diff(angles)
    ahead = HEIGHT * np.cos(apart) - pitch * np.sin(angles[:-1]) - FRICTION * THICKNESS
    behind = HEIGHT * (np.cos(apart) + FRICTION * np.sin(apart))
    return np.cumprod(np.append(1.0, ahead / behind))


def law(spacing, count=40, parts=100):
    """The speeds (count - 2,) [m/s] of the wave from the second domino on: the foremost falls until
    it meets the next one, of which the impact is spread over the row."""
    pitch, rate, meets = spacing + THICKNESS, PUSH, np.arcsin(spacing / HEIGHT)
    found = []

    def slope(angle, rate, number, by=1e-6):
        """d rate / d angle of the foremost."""
        angles, rates = leaning(angle, number, pitch)
        change = (leaning(angle + by, number, pitch)[1] - leaning(angle - by, number, pitch)[1]) / (2 * by)
        of = weights(angles, pitch)
        moments = GRAVITY / 2 * (HEIGHT * np.sin(angles) - THICKNESS * np.cos(angles))
        return (of @ moments / INERTIA - rate**2 * (of @ change)) / (of @ rates) / rate

    for number in range(1, count):
        step, took = meets / parts, 0.0
        for angle in meets * np.arange(parts) / parts:  # Heun's method
            first = slope(angle, rate, number)
            second = slope(angle + step, rate + step * first, number)
            took += step / (rate + step * (first + second) / 4)
            rate += step * (first + second) / 2
        before = np.append(0.0, rate * leaning(meets, number, pitch)[1])
        angles, rates = leaning(0.0, number + 1, pitch)
        of = weights(angles, pitch)
        rate = (of @ before) / (of @ rates)
        found.append(pitch / took)
    return np.array(found[1:])


def fall(count, spacing, h=0.0005):
    """A run in which the wave comes to the last domino: it is slower at first."""
    duration = round(float(count * (spacing + THICKNESS) / law(spacing)[-1]) + 0.15, 2)
    return ist.simulate(row(count, spacing), ist.GeometricallyImplicit(jacobian="sparse"), h=h, duration=duration)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--n", type=int, default=12, help="dominoes")
    asked, _ = options.parse_known_args()
    unit, spacings = np.sqrt(GRAVITY * HEIGHT), [0.25, 0.4, 0.55]
    runs = [fall(asked.n, spacing * HEIGHT) for spacing in spacings]
    late = [np.mean(speeds(run, spacing * HEIGHT)[-3:]) for run, spacing in zip(runs, spacings, strict=True)]
    for spacing, run, speed in zip(spacings, runs, late, strict=True):
        by_law = np.mean(law(spacing * HEIGHT, asked.n)[-3:])
        print(f"spacing {spacing} of the height: {speed:.3f} m/s, by the law {by_law:.3f} m/s; {run}")

    from matplotlib.figure import Figure  # pip install matplotlib
    from matplotlib.patches import Polygon

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    side, through = figure.subplots(1, 2, width_ratios=(1.3, 1))
    every = np.linspace(0.15, 0.7, 12)
    through.plot(every, [law(one * HEIGHT)[-1] / unit for one in every], "0.7", label="law, far down the row")
    at_end = [np.mean(law(one * HEIGHT, asked.n)[-3:]) / unit for one in every]
    through.plot(every, at_end, label=f"law, last of {asked.n} dominoes")
    through.plot(spacings, np.array(late) / unit, "o", label="this library")
    through.set(xlabel="spacing / height", ylabel="speed of the wave / sqrt(g height)", ylim=(0, None))
    through.legend()
    run = runs[1]
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * [THICKNESS / 2, HEIGHT / 2]
    for step, colour in ((0, "0.85"), (len(run) // 2, "tab:orange"), (-1, "tab:blue")):
        for place, angle in zip(run.position[step], run.angle[step], strict=True):
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            side.add_patch(Polygon(place + corners @ turn.T, fc="none", ec=colour))
    side.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", title="start, half way and end")
    side.autoscale_view()
    figure.savefig("dominoes.png", dpi=130)
    run.plot.animation("dominoes.gif", speed=0.1, forces=False)
