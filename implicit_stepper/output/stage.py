"""What films and pages of a run draw: meshes and where they are, floors, joints, arrows of
forces."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgb

from ..constraints.friction import FrictionEllipsoid
from ..model import poses
from ..run import carrying
from ..run.trajectory import Trajectory
from ..run.views import number_of_body
from ..runtime.errors import PictureError
from ..scene.scene import Scene
from .pictured import second_moves
from .plots import COLOURS

_RESOLUTION, _COARSEST = 10, 4  # of meshes: a film has many pictures
_MANY = 30  # bodies: beyond it they have fewer triangles each, and no more together
_LEAST = 1e-6  # of the picture: shorter arrows are rounding
_ROUND = 0.9  # of its triangles have normals of their own where a surface has no flat part
_DARK = 0.6  # of its colour that a dark octant keeps
_AROUND = 3.5  # of its reach: what is seen around a body that is followed
_FLOORS = ("HalfSpace", "HalfPlane")
_OPPOSITE = -1 + 1e-9  # normals of which the product is less face away from each other


class Stage:
    """What does not change from picture to picture: meshes, limits, the scale of forces."""

    def __init__(self, scene: Scene, run: Trajectory, forces: bool, follow: str | None = None):
        """`follow` names the body that pictures move with, instead of showing the whole run."""
        self.run, self.dimension = run, scene.dimension
        self.followed = None if follow is None else number_of_body(run.names, follow)
        found = scene.meshes(_resolution(len(run.names)))
        # bodies may be without a shape
        self.meshes = {name: parts for name, parts in found.items() if parts}
        if self.followed is not None and run.names[self.followed] not in self.meshes:
            shown = ", ".join(repr(name) for name in self.meshes if name in run.names) or "none"
            raise PictureError(f"`follow` = {follow!r} has no surface to be drawn: of moving bodies there are {shown}.")
        self.colours = {name: to_rgb(COLOURS[i % len(COLOURS)]) for i, name in enumerate(self.meshes)}
        self.painted = {name: [painted(self.colours[name], part) for part in parts] for name, parts in self.meshes.items()}
        self.floors = floors(scene)
        self.joints = scene.joint_points()
        self.low, self.high = self._limits()
        self.second_moves = second_moves(run)
        self.reactions = [name for name in self.joints if name in run.joint_names]
        nothing = np.zeros((len(run), 0, self.dimension))
        self.forces, self.scale, self.points = (*self._forces(), self._points()) if forces else (nothing,) * 3

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners of a box that holds all of the run, or the surroundings of the body that is
        followed, at the start."""
        if self.followed is not None:
            at = self.run.position[0, self.followed]
            reach = max(np.max(np.linalg.norm(part.vertices, axis=1)) for part in self._own(self.followed))
            return at - _AROUND * reach, at + _AROUND * reach
        points = []
        for name, parts in self.meshes.items():
            corners = np.concatenate([part.vertices for part in parts])
            if name in self.run.names:
                at, reach = self.run.body(name).position, np.max(np.linalg.norm(corners, axis=1))
                points += [at - reach, at + reach]
            else:
                points.append(corners)
        points += [at[None] for pair in self.joints.values() for name, at in pair if name not in self.run.names]
        if not points:
            raise PictureError("nothing of the scene can be drawn: its bodies have no surface that ends.")
        every = np.concatenate(points)
        low, high = every.min(axis=0), every.max(axis=0)
        room = 0.04 * np.max(high - low)
        return low - room, high + room

    def _own(self, body: int) -> list:
        """The parts of a moving body, in its own frame."""
        return self.meshes[self.run.names[body]]

    def window(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """Corners of the box that the picture of a node shows."""
        if self.followed is None:
            return self.low, self.high
        moved = self.run.position[node, self.followed] - self.run.position[0, self.followed]
        return self.low + moved, self.high + moved

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
        arrows, h = np.stack(found, axis=1), np.broadcast_to(self.run.h, len(self.run))[:, None, None]
        carries = h * np.linalg.norm(arrows, axis=2, keepdims=True) > carrying.least(self.run)[..., None]
        arrows = np.where(carries, arrows, 0.0)  # else a run in which nothing touches shows what rounding leaves
        longest, length = 0.25 * np.max(self.high - self.low), np.linalg.norm(arrows, axis=2, keepdims=True)
        # an impact's would hide others
        usual = np.percentile(length[length > 0], 98) if np.any(length > 0) else 0.0
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
        own = contact.impulses
        mu = law.mu if own.mu is None else np.nan_to_num(own.mu)[:, None]  # mu_s where it held
        could = mu * np.nan_to_num(contact.normal_force)[:, None] * self.scale[:, i]
        along = np.nan_to_num(own.tangent)
        return np.stack([law.e_t * could * along, law.e_o * could * np.cross(np.nan_to_num(own.normal), along)], axis=1)

    def placed(self, node: int):
        """Paint and part of all that the picture of a node shows of bodies, where they are."""
        low, high = self.window(node)
        for name, parts in self.meshes.items():
            if name in self.run.names:
                i = self.run.names.index(name)
                at, turn = self.run.position[node, i], self.run.orientation[node, i]
                rotation = poses.matrices(turn) if self.dimension == 3 else turned(turn[0])
                parts = [part.moved(at, rotation) for part in parts]
            for paint, part in zip(self.painted[name], parts, strict=True):
                if np.all(part.vertices.max(axis=0) > low) and np.all(part.vertices.min(axis=0) < high):
                    yield paint, part

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


def painted(colour, part) -> np.ndarray:
    """The `colour` (3,) of a part, or of its triangles (k, 3): what is round all over has dark
    octants, without which one would not see it turn."""
    colour = np.array(colour)
    if part.vertices.shape[1] == 2:
        return colour
    corners = part.vertices[part.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), np.finfo(float).tiny)
    if len(np.unique(normals.round(6), axis=0)) < _ROUND * len(normals):
        return colour
    octants = np.prod(corners.mean(axis=1) - part.vertices.mean(axis=0), axis=1, keepdims=True) > 0
    return colour * np.where(octants, _DARK, 1.0)


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


def planar_patches(planes, low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Half-planes, as (normal, offset), near a box: corners (4, 2). Of two that face away from each
    other and overlap, as the sides of a pole, what both hold."""
    found, size = [], 2 * np.max(high - low)
    for normal, offset in planes:
        shared = [offset + other for facing, other in planes if normal @ facing < _OPPOSITE and offset + other > 0]
        along, deep = np.array([-normal[1], normal[0]]), min([size, *shared])
        foot = normal * offset + along * ((low + high) / 2 @ along)
        corners = [foot - size * along, foot + size * along]
        found.append(np.array([*corners, corners[1] - deep * normal, corners[0] - deep * normal]))
    return found
