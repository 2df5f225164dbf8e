"""Newton's cradle: five balls on wires meet one after another, so that as many leave as came, one
or two."""

import numpy as np

import implicit_stepper as ist
import shapes

BALLS, WIRE, RADIUS, ANGLE = 5, 1.0, 0.1, -0.4  # [m], [rad]


def cradle(raised):
    """Balls on wires, of which the first ones are raised."""
    scene = ist.Scene(dimension=2)
    beam = scene.add_fixed(name="beam", shape=shapes.HalfPlane(normal=(0, -1), offset=0.0))
    balls = []
    for i in range(BALLS):
        x, angle = 2 * RADIUS * i, ANGLE * (i < raised)
        place = (x + WIRE * np.sin(angle), -WIRE * np.cos(angle))
        balls.append(scene.add_body(name=f"ball {i}", shape=shapes.Disc(RADIUS), mass=1.0, position=place, angle=angle))
        scene.add_joint(beam, balls[i], ist.BallJoint((x, 0), (0, WIRE)), name=f"wire {i}")
    for one, other in zip(balls, balls[1:], strict=False):
        scene.add_contact(one, other, restitution=ist.Newton(1.0))
    return scene


stepper = ist.RadauContact(impacts="sequential")
trajectories = {n: ist.simulate(cradle(n), stepper, tol=1e-8, duration=4.0) for n in (1, 2)}

if __name__ == "__main__":
    from matplotlib.figure import Figure  # pip install matplotlib

    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    panels = figure.subplots(2, sharex=True, sharey=True)
    for panel, (raised, run) in zip(panels, trajectories.items(), strict=True):
        energy = run.energy().total
        print(f"{raised} raised: {run.counts['impacts']} impacts, energy within {np.ptp(energy) / abs(energy[0]):.1e}")
        times = np.linspace(0, run.time[-1], 500)
        panel.plot(times, run.at(times).position[:, :, 0])
        panel.set(ylabel="x of the balls [m]", title=f"{raised} raised", xlim=(0, 4))
    panels[1].set_xlabel("time [s]")
    figure.savefig("newtons_cradle.png", dpi=130)
