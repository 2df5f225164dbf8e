"""Exact solutions of the paper's three examples, found without a time-stepper: the oracle a
time-stepper is judged by.

Source: Chakraborty, Berard, Akella, Trinkle (RSS 2007), section V, "C" below. Units are SI; vectors
are in the inertial frame. Only numpy and scipy are used, and nothing of this package, so that an
error cannot be on both sides. Examples 1 and 2 have closed forms. Example 3 is integrated from
event to event: between two events each contact is known to slide, stick or be open, and the motion
obeys an ordinary differential equation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import scipy  # imports integrate, linalg and optimize once they are called, which takes .3 s

from shapes.errors import ArgumentError

from ..runtime.errors import ExactSolutionError, OutsideRunError

# Example 3, C section V-C. The small sphere is solid: unit radius, m = 1 kg, I = 2/5 m r^2.
CENTRES = np.array([[0.0, 0.0, 0.0], [0.0, 11.4, 0.0]])  # fixed spheres [m]
REACHES = np.array([11.0, 10.0])  # |x - c_i| at touch: the sum of the two radii [m]
MASS = np.array([1.0, 1.0, 1.0, 0.4, 0.4, 0.4])  # diagonal of M [kg, kg m^2]
APPLIED = np.array([1.0, 2.6, -9.81, 0.0, 0.0, 0.0])  # force [N] and torque [N m]
MU = 0.2
ELLIPSOID = np.array([1.0, 1.0, 0.3])  # e_t, e_o [-], e_r [m]. e_t = e_o: any tangent frame serves.

SLIDE, STICK, OPEN = "slide", "stick", "open"
ROWS = {OPEN: 0, SLIDE: 1, STICK: 4}  # of (normal, t, o, r), how many velocities the contact holds at 0
RELATIVE, ABSOLUTE = 3e-14, 1e-14  # solve_ivp on x [m], v [m/s], omega [rad/s]; scipy refuses rtol < 2.3e-14
ONSET = 1e-4  # [s] from a slip's start its direction is that of its rate: error of v O(ONSET^3), measured 1e-12 m/s.
# A shorter one costs forces: an error of 1e-13 m/s turns a slip of 0.75 t^2 (3e-5 N here).
LAYER = 0.05  # [s] from a slip's start its direction relaxes at rates near mu N / (m sigma): too stiff to be explicit
DRIFT = 1e-11  # largest violation accepted of a constraint: position [m], velocity [m/s], spin [rad/s]


@dataclass(frozen=True)
class RollingDisc:
    """Example 1 at n times: position (n, 2) [m], angle (n,) [rad], velocity (n, 3) (x, y [m/s],
    rotation [rad/s]), kinetic_energy (n,) [J], normal_force (n,) [N]."""

    position: np.ndarray
    angle: np.ndarray
    velocity: np.ndarray
    kinetic_energy: np.ndarray
    normal_force: np.ndarray


@dataclass(frozen=True)
class SpinningSphere:
    """Example 2 at n times: spin (n,) [rad/s] about the plane's normal, torque (n,) [N m] of
    friction against it."""

    spin: np.ndarray
    torque: np.ndarray


@dataclass(frozen=True)
class TwoSpheresStates:
    """Example 3 at n times, world frame; the second axis of size 2 is the contact.

    position (n, 3) [m] of the centre; velocity (n, 6) linear [m/s], angular [rad/s]; normal_force
    (n, 2) [N]; friction_norm (n, 2) = sqrt((F_t/e_t)^2 + (F_o/e_o)^2 + (F_r/e_r)^2) [N], which is
    mu N while the contact slides; slip_speed (n, 2) = sqrt(v_t^2 + v_o^2) [m/s]. All three are 0 at
    an open contact.
    """

    position: np.ndarray
    velocity: np.ndarray
    normal_force: np.ndarray
    friction_norm: np.ndarray
    slip_speed: np.ndarray


Directions = Callable[[np.ndarray], np.ndarray]  # state (9,) to vectors (2, 3) along the weighted slips, of any length
Solved = tuple[np.ndarray, np.ndarray, np.ndarray]  # acceleration (6,), normal forces (2,), friction (2, 3)


@dataclass(frozen=True)
class Phase:
    """Example 3 from `start` [s] to the next phase; `state(t)` (9,) is position, linear and angular
    velocity."""

    start: float
    modes: tuple[str, str]
    directions: Directions
    state: Callable[[float], np.ndarray]


@dataclass(frozen=True)
class TwoSpheres:
    """Example 3 from 0 to `duration` [s]; `events` maps each change of contact mode to its time
    [s]."""

    duration: float
    events: Mapping[str, float]
    phases: tuple[Phase, ...]

    def at(self, time: np.ndarray) -> TwoSpheresStates:
        """States at `time` (n,) [s], each in [0, duration]. At an event: the state just after
        it."""
        time = checked_time(time)
        if np.any(time > self.duration):
            raise OutsideRunError(f"`time` must not pass the duration {self.duration} s that was asked for.")
        phases = np.searchsorted([phase.start for phase in self.phases], time, side="right") - 1
        rows = [observe(self.phases[i], t) for i, t in zip(phases, time, strict=True)]
        return TwoSpheresStates(*(np.array(field) for field in zip(*rows, strict=True)))


def checked_time(time: np.ndarray) -> np.ndarray:
    """`time` as an array (n,) of floats [s]."""
    time = np.atleast_1d(np.asarray(time, dtype=float))
    if time.ndim != 1 or len(time) == 0 or not np.all(time >= 0.0):
        raise ArgumentError("`time` must be a one-dimensional array of at least one time >= 0 s.")
    return time


def rolling_disc(time: np.ndarray) -> RollingDisc:
    """Example 1, C section V-A: unit disc (1 kg, 0.5 kg m^2) rolling without slip from (0, 1).
    `time` (n,) [s]."""
    time = checked_time(time)
    velocity = np.tile([-3.0, 0.0, 3.0], (len(time), 1))
    kinetic_energy = 0.5 * velocity**2 @ np.array([1.0, 1.0, 0.5])
    position = np.column_stack([-3.0 * time, np.ones_like(time)])
    return RollingDisc(position, 3.0 * time, velocity, kinetic_energy, np.full_like(time, 9.81))


def spinning_sphere(time: np.ndarray) -> SpinningSphere:
    """Example 2, C section V-B: unit sphere (1 kg, 0.4 kg m^2) spinning on a plane at 1.962 rad/s.
    `time` (n,) [s].

    Friction is the torque mu e_r m g = 0.7848 N m, so the spin falls by 1.962 rad/s^2 and ends at
    exactly 1 s.
    """
    time = checked_time(time)
    spinning = time < 1.0
    return SpinningSphere(np.where(spinning, 1.962 * (1.0 - time), 0.0), np.where(spinning, 0.2 * 0.4 * 9.81, 0.0))


def start_position() -> np.ndarray:
    """Centre (3,) [m] of the small sphere at t = 0: in the plane x = 0, touching both fixed spheres
    from above."""
    (l1, l2), apart = REACHES, CENTRES[1, 1]
    y = (l1**2 - l2**2 + apart**2) / (2.0 * apart)
    return np.array([0.0, y, np.sqrt(l1**2 - y**2)])


def _cross(a, b) -> np.ndarray:
    (a1, a2, a3), (b1, b2, b3) = a, b  # `np.cross` takes ten times as long
    return np.array([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1])


def contact_frame(contact: int, position: np.ndarray) -> np.ndarray:
    """Unit vectors t, o, n as rows (3, 3); n points from fixed sphere `contact` to the small one at
    `position` (3,)."""
    n = (position - CENTRES[contact]) / np.linalg.norm(position - CENTRES[contact])
    o = _cross(n, (1.0, 0.0, 0.0))  # never parallel: |n_x| < 0.8 while they touch
    o = o / np.linalg.norm(o)
    return np.stack([_cross(o, n), o, n])


def contact_map(frame: np.ndarray) -> np.ndarray:
    """W_n, W_t, W_o, W_r of C(1) as rows (4, 6): twist (6,) to normal and slip velocity of the
    sphere's point at -n."""
    t, o, n = frame
    return np.concatenate([n, 0 * n, t, _cross(t, n), o, _cross(o, n), 0 * n, n]).reshape(4, 6)


