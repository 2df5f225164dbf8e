"""A body of your own: a cushion given by one sympy inequality, thrown on a plane, rocks and comes
to rest."""

import sympy

import implicit_stepper as ist
import shapes
from shapes import x, y, z

a = sympy.Symbol("a", positive=True)
cushion = shapes.ImplicitShape([(x / a) ** 4 + (y / a) ** 4 + (2 * z / a) ** 2 - 1], parameters={a: 0.5}, name="cushion")

scene = ist.Scene()
body = scene.add_body(
    name="cushion",
    shape=cushion,
    mass=1.0,
    inertia=(0.06, 0.06, 0.1),
    position=(0, 0, 1),
    quaternion=(0.96, 0.28, 0, 0),
    velocity=(1, 0, 0, 0, 3, 0),
)
floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
scene.add_contact(body, floor, friction=ist.FrictionEllipsoid(mu=0.4, e_r=0.1))
trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=3.0)

if __name__ == "__main__":
    print("time [s]   height [m]   kinetic energy [J]   gap [m]")
    energy = trajectory.kinetic_energy()
    for i in range(20, 301, 20):
        gap = trajectory.contacts.gap[i - 1, 0]
        print(f"{trajectory.time[i]:8.2f} {trajectory.position[i, 0, 2]:12.6f} {energy[i]:20.6f} {gap:9.1e}")
