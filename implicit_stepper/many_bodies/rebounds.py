"""Rebounds of many bodies: what lands in a step parts at its end.

A step of the scheme lands what it stops: at its end these bodies touch. Those contacts with a
restitution part then, all at once, in an impact of no length. Together they obey the law,

    M V+ = M V + sum_c W_c^T P_c,     0 <= P_n _|_ v_n+ + e v_n- >= 0,     and friction with V+

by Newton, with V as the bodies had it without the impulses of the step at what lands, the sums P of
these and of those of the impact, and v_n- the speed at which the bodies would have met by
themselves: in the part of a step that ends as their gap closes, under the loads where nothing but
joints holds them. So it does not matter how far the step has stopped them. By Poisson the impulses
P_c of compression are those with v_n+ >= 0, and 0 <= P_n - e P_c _|_ v_n+ >= 0 after them, without
what loads have added since the bodies met.

Other contacts that touch part no slower than they do, or not at all, by what the impact adds to
their impulses. Speeds of rebound below `restitution.SLIGHT` are none, by which repeated rebounds
end.

Newton's law with friction raises energy where bodies are wedged (Kane and Levinson 1985). All e of
an island in which it does are halved until it does not, as are those of an impact that has no root:
what parts has the largest of e, e / 2, e / 4, ... with which the law holds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ..constraints.restitution import SLIGHT, TOUCHING
from ..model import loads
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System
from ..runtime.compilation import jit
from .catalog import Catalog
from .impact_joints import Answers, answers, pushed, velocity_rows
from .impact_root import Law, Root, root
from .landings import landings
from .step import everywhere

HALVINGS = 10  # of e, in an impact that would raise energy
_NO_SLIP = 1e-10  # of the fastest approach: a slip that is none, as a certificate allows
_ROUNDED = 1e-12  # of an energy: what rounding makes of one that is kept


class Rebound(NamedTuple):
    """An impact after a step: the velocities (nb, 6 or 3) after it; what it adds to the impulses
    (m,) [N s] and (m, k) of the step's m contacts, which `landed` (m,), and their coefficients of
    friction `mu` (m,), None where all have one; the `reactions` (R,) of rigid joints and the
    impulses of all `limits` (l,) [N s], in lengths; how often e was `halved` at most, how many
    Jacobians it took, the largest |F_i| left, and whether it `converged`."""

    velocity: np.ndarray
    normal_impulse: np.ndarray
    friction_impulse: np.ndarray
    landed: np.ndarray
    mu: np.ndarray | None
    reactions: np.ndarray
    limits: np.ndarray
    halved: int
    iterations: int
    residual: float
    converged: bool


def rebound(
    catalog: Catalog,
    system: System,
    before: State,
    end: State,
    pairs,
    contacts: Contacts,
    h: float,
    begun: float,
    first: bool = False,
) -> Rebound | None:
    """The impact at the `end` of a step of h [s] from the state `before`, of which `pairs` (m, 2)
    of parts have the records `contacts`; None where nothing rebounds. Where bodies on faces are
    hit, it is none if the step has stopped less than the share `begun` of what lands: that tells
    where in their faces they press. In the `first` step what touches as it begins may strike."""
    impact, (_, laws) = _impact(catalog, system, before, end, pairs, contacts, h, first), catalog.ordered(pairs)
    if impact is None:
        return None
    by_law, kinetic = _by_impulses if catalog.laws.of_impulses else _by_speeds, catalog.laws.mu[laws[impact.within]]
    kinetic, halved = np.pad(kinetic, (0, len(impact.answers.limits))), np.zeros(len(impact.islands), int)
    while True:
        found, mu = _held(impact, kinetic, functools.partial(by_law, some=0.5 ** halved[impact.of]))
        less = (halved < HALVINGS) & (impact.raised(found) if found.converged else True)
        if not np.any(less):
            break
        halved += less
    within, more, limits = impact.within, found.impulses - impact.known, np.zeros(impact.answers.count)
    count, e, landed = len(within), catalog.laws.e[laws[within]], np.zeros(len(pairs), bool)
    normal, friction = np.zeros(len(pairs)), np.zeros((len(pairs), e.shape[1]))
    normal[within], friction[within], landed[within] = more[:count, 0], e * more[:count, 1:], impact.rebounds[:count]
    limits[impact.answers.limits] = more[count:, 0]
    converged = found.converged and not (impact.stands and impact.stopped < begun)
    coefficients = None if contacts.mu is None else np.array(contacts.mu)
    if coefficients is not None:
        coefficients[within] = mu[:count]
    numbers = int(np.max(halved)), found.iterations, found.residual, converged
    return Rebound(found.velocity, normal, friction, landed, coefficients, impact.reactions(more), limits, *numbers)


def _impact(
    catalog: Catalog, system: System, before: State, end: State, pairs, contacts: Contacts, h: float, first: bool
) -> _Impact | None:
    """The impact, in which compliant contacts have no part, or None where nothing rebounds."""
    _, laws = catalog.ordered(pairs)
    share, sides = catalog.laws.restitution[laws], catalog.body[pairs]
    motions, start = (everywhere(system, before), everywhere(system, end)), np.asarray(before.velocity)
    on, scale = rows(contacts, motions[1].position[sides]), (float(system.length), float(system.acceleration))
    begins, sharp = normal_speeds(on, sides, start), catalog.sharp(pairs)
    landed, gaps = landings(sharp, contacts, sides, motions, begins, scale, h, first)
    landed &= share > 0
    if not np.any(landed):
        return None
    (linked, mass), known, ended = answers(system, end), np.asarray(_momenta(system, before, h)), np.asarray(end.velocity)
    parts = linked.answering(sides, on[:, :, :1])
    landed &= parts
    free = linked.kept(np.linalg.solve(mass, known[..., None])[..., 0], ended)
    brought, falls = np.maximum(*(_energies(mass, velocity) for velocity in (start, free))), mass @ (free - start)[..., None]
    brought = brought + linked.fastest(ended) * np.sum(np.abs(falls), axis=(1, 2))
    closed = np.asarray(contacts.gap) <= TOUCHING * scale[0]
    # rounding leaves impulses at open contacts, which hold nothing
    held = np.isin(np.arange(len(free)), sides[closed & (np.asarray(contacts.normal_impulse) > 0) & ~landed])
    falls, free = free - start, linked.kept(np.where(held[:, None], start, free), ended)
    alone, ends = (normal_speeds(on, sides, velocity) for velocity in (free, ended))
    met = meeting_speeds(gaps, begins, alone, h)
    slight = -share * met <= SLIGHT * np.sqrt(scale[0] * scale[1])
    rebounds = landed & (~slight | (catalog.laws.of_impulses & (alone >= 0)))
    if not np.any(rebounds):
        return None
    islands = linked.islands(sides, closed | (np.asarray(contacts.normal_impulse) > 0))
    brought += linked.worked(islands, *pushed(system, sides, on, contacts, ~rebounds), ended)
    own = islands[linked.moving(sides)]
    closed &= parts & (catalog.laws.compliance[laws] == 0)
    within = np.flatnonzero(closed & np.isin(own, own[rebounds]))
    e = catalog.laws.e[laws[within]]
    scaled = on[within] * np.concatenate([np.ones((len(e), 1)), e], axis=1)[:, None, :, None]
    # what slips neither before nor in the step may stick in the impact too
    mu = catalog.laws.mu[laws] if contacts.mu is None else np.asarray(contacts.mu)
    law = Law(sides[within], scaled, np.minimum(ends[within], 0.0), np.zeros(len(e)), mu[within])
    of_step = _impulses(contacts, within, e)
    stands = bool(np.any((sharp & ~rebounds)[within] & (of_step[:, 0] > 0)))
    more = len(linked.limits)  # which touch and do not rebound
    law = Law(*(np.concatenate(both) for both in zip(law, linked.limits_as_law(), strict=True)))
    of_contacts = (values[within] for values in (rebounds, share, ends, alone, met))
    rebounds, share, *speeds = (np.pad(values, (0, more)) for values in of_contacts)
    of_step, bodies = np.pad(of_step, ((0, more), (0, 0))), (linked, mass, ended, brought)
    return _Impact(law, within, rebounds, share, islands, stands, *bodies, of_step, *speeds)


class _Impact(NamedTuple):
    """The `law` of k contacts without what rebounds, those `within` islands in which something
    `rebounds` (k,), with `shares` (k,) e, and after them limits of joints; the `islands` as
    `Answers` numbers them, and whether a body `stands` there on a face or an edge; of bodies with
    `answers`, the matrices `mass` (nb, w, w) and the `velocity` (nb, w) at the end of the step,
    and energies (nb,) [J] `brought` to it. The step took the impulses `of_step` (k, 1 + j); speeds
    v_n (k,) [m/s] at its `ends`, by loads `alone`, and with which bodies `met`."""

    law: Law
    within: np.ndarray
    rebounds: np.ndarray
    shares: np.ndarray
    islands: np.ndarray
    stands: bool
    answers: Answers
    mass: np.ndarray
    velocity: np.ndarray
    brought: np.ndarray
    of_step: np.ndarray
    ends: np.ndarray
    alone: np.ndarray
    met: np.ndarray

    @property
    def of(self) -> np.ndarray:
        """The islands (k,) of the contacts."""
        return self.islands[self.answers.moving(self.law.sides)]

    def raised(self, found: Root) -> np.ndarray:
        """In which islands (nb + 1,) bodies have more energy after an impact than they brought, and
        than drives gave them."""
        count = len(self.islands)
        work = -np.sum(found.impulses * _speeds(self.law.on, self.law.sides, self.answers.driven(self.velocity)), axis=1)
        energies = (np.append(own, 0.0) for own in (_energies(self.mass, found.velocity), self.brought))
        after, before = (np.bincount(self.islands, own, count) for own in energies)
        before += np.bincount(self.of, work, count)
        return (after > (1 + _ROUNDED) * before) & np.isin(np.arange(count), self.of)

    @property
    def stopped(self) -> float:
        """The least share of its approach that the step has stopped of what rebounds."""
        came = self.rebounds & (self.alone < 0)
        return float(np.min(1 - self.ends[came] / self.alone[came], initial=1.0))

    @property
    def known(self) -> np.ndarray:
        """The impulses (k, 1 + j) of the step that belong to the sums of which the law is."""
        return np.where(self.rebounds[:, None], self.of_step, 0.0)

    def reactions(self, impulses) -> np.ndarray:
        """Those (R,) [N s], in lengths, of rigid joints to `impulses` (k, 1 + j)."""
        W = velocity_rows(self.law.sides, self.law.on, len(self.velocity))
        return self.answers.reactions(W.T @ impulses.reshape(-1))

    def more_of_the_same(self, parts) -> np.ndarray:
        """Impulses (k, 1 + j) to look from for those with which what rebounds has speeds of about
        `parts` (k,): where bodies stand on faces, with more of what the step has pressed them by,
        as one point would let them tilt."""
        taken = np.where(self.rebounds, np.maximum(self.ends - self.alone, 0.0) * self.of_step[:, 0], 0.0)
        left = np.where(self.rebounds, np.maximum(parts - self.ends, 0.0) * self.of_step[:, 0], 0.0)
        known = self.stands and np.sum(taken) > 0
        return self.known + (np.sum(left) / np.sum(taken) * self.of_step if known else 0.0)


def _held(impact: _Impact, kinetic, solve: Callable[[_Impact], Root]) -> tuple[Root, np.ndarray]:
    """What `solve` finds, and coefficients (k,): `kinetic` (k,) ones in the place of those with
    which something slips after the impact."""
    while True:
        found, law = solve(impact), impact.law
        slips = np.linalg.norm(_speeds(law.on, law.sides, found.velocity)[:, 1:], axis=1)
        slide = (law.mu != kinetic) & (slips > _NO_SLIP * np.max(np.abs(impact.met)))
        if not found.converged or not np.any(slide):
            return found, law.mu
        impact = impact._replace(law=law._replace(mu=np.where(slide, kinetic, law.mu)))


def _by_speeds(impact: _Impact, some) -> Root:
    """Newton's law, with the shares `some` (k,) of e."""
    parts = -some * impact.shares * impact.met
    law = impact.law._replace(bounds=np.where(impact.rebounds, parts, impact.law.bounds))
    return root(law, impact.answers, impact.velocity, impact.known, impact.more_of_the_same(parts))


