"""A double pendulum, a slider-crank and four bars that fall and swing, against minimal coordinates:
the equations of motion projected onto these, J^T M (J theta'' + J' theta') = J^T f with J = dq /
dtheta, by an integrator of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import implicit_stepper as ist
import shapes

G, DURATION = 9.81, 0.4
FIRST, SECOND = 1.0, 0.7  # [m] the bars of the double pendulum
CRANK, ROD = 0.3, 1.0
INPUT, COUPLER, OUTPUT, GROUND = 0.4, 1.2, 0.9, 1.1
LENGTHS = np.array([FIRST, SECOND, CRANK, ROD, 0.2, INPUT, COUPLER, OUTPUT])  # [m], the block's beside them
MASSES = np.array([1.0, 0.8, 0.5, 1.5, 2.0, 0.4, 1.2, 0.9])
INERTIAS = MASSES * LENGTHS**2 / 12
START, SPIN = np.array([0.3, -0.5, 0.7, 1.1]), np.array([1.0, 2.0, 5.0, -3.0])  # [rad], [rad/s]
PIVOTS = np.array([[0.0, 0.0], [5.0, 0.0], [10.0, 0.0]])
OF = {"double pendulum": slice(0, 2), "slider-crank": slice(2, 5), "four bars": slice(5, 8)}


def along(angle, length):
    return length * jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def places(theta):
    """Centres and angles (8, 3) of all bodies, where the angles of both bars of the pendulum and of
    both cranks are `theta` (4,)."""
    elbow, found = along(theta[0], FIRST), []
    found += [(elbow / 2, theta[0]), (elbow + along(theta[1], SECOND) / 2, theta[1])]
    pin = along(theta[2], CRANK)
    lean = -jnp.arcsin(pin[1] / ROD)
    block = pin + along(lean, ROD)
    found += [(PIVOTS[1] + pin / 2, theta[2]), (PIVOTS[1] + (pin + block) / 2, lean), (PIVOTS[1] + block, 0.0)]
    knee, foot = along(theta[3], INPUT), jnp.array([GROUND, 0.0])
    apart = foot - knee
    way = jnp.linalg.norm(apart)
    opens = jnp.arccos((COUPLER**2 + way**2 - OUTPUT**2) / (2 * COUPLER * way))
    turned = jnp.arctan2(apart[1], apart[0]) + opens
    top = knee + along(turned, COUPLER)
    arm = jnp.arctan2(top[1] - foot[1], top[0] - foot[0])
    found += [(PIVOTS[2] + knee / 2, theta[3]), (PIVOTS[2] + (knee + top) / 2, turned)]
    found.append((PIVOTS[2] + (foot + top) / 2, arm))
    return jnp.stack([jnp.append(centre, angle) for centre, angle in found])


def speeds(theta, omega):
    return jax.jvp(places, (theta,), (omega,))[1]


@jax.jit
def acceleration(theta, omega):
    mass = jnp.stack([MASSES, MASSES, INERTIAS], axis=1).reshape(-1)
    by_theta = jax.jacfwd(places)(theta).reshape(-1, 4)
    bends = jax.jvp(lambda at: speeds(at, omega), (theta,), (omega,))[1].reshape(-1)
    force = (MASSES[:, None] * np.array([0.0, -G, 0.0])).reshape(-1)
    return jnp.linalg.solve(by_theta.T @ (mass[:, None] * by_theta), by_theta.T @ (force - mass * bends))


@pytest.fixture(scope="module")
def exact():
    """Centres and angles (201, 8, 3) at equal times."""
    begin = np.concatenate([START, SPIN])
    rates = lambda t, y: np.concatenate([y[4:], acceleration(y[:4], y[4:])])  # noqa: E731
    times = np.arange(201) * DURATION / 200
    solved = solve_ivp(rates, (0, DURATION), begin, method="DOP853", rtol=1e-12, atol=1e-13, t_eval=times)
    return np.asarray(jax.vmap(places)(solved.y[:4].T))


@pytest.fixture(scope="module")
def scene():
    made = ist.Scene(dimension=2, gravity=(0, -G))
    frame = made.add_fixed(name="frame", shape=shapes.Disc(0.01))
    at, moving = np.asarray(places(START)), np.asarray(speeds(START, SPIN))
    bodies = [
        made.add_body(
            name=f"body {i}", shape=shapes.Disc(0.01), mass=MASSES[i], inertia=INERTIAS[i], position=at[i, :2],
            angle=at[i, 2], velocity=moving[i],
        )
        for i in range(8)
    ]  # fmt: skip

    def pin(first, second, place, other):
        made.add_joint(first, second, ist.BallJoint(place, other))

    def ends(i):
        return (-LENGTHS[i] / 2, 0), (LENGTHS[i] / 2, 0)

    for chain, pivot in (((0, 1), PIVOTS[0]), ((2, 3), PIVOTS[1]), ((5, 6, 7), PIVOTS[2])):
        last, place = frame, pivot
        for i in chain[:2]:
            pin(last, bodies[i], place, ends(i)[0])
            last, place = bodies[i], ends(i)[1]
    pin(bodies[3], bodies[4], ends(3)[1], (0, 0))
    made.add_joint(frame, bodies[4], ist.Slider(PIVOTS[1], (1, 0), (0, 0), (1, 0)))
    pin(bodies[6], bodies[7], ends(6)[1], ends(7)[1])
    pin(frame, bodies[7], PIVOTS[2] + np.array([GROUND, 0]), ends(7)[0])
    return made


@pytest.mark.parametrize(
    ("stepper", "sizes", "order"),
    [(ist.GeometricallyImplicit(), (0.004, 0.002), 1), (ist.RadauContact(), (0.02, 0.01), 5)],
)
def test_mechanisms_converge_at_the_order_of_the_scheme(scene, exact, stepper, sizes, order):
    errors = []
    for h in sizes:
        run = ist.simulate(scene, stepper, h=h, duration=DURATION)
        assert np.max(np.abs(run.joints.closure)) <= 1e-12
        off = np.abs(np.concatenate([run.position, run.orientation], axis=2) - exact[:: 200 // len(run)])
        errors.append([np.max(off[:, bodies]) for bodies in OF.values()])
    assert np.log2(np.divide(*errors)) == pytest.approx(np.full(3, order), abs=0.2)
