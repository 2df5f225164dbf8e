"""A run as an `xarray.Dataset`: arrays whose axes have names, with units."""

from __future__ import annotations

import json

import numpy as np

from ..runtime.errors import MissingPackageError

# of contacts and joints: what each is called, the property of its view, its axes beside step and
# contact, and its unit
_CONTACT = (
    ("gap", "gap", (), "m"),
    ("force", "force", ("axis",), "N"),
    ("normal_force", "normal_force", (), "N"),
    ("drilling_torque", "drilling_torque", (), "N m"),
    ("sliding_speed", "sliding_speed", (), "m/s"),
    ("point", "point", ("axis",), "m"),
    ("normal", "normal", ("axis",), "1"),
)
_JOINT = (("joint_force", "force", ("axis",), "N"), ("joint_moment", "moment", ("turn",), "N m"))


def dataset(run):
    """The `xarray.Dataset` of a `Trajectory`. States have the axis `time`; what belongs to steps
    has the axis `step`, with the coordinate `end` [s]. Forces act on the second body, and are means
    over a step. Raises `ImportError` without xarray.
    """
    try:
        import xarray
    except ImportError as error:
        raise MissingPackageError("`to_xarray` needs xarray: pip install xarray.") from error
    d = run.position.shape[-1]
    turns = list("xyz") if d == 3 else ["z"]
    coordinates = {
        "time": ("time", run.time, {"units": "s"}),
        "end": ("step", run.time[1:], {"units": "s"}),
        "body": list(run.names),
        "axis": list("xyz"[:d]),
        "turn": turns,
        "contact": [" and ".join(names) for names in run.contact_names],
        "joint": list(run.joint_names),
    }
    contacts = [run.contact(i) for i in range(len(run.contact_names))]
    joints = [run.joint(i) for i in range(len(run.joint_names))]
    sizes = len(run), {"axis": d, "turn": len(turns)}
    arrays = _states(run, d) | _of_all("contact", contacts, _CONTACT, sizes) | _of_all("joint", joints, _JOINT, sizes)
    found = xarray.Dataset(arrays, coordinates, {"about": repr(run)[1:-1]})
    if run.origin is None:
        return found
    header = run.origin.header()
    return found.assign_attrs(scene=header["scene"] or "", settings=json.dumps(header["settings"]), **header["versions"])


def _states(run, d: int) -> dict:
    """Of bodies, and of steps as a whole."""
    place, turn = ("time", "body", "axis"), ("time", "body", "turn")
    orientation = {"quaternion": (("time", "body", "wxyz"), run.orientation, {"units": "1"})}
    if d == 2:
        orientation = {"angle": (("time", "body"), run.orientation[..., 0], {"units": "rad"})}
    return {
        "position": (place, run.position, {"units": "m"}),
        "velocity": (place, run.velocity[..., :d], {"units": "m/s"}),
        "spin": (turn, run.velocity[..., d:], {"units": "rad/s"}),
        "mass": ("body", run.mass, {"units": "kg"}),
        "h": ("step", np.broadcast_to(run.h, len(run)), {"units": "s"}),
        "violation": ("step", np.max([np.zeros(len(run)), *run.certificate.values()], axis=0), {"units": "1"}),
    } | orientation


def _of_all(kind: str, views: list, properties, sizes) -> dict:
    """The properties of all contacts or joints, side by side."""
    n, lengths = sizes
    found = {}
    for name, own, axes, unit in properties:
        none = np.zeros((n, 0, *(lengths[axis] for axis in axes)))
        values = np.stack([getattr(view, own) for view in views], axis=1) if views else none
        found[name] = ("step", kind, *axes), values, {"units": unit}
    return found
