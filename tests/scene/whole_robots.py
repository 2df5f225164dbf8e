"""Thirty whole robots and scenes in MJCF and URDF, each written after the features of a kind that
public collections have: default classes, actuators, sensors, tendons, keyframes, equalities.

`TEXTS` has the texts. `FOUND` has of each how many bodies move, how many joints and things along
joints hold them, how many contacts they may have, and parts of all lines of what is left out; or of
a file that is refused, parts of the refusal alone.
"""

from __future__ import annotations

LOOKS = (
    '<asset><texture name="grid" type="2d" builtin="checker" width="64" height="64" rgb1=".1 .2 .3" rgb2=".2 .3 .4"/>'
    '<material name="grid" texture="grid" texrepeat="4 4"/></asset>'
)
SKY = '<light pos="0 0 4"/><camera name="side" pos="0 -4 1" xyaxes="1 0 0 0 0 1"/>'
GROUND = '<geom name="floor" type="plane" size="20 20 .1" friction="1 .1 .1"/>'
SLIDES = '<joint name="rootx" type="slide" axis="1 0 0"/><joint name="rootz" type="slide" axis="0 0 1"/>'
PLANAR = SLIDES + '<joint name="rooty" axis="0 1 0"/>'
FLAT = '<joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/><joint name="z" axis="0 0 1"/>'


def robot(world: str, *parts: str, joint: str = "", geom: str = "", option: str = "") -> str:
    """A file with defaults for joints and geoms, options, a world and other parts."""
    default = f"<default><joint {joint}/><geom {geom}/></default>"
    return (
        f'<mujoco model="r"><compiler angle="degree" autolimits="true"/><option timestep=".005" {option}/>{default}'
        f"<worldbody>{world}</worldbody>{''.join(parts)}</mujoco>"
    )


def motors(*joints: str, kind: str = "motor", more: str = 'gear="50"') -> str:
    return "<actuator>" + "".join(f'<{kind} joint="{name}" {more}/>' for name in joints) + "</actuator>"


def link(name: str, length: float, inside: str = "", *, joints: str = "", at: str = "0 0 0", axis: str = "0 0 -1") -> str:
    """A body of a capsule along `axis`, and what hangs on its end."""
    x, y, z = (length * float(part) for part in axis.split())
    held = joints or f'<joint name="{name}" axis="0 1 0"/>'
    hung = inside.replace("@end", f"{x} {y} {z}")
    return f'<body name="{name}" pos="{at}">{held}<geom type="capsule" fromto="0 0 0 {x} {y} {z}" size=".03"/>{hung}</body>'


def legs(count: int, radius: float = 0.3) -> str:
    """Legs of a hip and a knee around a trunk."""
    found = []
    for i in range(count):
        x, y = [(1, 1), (-1, 1), (-1, -1), (1, -1), (0, 1), (0, -1)][i]
        hip = f'<joint name="hip{i}" axis="0 0 1" range="-30 30"/>'
        knee = f'<joint name="knee{i}" axis="{-y or 0} {x or 1} 0" range="30 70"/>'
        shin = f'<body name="shin{i}" pos="{0.2 * x} {0.2 * y} 0">{knee}<geom name="shin{i}" type="capsule" fromto="0 0 0 '
        shin += f'{0.3 * x} {0.3 * y} 0" size=".04"/></body>'
        found.append(
            f'<body name="leg{i}" pos="{radius * x} {radius * y} 0">{hip}<geom type="capsule" '
            f'fromto="0 0 0 {0.2 * x} {0.2 * y} 0" size=".04"/>{shin}</body>'
        )
    return "".join(found)


def chain(count: int, joint: str, length: float = 0.1, axis: str = "1 0 0") -> str:
    """Links one after another, the names of whose joints end with their number."""
    inside = ""
    for i in reversed(range(count)):
        inside = link(f"link{i}", length, inside, joints=joint.replace("#", str(i)), at="@end" if i else "0 0 1", axis=axis)
    return inside


def finger(name: str, place: str) -> str:
    inner = link(f"{name}_tip", 0.04, joints=f'<joint name="{name}_bend" axis="0 1 0" range="0 90"/>', at="@end")
    return link(f"{name}_base", 0.05, inner, joints=f'<joint name="{name}_turn" axis="0 1 0" range="0 90"/>', at=place)


def wheels(*places: str) -> str:
    return "".join(
        f'<body name="wheel{i}" pos="{at}"><joint name="spin{i}" axis="0 1 0" damping=".01"/><geom type="cylinder" '
        'size=".06 .02" euler="90 0 0"/></body>'
        for i, at in enumerate(places)
    )


