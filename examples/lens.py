"""A lens, the intersection of two balls, is spun on its edge; it falls over and wobbles to rest on
one of its caps."""

import numpy as np

import implicit_stepper as ist
import shapes

scene = ist.Scene()
lens = scene.add_body(
    name="lens",
    shape=shapes.Lens(0.5, 0.5, 0.25),
    density=1000.0,
    position=(0, 0, 0.34),
    quaternion=(np.cos(0.7), np.sin(0.7), 0, 0),
    velocity=(0, 0, 0, 0, 0, 6.0),
)
floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
scene.add_contact(lens, floor, friction=ist.FrictionEllipsoid(mu=0.4, e_r=0.02))
trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.005, duration=4.0)
# both caps carry where they meet
on_edge = np.all(trajectory.contacts.multipliers_1[:, 0] > 1e-6, axis=1)

if __name__ == "__main__":
    print("time [s]   height [m]   spin [rad/s]   kinetic energy [J]   on its edge   gap [m]")
    energy, spin = trajectory.kinetic_energy(), np.linalg.norm(trajectory.velocity[:, 0, 3:], axis=1)
    for i in range(40, 801, 40):
        height, gap = trajectory.position[i, 0, 2], trajectory.contacts.gap[i - 1, 0]
        edge = str(on_edge[i - 1])
        print(f"{trajectory.time[i]:8.2f} {height:12.6f} {spin[i]:14.6f} {energy[i]:20.6f} {edge:>13} {gap:9.1e}")
    from implicit_stepper import drawing  # needs matplotlib: pip install matplotlib

    drawing.poses(scene, trajectory, steps=[0, 800]).savefig("lens.png", dpi=130)
