"""A bowling ball that hooks into a pin: it lands, bounces, slides under its spin and rolls, and
Newton's method aims the throw."""

import dataclasses

import numpy as np

import implicit_stepper as ist
import shapes

RADIUS, TIME = 0.108, 2.5
PIN = np.array([15.0, 0.4])  # [m], where the centre is to be when 2.5 s are over
FIRST = (5.0, 0.0, 0.0, -20.0, 5.0, 0.0)  # [m/s, rad/s]

scene = ist.Scene()
lane = scene.add_fixed(name="lane", shape=shapes.HalfSpace(normal=(0, 0, 1)))
ball = scene.add_body(name="ball", shape=shapes.Sphere(RADIUS), mass=6.8, position=(0, 0, RADIUS + 0.05), velocity=FIRST)
scene.add_contact(lane, ball, friction=0.12, restitution=ist.Newton(0.4))
stepper, (_, first) = ist.RadauContact(), scene.build()

throw, runs, misses = np.array(FIRST[:2]), [], []
for _ in range(8):
    start = dataclasses.replace(first, velocity=np.array([[*throw, *FIRST[2:]]]))
    run = ist.simulate(scene, stepper, tol=1e-9, duration=TIME, start=start)
    runs.append(run)
    miss = run.position[-1, 0, :2] - PIN
    misses.append(float(np.linalg.norm(miss)))
    if misses[-1] <= 1e-8:
        break
    by_velocity = ist.sensitivities(scene, stepper, run, ["velocity"])["velocity"].position[-1, 0]
    throw = throw - np.linalg.solve(by_velocity[:2, 0, :2], miss)

if __name__ == "__main__":
    print(f"throw with {throw[0]:.6f} and {throw[1]:.6f} m/s; misses by", ", ".join(f"{miss:.1e} m" for miss in misses))
    print(f"it lands {len(run.events) - 1} times, and rolls from {run.events[-1].time:.3f} s on")
    from matplotlib.figure import Figure  # pip install matplotlib

    time = np.linspace(0, TIME, 1001)
    figure = Figure(figsize=(8.4, 3.0), layout="constrained")
    paths, bounces, log = figure.subplots(1, 3)
    for number, own in enumerate(runs):
        track = own.at(time).position[:, 0]
        paths.plot(*track[:, :2].T, label=f"throw {number + 1}")
        bounces.plot(time, 1e3 * (track[:, 2] - RADIUS), label=f"throw {number + 1}")
    paths.plot(*PIN, "k*", markersize=10)
    paths.set(xlabel="along the lane [m]", ylabel="across [m]")
    paths.legend(fontsize=7)
    bounces.set(xlabel="time [s]", ylabel="above the lane [mm]", xlim=(0, 0.3))
    log.semilogy(range(1, len(misses) + 1), np.maximum(misses, 1e-17), "o-")
    log.set(xlabel="throw", ylabel="misses by [m]", xticks=range(1, len(misses) + 1))
    figure.savefig("aimed_throw.png", dpi=130)
