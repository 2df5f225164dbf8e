"""A robot's file as MuJoCo compiles it, and which of its bodies move as one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from ..runtime.errors import MissingPackageError, RobotFileError
from ..runtime.files import path_of

STATIC = 0  # the number of the body that stands for the world


@dataclasses.dataclass(frozen=True)
class Compiled:
    """MuJoCo's `model` in the configuration `data`, and its `warnings`. Bodies without a joint
    between them are one here, that of their root; what is static is one body for each geom."""

    mujoco: ModuleType
    model: Any
    data: Any
    warnings: tuple[str, ...]

    def enabled(self, *flags: str) -> bool:
        """Whether none of these is switched off in <option><flag>."""
        bits = [int(getattr(self.mujoco.mjtDisableBit, f"mjDSBL_{flag}")) for flag in flags]
        return not any(self.model.opt.disableflags & bit for bit in bits)

    def name(self, kind: str, number: int) -> str:
        """That of a body, joint or geom, or one that says which it is."""
        return getattr(self.model, kind)(int(number)).name or f"{kind} {number}"

    @cached_property
    def roots(self) -> np.ndarray:
        """The root (nbody,) of each body: the first of those that move as one with it. A mocap
        body, which nothing moves here, is static."""
        roots, mocap = self.model.body_weldid.copy(), np.flatnonzero(self.model.body_mocapid >= 0)
        return np.where(np.isin(roots, mocap), STATIC, roots)

    @cached_property
    def members(self) -> dict[int, list[int]]:
        """The bodies that are one, by the number of their root, `STATIC` included."""
        found: dict[int, list[int]] = {}
        for body, root in enumerate(self.roots.tolist()):
            found.setdefault(root, []).append(body)
        return found

    def root(self, geom: int) -> int:
        """Of the body that a geom sits on."""
        return int(self.roots[self.model.geom_bodyid[geom]])

    def geoms(self, root: int) -> list[int]:
        """Of a body."""
        return [geom for geom in range(self.model.ngeom) if self.root(geom) == root]

    @cached_property
    def pairs(self) -> dict[frozenset[int], int]:
        """The numbers of the listed pairs, by their geoms."""
        listed = zip(self.model.pair_geom1.tolist(), self.model.pair_geom2.tolist(), strict=True)
        return {frozenset(pair): number for number, pair in enumerate(listed)}

    @cached_property
    def touching(self) -> frozenset[int]:
        """The geoms that may touch others."""
        masks = np.flatnonzero(self.model.geom_contype | self.model.geom_conaffinity)
        return frozenset().union(masks.tolist(), *self.pairs)

    @cached_property
    def names(self) -> dict[int, str]:
        """Of moving bodies by their root, and of the world."""
        return {root: self.name("body", root) for root in self.members}

    @cached_property
    def static_names(self) -> dict[int, str]:
        """Of static geoms, which are bodies of their own here."""
        taken, found = set(self.names.values()), {}
        for geom in self.geoms(STATIC):
            name = self.name("geom", geom)
            found[geom] = name if name not in taken else f"{name} (geom {geom})"
            taken.add(found[geom])
        return found

    def place(self, root: int) -> tuple[np.ndarray, np.ndarray]:
        """Position (3,) [m] and rotation (3, 3) of a body's coordinates."""
        return self.data.xpos[root].copy(), self.data.xmat[root].reshape(3, 3).copy()

    def seen(self, root: int, point: np.ndarray) -> tuple[float, ...]:
        """A point (3,) of the world in the coordinates of a body."""
        position, turn = self.place(root)
        return tuple((turn.T @ (point - position)).tolist())

    def turned(self, root: int, axis: np.ndarray) -> tuple[float, ...]:
        """A direction (3,) of the world in the coordinates of a body."""
        return tuple((self.place(root)[1].T @ axis).tolist())

    def quaternion(self, turn: np.ndarray) -> tuple[float, ...]:
        """(4,), w first, of a rotation (3, 3)."""
        found = np.zeros(4)
        self.mujoco.mju_mat2Quat(found, np.ascontiguousarray(turn).ravel())
        return tuple(found.tolist())


def compiled(path: str | os.PathLike, keyframe: str | None) -> Compiled:
    """The model of a file in its first configuration, or in that of a keyframe. Raises
    `SceneFileError` with what MuJoCo says of the file, `OSError` and `ImportError`."""
    try:
        import mujoco
    except ImportError as error:
        raise MissingPackageError("MJCF and URDF are read by MuJoCo: pip install mujoco-core, the extra `mjcf`.") from error
    path_of("path", path).open("rb").close()  # an `OSError` that says what is wrong
    name = os.fspath(path)
    warnings: list[str] = []
    usual = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(warnings.append)
    try:
        model = mujoco.MjSpec.from_file(name).compile()
        data = mujoco.MjData(model)
    except (ValueError, mujoco.FatalError) as error:
        raise RobotFileError(f"{name!r} is refused by MuJoCo {mujoco.__version__}: {error}") from error
    finally:
        mujoco.set_mju_user_warning(usual)
    keys = [model.key(number).name or str(number) for number in range(model.nkey)]
    if keyframe is not None:
        if keyframe not in keys:
            raise RobotFileError(f"{name!r} has no keyframe {keyframe!r}: there are {', '.join(keys) or 'none'}.")
        mujoco.mj_resetDataKeyframe(model, data, keys.index(keyframe))
    moved = _into_ranges(mujoco, model, data.qpos)
    if moved:
        warnings.append(f"starts outside of their ranges, which begin at the nearest bound: {listed(moved)}")
    mujoco.mj_fwdPosition(model, data)
    mujoco.mj_fwdVelocity(model, data)
    return Compiled(mujoco, model, data, tuple(warnings))


def _into_ranges(mujoco: ModuleType, model: Any, qpos: np.ndarray) -> list[str]:
    """Moves coordinates of hinges and slides that are outside of their ranges to the nearest bound,
    as limits are rigid here, and tells their joints. MuJoCo pushes them in with great force."""
    along = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    off = int(mujoco.mjtDisableBit.mjDSBL_LIMIT) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    limited = model.jnt_limited.astype(bool) & np.isin(model.jnt_type, along) & (not model.opt.disableflags & off)
    numbers = np.flatnonzero(limited)
    places = model.jnt_qposadr[numbers]
    inside = np.clip(qpos[places], *model.jnt_range[numbers].T)
    moved = [model.jnt(int(number)).name or f"joint {number}" for number in numbers[inside != qpos[places]]]
    qpos[places] = inside
    return moved


def listed(names: Iterable[str]) -> str:
    """The first of them, and how many more."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
