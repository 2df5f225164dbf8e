"""What a constraint states at one configuration, dimensionless, whatever the discretisation of time
and the solver.

    equations   = 0                 closest points; closures of joints
    pairs       0 <= a _|_ b >= 0   p_n and gap, weights and slacks of inequalities
    cone        |y| <= bound        y along -w, of length `bound` where w is not 0, and sigma = |w|

Each class of constraints states its own; `rows` here and `branches` apply complementarity functions
to these, for all classes alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from shapes.small_algebra import inner

from ..solvers.complementarity import STEP, fischer_burmeister, length_of
from ..solvers.elimination import Links
from .friction import FRICTION_ROWS
from .kinematics import Motion

OPEN = 100.0  # gaps that close more slowly than in h over this leave the rate of the gap alone


class Units(NamedTuple):
    """In which conditions are measured: `length` () [m], `gap` () [m], `speed` () [m/s], and the
    `impulse` () [N s] of the constraint."""

    length: jax.Array
    gap: jax.Array
    speed: jax.Array
    impulse: jax.Array


class Instant(NamedTuple):
    """One stage of a step of `h` () [s]: its `units`, which belong to a step of `unit_h` () [s];
    `noise` () [m], what rounding makes of a closed gap; its `time` () [s]; and which form of
    `friction.FRICTION_ROWS` is asked for."""

    units: Units
    h: jax.Array
    unit_h: jax.Array
    noise: jax.Array
    time: jax.Array
    friction: str


class Held(NamedTuple):
    """Which branch of each complementarity of a constraint holds: `touching` and `pressed` (), that
    psi = 0 and that its rate is, or that the force of a compliant contact acts, both; `sticking`
    (); `active` (pairs,), that the inequality carries the normal."""

    touching: jax.Array
    pressed: jax.Array
    sticking: jax.Array
    active: jax.Array


class Cone(NamedTuple):
    """Friction: its `bound` (), `y` (k,), `sigma` () and `w` (k,), dimensionless, which components
    are `on` (k,), and whether there is any, `rough` ()."""

    bound: jax.Array
    y: jax.Array
    sigma: jax.Array
    w: jax.Array
    on: jax.Array
    rough: jax.Array


class Conditions(NamedTuple):
    """`equations` (e,), `pairs` of two (c,), and a `cone` or None."""

    equations: jax.Array
    pairs: tuple[jax.Array, jax.Array]
    cone: Cone | None


class StageConditions(NamedTuple):
    """At a stage, where an impulse p holds the rate of a gap and an eta with it the gap:
    `equations` (e,), pairs of `inequalities` two (c,), the pair of p and the `rate` two (1,) or
    (0,), a `cone` or None; of etas the pair of p + eta and the gap, `position`, two (1,) or (0,).
    Of a compliant contact, which has no eta, `rate` is the pair of p and its law of the gap."""

    equations: jax.Array
    inequalities: tuple[jax.Array, jax.Array]
    rate: tuple[jax.Array, jax.Array]
    cone: Cone | None
    position: tuple[jax.Array, jax.Array]


NOTHING = np.zeros(0), np.zeros(0)
"""A pair of which there is none."""


class Constraint(Protocol):
    """A group of n alike constraints, a pytree with the first axis n; `vmap` hands over a member,
    for which `conditions` is asked. Static: `bodies`, per constraint its two body numbers (moving
    bodies first, then fixed ones); `moving`, whether body 1 and body 2 move; `numbers`, their
    places in the order in which the user added them; `width`, how many unknowns a constraint has in
    a step of one stage, of which poses alone are `determined` the first ones; `etas`, how many more
    it has at each of several stages, whose unknowns (width + etas,) are impulses where `forces`
    says so."""

    bodies: tuple[tuple[int, int], ...]
    moving: tuple[bool, bool]
    numbers: tuple[int, ...]
    width: int
    determined: int
    etas: int
    forces: np.ndarray

    def with_etas(self, own) -> jax.Array:
        """Values (n, width + etas) for a stage, from those `own` (n, width) of a step of one
        stage."""

    def unknown_units(self, length, speed, impulse) -> jax.Array:
        """Units (n, width) of the unknowns, with `impulse` (n,)."""

    def links(self, nodes, sign: float) -> Links:
        """Which of the unknowns may be eliminated on which rows."""

    def pressing(self) -> int:
        """How many unknowns at most are not eliminated."""

    def conditions(
        self, unknowns, reference: Any, units: Units, motion_1: Motion, motion_2: Motion, time, h
    ) -> tuple[Conditions, tuple]:
        """What `unknowns` (width,) in physical units state with the bodies at the end of a step of
        h [s] at `time` [s], and the wrenches [N s, N m s] of the constraint on body 1 and body
        2."""

    def place(self, at: Instant, unknowns, reference: Any, motion_1: Motion, motion_2: Motion) -> tuple[Any, tuple]:
        """At a stage where bodies have these poses: what the unknowns say there, and the shifts of
        the bodies' momenta."""

    def point(self, at: Instant, placed, motion_1: Motion, motion_2: Motion) -> Any:
        """What was `placed`, with the velocities V_i of the bodies."""

    def pushes(self, point) -> tuple:
        """The wrenches on body 1 and body 2."""

    def stage_conditions(self, at: Instant, point) -> StageConditions:
        """What the unknowns state there, which `branches` makes rows, modes and margins of."""

    def eta_equations(self, at: Instant, point, named: Held, held) -> jax.Array:
        """Rows of the etas that belong to no pair; where `held` (), with the modes that are
        `named`."""

    def flat(self, at: Instant, unknowns, reference: Any, motion_1: Motion, motion_2: Motion) -> jax.Array:
        """Of those that are `determined` by poses: what keeps the derivative of their rows by them
        regular."""

    def give(self, at: Instant, held) -> jax.Array:
        """What the derivative (width + etas, width + etas) of the rows gains if they give way to
        impulses by one unit."""


