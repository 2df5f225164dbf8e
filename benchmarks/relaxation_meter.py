"""The relaxation meter: at which gap do contacts that carry really sit, and at which do a method's
own equations put them?

    python benchmarks/relaxation_meter.py

A cone complementarity step asks psi/h + v_n = mu |w| of the gap psi at its start: it leads to the
linearised gap mu h |w|. Balls curve away from the planes in which that is measured, which geometry
adds; the implicit step's gap is not linearised. Prints the Markdown table of docs/steppers.md.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import linear_rows
from implicit_stepper.model.system import contact_bodies
from implicit_stepper.paper import scenes

H = 0.005
SCENES = {
    "sliding block": (scenes.block, 0.5),
    "rolling disc": (scenes.disc, 0.5),
    "example 3": (lambda: scenes.two_spheres(shapes.Sphere), 3.9),
    "sheared pile, 27 balls": (lambda: scenes.pile(3, 3, tilt=0.6), 0.25),
}
METHODS = {
    "cone complementarity": ist.ConeComplementarity(),
    "the same, unrelaxed": ist.ConeComplementarity(relaxed=False),
    "implicit": ist.GeometricallyImplicit(),
}


def meter(scene_name, method):
    """Predicted and measured gaps [m] of all contacts that carry, over all steps."""
    make, duration = SCENES[scene_name]
    system, _ = make().build()
    run = ist.simulate(make(), METHODS[method], h=H, duration=duration, progress=False)
    predicted = np.asarray(METHODS[method].predicted_gap(run.contacts, np.asarray(linear_rows.of_contacts(system, "mu")), H))
    if method != "implicit":
        predicted = predicted + curving(system, run, predicted)
    carries = run.contacts.normal_impulse > 1e-6 * run.contacts.normal_impulse.max()
    return predicted[carries], run.contacts.gap[carries]


def curving(system, run, linear):
    """How much farther apart (n, nc) [m] two balls are than their linearised gap says, as their
    centres pass each other."""
    extra, bodies, d = np.zeros_like(run.contacts.gap), contact_bodies(system), run.position.shape[-1]
    speeds = np.concatenate([run.velocity[1:, :, :d], np.zeros((len(run), 1, d))], axis=1)
    for group in system.groups:
        if "Plane" in group.pair.first.name + group.pair.second.name or "HalfSpace" in group.pair.first.name:
            continue
        for c, reach in zip(group.numbers, np.asarray(group.theta_1[:, 0] + group.theta_2[:, 0]), strict=True):
            passing, n = speeds[:, bodies[c, 1]] - speeds[:, bodies[c, 0]], run.contacts.normal[:, c]
            across = passing - n * np.sum(passing * n, axis=1, keepdims=True)
            straight = reach + linear[:, c]
            extra[:, c] = np.hypot(straight, H * np.linalg.norm(across, axis=1)) - straight
    return extra


def main():
    """The table."""
    print("| scene | method | predicted, largest [m] | measured, largest [m] | largest difference [m] |\n|" + "---|" * 5)
    for scene in SCENES:
        for method in METHODS:
            predicted, measured = meter(scene, method)
            difference = np.max(np.abs(predicted - measured))
            print(f"| {scene} | {method} | {predicted.max():.3e} | {measured.max():.3e} | {difference:.0e} |", flush=True)


if __name__ == "__main__":
    main()
