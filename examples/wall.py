"""A wall of bricks stands still, and falls when a ball hits it.

    python examples/wall.py [--across 2] [--courses 4] [--duration 0.5]

Bricks lie on each other face on face, in running bond and with open joints between those of a
course, so that friction alone holds the wall together.
"""

import argparse

import numpy as np

import implicit_stepper as ist
import shapes

LENGTH, DEPTH, HEIGHT, JOINT = 0.2, 0.1, 0.1, 0.002  # [m], of a brick with its joint
DENSITY, FRICTION = 1000.0, 0.5  # [kg/m^3]
RADIUS, MASS, SPEED = 0.08, 3.0, 4.0  # [m], [kg], [m/s] of the ball
H = 0.005  # [s]


def wall(across, courses):
    """A scene with a wall on a floor, every other course between two halves of bricks."""
    scene = ist.Scene()
    for course in range(courses):
        lengths = [LENGTH / 2, *[LENGTH] * (across - 1), LENGTH / 2] if course % 2 else [LENGTH] * across
        left = np.cumsum([-across * LENGTH / 2, *lengths[:-1]])
        for number, (x, length) in enumerate(zip(left, lengths, strict=True)):
            scene.add_body(
                name=f"brick {course}.{number}",
                shape=shapes.Box(((length - JOINT) / 2, DEPTH / 2, HEIGHT / 2)),
                density=DENSITY,
                position=(x + length / 2, 0, (course + 0.5) * HEIGHT),
            )
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    return scene


def stands(across, courses, duration):
    """A run in which nothing touches the wall but the floor."""
    scene = wall(across, courses)
    scene.add_contacts(friction=FRICTION)
    return ist.simulate(scene, ist.GeometricallyImplicit(jacobian="sparse"), h=H, duration=duration)


def hit(across, courses):
    """A scene in which a ball flies against the wall, two thirds of the way up."""
    scene = wall(across, courses)
    place = (0.03, -0.2, 0.66 * courses * HEIGHT)  # a little off the middle
    scene.add_body(name="ball", shape=shapes.Sphere(RADIUS), mass=MASS, position=place, velocity=(0, SPEED, 0, 0, 0, 0))
    scene.add_contacts(friction=FRICTION)
    return scene


def falls(across, courses, duration):
    """A run in which the ball hits the wall."""
    return ist.simulate(hit(across, courses), ist.GeometricallyImplicit(jacobian="sparse"), h=H, duration=duration)


def drift(trajectory):
    """The farthest [m] that any body is from where it began, at any time."""
    return np.max(np.linalg.norm(trajectory.position - trajectory.position[0], axis=2))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--across", type=int, default=2, help="bricks of a course")
    options.add_argument("--courses", type=int, default=4, help="courses")
    options.add_argument("--duration", type=float, default=0.5, help="how long, of both runs [s]")
    asked, _ = options.parse_known_args()
    standing = stands(asked.across, asked.courses, asked.duration)
    print(f"left alone it drifts by {drift(standing):.1e} m; {standing}")
    trajectory = falls(asked.across, asked.courses, asked.duration)
    gap = np.nanmin(trajectory.contacts.gap)
    print(f"hit by a ball it falls, with no gap below {gap:.1e} m; {trajectory}")

    from matplotlib.figure import Figure  # pip install matplotlib

    from implicit_stepper import drawing

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for place, step in enumerate((0, len(trajectory) // 3, -1)):
        axes = figure.add_subplot(1, 3, place + 1, projection="3d", computed_zorder=False)
        drawing.draw_poses(axes, trajectory.scene(), trajectory, [step])
        axes.view_init(18, -35)
        axes.set_title(f"{trajectory.time[step]:.2f} s", y=0.92)
        sides = np.ptp([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()], axis=1)
        axes.set_box_aspect(sides, zoom=0.72)  # room for the labels
        axes.locator_params(nbins=4)
        axes.tick_params(labelsize=7, pad=-2)
        for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
            axis.labelpad = -2
    figure.savefig("wall.png", dpi=130)
