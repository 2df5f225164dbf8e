"""A run as one HTML file that opens in any browser without a network: bodies, floors, forces, and
curves beside them."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull

from shapes.volume.mesh import Mesh

from ..constraints.friction import FrictionEllipsoid
from ..run.trajectory import Trajectory
from ..runtime.errors import PictureError
from ..runtime.files import replaced
from ..scene.scene import Scene
from .pictured import pictured
from .plots import COLOURS
from .stage import Stage, patch, planar_patches
from .viewer_page import PAGE

_PICTURES = 60  # a second of motion, at most, but of shorter runs than half a second
_LEAST, _MOST = 31, 3000  # pictures of a whole run that knows more of its motion than that
_CURVES = 4  # contacts that have curves
_DIGITS = 5
_ROUNDING, _SAME = 1e-6, 1e-6  # of a picture, and of a mesh's volume


def write(trajectory: Trajectory, path: str | os.PathLike, *, scene: Scene | None = None) -> None:
    """Writes `path`, a page of its own that asks nothing of any network: bodies move by a slider or
    play at a chosen speed, the camera turns, comes near and follows; forces are arrows, and an
    ellipse around each contact's normal is the friction that it could give; beside them energy,
    gaps and forces with a cursor.

    `scene` is that of the run, which a trajectory knows. Raises `ImportError` without matplotlib,
    `ValueError` for a run without steps, `OSError`.
    """
    text = page(trajectory, scene)
    with replaced(path) as aside:
        aside.write_text(text, encoding="utf-8")


def page(trajectory: Trajectory, scene: Scene | None = None) -> str:
    """What `write` writes."""
    if not isinstance(trajectory, Trajectory):
        raise PictureError(f"`trajectory` = {trajectory!r:.60} must be a Trajectory: `load` reads that of a file.")
    if len(trajectory) == 0:
        raise PictureError("a page needs a run of one step or more.")
    text = json.dumps(content(trajectory, trajectory.scene() if scene is None else scene), separators=(",", ":"))
    # a name with </script> in it must not end the script
    return PAGE.replace("@DATA@", text.replace("<", "\\u003c"))


def content(run: Trajectory, scene: Scene) -> dict[str, Any]:
    """What the page draws, as plain numbers, in metres and newtons; in the plane z is 0."""
    shown = pictured(run, _times(run))
    stage, laws = Stage(scene, shown, forces=True), {} if scene.dimension == 2 else _laws(scene)
    middle, size = (stage.low + stage.high) / 2, _size(stage)
    planar, spans = scene.dimension == 2, np.diff(shown.time)
    angles = {"azimuth": -np.pi / 2, "elevation": np.pi / 2} if planar else {"azimuth": -1.08, "elevation": 0.28}
    meshes, bodies = _shared([_body(stage, name) for name in stage.meshes])
    return {
        "about": repr(run)[1:-1],
        "planar": planar,
        "times": _short(shown.time, float(np.min(spans, where=spans > 0, initial=np.ptp(shown.time)))),
        "view": {"target": _short(_space(middle), size), "distance": 1.4 * size} | angles,
        "floors": _floors(stage, planar),
        "meshes": meshes,
        "bodies": bodies,
        "contacts": [
            _arrow(stage, i, " and ".join(names))
            | {"friction": _ellipse(stage, i, laws.get(names) or laws.get(names[::-1]))}
            for i, names in enumerate(run.contact_names)
        ],
        "reactions": [_arrow(stage, i, name) for i, name in enumerate(stage.reactions, start=len(run.contact_names))],
        "joints": _joints(stage),
        "curves": _curves(shown),
        "events": sorted({round(event.time, 6) for event in run.events}),
    }


def _times(run: Trajectory) -> np.ndarray:
    """Of the pictures (m,) [s]: the ends of steps, or, where these are more than are wanted or the
    run knows what is between them, even ones."""
    first, last = run.time[[0, -1]]
    wanted = max(_LEAST, min(_MOST, int(np.ceil((last - first) * _PICTURES - _ROUNDING)) + 1))
    if len(run) == 0 or (run.contacts.stages is None and len(run.time) <= wanted):
        return run.time
    return np.linspace(first, last, wanted)


def _shared(bodies: list[dict[str, Any]]) -> tuple[list, list]:
    """Each mesh once, and bodies with its number in the place of vertices and faces."""
    meshes, numbers, found = [], {}, []
    for body in bodies:
        mesh = {key: body.pop(key) for key in ("vertices", "faces")}
        number = numbers.setdefault(json.dumps(mesh), len(meshes))
        meshes += [mesh] if number == len(meshes) else []
        found.append(body | {"mesh": number})
    return meshes, found


def _hull(part: Mesh) -> Mesh:
    """The same convex surface by its corners alone, of which flat faces have few: a browser draws
    fewer triangles sooner. It holds no less than the mesh did, and else the mesh is as it was."""
    found = ConvexHull(part.vertices)
    corners = part.vertices[found.simplices]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    outside = np.sum(normals * found.equations[:, :3], axis=1) > 0
    triangles = np.where(outside[:, None], found.simplices, found.simplices[:, ::-1])
    few = Mesh(part.vertices[found.vertices], np.searchsorted(found.vertices, triangles))
    return few if few.volume >= (1 - _SAME) * part.volume else part


def _body(stage: Stage, name: str) -> dict[str, Any]:
    """Vertices, faces and, of a body that moves, `_poses`."""
    parts, run, planar = stage.meshes[name], stage.run, stage.dimension == 2
    parts = parts if planar else [_hull(part) for part in parts]
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    faces = [
        (np.arange(len(part.vertices))[None] if planar else part.triangles) + start
        for part, start in zip(parts, starts, strict=False)
    ]
    moving = name in run.names
    return {
        "name": name,
        "colour": [round(c, 3) for c in stage.colours[name]],
        "vertices": _short(_space(np.concatenate([part.vertices for part in parts])), None if moving else _size(stage)),
        "faces": [face.tolist() for part in faces for face in part],
        "poses": _poses(stage, run.names.index(name)) if moving else None,
    }


def _poses(stage: Stage, i: int) -> list:
    """Of a body that moves, in every picture: x, y, z and its quaternion."""
    turn = stage.run.orientation[:, i]
    if turn.shape[1] == 1:
        zero = np.zeros(len(turn))
        turn = np.stack([np.cos(turn[:, 0] / 2), zero, zero, np.sin(turn[:, 0] / 2)], axis=1)
    places = _short(_space(stage.run.position[:, i]), _size(stage))
    return [[*place, *own] for place, own in zip(places, _short(turn), strict=True)]


def _size(stage: Stage) -> float:
    """The size [m] of what is drawn, by which places are rounded, wherever it is."""
    return float(np.linalg.norm(stage.high - stage.low))


def _seen(values: np.ndarray) -> np.ndarray:
    """What belongs to the end of steps (m, ...), in every picture (m + 1, ...): in the first, that
    of the second."""
    return np.concatenate([values[:1], values])


def _arrow(stage: Stage, i: int, name: str) -> dict[str, Any]:
    """Where a force acts and its arrow [m] in every picture, None where there is none."""
    arrows, points = _space(_seen(stage.forces[:, i])), _space(_seen(stage.points[:, i]))
    shown = stage.shown(arrows)
    return {
        "name": name,
        "point": [point if one else None for point, one in zip(_short(points, _size(stage)), shown, strict=True)],
        "force": [_short(arrow) if one else None for arrow, one in zip(arrows, shown, strict=True)],
    }


def _laws(scene: Scene) -> dict[tuple[str, str], FrictionEllipsoid]:
    """The friction of every pair of parts that may touch, by their names."""
    names = scene.build()[0].contact_names
    return {names[contact.number]: contact.friction for contact in scene.part_contacts()}


def _ellipse(stage: Stage, i: int, law: FrictionEllipsoid | None) -> list | None:
    """Two semi-axes [m] of what friction could give, None where it is less than rounding; None for
    a contact without friction."""
    if law is None or not max(law.mu, law.mu_s or 0.0):
        return None
    axes = _seen(stage.friction(i, law))
    shown = stage.shown(np.sum(axes, axis=1))
    return [_short(both) if one else None for both, one in zip(axes, shown, strict=True)]


def _joints(stage: Stage) -> list[dict[str, Any]]:
    """The two points of each joint in every picture."""
    every = _space(stage.joint_ends(np.arange(len(stage.run.time))))
    return [
        {"name": name, "ends": [_short(e, _size(stage)) for e in ends]}
        for name, ends in zip(stage.joints, every, strict=True)
    ]


def _floors(stage: Stage, planar: bool) -> list:
    """Polygons."""
    if not planar:
        return [_short(patch(normal, offset, stage.low, stage.high), _size(stage)) for normal, offset in stage.floors]
    return [_short(_space(corners), _size(stage)) for corners in planar_patches(stage.floors, stage.low, stage.high)]


def _curves(run: Trajectory) -> list[dict[str, Any]]:
    """Panels of lines through time: energy [J], gaps [m] and normal forces [N] of the contacts that
    carry most."""

    def line(name, values, i):
        told = [float(f"{v:.{_DIGITS}g}") if np.isfinite(v) else None for v in values]
        return {"name": name, "values": told, "colour": COLOURS[i % len(COLOURS)]}

    panels = []
    if run.gravity is not None:
        found = run.energy()
        lowest = found.gravity.min()
        parts = {"kinetic": found.kinetic, "of weight": found.gravity - lowest, "total": found.total - lowest}
        panels.append({"title": "energy [J]", "lines": [line(n, v, i) for i, (n, v) in enumerate(parts.items())]})
    if run.contact_names:
        most = np.argsort(-np.sum(run.contacts.normal_impulse, axis=0), kind="stable")[:_CURVES]
        views = {" and ".join(run.contact_names[i]): run.contact(int(i)) for i in np.sort(most)}
        for title, value in (("gap [m]", "gap"), ("normal force [N]", "normal_force")):
            lines = [line(name, _seen(getattr(view, value)), i) for i, (name, view) in enumerate(views.items())]
            panels.append({"title": title, "lines": lines})
    return panels


def _space(points: np.ndarray) -> np.ndarray:
    """(..., 3), with z = 0 in the plane."""
    missing = 3 - points.shape[-1]
    return np.concatenate([points, np.zeros((*points.shape[:-1], missing))], axis=-1)


def _short(values: np.ndarray, size: float | None = None) -> list:
    """Nested lists of numbers with few digits, for a small file: of what is of that `size`, or of
    the largest of them."""
    size = np.max(np.abs(values), initial=0.0) if size is None else size
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(max(size, 1e-300))))
    return (np.round(np.asarray(values) * scale) / scale).tolist()