def _by_impulses(impact: _Impact, some) -> Root:
    """Poisson's law, with the shares `some` (k,) of e, without what loads add after bodies met."""
    approach = np.where(impact.alone < 0, impact.alone, 1.0)
    parts = np.where(impact.rebounds, some * impact.shares * np.where(impact.alone < 0, impact.met / approach, 1.0), 0.0)
    law = impact.law._replace(bounds=np.where(impact.rebounds, 0.0, impact.law.bounds))
    first = root(law, impact.answers, impact.velocity, impact.known, impact.more_of_the_same(0.0))
    law = law._replace(least=parts * first.impulses[:, 0])
    compressed = first.impulses + impact.of_step - impact.known
    second = root(law, impact.answers, first.velocity, np.zeros_like(compressed), np.max(parts) * compressed)
    return Root(
        second.velocity, first.impulses + second.impulses, first.iterations + second.iterations,
        max(first.residual, second.residual), first.converged and second.converged,
    )  # fmt: skip


def _impulses(contacts: Contacts, within, e) -> np.ndarray:
    """(p_n, y) (k, 1 + j) [N s] of the contacts `within` (k,) in the step, y as `impact_root` has
    it: none on an axis without friction."""
    rubs = np.asarray(contacts.friction_impulse)[within] / np.where(e > 0, e, 1.0)
    return np.concatenate([np.asarray(contacts.normal_impulse)[within, None], np.where(e > 0, rubs, 0.0)], axis=1)


