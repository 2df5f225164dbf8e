"""A rag doll of ten bodies, whose joints have limits and rub, stumbles down stairs."""

import warnings

import numpy as np

import implicit_stepper as ist
import shapes

# of the stairs [m]; the dry friction of each joint [N m]
STEPS, TREAD, RISE, RUBS = 2, 0.5, 0.25, 2.0
# by kind, where its joint is on what it hangs on and on itself [m], half sizes [m], mass [kg],
# range of its angle [rad]
KINDS = {
    "head": (0.3, -0.13, (0.09, 0.12), 5.0, (-0.7, 0.7)),
    "upper arm": (0.22, 0.15, (0.045, 0.16), 2.0, (-1.2, 2.4)),
    "forearm": (-0.15, 0.15, (0.04, 0.17), 1.5, (0.0, 2.4)),
    "thigh": (-0.26, 0.2, (0.07, 0.22), 8.0, (-0.5, 2.0)),
    "shin": (-0.2, 0.21, (0.05, 0.23), 4.0, (-2.4, 0.0)),
}
# limbs of the near and of the far side, with their angles against what they hang on [rad]
LIMBS = [
    ("near", ("upper arm", 0.9), ("forearm", 0.4)),
    ("near", ("thigh", 0.5), ("shin", -0.4)),
    ("far", ("upper arm", -0.4), ("forearm", 0.3)),
    ("far", ("thigh", -0.1), ("shin", -0.2)),
]
SOFT = ist.Compliance(stiffness=3e4, dissipation_time=0.02)

scene, ground, doll, places, angles = ist.Scene(dimension=2), [], {}, {}, {}
for i in range(STEPS + 1):
    edge, top = (i * TREAD, (STEPS - i) * RISE) if i < STEPS else (3.0, 0.0)
    outline = shapes.Polygon([(-2, -0.3), (edge, -0.3), (edge, top), (-2, top)])
    ground.append(scene.add_fixed(name=f"step {i}", shape=outline))


def add(name, half_sizes, mass, centre, angle):
    """A part of the doll, which touches the ground."""
    shape, places[name] = shapes.Ellipse(half_sizes), (np.array(centre), angle)
    motion = {"position": centre, "angle": angle, "velocity": (1.5, 0, 0)}
    doll[name] = scene.add_body(name=name, shape=shape, mass=mass, **motion)
    for below in ground:
        scene.add_contact(below, doll[name], friction=0.5, compliance=SOFT)


def hang(name, kind, other, turned):
    """A part that hangs on another."""
    there, here, half_sizes, mass, (low, high) = KINDS[kind]
    centre, angle = places[other]
    joint = centre + there * np.array([-np.sin(angle), np.cos(angle)])
    angle, angles[name] = angle + turned, turned
    add(name, half_sizes, mass, joint - here * np.array([-np.sin(angle), np.cos(angle)]), angle)
    scene.add_joint(doll[other], doll[name], ist.BallJoint((0, there), (0, here)), name=name)
    scene.add_limit(name, low=low - turned, high=high - turned)
    scene.add_motor(name, speed=0.0, most=RUBS)  # a brake, which is dry friction of a known moment


add("torso", (0.13, 0.28), 25.0, (-0.5, STEPS * RISE + 1.05), -0.4)
hang("head", "head", "torso", 0.0)
for side, (upper, first), (lower, second) in LIMBS:
    hang(f"{side} {upper}", upper, "torso", first)
    hang(f"{side} {lower}", lower, f"{side} {upper}", second)
with warnings.catch_warnings():
    # of limbs, which swing beside each other, and of the steps
    warnings.simplefilter("ignore", ist.OverlapWarning)
    trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.005, duration=1.5)
# [m]
open_by = max(np.abs(trajectory.joint(name).closure).max() for name in doll if name != "torso")


if __name__ == "__main__":
    print(trajectory)
    print(
        f"joints are open by at most {open_by:.1e} m, and the head ends {trajectory.body('head').position[-1, 1]:.3f} m up"
    )
    from matplotlib.figure import Figure  # pip install matplotlib
    from matplotlib.patches import Ellipse, Polygon

    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.add_subplot()
    for i in range(STEPS):
        edge, top = i * TREAD, (STEPS - i) * RISE
        axes.add_patch(Polygon([(-2, 0), (edge, 0), (edge, top), (-2, top)], fc="0.85", ec="0.6"))
    sizes = [(0.13, 0.28), *(KINDS[name.removeprefix("near ").removeprefix("far ")][2] for name in trajectory.names[1:10])]
    shown = np.linspace(0, len(trajectory), 5).astype(int)
    for step, shade in zip(shown, np.linspace(0.25, 1.0, len(shown)), strict=True):
        for place, angle, (a, b) in zip(trajectory.position[step], trajectory.orientation[step], sizes, strict=True):
            axes.add_patch(
                Ellipse(place, 2 * a, 2 * b, angle=np.degrees(angle[0]), fc="tab:blue", ec="k", lw=0.5, alpha=shade)
            )
    axes.set(xlabel="x [m]", ylabel="z [m]", xlim=(-1.2, 1.6), ylim=(-0.05, 2.2), aspect="equal")
    axes.set_title("at " + ", ".join(f"{trajectory.time[step]:.2f}" for step in shown) + " s")
    figure.savefig("rag_doll.png", dpi=130)
