"""A standing cylinder is pushed over: it tips on its rim, lands on its side, pressed along a line,
and rolls away."""

import numpy as np

import implicit_stepper as ist
import shapes

scene = ist.Scene()
can = scene.add_body(
    name="can",
    shape=shapes.Cylinder(0.3, 0.6),
    density=500.0,
    position=(0, 0, 0.6),
    velocity=(0.0, 2.2, 0, -3.6, 0.4, 0),
)
floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
scene.add_contact(can, floor, friction=ist.FrictionEllipsoid(mu=0.6, e_r=0.1))
trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=4.0)
w, x, y, z = trajectory.quaternion[:, 0].T
lean = np.degrees(np.arccos(1 - 2 * (x**2 + y**2)))  # of its axis from the vertical

if __name__ == "__main__":
    print("time [s]   lean [deg]   height [m]   speed [m/s]   kinetic energy [J]   gap [m]")
    energy, speed = trajectory.kinetic_energy(), np.linalg.norm(trajectory.velocity[:, 0, :3], axis=1)
    for i in range(20, 401, 20):
        height, gap = trajectory.position[i, 0, 2], trajectory.contacts.gap[i - 1, 0]
        print(f"{trajectory.time[i]:8.2f} {lean[i]:12.3f} {height:12.6f} {speed[i]:13.6f} {energy[i]:20.6f} {gap:9.1e}")
    from implicit_stepper import drawing  # needs matplotlib: pip install matplotlib

    drawing.poses(scene, trajectory, steps=[0, 25, 400]).savefig("toppling_cylinder.png", dpi=130)