def _energies(mass, velocity) -> np.ndarray:
    """Kinetic energies (nb,) [J]."""
    return np.einsum("bi,bij,bj->b", velocity, mass, velocity) / 2


def meeting_speeds(gap, start, free, h: float) -> np.ndarray:
    """v_n- (m,) [m/s], 0 at most, of contacts whose `gap` (m,) [m] closes in a step of h [s]: in
    the part s h of it that ends so, gap + s h v_n- = 0, in which v_n goes from `start` (m,) by the
    share s towards `free` (m,). Those that others throw together have the speed that is their
    own."""
    mean, change = gap / h, free - start
    inner = start**2 - 4 * change * mean
    below = np.sqrt(np.maximum(inner, 0.0)) - start
    part = np.where((inner >= 0) & (below > 0), 2 * mean / np.where(below > 0, below, 1.0), 1.0)
    return np.minimum(start + np.clip(part, 0.0, 1.0) * change, 0.0)


def rows(contacts: Contacts, centres) -> np.ndarray:
    """Maps (m, 2, 1 + k, 6 or 3) from the velocities of both bodies, with these `centres` (m, 2, d)
    [m], to (v_n, v_t, v_o, v_r), or (v_n, v_t), of the records `contacts`."""
    n, t = np.asarray(contacts.normal), np.asarray(contacts.tangent)
    d, found = n.shape[1], []
    axes = np.stack([n, t] if d == 2 else [n, t, np.cross(n, t)], axis=1)
    for sign, point, centre in zip((-1, 1), (contacts.point_1, contacts.point_2), np.swapaxes(centres, 0, 1), strict=True):
        arm = (np.asarray(point) - centre)[:, None]
        if d == 2:
            own = np.concatenate([axes, arm[..., :1] * axes[..., 1:] - arm[..., 1:] * axes[..., :1]], axis=2)
        else:
            drills = np.concatenate([np.zeros_like(n), n], axis=1)[:, None]
            own = np.concatenate([np.concatenate([axes, np.cross(arm, axes)], axis=2), drills], axis=1)
        found.append(sign * own)
    return np.stack(found, axis=1)


