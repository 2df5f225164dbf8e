"""Bodies of a compiled robot: shapes of its geoms, masses and inertias."""

from __future__ import annotations

import numpy as np

import shapes
from shapes import Shape

from .description import BodyDescription
from .mjcf_model import STATIC, Compiled, listed

_MOST_VERTICES = 100  # of a mesh's hull, as in scene files
_FLATTEST = 1e-3  # of the longest semi-axis: the shortest of an ellipsoid of inertia
_ORIGIN = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))


def bodies_of(of: Compiled) -> tuple[list[BodyDescription], dict[str, list[int]], list[str]]:
    """All bodies; by the name of each that may touch others the geoms that are its shapes; and what
    was left out."""
    found, geoms, left_out, unseen = [], {}, [], []
    for geom in of.geoms(STATIC):
        if geom not in of.touching:
            unseen.append(of.name("geom", geom))
            continue
        shape = _shape(of, geom, left_out)
        if shape is not None:
            name = of.static_names[geom]
            turn = of.quaternion(of.data.geom_xmat[geom].reshape(3, 3))
            place = {"position": tuple(of.data.geom_xpos[geom].tolist()), "quaternion": turn}
            found.append(BodyDescription(name=name, fixed=True, shape=shape, **place))
            geoms[name] = [geom]
    for root in of.members:
        if root != STATIC:
            own, touch, more = _moving(of, root, left_out)
            found.append(own)
            unseen += more
            if touch:
                geoms[own.name] = touch
    if unseen:
        left_out.append(f"geoms that touch nothing, which are pictures only: {listed(unseen)}")
    return found, geoms, left_out


def _moving(of: Compiled, root: int, left_out: list[str]) -> tuple[BodyDescription, list[int], list[str]]:
    """A body; its geoms that touch; and the names of those that do not and are not needed."""
    touch = [geom for geom in of.geoms(root) if geom in of.touching]
    silent = [geom for geom in of.geoms(root) if geom not in of.touching]
    made = [(geom, shape) for geom in touch if (shape := _shape(of, geom, left_out)) is not None]
    mass, inertia, centre = _mass(of, root)
    given = {"mass": mass, "inertia": inertia, "centre_of_mass": tuple(centre.tolist())}
    unseen = silent if made else []
    if not made:  # of a body that touches nothing: its picture, or what has its inertia
        drawn = [(geom, shape) for geom in silent if (shape := _shape(of, geom, left_out)) is not None]
        parts = [(shape, _pose(of, root, geom)) for geom, shape in drawn] or [_ellipsoid(of, mass, inertia, centre)]
    else:
        parts = [(shape, _pose(of, root, geom)) for geom, shape in made]
    whole = {"shape": parts[0][0]} if len(parts) == 1 and parts[0][1] == _ORIGIN else {"shapes": tuple(parts)}
    position, turn = of.place(root)
    described = BodyDescription(
        name=of.names[root],
        fixed=False,
        position=tuple(position.tolist()),
        quaternion=of.quaternion(turn),
        velocity=_velocity(of, root, position + turn @ centre),
        wrench=_against_weight(of, root, mass, left_out),
        apart=True if len(parts) > 1 else None,
        **given,
        **whole,
    )
    return described, [geom for geom, _ in made], [of.name("geom", geom) for geom in unseen]


def _shape(of: Compiled, geom: int, left_out: list[str]) -> Shape | None:
    """That of a geom in the geom's own coordinates, or None and a line of what it was."""
    kind, size = of.mujoco.mjtGeom, of.model.geom_size[geom].tolist()
    makers = {
        kind.mjGEOM_PLANE: lambda: shapes.HalfSpace(normal=(0, 0, 1)),
        kind.mjGEOM_SPHERE: lambda: shapes.Sphere(size[0]),
        kind.mjGEOM_CAPSULE: lambda: shapes.Capsule(*size[:2]),
        kind.mjGEOM_ELLIPSOID: lambda: shapes.Ellipsoid(size),
        kind.mjGEOM_CYLINDER: lambda: shapes.Cylinder(*size[:2]),
        kind.mjGEOM_BOX: lambda: shapes.Box(size),
    }
    found = kind(of.model.geom_type[geom])
    if found in makers:
        return makers[found]()
    name, what = of.name("geom", geom), found.name.removeprefix("mjGEOM_").lower()
    if found != kind.mjGEOM_MESH:
        left_out.append(f"geom {name}: a {what} has no counterpart")
        return None
    from scipy.spatial import ConvexHull, QhullError  # here, as few scenes need it

    mesh = of.model.mesh(of.model.geom_dataid[geom])
    vertices = of.model.mesh_vert[mesh.vertadr[0] :][: mesh.vertnum[0]].astype(float)
    try:
        corners = vertices[ConvexHull(vertices).vertices]
        if len(corners) <= _MOST_VERTICES:
            return shapes.Polytope(corners)
        left_out.append(f"geom {name}: the hull of its mesh has {len(corners)} vertices, and may have {_MOST_VERTICES}")
    except (ValueError, QhullError) as error:
        left_out.append(f"geom {name}: the hull of its mesh is no polytope ({str(error).splitlines()[0]})")
    return None


