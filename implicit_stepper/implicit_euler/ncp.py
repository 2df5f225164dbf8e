"""The mixed NCP of one time step, Chakraborty (10)-(11): its unknowns, its residual, and the blocks
of its Jacobian.

Unknowns are z = [nu of every moving body; the unknowns of every constraint], dimensionless. Two
contacts of smooth bodies on one moving body give the paper's count, 6 + 2 x 11 = 28. Constraints
couple only through the velocities of their bodies: each is a function of its own unknowns and those
velocities, hence one small dense block of the Jacobian.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from shapes.shards import when

from ..constraints import conditions, incidence, kinematics
from ..constraints.conditions import Units
from ..model import bodies, loads
from ..model.bodies import State
from ..model.system import System, take
from ..model.units import Scales, scales
from ..solvers.blocks import Blocks, Kept, eliminated, no_factors
from ..solvers.elimination import signs
from ..solvers.left_over import Pattern
from ..solvers.linear import Dense, Inverse, apart
from ..solvers.newton import dense, largest, linearized

# unknowns up to which one dense matrix serves; beyond, blocks take less time to compile and to run
_DENSE = 150
_PUSHES = 1e-7  # of an impulse in its unit: open contacts have 1e-20
# of max |F_i|: rows of a constraint that pushes nothing, below which its block need not be renewed
_LAGS = 0.01
# |F_i| below which it need not be either: near the root all rows are as small; but what is half of
# the largest must be
_ROUGHLY, _MOST = 1e-10, 0.5
# in the derivative alone: by how much of (max |F_i|)^2, or of 1 if that is less, forces give way to
# speeds and bodies to forces, and by how much of max |F_i|, or of 1, bodies with faces bend away
# from their points
_GIVES, _BENDS = 1e-3, 1.0
# unknowns that blocks may leave: so many in all, and so many per body where that is more
_ALL_SLOTS, _SLOTS = 250, 20


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StepProblem:
    """Data of one step of h [s] from `state`. `momentum` (nb, 6 or 3): M(q) nu + p_app at its start
    [N s, N m s]; `references`, per group of contacts (nc, d): world directions that orient the
    tangents where friction has no direction, of which other constraints, after them, have none;
    `friction`: which of `friction.FRICTION_ROWS`; `dense`: whether its Jacobian is one matrix,
    whatever its size; `kappa` (): of a point of the central path, of which the step is the end."""

    friction: str = dataclasses.field(metadata={"static": True})
    dense: bool = dataclasses.field(metadata={"static": True})
    system: System
    state: State
    h: jax.Array
    momentum: jax.Array
    references: tuple[jax.Array, ...]
    scales: Scales
    kappa: jax.Array | None = None


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where things stand in z, and in F(z): static index arrays `velocity` (nb, 6 or 3) and, per
    group of constraints, `unknowns` (n, width)."""

    size: int
    velocity: np.ndarray
    unknowns: tuple[np.ndarray, ...]


def layout(system: System) -> Layout:
    """Indices of the unknowns; rows have the same ones."""
    width = 6 if system.dimension == 3 else 3
    velocity = np.arange(system.body_count * width).reshape(-1, width)
    start, unknowns = velocity.size, []
    for group in system.constraints:
        shape = (len(group.bodies), group.width)
        unknowns.append(start + np.arange(np.prod(shape)).reshape(shape))
        start += int(np.prod(shape))
    return Layout(start, velocity, tuple(unknowns))


def step_problem(
    system: System, state: State, h, references, friction: str = "projection", dense: bool = False
) -> StepProblem:
    """The NCP of a step of h [s] from `state`."""
    return StepProblem(
        friction, dense, system, state, h, loads.applied_momentum(system, state, h), references, scales(system, h)
    )


def unknown_scale(problem: StepProblem):
    """Units (N,) of the unknowns."""
    return jnp.concatenate([problem.scales.velocity.reshape(-1), *(u.reshape(-1) for u in problem.scales.unknowns)])


