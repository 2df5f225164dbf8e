"""The relaxation meter: at which gap do contacts that carry really sit, and at which do a method's own equations put them?

    python benchmarks/relaxation_meter.py

A cone complementarity step asks psi/h + v_n = mu |w| of the gap psi at its start: it leads to the linearised gap mu h |w|,
and, where balls and planes curve away from their tangents, to a little more, which geometry gives. Prints the Markdown table
of docs/steppers.md.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np

import implicit_stepper as ist
import shapes
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


def meter(scene_name, stepper):
    """Predicted and measured gaps of all contacts that carry, over all steps."""
    make, duration = SCENES[scene_name]
    scene = make()
    run = ist.simulate(scene, stepper, h=H, duration=duration, progress=False)
    mu = np.array([float(m) for m in _friction(scene)])
    linear = np.asarray(stepper.predicted_gap(run.contacts, mu, H))
    carries = run.contacts.normal_impulse > 1e-6 * run.contacts.normal_impulse.max()
    return (linear + _curving(scene, run, linear))[carries], run.contacts.gap[carries], run


def _friction(scene):
    from implicit_stepper import nearby

    return np.asarray(nearby.of_contacts(scene.build()[0], "mu"))


def _curving(scene, run, linear):
    """How much farther apart (n, nc) two balls end than their linearised gap says, from how their centres passed each other.

    The implicit step's own gap is not linearised, and flat ground does not curve.
    """
    system, _ = scene.build()
    from implicit_stepper.system import contact_bodies

    bodies = contact_bodies(system)
    extra = np.zeros_like(run.contacts.gap)
    if not np.any(linear):
        return extra
    d = run.position.shape[-1]
    still = np.zeros((len(run), 1, d))
    speeds = np.concatenate([run.velocity[1:, :, :d], still], axis=1)
    for group in system.groups:
        if not {group.pair.first.name, group.pair.second.name} <= {"Sphere", "Disc"}:
            continue
        for c, reach in zip(group.numbers, np.asarray(group.theta_1[:, 0] + group.theta_2[:, 0]), strict=True):
            passing = speeds[:, bodies[c, 1]] - speeds[:, bodies[c, 0]]
            n = run.contacts.normal[:, c]
            across = passing - n * np.sum(passing * n, axis=1, keepdims=True)
            straight = reach + linear[:, c]
            extra[:, c] = np.hypot(straight, H * np.linalg.norm(across, axis=1)) - straight
    return extra


def main():
    """The table."""
    print("| scene | method | predicted, largest [m] | measured, largest [m] | largest difference [m] |\n|" + "---|" * 5)
    for scene in SCENES:
        for name, stepper in METHODS.items():
            predicted, measured, _ = meter(scene, stepper)
            difference = np.max(np.abs(predicted - measured))
            print(f"| {scene} | {name} | {predicted.max():.3e} | {measured.max():.3e} | {difference:.0e} |", flush=True)


if __name__ == "__main__":
    main()
