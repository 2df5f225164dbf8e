"""Two rounded boxes (superquadrics of exponent 8) fall on each other: curved, flat and nearly sharp
places in one."""

import numpy as np

import implicit_stepper as ist
import shapes

shape = shapes.Superquadric((0.3, 0.3, 0.2), epsilon=(0.25, 0.25))
friction = ist.FrictionEllipsoid(mu=0.5, e_r=0.05)
scene = ist.Scene()
floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
lower = scene.add_body(name="lower", shape=shape, density=500.0, position=(0, 0, 0.2))
upper = scene.add_body(
    name="upper",
    shape=shape,
    density=500.0,
    position=(0.15, 0.05, 1.0),
    quaternion=(0.9, 0.3, 0.2, np.sqrt(1 - 0.9**2 - 0.3**2 - 0.2**2)),
)
for body in (lower, upper):
    scene.add_contact(floor, body, friction=friction)
scene.add_contact(lower, upper, friction=friction)
trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.005, duration=2.0)

if __name__ == "__main__":
    print("time [s]   height of the upper [m]   kinetic energy [J]   gap between them [m]   Jacobians")
    energy = trajectory.kinetic_energy()
    for i in range(20, 401, 20):
        gap, used = trajectory.contacts.gap[i - 1, 2], trajectory.stats.iterations[i - 1]
        print(f"{trajectory.time[i]:8.2f} {trajectory.position[i, 1, 2]:25.6f} {energy[i]:20.6f} {gap:22.3e} {used:11d}")
    from implicit_stepper import drawing  # needs matplotlib: pip install matplotlib

    drawing.poses(scene, trajectory, steps=[0, 400]).savefig("superquadric.png", dpi=130)