def round_off(problem: StepProblem):
    """What rounding alone leaves in F (): far away and fast bodies have fewer digits for gaps and
    momenta.

    Velocities are rounded to eps |nu| and points to eps |x|, which a gap measures in `Scales.gap`;
    in the plane, where angles count turns, also to eps times the angle, at the scene's length. The
    factor 16 is for the operations in between (measured on bodies 40 m away: 5; of angles, which
    have a quarter of it, on a double pendulum 64 rad on: 3).
    """
    fastest = jnp.max(jnp.abs(problem.state.velocity / problem.scales.velocity))
    away = jnp.max(jnp.abs(problem.state.position))
    if problem.system.dimension == 2:
        away = away + jnp.max(jnp.abs(problem.state.orientation)) * problem.scales.length / 4
    farthest = away / problem.scales.gap
    return 16 * jnp.finfo(float).eps * (fastest + farthest)


@jax.jit
def residual(problem: StepProblem, z):
    """F (N,) at z (N,), both dimensionless: Chakraborty (10)-(11) with complementarity as roots."""
    where, parts = layout(problem.system), []
    balances = over_bodies(problem, lambda f: f, take(z, where.velocity))
    for g, own in enumerate(_over_constraints(problem, where, lambda f: f, z)):
        rows, pushes = _parted(problem, where, g, own[..., None])
        balances = balances + pushes[..., 0]
        parts.append(rows.reshape(-1))
    return jnp.concatenate([balances.reshape(-1), *parts])


def linearize(problem: StepProblem, z):
    """F (N,) and dF/dz (N, N), assembled from one forward-mode block per body and per
    constraint."""
    where = layout(problem.system)
    F, block = over_bodies(problem, linearized, take(z, where.velocity))
    top = apart(block)
    top = jnp.concatenate([F[..., None], top, jnp.zeros((*F.shape, where.size - top.shape[2]))], axis=2)
    all_rows = []
    for g, (own, block) in enumerate(_over_constraints(problem, where, linearized, z)):
        size, (n, width) = own.shape[1], where.unknowns[g].shape
        by_own, by_velocities = jnp.split(block, [width], axis=2)
        columns = [jnp.zeros((n, size, index.size)) for index in where.unknowns]
        columns[g] = apart(by_own)
        moving = incidence.by_body(incidence.shares(problem.system, problem.system.constraints[g]), by_velocities)
        rows, pushes = _parted(problem, where, g, jnp.concatenate([own[..., None], moving, *columns], axis=2))
        top = top + pushes
        all_rows.append(rows.reshape(n * width, -1))
    both = jnp.concatenate([top.reshape(-1, where.size + 1), *all_rows])
    return both[:, 0], both[:, 1:]


