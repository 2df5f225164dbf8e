"""Small MJCF and URDF files, each written after one feature: what is made of it, or why it is
refused.

Of each: the text; the kinds of its joints in order, or None where it is refused; parts of lines of
what is left out, or of the refusal.
"""

from __future__ import annotations

import math

FLOOR = '<geom name="floor" type="plane" size="5 5 .1"/>'
ARM = '<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>'


def mjcf(world: str, more: str = "", before: str = "") -> str:
    """A file with these in its world, and after and before it."""
    return f"<mujoco>{before}<worldbody>{world}</worldbody>{more}</mujoco>"


def arm(joints: str, inside: str = "", **attributes) -> str:
    """A body with a capsule and these joints."""
    given = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<body name="arm" pos="0 0 1"{given}>{joints}{ARM}{inside}</body>'


def urdf(*parts: str) -> str:
    return '<robot name="r">' + "".join(parts) + "</robot>"


def link(name: str, geometry: str = '<sphere radius=".1"/>', more: str = "") -> str:
    """A link of 2 kg."""
    inertial = '<inertial><origin xyz="0 .1 0" rpy=".1 .2 .3"/><mass value="2"/>'
    inertial += '<inertia ixx=".02" iyy=".03" izz=".04" ixy=".001" ixz="0" iyz="0"/></inertial>'
    collision = f'<collision><origin xyz="0 .1 0" rpy="1 0 0"/><geometry>{geometry}</geometry></collision>'
    return f'<link name="{name}">{inertial}{collision}{more}</link>'


BASE = '<link name="base"><collision><geometry><box size="1 1 1"/></geometry></collision></link>'


def joint(kind: str, child: str = "arm", parent: str = "base", more: str = "", name: str = "") -> str:
    return (
        f'<joint name="{name or "j_" + child}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0 0 1" rpy="0 0 .5"/><axis xyz="0 1 0"/>{more}</joint>'
    )


BALL = '<joint type="ball"/>'
PICTURE = '<geom name="skin" type="box" size="1 1 1" contype="0" conaffinity="0"/>'
CHILD = f'<body name="b" pos=".3 0 0"><joint name="second" axis="0 1 0"/>{ARM}</body>'
HINGE = '<joint name="hinge" axis="0 1 0"/>'
LIMIT = '<limit lower="-1" upper="2" effort="5" velocity="3"/>'
CUBE = " ".join(f"{x} {y} {z}" for x in (-0.1, 0.1) for y in (-0.2, 0.2) for z in (-0.3, 0.3))
SOFT = 'solref=".05 1"'

