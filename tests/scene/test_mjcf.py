"""MJCF and URDF: a file is imported, with a list of what is left out, or refused. MuJoCo's own
numbers are the reference."""

import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import scipy.integrate

import implicit_stepper as ist
from implicit_stepper.commands.main import main
from implicit_stepper.scene.description import JointDescription
from implicit_stepper.scene.toml_text import written

sys.path.insert(0, str(Path(__file__).parent))
from robots import ARM, FILES, FLOOR, HINGE, LIMIT, arm, link, mjcf, urdf  # noqa: E402
from robots import joint as urdf_joint  # noqa: E402
from whole_robots import FOUND, TEXTS  # noqa: E402


def file_of(tmp_path, text, suffix=".xml"):
    path = tmp_path / f"robot{suffix}"
    path.write_text(text)
    return path


def told(joint) -> str:
    """A joint in a word or a few."""
    if isinstance(joint, JointDescription):
        return type(joint.joint).__name__
    if joint.side is not None:
        return f"{joint.side} {joint.bound}"
    return f"brake {joint.most}" if joint.speed == 0.0 else f"spring {joint.stiffness} {joint.damping} {joint.rest}"


def assert_refused(path, lines):
    """That a file is refused, and told all of `lines`."""
    with pytest.raises(ist.SceneFileError) as refusal:
        ist.load_mjcf(path)
    assert [line for line in lines if line not in str(refusal.value)] == []


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_imported_with_a_list_or_refused(name, tmp_path, monkeypatch):
    """And what is imported is a scene file too."""
    text, joints, lines = FILES[name]
    monkeypatch.chdir(tmp_path)
    path = file_of(Path(), text, ".urdf" if name.startswith("urdf") else ".xml")
    if joints is None:
        assert_refused(path, lines)
        return
    scene, left_out = ist.load_mjcf(path)
    assert [told(joint) for joint in scene.description().joints] == joints
    assert [line for line in lines if not any(line in found for found in left_out)] == []
    assert [found for found in left_out if not any(line in found for line in lines)] == []
    model = mujoco.MjModel.from_xml_path(str(path))
    assert_has_the_bodies_of(scene, model)
    assert_moves_as(scene, model)
    scene.save("scene.toml")
    first, again = scene.description(), ist.load_scene("scene.toml").description()
    assert repr(again.joints) == repr(first.joints)
    assert [(body.mass, body.inertia, body.apart) for body in again.bodies] == [
        (body.mass, body.inertia, body.apart) for body in first.bodies
    ]


def roots(model):
    """MuJoCo's bodies that move, of which each with those welded to it is one of ours, in order."""
    return [body for body in range(1, model.nbody) if model.body_weldid[body] == body]


def begun(model):
    """Where MuJoCo begins, with all joints inside their ranges."""
    data = mujoco.MjData(model)
    for joint in np.flatnonzero(model.jnt_limited):
        if mujoco.mjtJoint(model.jnt_type[joint]) in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
            place = model.jnt_qposadr[joint]
            data.qpos[place] = np.clip(data.qpos[place], *model.jnt_range[joint])
    return data


def placed(model, data):
    """Centre of mass (n, 3), rotation (n, 3, 3) and quaternion (n, 4) of each, and inertias (n, 3,
    3) in the world."""
    of_all = []
    for root in roots(model):
        members = np.flatnonzero(model.body_weldid == root)
        mass, centres = model.body_mass[members], data.xipos[members]
        centre = mass @ centres / np.sum(mass)
        inertia = np.zeros((3, 3))
        for member, m, x in zip(members, mass, centres - centre, strict=True):
            axes = data.ximat[member].reshape(3, 3)
            inertia += axes @ np.diag(model.body_inertia[member]) @ axes.T + m * (x @ x * np.eye(3) - np.outer(x, x))
        of_all.append((np.sum(mass), centre, data.xmat[root].reshape(3, 3), data.xquat[root].copy(), inertia))
    return map(np.array, zip(*of_all, strict=True))


def assert_has_the_bodies_of(scene, model):
    """Masses, centres of mass, orientations and inertias, as MuJoCo compiled them."""
    data = begun(model)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    system, state = scene.build()
    mass, centre, turn, _, inertia = placed(model, data)
    own = turn @ np.asarray(system.inertia) @ turn.transpose(0, 2, 1)
    np.testing.assert_allclose(system.mass, mass, rtol=1e-14)
    np.testing.assert_allclose(state.position, centre, atol=1e-14)
    np.testing.assert_allclose(own, inertia, atol=1e-14 * np.max(inertia))
    np.testing.assert_allclose(np.sum(mass), model.body_subtreemass[0] - np.sum(model.body_mass[model.body_weldid == 0]))


