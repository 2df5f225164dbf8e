"""What pictures of a run show at times of their own: the nearest ends of steps, or, where the steps
have stages, the motion and the forces between them."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from ..model.records import Contacts, Joints
from ..radau import dense_output
from ..run.trajectory import Trajectory
from ..run.views import owners_of
from ..solvers.collocation import radau

# of contacts
_DRAWN = ("normal_impulse", "friction_impulse", "gap", "normal", "tangent", "point_2")


def pictured(run: Trajectory, times: np.ndarray) -> Trajectory:
    """The run as pictures at `times` (m + 1,) [s], from its first to its last, show it: entry i of
    what belongs to steps is that at times[i + 1], forces as impulses over a length of 1 s.

    Bodies of steps with stages are those of `Trajectory.at`. Forces are linear between the stages
    and before the first stage of a step its own: nothing is drawn that no stage has solved, or that
    lies outside of what two of them have. Where they act keeps its place from the centre of the
    body in the same way, and gaps are polynomials. Impacts, which have no force, are not in it.
    """
    if run.contacts.stages is None:
        return _at_ends(run, times)
    states = dense_output.at(run, times)
    between = _Between(run, times[1:])
    contacts, joints = between.contacts(states.position[1:]), between.joints()
    bodies = {"position": states.position, "orientation": states.orientation, "velocity": states.velocity}
    return dataclasses.replace(
        run, time=times, h=1.0, contacts=dataclasses.replace(contacts, joints=joints), stats=None, certificate={}, **bodies
    )


def _at_ends(run: Trajectory, times: np.ndarray) -> Trajectory:
    """The nearest end of a step to each of `times`, at an impact after it, or all of the run, where
    these are its own."""
    middles = (run.time[1:] + run.time[:-1]) / 2
    nodes = np.searchsorted(middles, times, side="right")
    if np.array_equal(times, run.time):  # before and after an impact, which takes no time
        nodes = np.arange(len(times))
    steps = np.maximum(nodes[1:] - 1, 0)
    h = np.broadcast_to(run.h, len(run))[steps]
    bodies = {name: getattr(run, name)[nodes] for name in ("time", "position", "orientation", "velocity")}
    contacts = jax.tree.map(lambda a: a[steps], dataclasses.replace(run.contacts, landing=None))
    return dataclasses.replace(run, h=h, contacts=contacts, stats=None, certificate={}, **bodies)


class _Between:
    """Weights (m, s) of a step's stages at `times` (m,) within it."""

    def __init__(self, run: Trajectory, times: np.ndarray):
        self.run, own = run, run.contacts.stages
        ends = run.time[1:]
        self.step = np.clip(np.searchsorted(ends, times), 0, len(run) - 1)
        self.h = np.diff(run.time)[self.step]
        self.theta = (times - run.time[self.step]) / np.where(self.h > 0, self.h, 1.0)
        self.method = radau(own.rates.shape[1])
        c = self.method.c
        later = np.clip(np.searchsorted(c, self.theta), 1, len(c) - 1)
        share = np.clip((self.theta - c[later - 1]) / (c[later] - c[later - 1]), 0.0, 1.0)
        self.later, self.weights = later, np.zeros((len(times), len(c)))
        rows = np.arange(len(times))
        self.weights[rows, later - 1], self.weights[rows, later] = 1 - share, share

    def linear(self, at_stages: np.ndarray) -> np.ndarray:
        """Values (m, ...) of values (n, s, ...) at stages."""
        values = at_stages[self.step]
        shape = (*self.weights.shape, *(1,) * (values.ndim - 2))
        # a stage that counts nothing may have none: of a pair that was far
        weights = self.weights.reshape(shape)
        return np.sum(np.where(weights > 0, weights * values, 0.0), axis=1)

    def contacts(self, position: np.ndarray) -> Contacts:
        """At the times, with bodies at `position` (m, nb, d); forces as impulses of 1 s."""
        run, stages = self.run, self.run.contacts.stages.contacts
        normal, tangent = _unit(self.linear(stages.normal)), stages.tangent[self.step, self.later]
        tangent = _unit(tangent - np.sum(tangent * normal, axis=-1, keepdims=True) * normal)
        other = np.cross(normal, tangent) if normal.shape[-1] == 3 else None
        h = np.where(self.h > 0, self.h, 1.0)[:, None]
        own = np.cross(stages.normal, stages.tangent) if other is not None else None
        force = stages.normal_impulse[..., None] * stages.normal + stages.friction_impulse[..., :1] * stages.tangent
        force = self.linear(np.nan_to_num(force if own is None else force + stages.friction_impulse[..., 1:2] * own))
        along = [np.sum(force * axis, axis=-1) / h for axis in (tangent, other) if axis is not None]
        rest = [] if other is None else [self.linear(stages.friction_impulse[..., 2]) / h]
        steps = self.step
        given = {name: value[steps] for name, value in _arrays(run.contacts).items() if name not in _DRAWN}
        return Contacts(
            normal_impulse=np.sum(force * normal, axis=-1) / h,
            friction_impulse=np.stack([*along, *rest], axis=-1),
            gap=self._gaps(stages.gap),
            normal=normal,
            tangent=tangent,
            point_2=self._points(stages.point_2, position),
            **given,
        )

    def _gaps(self, at_stages: np.ndarray) -> np.ndarray:
        """The polynomial through the gap at the start and those at the stages."""
        values = np.concatenate([self.run.contacts.gap_start[:, None], at_stages], axis=1)[self.step]
        basis = np.stack([one(self.theta) for one in dense_output.through_start(self.method.c)], axis=1)
        return np.einsum("ms,msc->mc", basis, values)

    def _points(self, at_stages: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Points (m, nc, d) that keep their place from the centre of a body that they are on."""
        run, bodies = self.run, _moving(self.run)
        d = run.position.shape[-1]
        moved = np.einsum("ij,njbw->nibw", self.method.A, run.contacts.stages.rates[..., :d])
        centres = run.position[:-1, None] + np.diff(run.time)[:, None, None, None] * moved
        return position[:, bodies] + self.linear(at_stages - centres[:, :, bodies])

    def joints(self) -> Joints | None:
        """At the times; reactions as impulses of 1 s."""
        run = self.run
        if run.contacts.joints is None:
            return None
        stages, h = run.contacts.stages.contacts.joints, np.where(self.h > 0, self.h, 1.0)[:, None, None]
        given = {name: value[self.step] for name, value in _arrays(run.contacts.joints).items()}
        return Joints(**given | {name: self.linear(getattr(stages, name)) / h for name in ("impulse_1", "impulse_2")})


def second_moves(run: Trajectory) -> list[bool]:
    """Whether the second body of each contact moves."""
    owners = owners_of(run.contact_names, run.names)
    return [owners[second] in run.names for _, second in run.contact_names]


def _moving(run: Trajectory) -> list[int]:
    """The second body of each contact, or its first where only that moves."""
    owners = owners_of(run.contact_names, run.names)
    return [
        run.names.index(owners[second if moves else first])
        for (first, second), moves in zip(run.contact_names, second_moves(run), strict=True)
    ]


def _arrays(record) -> dict[str, np.ndarray]:
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {name: value for name, value in fields.items() if value is not None and not dataclasses.is_dataclass(value)}


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors (..., d) of length 1, and zero as it is."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0, length, 1.0)
