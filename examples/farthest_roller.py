"""The exponent p of a superquadric section, (x/a)^p + (y/b)^p = 1, with which a roller gets
farthest: a squarer one goes farther with every turn, but has higher corners to climb. Newton's
method finds it by the exact first and second derivative."""

import jax
import jax.numpy as jnp
import numpy as np
import sympy

import implicit_stepper as ist
import shapes
from implicit_stepper.run.parameters import changed

A, B, SPEED, H, STEPS = 0.25, 0.22, 2.5, 0.01, 150  # semi-axes [m], first speed [m/s], step [s]
FLAT = 0.05  # so that sides have some curvature in their middle, and the logarithm a value

p = sympy.Symbol("p", positive=True)
powers = [sympy.exp(p / 2 * sympy.log((u / a) ** 2 + FLAT**2)) for u, a in ((shapes.x, A), (shapes.y, B))]
section = shapes.ImplicitShape([sum(powers) - 1], parameters={p: 2.2}, dimension=2, name="section")

scene = ist.Scene(dimension=2)
ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
roller = scene.add_body(
    name="roller", shape=section, mass=1.0, inertia=0.03, position=(0, 0.26), angle=0.3, velocity=(SPEED, 0, -SPEED / 0.24)
)
scene.add_contact(ground, roller, friction=0.9)
system, start = scene.build()
stepper = ist.GeometricallyImplicit()


def reached(exponent):
    """How far [m] the roller is after 1.5 s, and its track."""
    own, begun = changed(system, start, {"shape of roller": exponent[None]})
    states = ist.rollout(own, stepper, H, STEPS, start=begun).states
    return states.position[-1, 0, 0], states.position[:, 0]


@jax.jit
def derivatives(exponent):
    """The first and the second by the exponent, and `reached`."""
    one = jnp.ones(())

    def slope(q):
        (_, track), (first, _) = jax.jvp(reached, (q,), (one,))
        return first, track

    (first, track), (second, _) = jax.jvp(slope, (exponent,), (one,))
    return first, second, track


exponents, slopes, tracks = [2.2], [], []
for _ in range(8):
    first, second, track = derivatives(jnp.asarray(exponents[-1]))
    slopes.append(float(first))
    tracks.append(np.asarray(track))
    if abs(first) <= 1e-9:
        break
    exponents.append(float(exponents[-1] - first / second))

if __name__ == "__main__":
    for exponent, slope, track in zip(exponents, slopes, tracks, strict=True):
        print(f"p = {exponent:.12f} reaches {track[-1, 0]:.9f} m, d(m)/d(p) = {slope:.1e}")
    from matplotlib.figure import Figure  # pip install matplotlib

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes, log = figure.subplots(1, 2)
    for exponent, track in zip(exponents, tracks, strict=True):
        axes.plot(*track.T, label=f"p = {exponent:.5f}")
    axes.set(xlabel="along the ground [m]", ylabel="height of the centre [m]", ylim=(0.215, 0.285))
    axes.legend(fontsize=6, ncols=2)
    log.semilogy(range(1, len(slopes) + 1), np.maximum(np.abs(slopes), 1e-17), "o-")
    log.set(xlabel="number of the try", ylabel="|d(distance) / d(p)| [m]")
    figure.savefig("farthest_roller.png", dpi=130)
