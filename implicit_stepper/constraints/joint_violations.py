"""What a record of joints and poses lacks of being a solution: closures, rates and reactions.

Closures of the library are written a second time, with points and axes in the inertial frame; G is
taken forward, column by column, where the solver goes backward from multipliers.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.small_algebra import inner, product

from ..model.bodies import State
from ..model.records import Joints
from ..model.system import System, in_joint_order, take
from ..model.units import Scales
from . import certificate_mechanics as mechanics
from . import joint_frames, kinematics, rubbing_violations, turn_violations
from .certificate_mechanics import beyond_rounding
from .joint import JointGroup
from .pair_loads import PairLoadGroup
from .prescribed import Follows
from .restitution import TOUCHING

_OPEN = 100.0  # the rate of a limit is asked for, by `joint_limits`, where its gap is below this share of it


class Checked(NamedTuple):
    """`violations` by name, each (nj,); what the recorded impulses and etas give the moving bodies,
    `given` and `shifted` (nb, 6 or 3), and the magnitudes of the former, `passing`; the
    `work` () [J] of the impulses at the velocities."""

    violations: dict[str, jax.Array]
    given: jax.Array
    shifted: jax.Array
    passing: jax.Array
    work: jax.Array


def check(
    system: System, units: Scales, at: State, record: Joints, h, sums: bool = False, before: State | None = None
) -> Checked | None:
    """Of all joints in the state `at`, whose `record` has impulses in it; with etas, of a stage.
    None without joints.

    "closure" holds g = 0, the rate of a constraint on velocities, or the force of an elastic joint
    over h [s], and what the record says of g and of coordinates; "closure rate", asked for at
    stages and after impacts, that G V + g_t = 0; "reaction", that the impulses are G^T times the
    multipliers. `sums`: impulses are those of several impacts with velocities of their own.
    `before`: the state before an impact, whose coefficients of friction slips decide, and not the
    record, in which are those of the step that the impact ends."""
    if not system.joints:
        return None
    orientations = jnp.concatenate([at.orientation, system.fixed_orientation])
    every = mechanics.everywhere(system, at.position, at.orientation, at.velocity)
    if before is not None:
        earlier = mechanics.everywhere(system, before.position, before.orientation, before.velocity).velocity
    work, parts, etas = jnp.zeros(()), [], []
    for g, group in enumerate(system.joints, start=len(system.groups)):
        own = jax.tree.map(lambda a, group=group: take(a, group.numbers), record)
        numbers = np.array(group.bodies).T
        sides = [(*(take(part, n) for part in every), take(orientations, n)) for n in numbers]
        came = None if before is None else [take(earlier, n) for n in numbers]
        one = functools.partial(_of_one, system, units, (at.time, h), sums)
        found, eta_1, eta_2 = jax.vmap(one)(group, own, units.impulse[g], came, *sides)
        etas.append(dataclasses.replace(own, impulse_1=eta_1, impulse_2=eta_2))
        work = work + sum(jnp.sum(i * side[2]) for i, side in zip((own.impulse_1, own.impulse_2), sides, strict=True))
        parts.append(found)
    joined, shifts = (
        jax.tree.map(lambda *of: in_joint_order(system, jnp.concatenate(of)), *found) for found in (parts, etas)
    )
    magnitudes = jax.tree.map(jnp.abs, record)
    return Checked(joined, given(system, record), given(system, shifts), given(system, magnitudes), work)


def _of_one(
    system: System, units: Scales, clock, sums: bool, member: JointGroup, record: Joints, impulse, came, side_1, side_2
):
    """Violations () of one joint, and the wrenches of its eta on both bodies; a side is (position,
    rotation, velocity, orientation); `came`, of an impact, are both velocities before it."""
    (time, h), poses = clock, [(position, orientation) for position, _, _, orientation in (side_1, side_2)]
    velocities, r = [side[2] for side in (side_1, side_2)], member.closures
    lengths = jnp.where(np.array(member.angles, bool), units.length, 1.0)
    every, rates, by_1, by_2 = derivatives(member, poses, velocities, time)
    g, rate, acting = every[:r], rates[:r], record.multipliers[: every.size]
    multipliers, still = acting[:r], jnp.zeros_like(velocities[0])
    size = jnp.maximum(impulse, jnp.max(jnp.abs(multipliers / lengths), initial=0.0))
    off, arms = reaction(system, units, record, by_1 @ acting, by_2 @ acting, by_1, by_2)
    far = sum(jnp.sum(jnp.abs(position)) for position, _ in poses) + units.length
    fast = sum(jnp.sum(jnp.abs(velocity)) for velocity in velocities) * arms * units.length
    open_ = _open(units, member, _defect(member, side_1, side_2, g, time) * lengths, rate * lengths, far, fast)
    if member.unilateral:
        acts = 0.0 * multipliers if sums else multipliers
        open_, rate = _limit(units, lengths, acts, g, rate, record.eta, size, far, h)
    if member.elastic:
        bodies = [(*pose, velocity) for pose, velocity in zip(poses, velocities, strict=True)]
        apart = _off_force(member, multipliers, g, rate, bodies, (time, h), far, fast)
        open_, rate = jnp.max(apart / lengths) / size, 0.0 * rate
    telling = told(units, member, record, g, lengths, poses, velocities, far, fast)
    if record.eta is None:  # of stages and impacts, velocities do not tell how bodies moved
        moved = h * (velocities[0] @ by_1 + velocities[1] @ by_2)[:r]
        telling = jnp.maximum(telling, turn_violations.skips(member, moved, time - h, h, time))
    measures = size, units.speed, fast, h
    law = 0.0
    if every.size > r:
        pressed = rubbing_violations.pressed(member, by_2[:, :r] @ multipliers, side_1, side_2)
        at_end = member, pressed, acting[r:], rates[r:], measures
        if came is None or member.mu_s is None:
            law = rubbing_violations.lacks(*at_end, record.mu)
        else:
            law = rubbing_violations.lacks_in_impact(*at_end, derivatives(member, poses, came, time)[1][r:])
    found = {
        "joint friction": jnp.asarray(law),
        "closure": jnp.maximum(open_, telling),
        "reaction": off / size,
    }
    if record.eta is None:
        return found, still, still
    found["closure rate"] = jnp.max(beyond_rounding(rate * lengths, fast), initial=0.0) / units.speed
    if member.elastic:  # no constraint that an eta could keep
        found["closure rate"] = jnp.max(jnp.abs(record.eta[:r] / lengths)) / impulse
    return found, by_1[:, :r] @ record.eta[:r], by_2[:, :r] @ record.eta[:r]


def derivatives(member: JointGroup, poses, velocities, time):
    """Of one joint: equations (r,), their rates (r,), and G^T (w, r) of either body by columns."""

    def equations(position_1, orientation_1, position_2, orientation_2, t):
        return member.equations((position_1, orientation_1), (position_2, orientation_2), t)

    def along(velocity_1, velocity_2, clock):
        """The change of g as the bodies move so, and the clock."""
        tangents = [
            part
            for (position, orientation), velocity in zip(poses, (velocity_1, velocity_2), strict=True)
            for part in (velocity[: position.size], mechanics.orientation_rate(orientation, velocity[position.size :]))
        ]
        return jax.jvp(equations, (*poses[0], *poses[1], time), (*tangents, clock))

    w, none = velocities[0].size, jnp.zeros(())
    one, still = jnp.eye(w), jnp.zeros(w)
    by_1 = jax.vmap(lambda move: along(move, still, none)[1])(one)
    by_2 = jax.vmap(lambda move: along(still, move, none)[1])(one)
    return *along(*velocities, jnp.ones(())), by_1, by_2


def reaction(system: System, units: Scales, record: Joints, on_1, on_2, by_1, by_2):
    """How far () [N s] the impulses of a joint's `record` are from what G^T gives of its
    multipliers, `on_1` and `on_2`, relative to the arms in G^T, `by_1` and `by_2`; and these ()."""
    levers = jnp.concatenate([jnp.ones(system.dimension), jnp.full(on_1.size - system.dimension, 1 / units.length)])
    arms = 1 + sum(jnp.max(jnp.abs(by)) for by in (by_1, by_2))
    off = jnp.stack([record.impulse_1 - on_1, record.impulse_2 - on_2])
    return jnp.max(jnp.abs(off) * levers) / arms, arms


def told(units: Scales, member: JointGroup, record: Joints, g, lengths, poses, velocities, far, fast):
    """How far () what the `record` tells of a joint's closure and coordinates is from `g` (r,) and
    the coordinates of these poses and velocities."""
    closed = jnp.max(beyond_rounding((record.closure[: g.size] - g) * lengths, far), initial=0.0)
    return jnp.maximum(closed / units.gap, _coordinates_told(units, member, record, poses, velocities, far, fast))


def _off_force(member: JointGroup, multipliers, g, rate, bodies, when, far, fast):
    """How far (r,) the impulses of an elastic joint are from its force over h, beyond rounding: by
    stiffness and damping, or by a load of the `bodies`, (position, orientation, velocity)."""
    time, h = when
    if isinstance(member, PairLoadGroup):
        return beyond_rounding(multipliers - h * member.closure.load(*bodies, time), jnp.max(jnp.abs(multipliers)))
    # digits of g and of its rate are those of the places and speeds that they are differences of
    lost = (member.stiffness * far + member.damping * fast) * h
    return beyond_rounding(multipliers + h * (member.stiffness * g + member.damping * rate), lost)


def _open(units: Scales, member: JointGroup, g, rate, far, fast):
    """How far () the closure `g` (r,) is open, or the `rate` (r,) of what holds velocities."""
    if member.holds_velocities:
        return jnp.max(beyond_rounding(rate, fast), initial=0.0) / units.speed
    return jnp.max(beyond_rounding(g, far), initial=0.0) / units.gap


def limit_speeds(system: System, before: State) -> list[jax.Array]:
    """The fastest rate () [m/s] of the limits of each group, in the state `before` an impact."""
    found = []
    for group in (own for own in system.joints if own.unilateral):

        def rates(member, *motions):
            poses = [(own.position, own.orientation) for own in motions]
            return derivatives(member, poses, [own.velocity for own in motions], before.time)[1]

        each = jax.vmap(rates)(group, *kinematics.motions_of(system, before, group))
        found.append(jnp.max(jnp.abs(each * group.lengths(system.length))))
    return found


def _limit(units: Scales, lengths, p, g, rate, eta, size, far, h):
    """Violations () of 0 <= p + eta _|_ g >= 0, beyond rounding, and what of the `rate` (1,) of an
    active limit is not 0: where it acts, or parts faster than asked for, see `joint_limits`."""
    p, gap = (p / lengths)[0], (g * lengths)[0]
    beyond = beyond_rounding(jnp.minimum(gap, 0.0), far) / units.gap
    total = p if eta is None else p + eta[0] / lengths[0]
    apart = jnp.minimum(jnp.abs(total) / size, beyond_rounding(gap, far) / units.gap)
    opens = jnp.maximum((rate * lengths)[0] - _OPEN * jnp.abs(gap) / jnp.where(h > 0, h, 1.0), 0.0)
    # its violation is told as a rate: of a p that acts as much of it as p is in its unit, and of
    # one that pulls in an impact, of which no closure is asked
    closes = jnp.where((h > 0) | (gap > TOUCHING * units.length), 0.0, jnp.maximum(-(rate * lengths)[0], 0.0))
    pulls = jnp.where(h > 0, 0.0, jnp.maximum(-p, 0.0) / size * units.speed)
    left = jnp.maximum(jnp.minimum(jnp.abs(p) / size * units.speed, opens), jnp.maximum(closes, pulls))
    return jnp.maximum(jnp.maximum(beyond, apart), jnp.maximum(-p, 0.0) / size), (left / lengths)[None] * jnp.ones(1)


def _coordinates_told(units: Scales, member: JointGroup, record: Joints, poses, velocities, far, fast):
    """How far () the coordinates and rates that the record tells of are from those of the poses,
    with mechanics' own rates of orientations."""
    if member.coordinates is None:
        return jnp.zeros(())

    def coordinates(position_1, orientation_1, position_2, orientation_2):
        return member.coordinates(member.parameters, (position_1, orientation_1), (position_2, orientation_2))

    tangents = [
        part
        for (position, orientation), velocity in zip(poses, velocities, strict=True)
        for part in (velocity[: position.size], mechanics.orientation_rate(orientation, velocity[position.size :]))
    ]
    q, rates = jax.jvp(coordinates, (*poses[0], *poses[1]), tuple(tangents))
    lengths = jnp.where(np.array(member.free_angles, bool), units.length, 1.0)
    off = beyond_rounding((record.coordinate[: q.size] - q) * lengths, far) / units.gap
    changes = beyond_rounding((record.rate[: q.size] - rates) * lengths, fast) / units.speed
    return jnp.max(jnp.concatenate([off, changes]), initial=0.0)