def slips_after(catalog: Catalog, system: System, end: State, pairs, contacts: Contacts, velocity) -> dict[str, np.ndarray]:
    """`slip` (m, k) and `sigma` (m,) of the records `contacts` of a step to `end` between `pairs`
    (m, 2) of parts, with the `velocity` (nb, 6 or 3) after the impact there."""
    sides, (_, laws) = catalog.body[pairs], catalog.ordered(pairs)
    slip = _speeds(rows(contacts, everywhere(system, end).position[sides]), sides, velocity)[:, 1:]
    return {"slip": slip, "sigma": np.linalg.norm(catalog.laws.e[laws] * slip, axis=1)}


def normal_speeds(on, sides, velocity) -> np.ndarray:
    """v_n (m,) of contacts between bodies `sides` (m, 2); `velocity` (nb, w), of moving ones."""
    return _speeds(on[:, :, :1], sides, velocity)[:, 0]


def _speeds(on, sides, velocity) -> np.ndarray:
    """Speeds (m, r) [m/s] of contacts between bodies `sides` (m, 2), by maps `on` (m, 2, r, 6 or 3)
    from the velocities of both."""
    every = np.concatenate([velocity, np.zeros((np.max(sides, initial=0) + 1, velocity.shape[1]))])
    return np.einsum("csrw,csw->cr", on, every[sides])


@jit
def _momenta(system: System, before: State, h):
    """The momenta (nb, w) that loads alone would leave."""
    return jnp.asarray(loads.applied_momentum(system, before, h))
