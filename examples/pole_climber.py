"""A woodpecker climbs down a pole: its sleeve jams by friction, its spring swings it back, and its
beak sets it free.

Sizes, masses and the spring are those of Glocker, Dynamik von Starrkoerpersystemen mit Reibung und
Stoessen (1995), also in Leine, Glocker and van Campen, Nonlinear dynamics of the woodpecker toy
(2001), where the sleeve's axis stays on the pole's and the beak rebounds by half; here the sleeve
has a pad at each corner and room on both sides, and nothing rebounds.
"""

import warnings

import numpy as np

import implicit_stepper as ist
import shapes

# [m]: radius of the pole, of the sleeve, half of its height
POLE, INNER, HIGH = 0.0025, 0.0031, 0.0058
# [m]: axis to spring, spring to bird, and its beak's tip there
ARM, BACK, BEAK = 0.010, 0.015, np.array([-0.0201, 0.02])
TIP, MU = 0.0005, 0.3  # [m] radius of pads and beak
TILTED, SWUNG, FALLS, SPINS = -0.1, -0.2788, -0.3411, -7.4583  # [rad], [m/s], [rad/s] at the start


def turned(angle, v):
    return np.array([np.cos(angle) * v[0] - np.sin(angle) * v[1], np.sin(angle) * v[0] + np.cos(angle) * v[1]])


scene = ist.Scene(dimension=2)
right = scene.add_fixed(name="right side of the pole", shape=shapes.HalfPlane(normal=(1, 0), offset=POLE))
left = scene.add_fixed(name="left side of the pole", shape=shapes.HalfPlane(normal=(-1, 0), offset=POLE))
corners = [(shapes.Disc(TIP), ((x * (INNER + TIP), y * HIGH), 0.0)) for x in (1, -1) for y in (1, -1)]
sleeve = scene.add_body(
    name="sleeve",
    shapes=corners,
    apart=True,
    mass=0.0003,
    inertia=5e-9,
    position=(0, 0),
    angle=TILTED,
    velocity=(0, FALLS, 0),
)
arm, back = turned(TILTED, (ARM, 0)), turned(SWUNG, (BACK, 0))
swings = (-SPINS * back[1], FALLS + SPINS * back[0], SPINS)  # about the spring
parts = [(shapes.Ellipse((0.006, 0.012)), ((0, 0), 0.0)), (shapes.Disc(TIP), (BEAK + [TIP, 0], 0.0))]
weight = {"mass": 0.0045, "inertia": 7e-7, "centre_of_mass": (0, 0)}
start = {"position": arm + back, "angle": SWUNG, "velocity": swings}
bird = scene.add_body(name="bird", shapes=parts, apart=True, **weight, **start)
scene.add_contact(right, sleeve, friction=MU, parts=[(0, 0), (0, 1)])
scene.add_contact(left, sleeve, friction=MU, parts=[(0, 2), (0, 3)])
scene.add_contact(right, bird, friction=MU, parts=[(0, 1)])
scene.add_joint(sleeve, bird, ist.BallJoint((ARM, 0), (-BACK, 0)), name="hinge")
# at rest the bird is upright as the sleeve is
scene.add_spring("hinge", stiffness=0.0056, rest=TILTED - SWUNG)
with warnings.catch_warnings():
    # of the sides of the pole, and of what is on its other side
    warnings.simplefilter("ignore", ist.OverlapWarning)
    trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=2.5e-4, duration=0.5)

time, height = trajectory.time, trajectory.body("sleeve").position[:, 1]
presses = trajectory.contacts.normal_impulse / trajectory.h  # [N], of the pads and of the beak
pecks = presses[:, 4] > 1e-6
begins = time[1:][pecks & ~np.append(False, pecks[:-1])]  # [s], one peck may be several in a row
jammed = np.abs(np.diff(height)) < 1e-9 * POLE  # steps in which the sleeve stays where it is


if __name__ == "__main__":
    print(trajectory)
    print(f"{1e3 * (height[0] - height[-1]):.1f} mm down, of {len(time) - 1} steps {jammed.sum()} jammed; the beak pecks at")
    print("  " + ", ".join(f"{t:.4f}" for t in begins) + " s")
    from matplotlib.figure import Figure  # pip install matplotlib
    from matplotlib.patches import Circle, Ellipse, Polygon

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    toy, down = figure.subplots(2, height_ratios=(3, 2))
    shown = [np.searchsorted(time, t) for t in (0.335, 0.36, 0.385, 0.41, 0.42, 0.435, 0.45, 0.47)]
    for place, step in enumerate(shown):
        x, base = 48.0 * place, 1e3 * height[shown[0]]
        toy.fill_between([x - 1e3 * POLE, x + 1e3 * POLE], -45, 30, color="0.8")

        def drawn(body, points, step=step, x=x, base=base):
            at, angle = trajectory.position[step, body], trajectory.orientation[step, body, 0]
            return [1e3 * (at + turned(angle, np.array(p))) + [x, -base] for p in points]

        ring = [[(s * INNER, -HIGH), (s * (INNER + 2 * TIP), -HIGH), (s * (INNER + 2 * TIP), HIGH), (s * INNER, HIGH)]
                for s in (1, -1)]  # fmt: skip
        for outline in ring:
            toy.add_patch(Polygon(drawn(0, outline), fc="tab:red", ec="k", lw=0.5))
        (centre, tip, neck), (start,) = drawn(1, [(0, 0), BEAK, (-0.006, 0.018)]), drawn(0, [(ARM, 0)])
        toy.plot(*zip(drawn(0, [(INNER, 0)])[0], start, centre, strict=True), color="k", lw=1)
        degrees = np.degrees(trajectory.orientation[step, 1, 0])
        toy.add_patch(Ellipse(centre, 12, 24, angle=degrees, fc="tab:blue", ec="k", lw=0.5))
        toy.add_patch(Circle(neck, 6, fc="tab:blue", ec="k", lw=0.5))
        toy.plot(*zip(neck, tip, strict=True), color="tab:orange", lw=2.5, solid_capstyle="round", zorder=0)
        toy.text(x + 14, 33, f"{time[step]:.3f} s", ha="center", fontsize=8)
    toy.set(xlim=(-8, 378), ylim=(-45, 42), aspect="equal", ylabel="height [mm]", xticks=[])
    down.plot(time, 1e3 * height, color="tab:blue")
    down.plot(time[1:][jammed], 1e3 * height[1:][jammed], ".", color="tab:red", ms=3, label="jammed")
    down.plot(begins, np.interp(begins, time, 1e3 * height), "v", color="tab:orange", label="beak pecks")
    down.set(xlabel="time [s]", ylabel="height [mm]", xlim=(0, time[-1]))
    down.legend()
    figure.savefig("pole_climber.png", dpi=130)