def blocks(problem: StepProblem, z, last: Blocks, accepts=lambda F: True, enough=-1.0) -> tuple[jax.Array, Blocks]:
    """F (N,) and dF/dz by the blocks of bodies and constraints. Those of constraints that push
    nothing and whose rows are small beside the largest may be those of the `last` Jacobian: no
    other row depends on them; and where max |F_i| <= `enough` (), is no number, or z is refused, it
    is all of the last one, see `chord.newton_again`.

    Far from a root, where there are bodies with faces, it is that of bodies that give way and bend
    a little: where faces press, forces and points are not unique, and corrections by the exact one
    would throw them far."""
    where, parts, pushing = layout(problem.system), [], []
    arguments = list(_arguments(problem, where, z))
    balances, nodes = over_bodies(problem, linearized, take(z, where.velocity))
    for g, own in enumerate(arguments):
        rows, pushes = jnp.split(_of_constraints(problem, lambda f: f, own), [where.unknowns[g].shape[1]], axis=1)
        balances = balances + _on_bodies(problem, g, pushes[..., None])[..., 0]
        pushing.append(jnp.max(jnp.abs(pushes), axis=1) > _PUSHES)
        parts.append(rows)
    F = jnp.concatenate([balances.reshape(-1), *(rows.reshape(-1) for rows in parts)])
    size = largest(F)
    due = jnp.maximum(_LAGS * size, jnp.minimum(_ROUGHLY, _MOST * size))
    wanted = [pushes | ~(jnp.max(jnp.abs(rows), axis=1) < due) for pushes, rows in zip(pushing, parts, strict=True)]

    soft, exact = jnp.minimum(size, 1.0), all(group.pair.smooth for group in problem.system.groups)

    def of_group(own, more, numbers):
        own, (gives, bends) = jax.tree.map(functools.partial(take, numbers=numbers), own), more
        block = _of_constraints(problem, linearized, own)[1]
        return block if exact else block + soft**2 * gives + soft * bends

    nodes = nodes if exact else nodes + soft**2 * _GIVES * jnp.eye(nodes.shape[-1])
    links = [functools.partial(of_group, *both) for both in zip(arguments, _softness(problem), strict=True)]
    renewed = accepts(F) & ~(size <= enough) & (size < jnp.inf)
    return F, when(renewed, lambda: eliminated(last, nodes, links, wanted), last)