def weighted_slips(state: np.ndarray) -> np.ndarray:
    """(e_t v_t, e_o v_o, e_r v_r) (2, 3) [m/s] at the two contacts."""
    return ELLIPSOID * [contact_map(contact_frame(i, state[:3]))[1:] @ state[3:] for i in (0, 1)]


def drift_acceleration(contact: int, state: np.ndarray) -> np.ndarray:
    """What is left (4,) of the rate of (normal, slip) velocity at zero acceleration [m/s^2,
    rad/s^2]: n moves.

    The slip is t, o . (v + n x omega) and n . omega; terms in t' and o' vanish with it, and are not
    asked for if not.
    """
    t, o, n = contact_frame(contact, state[:3])
    v, omega = state[3:6], state[6:]
    turning = (v - n * (n @ v)) / np.linalg.norm(state[:3] - CENTRES[contact])
    swept = _cross(turning, omega)
    return np.array([turning @ v, t @ swept, o @ swept, turning @ omega])


def solve_contacts(state: np.ndarray, modes: tuple[str, str], directions: np.ndarray) -> Solved:
    """Newton-Euler C(1), constraints differentiated twice; friction is (F_t, F_o [N], F_r [N m]).

    A sliding contact's friction maximises dissipation, C(4): F = -mu N e d, with the unit vector d
    along its row of `directions` (2, 3). Sticking ones have three unknown components, for three
    more constraints.
    """
    maps = [contact_map(contact_frame(i, state[:3])) for i in (0, 1)]
    counts = [ROWS[mode] for mode in modes]  # of constraints, and of unknown forces
    laws = [np.eye(4)[:, :count] for count in counts]  # unknowns to (N, F_t, F_o, F_r)
    for law, mode, direction in zip(laws, modes, directions, strict=True):
        if mode == SLIDE:
            law[1:, 0] = -MU * ELLIPSOID * direction / np.linalg.norm(direction)
    law = scipy.linalg.block_diag(*laws)
    rows = np.concatenate([rows[:count] for rows, count in zip(maps, counts, strict=True)])
    columns = np.concatenate(maps).T @ law
    drift = np.concatenate([drift_acceleration(i, state)[:count] for i, count in enumerate(counts)])
    unknowns = np.linalg.solve(rows / MASS @ columns, -drift - rows / MASS @ APPLIED)
    forces = (law @ unknowns).reshape(2, 4)
    return (APPLIED + columns @ unknowns) / MASS, forces[:, 0], forces[:, 1:]