def assert_moves_as(scene, model):
    """Wherever MuJoCo's joints can go ours are closed, with its coordinates; and they leave no more
    freedom than those."""
    system, state = scene.build()
    tree = [group for group in system.joints if group.bilateral and not group.unilateral]
    rows = sum(group.closures * len(group.numbers) for group in tree)
    # beside the tree, MuJoCo's equalities
    connected = sum({"loop": 3, "w": 6}.get(name, 0) for name in system.joint_names)
    assert rows - connected == 6 * system.body_count - model.nv
    if connected:
        return
    rng = np.random.default_rng(0)
    data = begun(model)
    begin = data.qpos.copy()
    for _ in range(3):
        speeds = rng.uniform(-1.0, 1.0, model.nv)
        data.qpos[:] = begin
        mujoco.mj_integratePos(model, data.qpos, speeds, 1.0)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        _, centre, _, quaternion, _ = placed(model, data)
        position = np.concatenate([centre, system.fixed_position])
        orientation = np.concatenate([quaternion, system.fixed_orientation])
        for group in tree:
            for i, pair in enumerate(group.bodies):
                parameters = {name: value[i] for name, value in group.parameters.items()}
                poses = [(position[body], orientation[body]) for body in pair]
                np.testing.assert_allclose(group.closure(parameters, *poses, 0.0), 0.0, atol=1e-12)
                if group.coordinates is None:
                    continue
                found = np.asarray(group.coordinates(parameters, *poses))
                own = [n for n in range(model.njnt) if model.jnt_bodyid[n] == roots(model)[pair[1]]]
                turned = np.array([data.qpos[model.jnt_qposadr[n]] - begin[model.jnt_qposadr[n]] for n in own])
                # slides within a plane have axes of their own here
                last = 2 if len(own) == 3 else 0
                np.testing.assert_allclose(found[last:], turned[last:], atol=1e-12)


def spheres(*names, **own):
    """Free spheres at one place."""
    given = "".join(f' {key}="{value}"' for key, value in own.items())
    return "".join(f'<body name="{n}"><freejoint/><geom name="g{n}" size=".5"{given}/></body>' for n in names)


def test_contacts_are_those_that_mujoco_finds_between_bodies_at_one_place(tmp_path):
    """Masks, exclusions, listed pairs, parents, welded members and priorities; with the frictions
    that it gives them."""
    grandchild = '<body name="grandchild"><joint/><geom size=".5"/></body>'
    child = f'<body name="child"><joint type="slide"/><geom size=".5"/>{grandchild}</body>'
    text = mjcf(
        '<geom name="ground" type="plane" size="1 1 1" friction=".9"/>'
        + spheres("a", "b", friction=".7 .02 0")
        + spheres("four", friction=".3 .03 0", condim="4")
        + spheres("first", friction=".2", priority="1")
        + spheres("slick", condim="1", friction="0")
        + spheres("blue", contype="2", conaffinity="2")
        + spheres("red", contype="1", conaffinity="2")
        + spheres("none", contype="0", conaffinity="0")
        + '<body name="uneven"><freejoint/><geom size=".5" friction="1.5"/><geom size=".4" contype="2" conaffinity="4"/>'
        + '<geom size=".3" friction=".95"/></body>'
        + f'<body name="parent"><freejoint/><geom size=".5"/>{child}<body><geom size=".5" pos="0 0 .1"/></body></body>',
        '<contact><exclude body1="a" body2="b"/><pair geom1="gnone" geom2="gblue" condim="4" friction="3 3 .6 0 0"/>'
        "</contact>",
    )
    path = file_of(tmp_path, text)
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    expected, roots_of = {}, model.body_weldid[model.geom_bodyid]
    for contact in data.contact:
        names = [model.body(roots_of[g]).name.replace("world", "ground") for g in contact.geom]
        numbers = [int(np.sum(roots_of[:g] == roots_of[g])) for g in contact.geom]  # of the parts
        slide, _, torsion = contact.friction[:3] * (np.arange(1, 4) < contact.dim)
        expected[frozenset(zip(names, numbers, strict=True))] = (slide, torsion)
    scene, left_out = ist.load_mjcf(path)
    found = {}
    for contact in scene.part_contacts():
        names = scene.build()[0].contact_names[contact.number]
        parts = [(name.split("[")[0], int(name[-2]) if name.endswith("]") else 0) for name in names]
        found[frozenset(parts)] = (contact.friction.mu, contact.friction.mu * contact.friction.e_r)
    assert left_out == ()
    assert found.keys() == expected.keys()
    # mujoco's frictions are 1e-5 or more
    assert {pair: law for pair, law in found.items() if not np.allclose(law, expected[pair], atol=2e-5)} == {}


