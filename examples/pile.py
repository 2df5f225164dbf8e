"""Two dozen balls are poured into a bin: every two may touch, and which of them do is found step by
step."""

import itertools

import numpy as np

import implicit_stepper as ist
import shapes

RADIUS, SIDE, LAYERS = 0.05, 2, 6  # [m], balls across and above each other

scene, rng = ist.Scene(), np.random.default_rng(0)
for layer, i, j in itertools.product(range(LAYERS), range(SIDE), range(SIDE)):
    place = (np.array([i, j, layer]) - [0.5, 0.5, -0.6]) * 2.2 * RADIUS + rng.uniform(-0.004, 0.004, 3)
    scene.add_body(name=f"ball {layer}{i}{j}", shape=shapes.Sphere(RADIUS), density=1000.0, position=place)
reach = 3.2 * RADIUS  # of the bin, from its middle to its walls
for name, normal in (("left", (1, 0, 0)), ("right", (-1, 0, 0)), ("front", (0, 1, 0)), ("back", (0, -1, 0))):
    scene.add_fixed(name=name, shape=shapes.HalfSpace(normal=normal, offset=-reach))
scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
scene.add_contacts(friction=0.3)
trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.4)
touching = np.sum(trajectory.contacts.normal_impulse > 0, axis=1)

if __name__ == "__main__":
    print(trajectory)
    print(f"{touching[-1]} pairs touch at the end, gaps are at least {np.nanmin(trajectory.contacts.gap):.1e} m")
    from matplotlib.figure import Figure  # pip install matplotlib
    from matplotlib.patches import Circle

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    side, through = figure.subplots(1, 2, width_ratios=(1, 1.3))
    for step, colour in ((0, "0.8"), (-1, "tab:blue")):
        for x, _, z in trajectory.position[step]:
            side.add_patch(Circle((x, z), RADIUS, fc="none", ec=colour))
    side.set(xlabel="x [m]", ylabel="z [m]", xlim=(-reach, reach), ylim=(0, 0.75), aspect="equal", title="start and end")
    through.plot(trajectory.time[1:], touching, label="pairs that touch")
    through.plot(trajectory.time[1:], trajectory.stats.iterations, label="iterations")
    through.set(xlabel="time [s]", ylabel="number in a step", xlim=(0, 0.4), ylim=(0, None))
    through.legend()
    figure.savefig("pile.png", dpi=130)