def directions_1_sliding(state: np.ndarray) -> np.ndarray:
    """Along the slips (2, 3) while contact 1 slides and contact 2 sticks, defined at rest too.

    Two touching constraints and no slip or spin at contact 2 leave one freedom: v along n_1 x n_2,
    omega = n_2 x v. The direction depends on the position alone; its sign is that of the push +x.
    """
    n1, n2 = (contact_frame(i, state[:3])[2] for i in (0, 1))
    v = _cross(n1, n2)
    return weighted_slips(np.concatenate([state[:3], v, _cross(n2, v)]))


def directions_at_onset(state: np.ndarray) -> np.ndarray:
    """Along the slips (2, 3) when that of contact 2 just leaves zero: it points along its own rate.

    Unit vector d and rate r with (weighted slip)' = r d, from the friction that would hold it.
    """
    sliding = weighted_slips(state)[0]
    rows, drift = contact_map(contact_frame(1, state[:3])), drift_acceleration(1, state)

    def residual(unknowns: np.ndarray) -> np.ndarray:
        d, rate = unknowns[:3], unknowns[3]
        acceleration, _, _ = solve_contacts(state, (SLIDE, SLIDE), np.stack([sliding, d]))
        return np.append(ELLIPSOID * (rows @ acceleration + drift)[1:] - rate * d, d @ d - 1.0)

    holding = -solve_contacts(state, (SLIDE, STICK), np.stack([sliding, sliding]))[2][1] / ELLIPSOID
    found = scipy.optimize.root(residual, np.append(holding / np.linalg.norm(holding), 0.0), tol=1e-13)
    if np.max(np.abs(found.fun)) > 1e-9:  # [m/s^2]; root itself may stop for lack of progress at rounding level
        raise ExactSolutionError(f"no consistent slip direction of contact 2 at its onset: {found.message}")
    return np.stack([sliding, found.x[:3]])


def constraint_violation(phase: Phase, time: float) -> float:
    """Largest violation at `time` [s]: gap [m] and rate [m/s] if it touches, slip if it sticks."""
    state = phase.state(time)
    violations = []
    for i, mode in enumerate(phase.modes):
        gap = np.linalg.norm(state[:3] - CENTRES[i]) - REACHES[i]
        velocity = contact_map(contact_frame(i, state[:3])) @ state[3:]
        violations.extend([-gap] if mode == OPEN else [abs(gap), *np.abs(velocity[: ROWS[mode]])])
    return max(violations)