def given(system: System, record: Joints):
    """What (nb, 6 or 3) the impulses of a `record` give the moving bodies."""
    count, total = system.body_count, system.body_count + len(system.fixed_position)
    numbers = in_joint_order(system, np.concatenate([np.array(group.bodies) for group in system.joints]))
    share = np.eye(total)[numbers.T.reshape(-1)][:, :count, None]
    return jnp.sum(share * jnp.concatenate([record.impulse_1, record.impulse_2])[:, None], axis=0)


def impact(system: System, units: Scales, before: State, after: State, record: Joints, sums: bool) -> dict[str, jax.Array]:
    """Violations of the `record` of an impact by name, each (nj,): "reaction", and "closure rate"
    and "joint friction" with the velocities `after` it, the latter of single impacts."""
    record = dataclasses.replace(record, eta=jnp.zeros_like(record.closure))
    found = check(system, units, after, record, 0.0, sums, before).violations
    names = ("closure rate", "reaction") if sums else ("closure rate", "reaction", "joint friction")
    return {name: found[name] for name in names}


def _defect(member: JointGroup, side_1, side_2, g, time):
    """The closure (r,) of a joint of the library, to signs and order, written in the inertial
    frame; of others g itself, of what moves as it is told with what its turns do not tell."""
    if isinstance(member.closure, Follows):
        d = len(side_2[0])
        return g + np.repeat([0.0, 1.0], [d, g.size - d]) * _far_off(member.closure.turn(time, d), side_2[1])
    of_library = _DEFECTS.get(member.closure)
    if of_library is None:
        return g
    points, frames = [], []
    for (position, turn, *_), number in ((side_1, 1), (side_2, 2)):
        points.append(position + inner(turn, member.parameters[f"point_{number}"]))
        frames.append(product(turn, member.parameters[f"frame_{number}"]).T)  # rows x, y, z
    return of_library(member.parameters, points[1] - points[0], *frames)