def _pose(of: Compiled, root: int, geom: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of a geom in the coordinates of its body."""
    if of.model.geom_bodyid[geom] == root:  # as the file has it
        return tuple(of.model.geom_pos[geom].tolist()), tuple(of.model.geom_quat[geom].tolist())
    turn = of.place(root)[1].T @ of.data.geom_xmat[geom].reshape(3, 3)
    return of.seen(root, of.data.geom_xpos[geom]), of.quaternion(turn)


def _mass(of: Compiled, root: int) -> tuple[float, tuple, np.ndarray]:
    """Mass [kg], inertia about the centre of mass [kg m^2] and that centre (3,) [m], in the
    coordinates of the root."""
    members, model, (position, turn) = of.members[root], of.model, of.place(root)
    masses = model.body_mass[members]
    if len(members) == 1:
        centre = model.body_ipos[root].copy()
        axes = [np.zeros(9)]
        of.mujoco.mju_quat2Mat(axes[0], model.body_iquat[root])
        centres = np.array([centre])
    else:
        centres = (of.data.xipos[members] - position) @ turn
        axes = [turn.T @ of.data.ximat[body].reshape(3, 3) for body in members]
        centre = masses @ centres / np.sum(masses)
    inertia = np.zeros((3, 3))
    for body, mass, own, arm in zip(members, masses, axes, centres - centre, strict=True):
        frame = own.reshape(3, 3)
        inertia += (frame * model.body_inertia[body]) @ frame.T + mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    inertia = (inertia + inertia.T) / 2
    diagonal = np.array_equal(inertia, np.diag(np.diag(inertia)))
    return float(np.sum(masses)), tuple(np.diag(inertia).tolist()) if diagonal else _rows(inertia), centre


def _ellipsoid(of: Compiled, mass: float, inertia: tuple, centre: np.ndarray):
    """What has this inertia when it is filled evenly, and its pose: I_x = m (b^2 + c^2) / 5."""
    matrix = np.array(inertia)
    moments, axes = np.linalg.eigh(matrix if matrix.ndim == 2 else np.diag(matrix))
    squares = np.maximum(5 / mass * (np.sum(moments) / 2 - moments), 0.0)
    semi_axes = np.maximum(np.sqrt(squares), _FLATTEST * np.sqrt(np.max(squares)))
    axes[:, 2] = np.cross(axes[:, 0], axes[:, 1])
    return shapes.Ellipsoid(semi_axes), (tuple(centre.tolist()), of.quaternion(axes))


def _velocity(of: Compiled, root: int, centre: np.ndarray) -> tuple[float, ...] | None:
    """Of the centre of mass [m/s], and [rad/s]; None at rest."""
    found = np.zeros(6)
    of.mujoco.mj_objectVelocity(of.model, of.data, of.mujoco.mjtObj.mjOBJ_XBODY, root, found, 0)
    spin, linear = found[:3], found[3:] + np.cross(found[:3], centre - of.data.xpos[root])
    return tuple([*linear.tolist(), *spin.tolist()]) if np.any(found) else None


def _against_weight(of: Compiled, root: int, mass: float, left_out: list[str]) -> tuple[float, ...] | None:
    """The force [N] of gravcomp, which is that of every member here."""
    shares = set(of.model.body_gravcomp[of.members[root]].tolist())
    if shares == {0.0}:
        return None
    if len(shares) > 1:
        left_out.append(f"gravcomp of {of.names[root]}: bodies that are one here have different ones")
        return None
    return (*(-mass * shares.pop() * gravity(of)).tolist(), 0.0, 0.0, 0.0)


def gravity(of: Compiled) -> np.ndarray:
    """(3,) [m/s^2]"""
    return of.model.opt.gravity.copy() if of.enabled("GRAVITY") else np.zeros(3)


def _rows(matrix: np.ndarray) -> tuple:
    return tuple(map(tuple, matrix.tolist()))
