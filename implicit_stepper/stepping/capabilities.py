"""What a time-stepper can do, which runs ask in the place of its name."""

from __future__ import annotations

import dataclasses
import enum


class FindsPairs(enum.Enum):
    """Whether runs of a stepper find the pairs that may touch step by step."""

    NEVER = "never"
    BY_SIZE = "by size"  # where there are many
    ALWAYS = "always"


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """Of a stepper as it is set: whether it knows `joints`, `joint_laws` (also their friction,
    limits and motors), `static_friction` (coefficients of their own for what sticks, in steps of
    one length) and `compliance`; whether its steps end with closed joints (`closes_joints`), and
    whether joints bring energy by them (`gains_by_joints`); whether the normals that it records are
    those at the start of the step (`normals_at_start`), and its memory has the last `gaps` (nc,)
    [m] (`keeps_gaps`). Whether runs of one step h know a restitution (`rebounds`), and whether what
    meets at one time meets pair after pair (`sequential`). Whether it chooses its steps
    (`adaptive`), and shorter ones may stand for one (`divisible`); whether its steps have
    derivatives (`differentiable`), and many scenes are one program (`side_by_side`); and when its
    runs find their pairs (`finds_pairs`)."""

    joints: bool = False
    joint_laws: bool = False
    static_friction: bool = False
    compliance: bool = False
    closes_joints: bool = False
    gains_by_joints: bool = False
    normals_at_start: bool = False
    keeps_gaps: bool = False
    rebounds: bool = False
    sequential: bool = False
    adaptive: bool = False
    divisible: bool = True
    differentiable: bool = False
    side_by_side: bool = False
    finds_pairs: FindsPairs = FindsPairs.NEVER