def limb(side: int) -> str:
    """An arm and a leg of a humanoid, on one side."""
    y, name = 0.1 * side, "left" if side > 0 else "right"
    shin = link(f"{name}_shin", 0.3, joints=f'<joint name="{name}_knee" axis="0 -1 0" range="-160 2"/>', at="@end")
    hip = "".join(
        f'<joint name="{name}_hip_{axis}" axis="{vector}" range="-60 40" armature=".01" stiffness="10" damping="5"/>'
        for axis, vector in (("x", "1 0 0"), ("z", "0 0 1"), ("y", "0 1 0"))
    )
    forearm = link(f"{name}_forearm", 0.25, joints=f'<joint name="{name}_elbow" axis="0 1 0" range="-90 50"/>', at="@end")
    shoulder = f'<joint name="{name}_shoulder1" axis="1 0 0" range="-85 60"/>'
    shoulder += f'<joint name="{name}_shoulder2" axis="0 1 0" range="-85 60"/>'
    return link(f"{name}_thigh", 0.35, shin, joints=hip, at=f"0 {y} -.3") + link(
        f"{name}_arm", 0.25, forearm, joints=shoulder, at=f"0 {2 * y} .1"
    )


def urdf_link(name: str, geometry: str = '<box size=".1 .1 .3"/>') -> str:
    inertial = '<inertial><mass value="1"/><inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial>'
    return f'<link name="{name}">{inertial}<collision><geometry>{geometry}</geometry></collision></link>'


def urdf_joint(parent: str, child: str, kind: str = "revolute", axis: str = "0 1 0", at: str = "0 0 .4") -> str:
    limit = '<limit lower="-1" upper="1" effort="10" velocity="2"/>' if kind in ("revolute", "prismatic") else ""
    return (
        f'<joint name="to_{child}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}"/>'
        f'<axis xyz="{axis}"/>{limit}</joint>'
    )


def urdf(*parts: str) -> str:
    return f'<robot name="r">{"".join(parts)}</robot>'


CUBE = " ".join(f"{x} {y} {z}" for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1))
TRUNK = '<freejoint name="root"/><geom name="trunk" type="ellipsoid" size=".35 .35 .12"/>'
PENDULUM = link("pole", 0.6, joints='<joint name="hinge" axis="0 1 0" damping=".05"/>', at="0 0 1")
CART = '<joint name="slider" type="slide" axis="1 0 0" range="-1 1"/><geom type="box" size=".1 .08 .05"/>'
BALL_ON = '<body name="ball" pos="0 0 1"><freejoint/><geom type="sphere" size=".1" mass=".5"/></body>'

