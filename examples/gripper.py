"""A gripper takes an ellipsoid from the floor by friction alone, carries it aside and drops it."""

import numpy as np

import implicit_stepper as ist
import shapes

# of the ellipsoid [m], [kg], of its friction on the fingers
AXES, MASS, MU = (0.04, 0.05, 0.07), 0.6, 0.5
# of a finger [m], its way to the ellipsoid [m], [N]
PAD, OPEN, GRIP = (0.012, 0.03, 0.05), 0.03, 20.0
LIFTS, DROPS, END = 0.4, 1.5, 2.2  # [s]


def way(begins, takes):
    """From 0 to 1, smoothly, as a formula of time."""
    return f"(0.5 - 0.5*cos(pi*max(0, min(1, (t - {begins})/{takes}))))"


scene = ist.Scene()
floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
egg = scene.add_body(name="egg", shape=shapes.Ellipsoid(AXES), mass=MASS, position=(0, 0, AXES[2]))
# one finger has its place at every time; the other slides towards it, and is pushed, and pulled
# back at the end
reach, finger = AXES[0] + PAD[0], {"shape": shapes.Ellipsoid(PAD), "mass": 0.2}
across = f"-{reach} - {OPEN}*(1 - {way(0, 0.3)}) + 0.25*{way(LIFTS + 0.3, 0.7)}"
left = scene.add_moving(name="left", pose=ist.MovingPose((across, 0, f"{AXES[2]} + 0.15*{way(LIFTS, 0.6)}")), **finger)
push = ist.Wrench((f"{-GRIP} + {GRIP + 1}*step(t - {DROPS})", 0, 0))
right = scene.add_body(name="right", position=(reach + OPEN, 0, AXES[2]), wrench=push, **finger)
apart = 2 * (reach + OPEN)
scene.add_joint(left, right, ist.Slider((apart, 0, 0), (1, 0, 0), (0, 0, 0), (1, 0, 0)), name="guide")
scene.add_limit("guide", high=0.0)  # no further apart than at the start
for touches in (left, right):
    scene.add_contact(touches, egg, friction=ist.FrictionEllipsoid(MU, e_r=0.005))
scene.add_contact(floor, egg, friction=ist.FrictionEllipsoid(0.4, e_r=0.01))
trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=END)

time, height = trajectory.time, trajectory.body("egg").position[:, 2]
squeezes = trajectory.contacts.normal_impulse[:, :2] / trajectory.h  # [N], of both fingers
carried = (time[1:] > LIFTS) & (time[1:] <= DROPS)
slips = np.abs(trajectory.contacts.slip[carried][:, :2]).max()  # [m/s]

if __name__ == "__main__":
    print(trajectory)
    print(f"while it is carried the fingers press with {squeezes[carried].min():.2f} to {squeezes[carried].max():.2f} N,")
    print(f"and nothing slips by more than {slips:.0e} m/s; it ends at {trajectory.body('egg').position[-1].round(3)} m")
    from implicit_stepper import drawing  # needs matplotlib: pip install matplotlib

    drawing.poses(scene, trajectory, steps=[0, 70, 140, -1]).savefig("gripper.png", dpi=130)