FILES: dict[str, tuple[str, list[str] | None, list[str]]] = {
    "shapes": (
        mjcf(
            FLOOR
            + "".join(
                f'<body pos="0 {2 * n} 2"><freejoint/><geom type="{kind}" size="{size}"/></body>'
                for n, (kind, size) in enumerate(
                    [*((kind, ".1 .2 .3") for kind in ("sphere", "capsule", "ellipsoid", "cylinder", "box"))]
                )
            )
        ),
        [],
        [],
    ),
    "mesh": (
        mjcf(
            '<body><freejoint/><geom type="mesh" mesh="m" pos=".1 .2 .3" euler="10 20 30"/></body>',
            f'<asset><mesh name="m" vertex="{CUBE}"/></asset>',
        ),
        [],
        [],
    ),
    "start_outside_of_a_range": (
        mjcf(arm('<joint name="knee" axis="0 1 0" range="30 70"/>')),
        ["Hinge", "low 0.0", "high 0.6981317007977318"],
        ["starts outside of their ranges, which begin at the nearest bound: knee"],
    ),
    "walls_that_stand_on_a_floor": (
        mjcf(FLOOR + '<geom name="wall" type="plane" pos="1 0 0" zaxis="-1 0 0" size="1 1 1"/>' + arm("<freejoint/>")),
        [],
        [],
    ),
    "two_hinges_with_ranges": (
        mjcf(arm('<joint name="a" range="-40 50"/><joint name="b" axis="1 0 0" range="-20 30"/>')),
        [
            "Universal",
            *(f"{side} {math.radians(x)}" for side, x in (("low", -40), ("high", 50), ("low", -20), ("high", 30))),
        ],
        [],
    ),
    "height_field": (
        mjcf(
            '<geom type="hfield" hfield="h"/><body pos="0 0 2"><freejoint/><geom size=".1"/></body>',
            '<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1" elevation="0 1 1 0"/></asset>',
        ),
        [],
        ["hfield has no counterpart"],
    ),
    "hinge": (mjcf(FLOOR + arm('<joint name="h" axis="0 1 1" pos="0 0 .1"/>', euler="10 20 30")), ["Hinge"], []),
    "slide": (mjcf(arm('<joint name="s" type="slide" axis="1 2 0"/>', euler="10 20 30")), ["Slider"], []),
    "ball": (mjcf(arm('<joint type="ball" pos="0 0 .1"/>')), ["BallJoint"], []),
    "limits": (
        mjcf(arm('<joint axis="0 1 0" range="-30 60"/>')),
        ["Hinge", "low -0.5235987755982988", "high 1.0471975511965976"],
        [],
    ),
    "limits_in_radian": (
        mjcf(arm('<joint type="slide" ref=".5" range="-1 2"/>'), before='<compiler angle="radian"/>'),
        ["Slider", "low -1.5", "high 1.5"],
        [],
    ),
    "limits_beyond_half_a_turn": (
        mjcf(arm('<joint name="j" axis="0 1 0" range="-270 60"/>')),
        ["Hinge", "low -4.71238898038469", "high 1.0471975511965976"],
        [],
    ),
    "limits_more_than_a_turn_apart": (
        mjcf(arm('<joint name="j" axis="0 1 0" range="-300 70"/>')),
        ["Hinge"],
        ["joint j: its limits, -5.236 and 1.222 rad from the start, a turn apart"],
    ),
    "spring_at_rest_beyond_half_a_turn": (
        mjcf(arm('<joint name="j" axis="0 1 0" stiffness="3" springref="200"/>')),
        ["Hinge"],
        ["joint j: its spring, at rest 3.491 rad from the start, beyond half a turn"],
    ),
    "damping": (mjcf(arm('<joint axis="0 1 0" damping=".2"/>')), ["Hinge", "spring 0.0 0.2 0.0"], []),
    "spring": (
        mjcf(arm('<joint axis="0 1 0" stiffness="3" damping=".2" ref="10" springref="40"/>')),
        ["Hinge", "spring 3.0 0.2 0.5235987755982988"],
        [],
    ),
    "friction_loss": (mjcf(arm('<joint type="slide" axis="1 0 0" frictionloss="4"/>')), ["Slider", "brake 4.0"], []),
    "armature": (mjcf(arm('<joint name="j" axis="0 1 0" armature=".1"/>')), ["Hinge"], ["dof armature", "own here): j"]),
    "universal": (
        mjcf(arm('<joint axis="1 0 0" damping="1"/><joint axis="0 1 0" range="-180 90"/>', euler="10 20 30")),
        ["Universal", "spring 0.0 1.0 0.0", "low -3.141592653589793", "high 1.5707963267948966"],
        [],
    ),
    "three_hinges": (
        mjcf(arm('<joint axis="1 0 0"/><joint axis="0 1 0" range="-10 10"/><joint axis="0 0 1"/>')),
        ["BallJoint"],
        ["limit, as the hinge has no coordinate"],
    ),
    "cylindrical": (
        mjcf(arm('<joint type="slide" axis="0 0 1" damping="2"/><joint axis="0 0 1" damping="3"/>')),
        ["Cylindrical", "spring 0.0 2.0 0.0", "spring 0.0 3.0 0.0"],
        [],
    ),
    "planar": (
        mjcf(arm('<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint axis="0 1 0" stiffness="2"/>')),
        ["Planar", "spring 2.0 0.0 0.0"],
        [],
    ),
    "three_slides_and_a_ball": (
        mjcf(arm("".join(f'<joint type="slide" axis="{xyz}"/>' for xyz in ("1 0 0", "0 1 0", "0 0 1")) + BALL)),
        [],
        [],
    ),
    "two_slides": (mjcf(arm('<joint type="slide"/><joint type="slide" axis="1 0 0"/>')), None, ["its own, with a mass"]),
    "skew_hinges": (mjcf(arm('<joint axis="1 0 0"/><joint axis="1 1 0"/>')), None, ["no joint here leaves free"]),
    "welded_members": (
        mjcf(arm(HINGE, '<body pos=".3 0 .1" euler="10 20 30"><geom type="box" size=".1 .2 .3"/></body>')),
        ["Hinge"],
        [],
    ),
    "chain": (
        mjcf(
            arm(
                HINGE,
                f'<body name="b" pos=".3 0 0"><joint type="slide" axis="1 0 0"/>{ARM}<body name="c" pos=".3 0 0">{BALL}{ARM}'
                "</body></body>",
            )
        ),
        ["Hinge", "Slider", "BallJoint"],
        [],
    ),
    "inertial": (
        mjcf('<body pos="0 0 1"><freejoint/><inertial pos=".1 0 0" mass="3" fullinertia=".2 .3 .4 .01 .02 .03"/></body>'),
        [],
        [],
    ),
    "classes": (
        mjcf(
            '<body childclass="thin"><freejoint/><geom/><geom class="thick" pos=".1 0 0"/></body>',
            before='<default><default class="thin"><geom size=".1" density="500"/><default class="thick"><geom size=".2" '
            'friction=".3"/></default></default></default>',
        ),
        [],
        [],
    ),
    "pictures": (
        mjcf('<body><freejoint/><geom size=".1"/>' + PICTURE + "</body>"),
        [],
        ["which are pictures only: skin"],
    ),
    "soft": (
        mjcf(f'<body><freejoint/><geom name="g" size=".1" {SOFT} margin=".01"/></body>', before='<option cone="elliptic"/>'),
        [],
        ["geom solref (contacts, limits and joints are rigid here): g", "geom margin: g", "own solver: option cone"],
    ),
    "actuators": (
        mjcf(arm(HINGE), '<actuator><motor joint="hinge"/></actuator><sensor><jointpos joint="hinge"/></sensor>'),
        ["Hinge"],
        ["1 actuators", "without a part in the motion: 1 sensors"],
    ),
    "tendons": (
        mjcf(arm(HINGE), '<tendon><fixed name="t"><joint joint="hinge" coef="1"/></fixed></tendon>'),
        ["Hinge"],
        ["1 tendons"],
    ),
    "air": (mjcf(arm(HINGE), before='<option density="1.2" wind="1 0 0"/>'), ["Hinge"], ["the air: option density, wind"]),
    "connect": (
        mjcf(
            arm(HINGE, CHILD),
            '<equality><connect name="loop" body1="b" anchor=".3 0 0"/>'
            '<joint name="gear" joint1="hinge" joint2="second"/></equality>',
        ),
        ["Hinge", "Hinge", "BallJoint"],
        ["equalities without a counterpart: gear (joint)"],
    ),
    "weld": (
        mjcf(
            arm("<freejoint/>") + f'<body name="b" pos=".5 0 1"><freejoint/>{ARM}</body>',
            '<equality><weld name="w" body1="arm" body2="b"/><weld name="off" body1="arm" active="false"/></equality>',
        ),
        ["Fixed"],
        ["equality off: a weld that is not active"],
    ),
    "weld_elsewhere": (
        mjcf(arm("<freejoint/>"), '<equality><weld name="w" body1="arm" relpose="0 0 .1 1 0 0 0"/></equality>'),
        [],
        ["equality w: a weld of poses that the bodies do not have"],
    ),
    "rolling_friction": (
        mjcf(FLOOR + '<body name="b" pos="0 0 1"><freejoint/><geom size=".1" condim="6" friction=".5 .01 .02"/></body>'),
        [],
        ["rolling friction of floor and b"],
    ),
    "masks": (
        mjcf(
            FLOOR + '<body name="b" pos="0 0 2"><freejoint/><geom size=".1" friction="2"/><geom size=".1" pos="1 0 0"/>'
            '<geom size=".1" contype="2" conaffinity="2"/></body>'
        ),
        [],
        [],
    ),
    "joined_and_overlapping": (
        mjcf(f'<geom name="wall" type="box" size=".1 .1 .1" pos="0 0 1"/>{arm(HINGE)}'),
        ["Hinge"],
        ["joined bodies that overlap as they are placed wall and arm"],
    ),
    "nothing_moves": (mjcf(FLOOR), None, ["no body that moves"]),
    "no_mass": (mjcf('<body><freejoint/><geom size=".1" mass="0"/></body>'), None, ["refused by MuJoCo"]),
    "no_step": (mjcf(arm(HINGE), before='<option timestep="0"/>'), None, ["`timestep` = 0 [s], which must be positive"]),
    "not_mjcf": ("<mujoco><worldbody><wheel/></worldbody></mujoco>", None, ["refused by MuJoCo", "wheel"]),
    "not_xml": ("format = 1", None, ["refused by MuJoCo"]),
    "urdf_revolute": (
        urdf(
            link("base"),
            link("arm", '<cylinder radius=".1" length=".4"/>'),
            joint("revolute", more=LIMIT + '<dynamics damping=".1" friction=".3"/>'),
        ),
        ["Hinge", "spring 0.0 0.1 0.0", "brake 0.3", "low -1.0", "high 2.0"],
        ["the mass of the first link, base", "limits of speed: j_arm", "limits of effort, as there are no actuators: j_arm"],
    ),
    "urdf_prismatic": (
        urdf(BASE, link("arm"), joint("prismatic", more=LIMIT)),
        ["Slider", "low -1.0", "high 2.0"],
        ["limits of speed", "limits of effort"],
    ),
    "urdf_continuous": (urdf(BASE, link("arm"), joint("continuous")), ["Hinge"], []),
    "urdf_floating": (urdf('<link name="world"/>', link("arm"), joint("floating", parent="world")), [], []),
    "urdf_fixed": (
        urdf(BASE, link("arm"), joint("continuous"), link("hand", '<box size=".1 .2 .3"/>'), joint("fixed", "hand", "arm")),
        ["Hinge"],
        [],
    ),
    "urdf_mimic": (
        urdf(BASE, link("arm"), joint("continuous"), link("b"), joint("continuous", "b", "arm", '<mimic joint="j_arm"/>')),
        ["Hinge", "Hinge"],
        ["equalities without a counterpart: "],
    ),
    "urdf_more": (
        urdf(
            BASE,
            link("arm", more="<visual><geometry><box size='1 1 1'/></geometry></visual>"),
            joint("continuous"),
            '<transmission name="t"><type>x</type></transmission><gazebo><mu1>1</mu1></gazebo>',
        ),
        ["Hinge"],
        ["pictures of links: arm", "does not read of a URDF file: gazebo, transmission"],
    ),
    "urdf_without_mesh": (urdf(BASE, link("arm", '<mesh filename="no.stl"/>'), joint("continuous")), None, ["no.stl"]),
}