TEXTS: dict[str, str] = {
    "pendulum": robot(GROUND + PENDULUM, motors("hinge"), LOOKS),
    "cartpole": robot(
        '<geom name="rail" type="capsule" fromto="-2 0 1 2 0 1" size=".02" contype="0" conaffinity="0"/>'
        f'<body name="cart" pos="0 0 1">{CART}{link("pole", 0.6, axis="0 0 1")}</body>',
        motors("slider"),
        geom='contype="0" conaffinity="0"',
    ),
    "double_pendulum_on_a_cart": robot(
        f'<body name="cart" pos="0 0 1">{CART}{link("pole", 0.6, link("pole2", 0.6, at="@end", axis="0 0 1"), axis="0 0 1")}'
        "</body>",
        motors("slider"),
        geom='contype="0"',
        option='gravity="0 0 -9.81" integrator="RK4"',
    ),
    "acrobot": robot(SKY + chain(2, '<joint name="j#" axis="0 1 0" damping=".05"/>', 0.5, "0 0 1"), motors("j1"), LOOKS),
    "reacher": robot(
        GROUND
        + chain(2, '<joint name="j#" axis="0 0 1" damping="1"/>')
        + '<body name="target" pos=".2 .1 .01"><joint name="tx" type="slide" axis="1 0 0"/><joint name="ty" type="slide" '
        'axis="0 1 0"/><geom type="sphere" size=".01" contype="0" conaffinity="0"/></body>',
        motors("j0", "j1"),
    ),
    "hopper": robot(
        GROUND
        + link(
            "torso",
            0.4,
            link("thigh", 0.4, link("shank", 0.5, link("foot", 0.2, at="@end", axis="1 0 0"), at="@end"), at="@end"),
            joints=PLANAR,
            at="0 0 1.4",
        ),
        motors("thigh", "shank", "foot"),
        joint='armature="1" damping="1"',
    ),
    "cheetah": robot(
        GROUND
        + f'<body name="torso" pos="0 0 .9">{PLANAR}<geom type="capsule" fromto="-.5 0 0 .5 0 0" size=".05"/>'
        + "".join(link(f"{name}_thigh", 0.3, link(f"{name}_shin", 0.3, at="@end"), at=at) for name, at in
                  (("back", "-.5 0 0"), ("front", ".5 0 0")))
        + "</body>",
        motors("back_thigh", "back_shin", "front_thigh", "front_shin"),
        joint='stiffness="8" damping="1"',
    ),
    "swimmer": robot(
        f'<body name="head">{FLAT}<geom type="capsule" fromto="0 0 0 .2 0 0" size=".03"/>'
        + link("tail", 0.3, joints='<joint name="j" axis="0 0 1"/>', axis="-1 0 0")
        + "</body>",
        motors("j"),
        option='density="4000" viscosity=".1"',
    ),
    "ant": robot(
        SKY + GROUND + f'<body name="torso" pos="0 0 .75">{TRUNK}{legs(4)}</body>',
        LOOKS,
        motors(*(f"{name}{i}" for i in range(4) for name in ("hip", "knee")), more='ctrllimited="true" ctrlrange="-1 1"'),
        '<sensor><framepos objtype="body" objname="torso"/></sensor>',
        joint='armature="1" damping="1"',
        geom='conaffinity="1" condim="3" density="5" friction="1 .5 .5" margin=".01"',
    ),
    "quadruped_that_stands": robot(
        GROUND + f'<body name="torso" pos="0 0 .5">{TRUNK}{legs(4)}</body>',
        motors(*(f"knee{i}" for i in range(4)), kind="position", more='kp="50"'),
        '<keyframe><key name="home" qpos="0 0 .5 1 0 0 0 0 50 0 50 0 50 0 50"/></keyframe>',
    ),
    "hexapod": robot(GROUND + f'<body name="torso" pos="0 0 .5">{TRUNK}{legs(6)}</body>', motors("hip0", "knee5")),
    "humanoid": robot(
        SKY
        + GROUND
        + '<body name="torso" pos="0 0 1.3"><freejoint name="root"/><geom type="capsule" fromto="0 -.07 0 0 .07 0" '
        'size=".07"/><geom name="head" type="sphere" pos="0 0 .19" size=".09"/><site name="imu"/>'
        f"{limb(1)}{limb(-1)}</body>",
        LOOKS,
        '<tendon><fixed name="hamstring"><joint joint="left_hip_y" coef=".5"/><joint joint="left_knee" coef="-.5"/></fixed>'
        "</tendon>",
        motors("left_knee", "right_knee", more='gear="100"'),
        '<sensor><gyro site="imu"/></sensor>',
        '<contact><exclude body1="torso" body2="left_thigh"/></contact>',
    ),
    "rag_doll_of_balls": robot(
        GROUND
        + BALL_ON.replace('name="ball"', 'name="skull"')
        + chain(5, '<joint name="j#" type="ball" damping=".1"/>', 0.2)
    ),
    "arm_of_six": robot(
        GROUND
        + '<body name="base" pos="0 0 .1"><geom type="cylinder" size=".08 .1"/>'
        + chain(6, '<joint name="j#" axis="0 1 0" range="-170 170" frictionloss=".2" armature=".1"/>', 0.2, "0 0 1")
        + "</body>",
        motors("j0", "j1", "j2", "j3", "j4", "j5", kind="position", more='kp="100"'),
    ),
    "arm_without_weight": robot(
        '<body name="upper" gravcomp="1" pos="0 0 1"><joint name="s" type="ball"/><geom type="capsule" size=".04 .2"/>'
        '<body name="lower" gravcomp="1" pos="0 0 .3"><joint name="e" axis="1 0 0"/><geom type="capsule" size=".03 .2"/>'
        "</body></body>"
    ),
    "gripper": robot(
        GROUND
        + '<body name="hand" pos="0 0 .5"><joint name="lift" type="slide" axis="0 0 1" range="-.3 .3"/><geom type="box" '
        'size=".1 .05 .02"/>'
        + "".join(
            f'<body name="{name}" pos="{0.06 * side} 0 -.06"><joint name="{name}" type="slide" axis="{-side} 0 0" '
            'range="0 .05"/><geom type="box" size=".01 .02 .05" friction="1.5 .01 .001" condim="4"/></body>'
            for name, side in (("left", -1), ("right", 1))
        )
        + '</body><body name="thing" pos="0 0 .05"><freejoint/><geom type="box" size=".03 .03 .05"/></body>',
        '<equality><joint joint1="left" joint2="right"/></equality>',
        motors("left", kind="position", more='kp="200" ctrlrange="0 .05"'),
    ),
    "hand_of_tendons": robot(
        f'<body name="palm" pos="0 0 1"><freejoint/><geom type="box" size=".06 .06 .02"/>{finger("a", ".05 0 -.02")}'
        f"{finger('b', '-.05 0 -.02')}</body>",
        '<tendon><fixed name="pull"><joint joint="a_turn" coef="1"/><joint joint="a_bend" coef="1"/></fixed></tendon>',
        '<actuator><motor tendon="pull"/></actuator>',
    ),
    "car": robot(
        GROUND
        + '<body name="car" pos="0 0 .1"><freejoint/><geom type="box" size=".2 .1 .03"/>'
        + wheels(".15 .12 -.03", ".15 -.12 -.03", "-.15 .12 -.03", "-.15 -.12 -.03")
        + "</body>",
        motors("spin0", "spin1", kind="velocity", more='kv="1"'),
    ),
    "segway": robot(
        GROUND
        + '<body name="rider" pos="0 0 .3"><freejoint/><geom type="capsule" fromto="0 0 -.2 0 0 .5" size=".05"/>'
        + wheels("0 .15 -.24", "0 -.15 -.24")
        + "</body>"
    ),
    "drone": robot(
        GROUND
        + '<body name="drone" pos="0 0 1"><freejoint/><geom type="box" size=".1 .1 .02"/><site name="rotor" pos=".1 0 0"/>'
        "</body>",
        '<actuator><general site="rotor" gear="0 0 1 0 0 .1"/></actuator>',
        option='wind="1 0 0" density="1.2"',
    ),
    "four_bar": robot(
        chain(3, '<joint name="j#" axis="0 1 0"/>', 0.3),
        '<equality><connect body1="link2" body2="world" anchor=".3 0 0"/></equality>',
        geom='contype="0" conaffinity="0"',
    ),
    "platform_on_three_legs": robot(
        '<body name="plate" pos="0 0 .5"><freejoint/><geom type="cylinder" size=".3 .02"/></body>'
        + "".join(
            f'<body name="leg{i}" pos="{x} {y} .25"><joint name="swing{i}" type="ball" pos="0 0 -.25"/><geom type="capsule" '
            f'size=".02 .2"/></body>'
            for i, (x, y) in enumerate(((0.2, 0), (-0.1, 0.17), (-0.1, -0.17)))
        ),
        "<equality>"
        + "".join(f'<connect body1="leg{i}" body2="plate" anchor="0 0 .25"/>' for i in range(3))
        + "</equality>",
        geom='contype="0" conaffinity="0"',
    ),
    "ball_in_a_cup": robot(
        GROUND + BALL_ON + '<site name="hook" pos="0 0 2"/><body name="cup" pos="1 0 1"><joint name="x" type="slide" '
        'axis="1 0 0"/><geom type="box" size=".1 .1 .01"/><site name="rim"/></body>',
        '<tendon><spatial range="0 1.5"><site site="hook"/><site site="rim"/></spatial></tendon>',
    ),
    "point_mass": robot(
        '<body name="mass"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>'
        '<geom type="sphere" size=".01" mass=".3"/></body>',
        motors("x", "y"),
    ),
    "rope": robot(chain(10, '<joint name="a#" axis="0 1 0" damping=".01"/><joint name="b#" axis="0 0 1" damping=".01"/>')),
    "pile_of_blocks": robot(
        GROUND
        + "".join(
            f'<body name="block{i}" pos="0 0 {0.05 + 0.1 * i}"><freejoint/><geom class="block" type="box" '
            'size=".05 .05 .05"/></body>'
            for i in range(5)
        ),
        geom='friction=".7"',
    ).replace("</default>", '<default class="block"><geom solref=".01 1"/></default></default>'),
    "mesh_on_a_conveyor": robot(
        '<geom name="belt" type="box" size="1 .2 .02"/><body name="part" pos="0 0 .2"><freejoint/><geom type="mesh" '
        'mesh="cube"/></body><body name="hand" mocap="true" pos="1 0 1"><geom type="sphere" size=".1" contype="0" '
        'conaffinity="0"/></body>',
        f'<asset><mesh name="cube" vertex="{CUBE}"/></asset>',
        '<equality><weld body1="part" body2="hand" relpose="1 0 .8 1 0 0 0"/></equality>',
    ),
    "hills": robot(
        '<geom type="hfield" hfield="hills"/>' + BALL_ON,
        '<asset><hfield name="hills" nrow="3" ncol="3" size="2 2 .2 .1" elevation="0 1 0 1 2 1 0 1 0"/></asset>',
    ),
    "urdf_arm": urdf(
        urdf_link("base"),
        *(urdf_link(f"l{i}") for i in range(4)),
        urdf_joint("base", "l0", "continuous", "0 0 1"),
        urdf_joint("l0", "l1"),
        urdf_joint("l1", "l2"),
        urdf_joint("l2", "l3", "prismatic", "0 0 1"),
    ),
    "urdf_dog": urdf(
        '<link name="world"/>',
        urdf_link("trunk", '<box size=".4 .2 .1"/>'),
        urdf_joint("world", "trunk", "floating", at="0 0 .6"),
        *(urdf_link(f"{name}{i}", '<cylinder radius=".02" length=".2"/>') for i in range(4) for name in ("thigh", "calf")),
        *(urdf_joint("trunk", f"thigh{i}", at=f"{x} {y} -.2") for i, (x, y) in
          enumerate(((0.2, 0.15), (0.2, -0.15), (-0.2, 0.15), (-0.2, -0.15)))),
        *(urdf_joint(f"thigh{i}", f"calf{i}", at="0 0 -.25") for i in range(4)),
    ),
}  # fmt: skip

