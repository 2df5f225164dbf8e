"""A box thrown on a plane tumbles over its corners and edges and comes to rest on a face: one
contact point all the way."""

import numpy as np

import implicit_stepper as ist
import shapes

scene = ist.Scene()
box = scene.add_body(
    name="box",
    shape=shapes.Box((0.5, 0.3, 0.2)),
    density=100.0,
    position=(0, 0, 1.0),
    quaternion=(0.8, 0.36, 0.48, 0.0),
    velocity=(2.0, 0.5, 0, 1, 6, 0),
)
floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
scene.add_contact(box, floor, friction=ist.FrictionEllipsoid(mu=0.5, e_r=0.2))
trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=3.0)
# how many of the six faces carry: 1 on a face, 2 on an edge, 3 on a corner, 0 in the air
carrying = np.sum(trajectory.contacts.multipliers_1[:, 0] > 1e-6, axis=1) * (trajectory.contacts.normal_impulse[:, 0] > 1e-9)

if __name__ == "__main__":
    print("time [s]   height [m]   kinetic energy [J]   faces that carry   gap [m]")
    energy = trajectory.kinetic_energy()
    for i in range(10, 301, 10):
        height, gap = trajectory.position[i, 0, 2], trajectory.contacts.gap[i - 1, 0]
        print(f"{trajectory.time[i]:8.2f} {height:12.6f} {energy[i]:20.6f} {carrying[i - 1]:18d} {gap:9.1e}")
    from implicit_stepper import drawing  # needs matplotlib: pip install matplotlib

    drawing.poses(scene, trajectory, steps=[0, 15, 30, 45, 300]).savefig("tumbling_box.png", dpi=130)
