"""The rolling disc of example 1 as a regular polygon under the LCP of Stewart and Trinkle: figure 1
of Chakraborty, Berard, Akella, Trinkle (RSS 2007), "C" below.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import shapes
from shapes.closest_points.conditions import ContactGeometry
from shapes.errors import ArgumentError

from ..constraints import detection, linear_rows
from ..constraints.detection import Nearby
from ..constraints.held_rows import held_rows
from ..model import bodies, loads
from ..model.bodies import State
from ..model.checks import count
from ..model.records import Contacts, Stats, StepResult
from ..model.results import Result
from ..model.system import System
from ..model.units import scales
from ..run.simulate import simulate
from ..run.trajectory import Trajectory
from ..scene.scene import Scene
from ..stepping.capabilities import Capabilities
from ..time_lagged.linearized import Linearized

CORNERS = 4  # contacts: two corners on either side of the lowest point of the step
H, DURATION = 0.01, 4.0  # of figure 1 (a) [s]
# Fewer than 2 pi / (3 rad/s H) = 209 sides, or many more. In between the corners come about as
# often as the steps, and the loss depends on which of them the steps meet: with 200 sides it is 0.6
# % less than with very many, with 300 1.3 % more.
SIDES = (10, 20, 50, 100, 1000)
STEPS = (1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4)  # of figure 1 (b) [s]


@dataclasses.dataclass(frozen=True)
class Study:
    """Trajectories of `DURATION`: `by_sides` in steps of `H`, and `by_step` with the most sides,
    largest step first."""

    by_sides: dict[int, Trajectory]
    by_step: dict[float, Trajectory]


def study(quick: bool) -> Study:
    """The runs of figure 1; if `quick`, three numbers of sides and steps down to half a
    millisecond."""
    sides, steps = (SIDES[::2], STEPS[:5]) if quick else (SIDES, STEPS)
    by_sides = {n: _run(n, H) for n in sides}
    return Study(by_sides, {h: _run(sides[-1], h) for h in steps})


def _run(sides: int, h: float) -> Trajectory:
    return simulate(rolling(), RollingPolygon(sides), h=h, duration=DURATION)


def rolling() -> Scene:
    """Example 1, C section V-A, with `CORNERS` contacts. They belong to the corners nearest the
    line y = 0, whichever these are in a step; the discs only stand for them, as the polygon's
    circumscribed circle."""
    scene = Scene(dimension=2, gravity=(0.0, -9.81))
    line = scene.add_fixed(name="line", shape=shapes.HalfPlane(normal=(0.0, 1.0)))
    polygon = scene.add_body(
        name="polygon",
        shapes=[(shapes.Disc(1.0), ((0.0, 0.0), 0.0))] * CORNERS,
        mass=1.0,
        inertia=0.5,
        position=(0.0, 1.0),
        velocity=(-3.0, 0.0, 3.0),
    )
    scene.add_contact(line, polygon, friction=0.4)
    return scene


@dataclasses.dataclass(frozen=True)
class RollingPolygon:
    """`Linearized` for the scene `rolling`, whose body is the regular polygon with `sides` corners
    on the unit circle.

    A corner at angle a from straight below has, at the end of a step of h, the linearised gap y -
    cos a + h (v_y + omega sin a), which is least at tan a = -h omega. Where omega barely changes in
    the step the corners about that angle are the only ones that can reach the line; that all others
    stay above it, by the same gap, is part of the certificate.
    """

    can: ClassVar[Capabilities] = Capabilities(normals_at_start=True)
    rungs: ClassVar[tuple[str, ...]] = ("warm start",)

    sides: int
    contacts: Linearized = Linearized()

    def __post_init__(self):
        if count("sides", self.sides) < CORNERS:
            raise ArgumentError(f"`sides` = {self.sides} must be {CORNERS} or more.")

    def init(self, system: System, state: State, closest: tuple | None = None) -> tuple:
        """Nothing: Lemke's method starts from nothing."""
        return ()

    def step(self, system: System, state: State, memory: tuple, h) -> StepResult:
        """One step of h [s]."""
        mass = bodies.mass_matrices(system, state)
        free = loads.free_velocity(system, state, mass, h)
        numbers = self._lowest(state, free[0, 2], h)
        here = self._corners(state, numbers)
        rows = linear_rows.linear_rows(system, state, here.geometry)
        held = held_rows(system, state, mass, rows, h)
        found = self.contacts.of_held(system, held, here.geometry.psi, free, h)
        velocity = free + jnp.linalg.solve(mass, rows.momenta(found.gamma, system.body_count)[..., None])[..., 0]
        after = bodies.moved(state, velocity, h)
        gap = self._corners(after, numbers).geometry.psi
        return StepResult(
            state=after,
            memory=memory,
            contacts=detection.record(here, rows, found.gamma, velocity, gap),
            stats=Stats(found.iterations, found.residual, jnp.asarray(0), jnp.asarray(1)),
            result=jnp.where(found.converged, int(Result.SOLVED), int(Result.NOT_CONVERGED)),
        )

    def restarts(self, system: System, state: State, memory: tuple, h) -> Iterator[tuple[str, Any]]:
        """None: there is one start only."""
        return iter(())

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """That of `Linearized`, and the linearised overlap of any corner, in h sqrt(g L)."""
        every = self._corners(before, jnp.arange(self.sides)).geometry
        v, omega = after.velocity[0, :2], after.velocity[0, 2]
        gap = every.psi + h * (v[1] + omega * (every.a2[:, 0] - before.position[0, 0]))
        found = self.contacts.certificate(system, before, after, contacts, h)
        # its contacts are corners over the line, not the discs of the scene
        found = {name: values for name, values in found.items() if name not in ("closest points", "tangent")}
        return found | {"all corners": jnp.maximum(-jnp.min(gap), 0.0)[None] / scales(system, h).gap}

    def predicted_gap(self, contacts: Contacts, mu, h):
        """As that of `Linearized`."""
        return self.contacts.predicted_gap(contacts, mu, h)

    def _lowest(self, state: State, omega, h):
        """Numbers (CORNERS,) of the corners that can reach the line in a step."""
        place = (-jnp.arctan(h * omega) - state.orientation[0, 0]) / (2 * np.pi / self.sides)
        return jnp.floor(place) + np.arange(CORNERS) - (CORNERS // 2 - 1)

    def _corners(self, state: State, numbers) -> Nearby:
        """Corners `numbers` (nc,), counted from that which is below the centre at angle zero, and
        the line below each."""
        angle = state.orientation[0, 0] + numbers * (2 * np.pi / self.sides)
        corner = state.position[0] + jnp.stack([jnp.sin(angle), -jnp.cos(angle)], axis=1)
        along, up = (jnp.broadcast_to(axis, corner.shape) for axis in jnp.eye(2))
        geometry = ContactGeometry(corner * jnp.array([1.0, 0.0]), corner, up, along[:, None], corner[:, 1])
        none = jnp.zeros((len(corner), 0))
        return Nearby((), geometry, none, none, jnp.asarray(True))
