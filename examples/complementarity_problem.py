"""The solver without any contact: a Nash-Cournot duopoly as a nonlinear complementarity problem."""

import jax.numpy as jnp

import implicit_stepper as ist

costs = jnp.array([2.0, 9.5])  # [EUR a unit]; demand price is 10 - q1 - q2


def marginal_loss(q):
    """F(q) (2,): minus each firm's marginal profit; a firm that sells, q_i > 0, has F_i = 0, else
    F_i >= 0."""
    return costs - (10 - jnp.sum(q) - q)


solution = ist.solve_ncp(marginal_loss, z0=jnp.ones(2), complementary=[True, True])

if __name__ == "__main__":
    print("quantities:", solution.z, "(by hand: 4 and 0, as the second firm's cost exceeds the price of 6)")
    print("solved:", bool(solution.converged), "in", int(solution.iterations), "iterations")
    from matplotlib.figure import Figure  # pip install matplotlib

    figure = Figure(figsize=(4.8, 3.6), layout="constrained")
    axes = figure.subplots()
    other = jnp.linspace(0, 9, 50)  # what the other firm sells
    axes.plot(jnp.maximum((10 - costs[0] - other) / 2, 0), other, label="best for the first firm")
    axes.plot(other, jnp.maximum((10 - costs[1] - other) / 2, 0), label="best for the second")
    axes.plot(*solution.z, "ko", label="both are content", clip_on=False, zorder=3)
    axes.set(xlabel="the first firm sells [units]", ylabel="the second sells [units]", xlim=(0, 9), ylim=(0, 9))
    axes.legend()
    figure.savefig("complementarity_problem.png", dpi=130)
