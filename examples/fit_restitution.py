"""Restitution e and friction mu of a bounce from noisy positions, with their standard errors, by
least squares with exact derivatives through every impact."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import implicit_stepper as ist
import shapes

H, STEPS, NOISE = 0.01, 110, 2e-3  # a camera of 100 pictures a second that is 2 mm off
TRUE, GUESS = np.array([0.72, 0.12, 2.5]), [0.6, 0.15, 2.3]  # e, mu, first speed [m/s]

scene = ist.Scene(dimension=2, gravity=(0, -9.81))
floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
ball = scene.add_body(name="ball", shape=shapes.Disc(0.05), mass=0.3, position=(0, 0.45), velocity=(2.5, 0, 0))
scene.add_contact(floor, ball, friction=0.12, restitution=ist.Newton(0.72))
system, start = scene.build()


def positions(unknowns):
    """Of the ball (STEPS + 1, 2) [m], and again: a value beside its derivative."""
    e, mu, speed = unknowns
    pair = dataclasses.replace(system.groups[0], restitution=e[None], mu=mu[None])
    begun = dataclasses.replace(start, velocity=jnp.stack([speed, 0.0, 0.0])[None])
    own = dataclasses.replace(system, groups=(pair,))
    found = ist.rollout(own, ist.GeometricallyImplicit(), H, STEPS, start=begun).states.position[:, 0]
    return found, found


derivative = jax.jit(jax.jacfwd(positions, has_aux=True))
recorded = np.asarray(derivative(TRUE)[1]) + NOISE * np.random.default_rng(0).normal(size=(STEPS + 1, 2))
fit = least_squares(
    lambda x: (np.asarray(derivative(x)[1]) - recorded).ravel() / NOISE,
    GUESS,
    lambda x: np.asarray(derivative(x)[0]).reshape(-1, 3) / NOISE,
    bounds=([0, 0, -np.inf], [1, np.inf, np.inf]),
)
errors = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))

if __name__ == "__main__":
    print("|  | true | fitted | standard error |\n|---|---|---|---|")
    for name, true, found, error in zip(("e", "mu", "first speed [m/s]"), TRUE, fit.x, errors, strict=True):
        print(f"| {name} | {true} | {found:.4f} | {error:.4f} |")
    from matplotlib.figure import Figure  # pip install matplotlib

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(*recorded.T, ".", markersize=4, label="recorded")
    axes.plot(*np.asarray(derivative(np.array(GUESS))[1]).T, ":", label="first guess")
    axes.plot(*np.asarray(derivative(fit.x)[1]).T, label="fitted")
    axes.set(xlabel="x [m]", ylabel="height of the centre [m]")
    axes.legend()
    figure.savefig("fit_restitution.png", dpi=130)