def places(group: Constraint, width: int) -> bool:
    """Whether each joint of a group says where the one body is that it moves, of `width`
    velocities: one that moves as it is told, or that is fixed to another that does not move."""
    return group.bilateral and sum(group.moving) == 1 and group.closures == width


def rows(stated: Conditions, friction: str, kappa=None):
    """Rows (width,) whose root is a solution; `friction` names one of `FRICTION_ROWS`. With `kappa`
    () > 0 a point of the central path: a b = kappa^2 for the pairs, and `central_rows`."""
    pairs = fischer_burmeister(*stated.pairs) if kappa is None else fischer_burmeister(*stated.pairs, kappa)
    if stated.cone is None:
        return jnp.concatenate([stated.equations, pairs])
    cone = cone_rows(stated.cone, friction) if kappa is None else central_rows(stated.cone, kappa)
    return jnp.concatenate([stated.equations, pairs, cone])


def cone_rows(cone: Cone, friction: str):
    """Rows (1 + k,) of maximum dissipation; a component that is not on gives y_i = 0."""
    bound, y, sigma, w, on, _ = cone
    found = FRICTION_ROWS[friction](bound, jnp.where(on, y, 0.0), sigma, w)
    return found + jnp.append(0.0, jnp.where(on, 0.0, y))


def central_rows(cone: Cone, kappa):
    """Rows (1 + k,) of sigma = sqrt(|w|^2 + kappa^2) and y sigma = -bound w."""
    bound, y, sigma, w, on, _ = cone
    w = jnp.where(on, w, 0.0)
    size = jnp.sqrt(inner(w, w) + kappa**2)
    return jnp.concatenate([(sigma - size)[None], jnp.where(on, y * size + bound * w, y)])


def held_rows(cone: Cone, sticking):
    """`friction.projection_rows` on the named side: w = 0, or y of length mu p_n along y - STEP
    w."""
    y = jnp.where(cone.on, cone.y, 0.0)
    along = y - STEP * cone.w
    size = length_of(along)
    slides = y - cone.bound * along / jnp.where(size > 0, size, 1.0)
    rows = jnp.where(sticking, STEP * cone.w, slides) + jnp.where(cone.on, 0.0, cone.y)
    return jnp.concatenate([(cone.sigma - length_of(cone.w))[None], rows])