def test_a_scene_begins_in_a_keyframe_with_its_velocities(tmp_path):
    """The energy of motion is MuJoCo's, of a chain whose joints all turn, with a welded member."""
    inner = f'<body name="c" pos=".3 0 0" gravcomp=".5"><joint type="ball"/>{ARM}<body pos=".1 .2 .3">{ARM}</body></body>'
    chain = arm(HINGE, f'<body name="b" pos=".3 0 0"><joint type="slide" axis="1 0 0"/>{ARM}{inner}</body>')
    key = '<key name="k" qpos=".4 .1 .5 .5 .5 .5  0 0 2 .8 0 .6 0" qvel="1 2 3 4 5  1 2 3 4 5 6"/>'
    text = mjcf(
        chain + '<body name="free"><freejoint/><geom type="box" size=".1 .2 .3" pos=".5 0 0"/></body>',
        f"<keyframe>{key}</keyframe>",
        before='<option timestep=".003"><flag energy="enable"/></option>',
    )
    path = file_of(tmp_path, text)
    scene, left_out = ist.load_mjcf(path, keyframe="k")
    system, state = scene.build()
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    _, _, turn, _, inertia = placed(model, data)
    linear, spin = np.split(state.velocity, 2, axis=1)
    energy = (system.mass @ np.sum(linear**2, axis=1) + np.einsum("bi,bij,bj", spin, inertia, spin)) / 2
    assert energy == pytest.approx(data.energy[1], rel=1e-13)
    assert [line for line in left_out if "keyframe" in line] == []
    assert scene.run == ist.RunSettings(h=0.003, duration=1.0)
    # its welded member has its full weight
    assert any("gravcomp of c" in line for line in left_out)
    with pytest.raises(ist.SceneFileError, match="no keyframe 'x': there are k"):
        ist.load_mjcf(path, keyframe="x")


def test_a_slide_and_a_hinge_along_one_line_are_a_cylindrical_joint_whatever_the_line(tmp_path):
    """The rounding of a direction is not a direction of its own; a tenth of a microradian is."""
    rng = np.random.default_rng(3)
    for axis, turn in zip(rng.normal(size=(8, 3)), rng.normal(size=(8, 4)), strict=True):
        told = [" ".join(map(str, values)) for values in (axis, -2.7 * axis, turn)]
        slide, hinge = f'<joint name="s" type="slide" axis="{told[0]}"/>', f'<joint name="h" axis="{told[1]}"/>'
        scene, _ = ist.load_mjcf(file_of(tmp_path, mjcf(arm(slide + hinge, quat=told[2]))))
        (joint,) = scene.description().joints
        assert isinstance(joint.joint, ist.Cylindrical)
        off = np.cross(axis, np.cross(axis, (1.0, 2.0, 3.0)))
        off = axis / np.linalg.norm(axis) + 1e-7 * off / np.linalg.norm(off)
        other = f'<joint name="h" axis="{" ".join(map(str, off))}"/>'
        assert_refused(file_of(tmp_path, mjcf(arm(slide + other))), ["no joint here leaves free what they do together"])


def test_an_equality_may_have_the_name_of_a_joint_or_of_what_acts_along_it(tmp_path):
    world = arm('<joint name="same" axis="0 1 0" damping="1"/>') + spheres("b")
    equal = (f'<connect name="{name}" body1="b" anchor="0 0 1"/>' for name in ("same", "spring of same", "own"))
    scene, _ = ist.load_mjcf(file_of(tmp_path, mjcf(world, f"<equality>{''.join(equal)}</equality>")))
    own = ["same", "spring of same", "same (equality 0)", "spring of same (equality 1)", "own"]
    assert [joint.name for joint in scene.description().joints] == own
    assert scene.build()[0].joint_names == tuple(own)


TEXT = mjcf(arm(HINGE))


@pytest.mark.parametrize(
    "text",
    [
        '\n<?xml version="1.0"?>\n' + TEXT,
        "<!-- a -- b -->" + TEXT,
        TEXT.replace("<mujoco>", '<mujoco model="a & b">'),
        TEXT.replace("<mujoco>", '<mujoco model="a & <robot>">'),
        '<?xml version="1.0" encoding="none"?>' + TEXT,
    ],
)
def test_what_mujoco_reads_is_imported_though_it_is_no_xml(text, tmp_path):
    """With the same list as the file that is."""
    expected = ist.load_mjcf(file_of(tmp_path, TEXT))
    scene, left_out = ist.load_mjcf(file_of(tmp_path, text))
    assert left_out == expected[1]
    assert written(scene.description()) == written(expected[0].description())