SLIDES_ALONE = (": no joint here leaves free what they do together. Give each a body of its own",)
LOOKED_AT = "without a part in the motion: "
NO_COORDINATE = "of its own here"
STARTS = "starts outside of their ranges, which begin at the nearest bound: knee0"
FOUND: dict[str, tuple[tuple[int, int, int] | None, tuple[str, ...]]] = {
    "pendulum": ((1, 2, 1), ("1 actuators", LOOKED_AT)),
    "cartpole": ((2, 4, 0), ("pictures only: rail", "1 actuators")),
    "double_pendulum_on_a_cart": ((3, 5, 0), ("1 actuators", "MuJoCo's own solver: option integrator")),
    "acrobot": ((2, 4, 0), ("1 actuators", LOOKED_AT)),
    "reacher": (None, ("the body 'target' has the joints tx (slide), ty (slide)", *SLIDES_ALONE)),
    "hopper": ((4, 8, 7), ("joint rootx: damping", "joint rootz: damping", "dof armature", "3 actuators")),
    "cheetah": ((5, 10, 11), ("joint rootx: stiffness, damping", "joint rootz: stiffness, damping", "4 actuators")),
    "swimmer": ((2, 2, 0), ("1 actuators", "the air: option density, viscosity")),
    "ant": ((9, 32, 37), (STARTS, "geom margin: floor", "dof armature", "8 actuators", LOOKED_AT)),
    "quadruped_that_stands": ((9, 24, 37), (STARTS, "4 actuators", "keyframes, in which a scene begins")),
    "hexapod": ((13, 36, 79), (STARTS, "2 actuators")),
    "humanoid": ((9, 24, 42), (NO_COORDINATE, "dof armature", "2 actuators", "1 tendons", LOOKED_AT)),
    "rag_doll_of_balls": ((6, 5, 17), (NO_COORDINATE,)),
    "arm_of_six": ((6, 24, 22), ("dof armature", "6 actuators")),
    "arm_without_weight": ((2, 2, 0), ()),
    "gripper": ((4, 9, 8), ("equalities without a counterpart: equality 0 (joint)", "1 actuators")),
    "hand_of_tendons": ((5, 12, 6), ("1 actuators", "1 tendons")),
    "car": ((5, 8, 11), ("2 actuators",)),
    "segway": ((3, 4, 4), ()),
    "drone": ((1, 0, 1), ("1 actuators", "the air: option density, wind", LOOKED_AT)),
    "four_bar": ((3, 4, 0), ()),
    "platform_on_three_legs": ((4, 6, 0), ()),
    "ball_in_a_cup": ((2, 1, 3), ("1 tendons", LOOKED_AT)),
    "point_mass": (None, ("the body 'mass' has the joints x (slide), y (slide)", *SLIDES_ALONE)),
    "rope": ((10, 30, 36), ()),
    "pile_of_blocks": ((5, 0, 15), ("geom solref (contacts, limits and joints are rigid here)",)),
    "mesh_on_a_conveyor": ((1, 1, 1), ("pictures only: geom 2", "1 mocap bodies, which stand still here")),
    "hills": ((1, 0, 0), ("geom geom 0: a hfield has no counterpart",)),
    "urdf_arm": ((4, 10, 7), ("the mass of the first link, base", "limits of speed", "limits of effort")),
    "urdf_dog": ((9, 24, 28), ("limits of speed", "limits of effort")),
}
