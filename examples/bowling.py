"""A bowling ball is dropped onto the lane at speed: it lands, slides and rolls, with steps that end
on these events."""

import numpy as np

import implicit_stepper as ist
import shapes

SPEED, HEIGHT, MU, RADIUS = 7.0, 0.05, 0.12, 0.108  # [m/s], [m], [1], [m]

scene = ist.Scene()
lane = scene.add_fixed(name="lane", shape=shapes.HalfSpace(normal=(0, 0, 1)))
ball = scene.add_body(
    name="ball",
    shape=shapes.Sphere(RADIUS),
    mass=6.8,
    position=(0, 0, RADIUS + HEIGHT),
    velocity=(SPEED, 0, 0, 0, 0, 3.0),
)
scene.add_contact(lane, ball, friction=MU)
trajectory = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=2.5)

# landing at u, friction takes mu u from the speed and gives 5/2 mu u to the spin; slip then falls
# at 7/2 mu g
lands = np.sqrt(2 * HEIGHT / 9.81)
rolls = lands + (SPEED - 3.5 * MU * 9.81 * lands) / (3.5 * MU * 9.81)

if __name__ == "__main__":
    print(f"{len(trajectory)} steps of {trajectory.h.min():.1e} to {trajectory.h.max():.2f} s. Problems solved, by kind:")
    print(trajectory.counts)
    print("time [s]         event                       exact [s]")
    for event, exact in zip(trajectory.events, (lands, rolls), strict=True):
        print(f"{event.time:.12f}   {' and '.join(trajectory.contact_names[event.contact])}: {event.kind:8} {exact:20.12f}")
    from matplotlib.figure import Figure  # pip install matplotlib

    time = np.linspace(0, 2.5, 501)
    velocity = trajectory.at(time).velocity[:, 0]
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(time, velocity[:, 0], label="speed")
    axes.plot(time, RADIUS * velocity[:, 4], label="spin times radius")
    for event in trajectory.events:
        axes.axvline(event.time, color="0.5", linestyle=":")
        axes.text(event.time + 0.02, 0.3, event.kind)
    axes.set(xlabel="time [s]", ylabel="velocity [m/s]", xlim=(0, 2.5), ylim=(0, None))
    axes.legend()
    figure.savefig("bowling.png", dpi=130)
