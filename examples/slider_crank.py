"""A crank turns ever faster and pushes a block to and fro: joints that rub, a prescribed rotation,
and the torque that it takes."""

import numpy as np

import implicit_stepper as ist
import shapes

CRANK, ROD = 0.3, 1.0  # [m]
PINS, GUIDE = ist.JointFriction(0.2, radius=0.03), ist.JointFriction(0.1)

scene = ist.Scene(dimension=2)
frame = scene.add_fixed(name="frame", shape=shapes.HalfPlane(normal=(0, 1), offset=-0.5))
crank = scene.add_body(name="crank", shape=shapes.Ellipse((CRANK / 2, 0.03)), mass=0.5, position=(CRANK / 2, 0))
rod = scene.add_body(name="rod", shape=shapes.Ellipse((ROD / 2, 0.03)), mass=1.0, position=(CRANK + ROD / 2, 0))
block = scene.add_body(name="block", shape=shapes.Ellipse((0.1, 0.06)), mass=2.0, position=(CRANK + ROD, 0))
scene.add_joint(frame, crank, ist.BallJoint((0, 0), (-CRANK / 2, 0), friction=PINS), name="axle")
scene.add_joint(crank, rod, ist.BallJoint((CRANK / 2, 0), (-ROD / 2, 0), friction=PINS), name="pin")
scene.add_joint(rod, block, ist.BallJoint((ROD / 2, 0), (0, 0), friction=PINS), name="gudgeon")
scene.add_joint(frame, block, ist.Slider((0, 0), (1, 0), (0, 0), (1, 0), friction=GUIDE), name="guide")
drive = scene.add_motion("axle", ist.Motion("2*t**2"))  # [rad]
trajectory = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=2.5)

angle = 2 * trajectory.time**2
exact = CRANK * np.cos(angle) + np.sqrt(ROD**2 - (CRANK * np.sin(angle)) ** 2)
error = np.abs(trajectory.body("block").position[:, 0] - exact).max()

if __name__ == "__main__":
    torque = trajectory.joint(drive).moment[:, 0]
    print(f"{len(trajectory)} steps; the block is at most {error:.1e} m from where geometry has it;")
    print(f"joints are open by at most {np.abs(trajectory.joints.closure).max():.1e};")
    print(f"the drive gives {torque.min():.1f} to {torque.max():.1f} N m")
    from matplotlib.figure import Figure  # pip install matplotlib

    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    above.plot(trajectory.time, trajectory.body("block").position[:, 0])
    above.set(ylabel="position of the block [m]")
    below.plot(trajectory.time[1:], torque)
    below.set(xlabel="time [s]", ylabel="moment of the drive [N m]", xlim=(0, 2.5))
    forces = below.twinx()
    forces.plot(trajectory.time[1:], trajectory.joint("guide").force[:, 1], "C1")
    forces.set_ylabel("force of the guide [N]", color="C1")
    figure.savefig("slider_crank.png", dpi=130)