def _apart(frame, away):
    """What of `away` is across the x axis of the frame: (d - 1,)."""
    rest = away - frame[0] * inner(frame[0], away)
    return inner(frame[1:], rest)


def _tilt(frame_1, frame_2):
    """x_1 x x_2 along y_1 and z_1: 0 where they are parallel; beyond 1 where opposite."""
    across = mechanics.across(frame_1[0], frame_2[0])
    return inner(frame_1[1:], across) + jnp.where(inner(frame_1[0], frame_2[0]) < 0, 2.0, 0.0)


def _turn(frame_1, frame_2):
    """Half the sum of all a_1 x a_2: the sine of the angle between the frames, along the axis of
    their rotation; more than 1 beyond a quarter of a turn."""
    if len(frame_1) == 2:
        sine = (frame_1[0, 0] * frame_2[0, 1] - frame_1[0, 1] * frame_2[0, 0])[None]
    else:
        sine = inner(frame_1, sum(mechanics.across(a, b) for a, b in zip(frame_1, frame_2, strict=True))) / 2
    return sine + _far_off(frame_1, frame_2)


def _far_off(frame_1, frame_2):
    """2 () beyond a quarter of a turn between frames, as the sine is 0 at half a turn again: the
    sum of their products is 2 cos in the plane, and 1 + 2 cos in space."""
    return jnp.where(jnp.sum(frame_1 * frame_2) < len(frame_1) - 2, 2.0, 0.0)