@pytest.mark.parametrize("before", ["\n<?xml version='1.0'?>", "<!-- <mujoco> -- -->", "<?xml version='1' encoding='no'?>"])
def test_a_urdf_file_that_is_no_xml_is_said_to_be_not_searched(before, tmp_path):
    text = urdf(link("base"), link("arm"), urdf_joint("revolute", more=LIMIT))
    (searched, left_out), (scene, said) = (
        ist.load_mjcf(file_of(tmp_path, of + text, ".urdf")) for of in ("<!-- <mujoco> -->", before)
    )
    assert any("limits of speed" in line for line in left_out)
    (line,) = set(said) - set(left_out)
    assert line.startswith("what MuJoCo does not read of a URDF file, which could not be searched as it is no XML: ")
    assert written(scene.description()) == written(searched.description())


def test_a_pendulum_swings_as_it_must(tmp_path):
    """Against its equation of motion, extrapolated from two steps of the first-order scheme."""
    inertial = '<inertial pos=".4 0 0" mass="2" diaginertia=".01 .03 .03"/>'
    path = file_of(tmp_path, mjcf(f'<body name="rod"><joint name="rod" axis="0 1 0"/>{inertial}</body>'))
    scene, left_out = ist.load_mjcf(path)
    assert left_out == ()
    t, ends = 0.4, []
    for h in (0.004, 0.002):
        run = ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=t)
        ends.append(run.joint("rod").coordinate[-1].item())
    # released level: theta'' = (m g l / I) cos(theta), downward, which is positive about y
    square = 2 * 9.81 * 0.4 / (0.03 + 2 * 0.4**2)
    fallen = scipy.integrate.solve_ivp(lambda _, y: [y[1], square * np.cos(y[0])], (0, t), [0, 0], rtol=1e-11, atol=1e-12)
    assert 2 * ends[1] - ends[0] == pytest.approx(fallen.y[0, -1], abs=2e-4)


def test_the_command_converts_and_tells_what_is_left_out(tmp_path, capsys):
    """And the other commands take a robot's file as they take a scene."""
    path = file_of(tmp_path, mjcf(arm(HINGE), '<actuator><motor joint="hinge"/></actuator>'))
    out = tmp_path / "scene.toml"
    assert main(["convert", str(path), str(out)]) == 0
    printed = capsys.readouterr().out
    assert "left out: 1 actuators" in printed
    assert str(out) in printed
    assert [body.name for body in ist.load_scene(out).description().bodies] == ["arm", "world"]
    assert main(["check", str(path)]) == 0
    printed = capsys.readouterr()
    assert "joint 'hinge'" in printed.out
    assert "left out: 1 actuators" in printed.err
    with pytest.raises(ist.SceneFileError, match="load_mjcf"):
        ist.load_scene(path)
    assert main(["convert", str(tmp_path / "no.xml"), str(out)]) == 2
    assert "no.xml' is no file: name the robot's file (.xml" in capsys.readouterr().err
    assert main(["convert", str(out), str(path)]) == 2


def test_without_mujoco_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match="pip install mujoco-core"):
        ist.load_mjcf(file_of(tmp_path, mjcf(FLOOR)))


def test_whole_robots_are_thirty():
    assert list(TEXTS) == list(FOUND)
    assert len(FOUND) >= 30


@pytest.mark.parametrize("name", FOUND)
def test_a_whole_robot_is_imported_with_a_list_or_refused(name, tmp_path):
    """Every line of the list is expected, and every expected one is there."""
    counts, lines = FOUND[name]
    path = file_of(tmp_path, TEXTS[name], ".urdf" if name.startswith("urdf") else ".xml")
    if counts is None:
        assert_refused(path, lines)
        return
    scene, left_out = ist.load_mjcf(path)
    described = scene.description()
    assert (sum(not body.fixed for body in described.bodies), len(described.joints), scene.pair_count()) == counts
    assert [line for line in lines if not any(line in found for found in left_out)] == []
    assert [found for found in left_out if not any(line in found for line in lines)] == []
    model = mujoco.MjModel.from_xml_path(str(path))
    still = model.body_mocapid >= 0
    moving = sum(model.body_mass[body] for body in range(model.nbody) if model.body_weldid[body] and not still[body])
    assert sum(body.mass for body in described.bodies if not body.fixed) == pytest.approx(moving, rel=1e-12)
    scene.save(tmp_path / "scene.toml")
    again = ist.load_scene(tmp_path / "scene.toml")
    assert repr(again.description().joints) == repr(described.joints)


@pytest.mark.parametrize("name", ["cartpole", pytest.param("mesh_on_a_conveyor", marks=pytest.mark.thorough)])
def test_a_whole_robot_takes_its_first_steps(name, tmp_path):
    """And a weld to a mocap body holds what it holds where it is."""
    scene, _ = ist.load_mjcf(file_of(tmp_path, TEXTS[name]))
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.002, duration=0.004)
    assert len(run) == 2
    if name == "mesh_on_a_conveyor":
        np.testing.assert_allclose(run.position[-1], run.position[0], rtol=0, atol=1e-12)