def integrate(
    modes: tuple[str, str], directions: Directions, start: float, state: np.ndarray, *,
    end: float = 10.0, watched: int | None = None, method: str = "DOP853",
) -> tuple[Phase, float, np.ndarray]:  # fmt: skip
    """A phase from `state` (9,) at `start` [s], with its end [s] and last state. It ends at `end`,
    or where a `watched` contact that sticks has full friction, or one that slides no force."""

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        return np.concatenate([state[3:6], solve_contacts(state, modes, directions(state))[0]])

    def event(_: float, state: np.ndarray) -> float:
        _, normal_force, friction = solve_contacts(state, modes, directions(state))
        slack = MU * normal_force - np.linalg.norm(friction / ELLIPSOID, axis=1)
        return slack[watched] if modes[watched] == STICK else normal_force[watched]

    event.terminal, event.direction = True, -1.0
    settings = dict(rtol=RELATIVE, atol=ABSOLUTE, dense_output=True, events=None if watched is None else event)
    found = scipy.integrate.solve_ivp(rate, (start, end), state, method, **settings)
    if found.status != (watched is not None):  # 1: an event, 0: the end
        raise ExactSolutionError(f"contacts {modes} from {start} s did not end as expected: {found.message}")
    phase = Phase(start, modes, directions, found.sol)
    violation = max(constraint_violation(phase, t) for t in np.linspace(start, found.t[-1], 101))
    if violation > DRIFT:
        raise ExactSolutionError(f"contacts {modes} from {start} s: the solution leaves its constraints by {violation:.1e}.")
    return phase, float(found.t[-1]), found.y[:, -1]


def free_flight(start: float, state: np.ndarray) -> Phase:
    """The parabola after both contacts opened. It does not return to the spheres: with v . a > 0,
    which then grows, (|x - c|^2)'' grows too, and neither it nor (|x - c|^2)' is negative here."""
    rate = np.concatenate([state[3:6], APPLIED / MASS])
    bend = np.concatenate([0.5 * rate[3:6], np.zeros(6)])
    return Phase(start, (OPEN, OPEN), weighted_slips, lambda t: state + (t - start) * (rate + (t - start) * bend))


def observe(phase: Phase, time: float) -> tuple[np.ndarray, ...]:
    """The fields of `TwoSpheresStates` at one `time` [s] of a phase."""
    state = phase.state(time)
    _, normal_force, friction = solve_contacts(state, phase.modes, phase.directions(state))
    slip = weighted_slips(state)[:, :2] / ELLIPSOID[:2] * [[mode != OPEN] for mode in phase.modes]
    return state[:3], state[3:], normal_force, *(np.linalg.norm(a, axis=1) for a in (friction / ELLIPSOID, slip))


@lru_cache(maxsize=1)
def solve_two_spheres() -> tuple[Mapping[str, float], tuple[Phase, ...]]:
    """Events and phases of example 3, from rest to free flight."""
    rest, slides = np.concatenate([start_position(), np.zeros(6)]), (SLIDE, SLIDE)
    rolling, slips, state = integrate((SLIDE, STICK), directions_1_sliding, 0.0, rest, watched=1)
    onset, time, state = integrate(slides, directions_at_onset, slips, state, end=slips + ONSET)
    layer, time, state = integrate(slides, weighted_slips, time, state, end=slips + LAYER, method="Radau")
    sliding, opens_1, state = integrate(slides, weighted_slips, time, state, watched=0)
    single, opens_2, state = integrate((OPEN, SLIDE), weighted_slips, opens_1, state, watched=1)
    events = {"contact 2 slips": slips, "contact 1 opens": opens_1, "contact 2 opens": opens_2}
    return MappingProxyType(events), (rolling, onset, layer, sliding, single, free_flight(opens_2, state))


def two_spheres(duration: float = 4.0) -> TwoSpheres:
    """Example 3, C section V-C: a unit sphere from rest on two fixed ones, for a `duration` [s]."""
    if not (np.isfinite(duration) and duration > 0.0):
        raise ArgumentError("`duration` must be a positive time [s].")
    return TwoSpheres(float(duration), *solve_two_spheres())