def _ahead(lead, away, frame_1, frame_2):
    """By how much y_2 is turned about the axis beyond the angle that x_1 . away gives."""
    angle = 2 * jnp.pi * inner(frame_1[0], away) / lead
    wanted = jnp.cos(angle) * frame_1[1] + jnp.sin(angle) * frame_1[2]
    return inner(frame_1[0], mechanics.across(wanted, frame_2[1]))


_DEFECTS = {
    joint_frames.ball_joint: lambda p, away, f_1, f_2: away,
    joint_frames.hinge: lambda p, away, f_1, f_2: jnp.concatenate([away, _tilt(f_1, f_2)]),
    joint_frames.slider: lambda p, away, f_1, f_2: jnp.concatenate([_apart(f_1, away), _turn(f_1, f_2)]),
    joint_frames.cylindrical: lambda p, away, f_1, f_2: jnp.concatenate([_apart(f_1, away), _tilt(f_1, f_2)]),
    joint_frames.screw: lambda p, away, f_1, f_2: jnp.append(
        jnp.concatenate([_apart(f_1, away), _tilt(f_1, f_2)]), _ahead(p["lead"], away, f_1, f_2)
    ),
    joint_frames.planar: lambda p, away, f_1, f_2: jnp.append(inner(f_1[0], away), _tilt(f_1, f_2)),
    joint_frames.universal: lambda p, away, f_1, f_2: jnp.append(away, inner(f_1[0], f_2[0])),
    joint_frames.fixed: lambda p, away, f_1, f_2: jnp.concatenate([away, _turn(f_1, f_2)]),
    joint_frames.distance: lambda p, away, f_1, f_2: (mechanics.length(away) - p["length"])[None],
}
