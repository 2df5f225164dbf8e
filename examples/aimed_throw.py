"""A bowling ball that hooks into a pin: it lands, slides under its spin and rolls, and Newton's
method aims the throw."""

import jax
import jax.numpy as jnp
import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.run.parameters import changed

RADIUS, H, STEPS = 0.108, 0.01, 250
PIN = np.array([15.0, 0.4])  # [m], where the centre is to be when 2.5 s are over

scene = ist.Scene()
lane = scene.add_fixed(name="lane", shape=shapes.HalfSpace(normal=(0, 0, 1)))
ball = scene.add_body(name="ball", shape=shapes.Sphere(RADIUS), mass=6.8, position=(0, 0, RADIUS + 0.05))
scene.add_contact(lane, ball, friction=0.12)
system, start = scene.build()
stepper = ist.GeometricallyImplicit()


def missed(throw):
    """By how much [m] a throw misses, given its speeds along and across the lane [m/s]; and again,
    with the track."""
    velocity = jnp.concatenate([throw, jnp.array([0.0, -20.0, 5.0, 0.0])])
    own, begun = changed(system, start, {"velocity": velocity[None]})
    path = ist.rollout(own, stepper, H, STEPS, start=begun).states.position[:, 0, :2]
    return path[-1] - PIN, (path[-1] - PIN, path)


derivative = jax.jit(jax.jacfwd(missed, has_aux=True))
throw, tracks, misses = np.array([5.0, 0.0]), [], []
for _ in range(8):
    jacobian, (miss, path) = derivative(throw)
    tracks.append(np.asarray(path))
    misses.append(float(np.linalg.norm(miss)))
    if misses[-1] <= 1e-10:
        break
    throw = throw - np.linalg.solve(jacobian, miss)

if __name__ == "__main__":
    print(f"throw with {throw[0]:.6f} and {throw[1]:.6f} m/s; misses by", ", ".join(f"{miss:.1e} m" for miss in misses))
    from matplotlib.figure import Figure  # pip install matplotlib

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes, log = figure.subplots(1, 2)
    for number, path in enumerate(tracks):
        axes.plot(*path.T, label=f"throw {number + 1}")
    axes.plot(*PIN, "k*", markersize=10)
    axes.set(xlabel="along the lane [m]", ylabel="across [m]")
    axes.legend(fontsize=7)
    log.semilogy(range(1, len(misses) + 1), np.maximum(misses, 1e-17), "o-")
    log.set(xlabel="throw", ylabel="misses by [m]")
    figure.savefig("aimed_throw.png", dpi=130)
