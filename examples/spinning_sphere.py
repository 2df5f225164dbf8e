"""A sphere spinning on a plane comes to rest by drilling friction: Chakraborty et al. (2007),
example 2."""

import implicit_stepper as ist
import shapes

scene = ist.Scene(gravity=(0.0, 0.0, -9.81))
ball = scene.add_body(
    name="ball",
    shape=shapes.Ellipsoid((1, 1, 1)),
    mass=1.0,
    inertia=(0.4, 0.4, 0.4),
    position=(0, 0, 1),
    velocity=(0, 0, 0, 0, 0, 1.962),
)
floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.0))
scene.add_contact(ball, floor, friction=ist.FrictionEllipsoid(mu=0.2, e_t=1.0, e_o=1.0, e_r=0.4))
trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.07, duration=1.26)

if __name__ == "__main__":
    print("time [s]   spin [rad/s]   drilling torque [N m]")
    torque = trajectory.contacts.friction_impulse[:, 0, 2] / trajectory.h
    for time, velocity, moment in zip(trajectory.time[1:], trajectory.velocity[1:, 0], torque, strict=True):
        print(f"{time:8.2f} {velocity[5]:14.6f} {moment:18.6f}")