def _softness(problem: StepProblem) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per group, what the derivative of a block has in addition where max |F_i| is 1 or more, as
    forces give way and as bodies bend."""
    system, links = problem.system, pattern(problem.system, problem.friction).links
    width = problem.state.velocity.shape[1]
    sizes = [group.width + sum(group.moving) * width for group in system.constraints]
    bends = [_BENDS * group.pair.curvatures(size) for group, size in zip(system.groups, sizes, strict=False)]
    bends += [np.zeros((size, size)) for size in sizes[len(bends) :]]
    return [(_GIVES * signs(own, size), bend) for own, size, bend in zip(links, sizes, bends, strict=True)]


def system_of(problem: StepProblem, z, last: Dense | Blocks, accepts: Callable, enough) -> tuple[jax.Array, Dense | Blocks]:
    """F (N,) and dF/dz as a linear system, see `chord.newton_again`: dense where there are few
    unknowns, else with what the `last` one had."""
    if in_blocks(problem.system, problem.dense):
        return blocks(problem, z, last, accepts, enough)
    return dense(functools.partial(linearize, problem))(z, last, accepts, enough)


def in_blocks(system: System, dense: bool = False) -> bool:
    """Whether the Jacobian of a step stays in blocks."""
    return not dense and bool(system.constraints) and system.unknown_count > _DENSE


def nothing_kept(system: System, friction: str, dense: bool = False) -> Inverse | Kept:
    """What `newton_again` has before the first step."""
    if in_blocks(system, dense):
        return no_factors(pattern(system, friction))
    return Inverse(jnp.zeros((system.unknown_count, system.unknown_count)))


def pattern(system: System, friction: str) -> Pattern:
    """Which blocks stand where."""
    links, most, sign = [], 0, 1.0 if friction == "projection" else -1.0
    for group in system.constraints:
        nodes = tuple(tuple(b for b, moves in zip(pair, group.moving, strict=True) if moves) for pair in group.bodies)
        links.append(group.links(nodes, sign))
        most += len(nodes) * group.pressing()
    slots = min(most, max(_ALL_SLOTS, _SLOTS * system.body_count))
    return Pattern(system.body_count, 6 if system.dimension == 3 else 3, tuple(links), slots)


def _parted(problem: StepProblem, where: Layout, g: int, own):
    """Of a group's (n, outputs, k): rows (n, width, k), and the sum (nb, 6 or 3, k) of the impulses
    on every body."""
    rows, pushes = jnp.split(own, [where.unknowns[g].shape[1]], axis=1)
    return rows, _on_bodies(problem, g, pushes)


def _on_bodies(problem: StepProblem, g: int, pushes):
    """The sum (nb, 6 or 3, k) of the impulses (n, acting, k) of a group on every body."""
    share = incidence.shares(problem.system, problem.system.constraints[g])
    pushes = pushes.reshape(*share.shape[:2], 1, -1, pushes.shape[2])
    return jnp.sum(share[..., None, None] * pushes, axis=(0, 1))


def over_bodies(problem: StepProblem, transform: Callable, V):
    """`transform` of each body's momentum balance, without constraints, as a function of its own
    velocity, of V (nb, 6 or 3), dimensionless."""
    system, state, units = problem.system, problem.state, problem.scales

    def one(nu, unit, momentum_unit, mass, inertia, position, orientation, momentum):
        def balance(nu):
            _, turned = bodies.advance(position, orientation, nu * unit, problem.h)
            return (bodies.momentum(mass, inertia, turned, nu * unit) - momentum) / momentum_unit

        return transform(balance)(nu)

    return jax.vmap(one)(
        V, units.velocity, units.momentum, system.mass, system.inertia,
        state.position, state.orientation, problem.momentum,
    )  # fmt: skip


@functools.partial(jax.jit, static_argnames="friction")  # one trace for residuals and Jacobians
def rows_and_impulses(member, units: Units, momentum_units, reference, starts, time, h, friction: str, physical, kappa=None):
    """Rows (width,) of one constraint, a member of its group, and its impulses (acting,) on its
    moving bodies in `momentum_units` (acting,), at the end of a step of h [s] at `time` [s], at the
    `physical` unknowns (width + acting,) of its block: its own, and the velocities of its moving
    bodies, which `starts`, two motions, are where the step begins."""
    parts = iter(jnp.split(physical[member.width :], sum(member.moving)))
    motions = [
        kinematics.moved(start, next(parts), h) if moves else start
        for start, moves in zip(starts, member.moving, strict=True)
    ]
    stated, wrenches = member.conditions(physical[: member.width], reference, units, *motions, time, h)
    on_moving = [w for w, moves in zip(wrenches, member.moving, strict=True) if moves]
    return jnp.concatenate([conditions.rows(stated, friction, kappa), -jnp.concatenate(on_moving) / momentum_units])


def _over_constraints(problem: StepProblem, where: Layout, transform: Callable, z):
    """Per group, `transform` of each constraint's rows and of its impulses on its moving bodies, as
    a function of the unknowns in its block."""
    return [_of_constraints(problem, transform, own) for own in _arguments(problem, where, z)]


def _arguments(problem: StepProblem, where: Layout, z):
    """Per group, what `_of_constraints` needs, with the first axis the constraints."""
    units = problem.scales

    def of_moving(group, values):
        sides = [np.array(group.bodies)[:, i] for i, moves in enumerate(group.moving) if moves]
        return jnp.concatenate([take(values, numbers) for numbers in sides], axis=1)

    for g, group in enumerate(problem.system.constraints):
        index = where.unknowns[g]
        yield (
            jnp.concatenate([take(z, index), of_moving(group, take(z, where.velocity))], axis=1),
            jnp.concatenate([units.unknowns[g], of_moving(group, units.velocity)], axis=1),
            units.impulse[g],
            of_moving(group, units.momentum),
            problem.references[g] if g < len(problem.references) else None,
            group,
            kinematics.motions_of(problem.system, problem.state, group),
        )


def _of_constraints(problem: StepProblem, transform: Callable, arguments):
    """`_over_constraints` of those with these `arguments`."""
    units, time = problem.scales, problem.state.time + problem.h

    def one(block, unit, impulse, momentum_units, reference, member, starts):
        measured = Units(units.length, units.gap, units.speed, impulse)
        own = functools.partial(
            rows_and_impulses, member, measured, momentum_units, reference, starts, time, problem.h, problem.friction
        )
        return transform(lambda block: own(block * unit, kappa=problem.kappa))(block)

    return jax.vmap(one)(*arguments)
