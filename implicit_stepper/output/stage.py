"""What films and pages of a run draw: meshes and where they are, floors, joints, arrows of
forces."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgb

from ..constraints.friction import FrictionEllipsoid
from ..model import poses
from ..run.trajectory import Trajectory
from ..scene.scene import Scene
from .plots import COLOURS

_RESOLUTION, _COARSEST = 10, 4  # of meshes: a film has many pictures
_MANY = 30  # bodies: beyond it they have fewer triangles each, and no more together
_LEAST = 1e-6  # of the picture: shorter arrows are rounding
_FLOORS = ("HalfSpace", "HalfPlane")


class Stage:
    """What does not change from picture to picture: meshes, limits, the scale of forces."""

    def __init__(self, scene: Scene, run: Trajectory, forces: bool):
        self.run, self.dimension = run, scene.dimension
        self.meshes = scene.meshes(_resolution(len(run.names)))
        self.colours = {name: to_rgb(COLOURS[i % len(COLOURS)]) for i, name in enumerate(self.meshes)}
        self.floors = floors(scene)
        self.joints = scene.joint_points()
        self.low, self.high = self._limits()
        self.second_moves = [second.split("[")[0] in run.names or second in run.names for _, second in run.contact_names]
        self.reactions = [name for name in self.joints if name in run.joint_names]
        nothing = np.zeros((len(run), 0, self.dimension))
        self.forces, self.scale, self.points = (*self._forces(), self._points()) if forces else (nothing,) * 3

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners of a box that holds all of the run."""
        points = []
        for name, parts in self.meshes.items():
            corners = np.concatenate([part.vertices for part in parts])
            if name in self.run.names:
                at, reach = self.run.body(name).position, np.max(np.linalg.norm(corners, axis=1))
                points += [at - reach, at + reach]
            else:
                points.append(corners)
        points += [at[None] for pair in self.joints.values() for name, at in pair if name not in self.run.names]
        every = np.concatenate(points)
        low, high = every.min(axis=0), every.max(axis=0)
        room = 0.04 * np.max(high - low)
        return low - room, high + room

    def _forces(self) -> tuple[np.ndarray, np.ndarray]:
        """Arrows (n, nc + nj, d) [m] of contacts and of the reactions of joints that have points,
        on the second body, or on the first where only that moves; and their scale (n, nc + nj, 1)
        [m/N]."""
        found = [
            np.nan_to_num(self.run.contact(i).force) * (1 if moving else -1) for i, moving in enumerate(self.second_moves)
        ]
        for name in self.reactions:
            sign = 1 if self.joints[name][1][0] in self.run.names else -1
            found.append(sign * np.nan_to_num(self.run.joint(name).force))
        if not found:
            return np.zeros((len(self.run), 0, self.dimension)), np.zeros((len(self.run), 0, 1))
        arrows = np.stack(found, axis=1)
        # an impact's would hide others
        usual = np.percentile(np.linalg.norm(arrows, axis=2), 98) if arrows.size else 0.0
        longest = 0.25 * np.max(self.high - self.low)
        length = np.linalg.norm(arrows, axis=2, keepdims=True)
        scale = longest / np.maximum(length, usual) if usual > 0 else np.zeros_like(length)
        return arrows * scale, scale

    def _points(self) -> np.ndarray:
        """Where the arrows begin (n, nc + nj, d): of joints, at the point of the body on which they
        act; of pairs that were far apart, anywhere."""
        nodes, ends = np.arange(1, len(self.run) + 1), []
        for name in self.reactions:
            first, second = self.joints[name]
            ends.append(self._followed(*(second if second[0] in self.run.names else first), nodes))
        own = np.stack(ends, axis=1) if ends else np.zeros((len(self.run), 0, self.dimension))
        return np.concatenate([np.nan_to_num(self.run.contacts.point_2), own], axis=1)

    def friction(self, i: int, law: FrictionEllipsoid) -> np.ndarray:
        """Semi-axes (n, 2, 3) [m] of the ellipse of forces that friction could give at contact i in
        space, along t and n x t, on the scale of the arrows."""
        contact = self.run.contact(i)
        own, could = contact.impulses, law.mu * np.nan_to_num(contact.normal_force)[:, None] * self.scale[:, i]
        along = np.nan_to_num(own.tangent)
        return np.stack([law.e_t * could * along, law.e_o * could * np.cross(np.nan_to_num(own.normal), along)], axis=1)

    def placed(self, node: int):
        """Colour and parts of every body, where they are at a node of the run."""
        for name, parts in self.meshes.items():
            if name in self.run.names:
                i = self.run.names.index(name)
                at, turn = self.run.position[node, i], self.run.orientation[node, i]
                rotation = poses.matrices(turn) if self.dimension == 3 else turned(turn[0])
                parts = [part.moved(at, rotation) for part in parts]
            yield self.colours[name], parts

    def joint_ends(self, nodes) -> np.ndarray:
        """Both points of every joint (k, 2, m, d) at nodes (m,) of the run."""
        ends = [[self._followed(*end, np.atleast_1d(nodes)) for end in pair] for pair in self.joints.values()]
        return np.array(ends).reshape(len(ends), 2, np.size(nodes), self.dimension)

    def _followed(self, name: str, point: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Where a point of a body is (m, d)."""
        if name not in self.run.names:
            return np.broadcast_to(point, (len(nodes), self.dimension))
        i = self.run.names.index(name)
        at, turn = self.run.position[nodes, i], self.run.orientation[nodes, i]
        rotations = poses.matrices(turn) if self.dimension == 3 else np.stack([turned(angle) for angle in turn[:, 0]])
        return at + rotations @ point

    def shown(self, arrows: np.ndarray) -> np.ndarray:
        """Which of arrows (k, d) are more than rounding of open contacts."""
        return np.linalg.norm(arrows, axis=1) > _LEAST * np.max(self.high - self.low)

    def arrows(self, node: int):
        """From and to (k, d) of forces and reactions in the step that ends at a node."""
        step = max(node - 1, 0)
        arrows = self.forces[step]
        pressing = self.shown(arrows)
        start = self.points[step][pressing]
        return start, start + arrows[pressing]


def _resolution(bodies: int) -> int:
    """Of the meshes of so many bodies."""
    return max(_COARSEST, min(_RESOLUTION, round(_RESOLUTION * np.sqrt(_MANY / bodies))))


def turned(angle: float) -> np.ndarray:
    """The rotation (2, 2) by an `angle` [rad]."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


def floors(scene: Scene) -> list[tuple[np.ndarray, float]]:
    """Normal (d,) and offset [m] of every fixed half-space, in the inertial frame."""
    return [_plane(body) for body in scene.description().bodies if _is_floor(body)]


def _is_floor(body) -> bool:
    return body.fixed and body.shape is not None and body.shape.shape_class.name in _FLOORS


def _plane(body) -> tuple[np.ndarray, float]:
    """Normal (d,) and offset [m] of a fixed half-space, in the inertial frame."""
    theta = np.asarray(body.shape.theta, dtype=float)
    d = len(theta) - 1
    upright = (1.0, 0.0, 0.0, 0.0)
    rotation = poses.matrices(np.array(body.quaternion or upright)) if d == 3 else turned(body.angle or 0.0)
    normal = rotation @ theta[:-1]
    return normal, float(theta[-1] + normal @ np.array(body.position or np.zeros(d)))


def patch(normal: np.ndarray, offset: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The part of a plane (k, 3) that is in a box: its corners in order, none where it misses the
    box."""
    found = []
    for axis in range(3):
        others = [i for i in range(3) if i != axis]
        for a in (low, high):
            for b in (low, high):
                if abs(normal[axis]) < 1e-12:
                    continue
                point = np.empty(3)
                point[others] = a[others[0]], b[others[1]]
                point[axis] = (offset - normal[others] @ point[others]) / normal[axis]
                if low[axis] <= point[axis] <= high[axis]:
                    found.append(point)
    if len(found) < 3:
        return np.zeros((3, 3))
    corners = np.array(found)
    middle = corners.mean(axis=0)
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    angles = np.arctan2((corners - middle) @ np.cross(normal, first), (corners - middle) @ first)
    return corners[np.argsort(angles)]
