"""Friction mu, drilling axis e_r and a semi-axis of a body from a recorded motion, by least squares
with exact gradients."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import implicit_stepper as ist
import shapes
from implicit_stepper.run.parameters import changed

AXES, H, STEPS = (0.25, 0.25, 0.22), 0.01, 40
TRUE = np.array([0.21, 0.06, AXES[2]])  # mu, e_r [m], vertical semi-axis [m]


def scene(mu, e_r, semi_axis):
    """A body that spins, slides and falls by some millimetres onto the floor."""
    made = ist.Scene()
    floor = made.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    body = made.add_body(
        name="body", shape=shapes.Ellipsoid((*AXES[:2], semi_axis)), mass=1.0, inertia=(0.022, 0.022, 0.025),
        position=(0, 0, 0.235), velocity=(1.5, 0.3, 0, 0, 0, 6.0),
    )  # fmt: skip
    made.add_contact(floor, body, friction=ist.FrictionEllipsoid(mu, e_r=e_r))
    return made


stepper = ist.GeometricallyImplicit()
recorded = ist.simulate(scene(*TRUE), stepper, h=H, duration=H * STEPS)
system, start = scene(0.3, 0.1, 0.23).build()


@jax.jit
def motion(unknowns):
    """Positions and velocities of a rollout, less the recorded ones, and again: a value beside its
    derivative."""
    values = {"mu": unknowns[0], "e_r": unknowns[1], "shape of body": jnp.array([*AXES[:2], unknowns[2]])}
    own, begun = changed(system, start, values)
    states = ist.rollout(own, stepper, H, STEPS, start=begun).states
    off = jnp.concatenate([jnp.ravel(states.position - recorded.position), jnp.ravel(states.velocity - recorded.velocity)])
    return off, off


derivative = jax.jit(jax.jacfwd(motion, has_aux=True))
path = []


def residual(unknowns):
    path.append(np.array(unknowns))
    return np.asarray(derivative(unknowns)[1])


fit = least_squares(residual, [0.3, 0.1, 0.23], lambda x: np.asarray(derivative(x)[0]), xtol=1e-14, ftol=1e-14, gtol=1e-14)

if __name__ == "__main__":
    print(f"mu, e_r, semi-axis: {fit.x}, off by {np.abs(fit.x - TRUE).max():.1e}, after {fit.nfev} runs")
    from matplotlib.figure import Figure  # pip install matplotlib

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(np.abs(np.array(path) - TRUE) + 1e-17, "o-", label=["mu [1]", "e_r [m]", "semi-axis [m]"])
    axes.set(xlabel="number of the run", ylabel="error of a parameter, in its unit")
    axes.legend()
    figure.savefig("fit_friction.png", dpi=130)
