"""Every example runs as it stands, and every Python block of the README and the docs does."""

import runpy
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import scipy.special

import implicit_stepper as ist

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks(page):
    parts = page.read_text().split("```python\n")[1:]
    return [part.split("```")[0] for part in parts]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples save pictures where they run


def run(name):
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")


def assert_picture(name):
    """The picture exists and shows something: more than one colour in it."""
    image = matplotlib.image.imread(f"{name}.png")
    assert np.std(image[..., :3]) > 0.01


def energy(trajectory):
    return trajectory.kinetic_energy() + 9.81 * trajectory.position[:, :, 2] @ trajectory.mass


def test_spinning_sphere():
    trajectory = run("spinning_sphere")["trajectory"]
    assert trajectory.velocity[14, 0, 5] == pytest.approx(0.03924, abs=1e-10)


def test_bowling():
    result = run("bowling")
    assert [event.kind for event in result["trajectory"].events] == ["closes", "sticks"]
    assert [event.time for event in result["trajectory"].events] == pytest.approx(
        [result["lands"], result["rolls"]], abs=1e-9
    )
    assert_picture("bowling")


def test_gripper():
    result = run("gripper")
    trajectory, carried = result["trajectory"], result["carried"]
    assert result["slips"] <= 1e-12  # nothing creeps
    rises = [np.diff(z[1:][carried]) for z in (result["height"], trajectory.body("left").position[:, 2])]
    np.testing.assert_allclose(*rises, rtol=0, atol=1e-13)
    # each finger carries half of the weight and of the acceleration, well within its cone
    load = np.abs(trajectory.contacts.friction_impulse[carried][:, :2, :2]) / trajectory.h
    assert np.all(np.linalg.norm(load, axis=2) < result["MU"] * result["squeezes"][carried])
    x, _, z = trajectory.body("egg").position[-1]
    assert x > 0.1  # it was carried aside
    assert z < result["AXES"][2]  # and fell over as it was dropped
    assert_picture("gripper")


def test_rag_doll():
    result = run("rag_doll")
    trajectory = result["trajectory"]
    assert result["open_by"] <= 1e-12
    for name, joint, start in ((n, trajectory.joint(n), result["angles"][n]) for n in result["doll"] if n != "torso"):
        low, high = result["KINDS"][name.removeprefix("near ").removeprefix("far ")][-1]
        assert np.all((joint.coordinate + start >= low - 1e-12) & (joint.coordinate + start <= high + 1e-12))
        # the brake gives at most its moment, against the turning
        moment = trajectory.joint(f"motor of {name}").moment[:, 0]
        assert np.all(np.abs(moment) <= result["RUBS"] + 1e-9)
        assert np.all(moment * joint.rate[:, 0] <= 1e-9)
    assert trajectory.body("head").position[-1, 1] < 0.2  # head first, on the floor
    assert_picture("rag_doll")


def test_pole_climber():
    """It jams, is set free by a peck, and goes down; nothing creeps, and energy is only lost."""
    result = run("pole_climber")
    trajectory, jammed, presses = (result[name] for name in ("trajectory", "jammed", "presses"))
    assert len(result["begins"]) == 3
    assert result["height"][-1] < -0.06
    stays = trajectory.time[1:][jammed]
    # between two pecks it jams once: longer than 30 ms, by a pad on either side of the pole
    for first, last in zip(result["begins"][:-1], result["begins"][1:], strict=True):
        own = stays[(stays > first) & (stays < last)]
        assert np.ptp(own) > 0.03
        assert np.max(np.diff(own)) < 1.5 * trajectory.h
    carries = presses[jammed][:, :4] > 1e-6
    assert np.all(np.sum(carries[:, :2], axis=1) == 1)
    assert np.all(np.sum(carries[:, 2:], axis=1) == 1)
    assert np.max(trajectory.contacts.sigma[jammed][:, :4] * carries) <= 1e-12
    away = np.append(0, trajectory.joint("hinge").coordinate[:, 0]) - (result["TILTED"] - result["SWUNG"])
    assert np.all(np.diff(trajectory.energy().total + 0.0056 * away**2 / 2) < 0)
    assert_picture("pole_climber")


def test_slider_crank():
    result = run("slider_crank")
    assert result["error"] <= 1e-12
    trajectory, drive = result["trajectory"], result["drive"]
    # the work of the drive is what the energy of the three bodies gains, and what friction takes:
    # mean moments and forces of steps by the angles turned and the ways slid
    work = np.sum(trajectory.joint(drive).moment[:, 0] * np.diff(result["angle"]))
    lost = 0.0
    for name in ("axle", "pin", "gudgeon", "guide"):
        joint = trajectory.joint(name)
        force = np.abs(joint.force[:, 1]) if name == "guide" else np.linalg.norm(joint.force, axis=1)
        start = result["CRANK"] + result["ROD"] if name == "guide" else 0.0
        slid = np.abs(np.diff(np.append(start, joint.coordinate[:, 0])))
        lost += np.sum((0.1 if name == "guide" else 0.2 * 0.03) * force * slid)
    assert work - np.ptp(trajectory.energy().total[[0, -1]]) == pytest.approx(lost, rel=1e-3)
    assert_picture("slider_crank")


def test_pile():
    """What fixed bodies gave, with the weight, is the momentum of all balls; no ball is in another
    or in a wall."""
    result = run("pile")
    trajectory, contacts = result["trajectory"], result["trajectory"].contacts
    n, t = np.nan_to_num(contacts.normal), np.nan_to_num(contacts.tangent)
    friction = contacts.friction_impulse[..., :1] * t + contacts.friction_impulse[..., 1:2] * np.cross(n, t)
    # on the second body, which a fixed one is
    given = contacts.normal_impulse[..., None] * n + friction
    fixed = [not second.startswith("ball") for _, second in trajectory.contact_names]
    total = trajectory.mass @ trajectory.velocity[-1, :, :3] + np.sum(given[:, fixed], axis=(0, 1))
    weight = np.sum(trajectory.mass) * 0.4 * np.array([0, 0, -9.81])
    np.testing.assert_allclose(total, weight, rtol=0, atol=1e-9 * abs(weight[2]))
    apart = np.linalg.norm(trajectory.position[:, :, None] - trajectory.position[:, None], axis=3)
    assert np.min(apart + np.eye(24)) > 2 * result["RADIUS"] - 1e-9
    assert np.min(trajectory.position[..., 2]) > result["RADIUS"] - 1e-9
    assert np.max(np.abs(trajectory.position[..., :2])) < result["reach"] - result["RADIUS"] + 1e-9
    assert result["touching"][-1] > 24
    assert_picture("pile")


def test_dominoes():
    """The speed of the wave is that of the law, within what impacts at ends of steps leave open,
    1 ms of 90."""
    result = runpy.run_path(str(ROOT / "examples" / "dominoes.py"))
    spacing = 0.4 * result["HEIGHT"]
    trajectory = result["fall"](6, spacing, h=0.001)
    found, by_law = result["speeds"](trajectory, spacing)[-3:], result["law"](spacing, 6)[-3:]
    assert np.mean(found) == pytest.approx(np.mean(by_law), rel=0.03)
    assert np.all(trajectory.angle[-1] < -1e-3)  # all of them are on their way down


def test_wall(monkeypatch):
    """It stands to rounding, and falls under weight and the floor's forces alone: no body passes
    into another, momentum is what these give, and energy is lost. (The whole wall takes 40 s.)"""
    monkeypatch.setattr(sys, "argv", ["wall.py", "--across", "1", "--courses", "2", "--duration", "0.13"])
    result = run("wall")
    assert result["drift"](result["standing"]) <= 1e-9
    trajectory = result["trajectory"]
    contacts = trajectory.contacts
    assert np.nanmin(contacts.gap) >= -1e-8
    n, t = np.nan_to_num(contacts.normal), np.nan_to_num(contacts.tangent)
    friction = contacts.friction_impulse[..., :1] * t + contacts.friction_impulse[..., 1:2] * np.cross(n, t)
    given = contacts.normal_impulse[..., None] * n + friction  # on the second body
    signs = np.array([(second == "floor") - 1.0 * (first == "floor") for first, second in trajectory.contact_names])
    mass = trajectory.mass
    gained = mass @ (trajectory.velocity[-1] - trajectory.velocity[0])[:, :3] + np.einsum("c,scx->x", signs, given)
    weight = np.sum(mass) * trajectory.time[-1] * np.array([0, 0, -9.81])
    np.testing.assert_allclose(gained, weight, rtol=0, atol=1e-9 * abs(weight[2]))
    assert np.all(np.diff(energy(trajectory)) <= 1e-9)
    upper = [number for number, name in enumerate(trajectory.names) if name.startswith("brick 1")]
    assert np.all(trajectory.position[-1, upper, 1] > result["DEPTH"])  # nothing of the wall holds them
    assert_picture("wall")


def test_newtons_cradle():
    """As many balls leave as came, at the times of a physical pendulum, and swing as high."""
    result = run("newtons_cradle")
    square = result["WIRE"] ** 2 + result["RADIUS"] ** 2 / 2
    quarter = np.sqrt(square / (9.81 * result["WIRE"])) * scipy.special.ellipk(np.sin(result["ANGLE"] / 2) ** 2)
    for raised, trajectory in result["trajectories"].items():
        assert trajectory.counts["impacts"] == 4
        times = sorted({event.time for event in trajectory.events})
        assert times == pytest.approx(quarter * np.array([1, 3, 5, 7]), abs=1e-7)
        turned = trajectory.at([2 * quarter]).orientation[0, :, 0]
        swings = np.arange(result["BALLS"]) >= result["BALLS"] - raised
        np.testing.assert_allclose(turned, np.where(swings, -result["ANGLE"], 0.0), rtol=0, atol=1e-7)
    assert_picture("newtons_cradle")


def test_fit_friction():
    """The record is exact, so is what is found; the last iterations converge quadratically."""
    result = run("fit_friction")
    assert np.abs(result["fit"].x - result["TRUE"]).max() <= 1e-10
    assert len(result["path"]) <= 15
    assert_picture("fit_friction")


def test_fit_restitution():
    """What is found from noisy positions is off by no more than four standard errors, which are
    those of three thousandths at most."""
    result = run("fit_restitution")
    fit, errors = result["fit"], result["errors"]
    assert np.all(np.abs(fit.x - result["TRUE"]) <= 4 * errors)
    assert np.all(errors <= 3e-3)
    assert np.abs(2 * fit.cost / fit.fun.size - 1) < 0.2  # what is left is the noise
    assert_picture("fit_restitution")


def test_farthest_roller():
    """Newton's method converges twice as many digits a step, and its exponent is the best of those
    tried."""
    result = run("farthest_roller")
    slopes, reached = np.abs(result["slopes"]), [track[-1, 0] for track in result["tracks"]]
    assert slopes[-1] <= min(1e-9, 10 * slopes[-2] ** 2)
    assert np.argmax(np.round(reached, 9)) >= len(reached) - 3
    assert_picture("farthest_roller")


def test_aimed_throw():
    result = run("aimed_throw")
    misses, kinds = result["misses"], [event.kind for event in result["run"].events]
    assert misses[-1] <= 1e-8
    assert misses[-2] <= 1e-2 * misses[-3]
    # it bounces until it slides, and then rolls
    assert kinds == ["closes"] * (len(kinds) - 1) + ["sticks"]
    assert len(kinds) >= 8
    assert np.ptp(result["run"].position[:, 0, 1]) >= 0.4  # it hooks
    _, start = ist.load_scene(ROOT / "examples" / "scenes" / "aimed_throw.toml").build()
    np.testing.assert_allclose(start.velocity[0], [*result["throw"], 0, -20, 5, 0], rtol=0, atol=1e-8)
    assert_picture("aimed_throw")


def test_own_shape():
    trajectory = run("own_shape")["trajectory"]
    assert trajectory.contacts.gap.min() >= -1e-12
    energy = trajectory.kinetic_energy() + 9.81 * trajectory.position[:, 0, 2]  # 1 kg
    # inelastic impacts, friction and implicit Euler only lose energy
    assert np.diff(energy).max() <= 1e-9
    # it lies flat on its z axis, a/2
    assert trajectory.position[-1, 0, 2] == pytest.approx(0.25, abs=1e-9)
    assert np.abs(trajectory.velocity[-1]).max() <= 1e-9


def test_by_hand():
    result = run("by_hand")
    assert np.all(result["solved"])
    assert result["velocities"][:, 5] == pytest.approx(np.maximum(result["spins"] - 1.962 * 0.7, 0), abs=1e-10)


def test_complementarity_problem():
    solution = run("complementarity_problem")["solution"]
    assert solution.z == pytest.approx([4.0, 0.0], abs=1e-10)
    assert_picture("complementarity_problem")


def test_tumbling_box():
    result = run("tumbling_box")
    trajectory, carrying = result["trajectory"], result["carrying"]
    assert np.diff(energy(trajectory)).max() <= 1e-9 * energy(trajectory)[0]
    assert np.abs(trajectory.velocity[-1]).max() <= 1e-12
    # on a face
    assert min(abs(trajectory.position[-1, 0, 2] - half) for half in (0.5, 0.3, 0.2)) <= 1e-12
    assert set(carrying.tolist()) == {0, 1, 2, 3}  # air, face, edge and corner
    assert_picture("tumbling_box")


def test_toppling_cylinder():
    result = run("toppling_cylinder")
    trajectory = result["trajectory"]
    assert np.diff(energy(trajectory)).max() <= 1e-9 * energy(trajectory)[0]
    assert result["lean"][-1] == pytest.approx(90, abs=1e-6)  # on its side
    assert trajectory.position[-1, 0, 2] == pytest.approx(0.3, abs=1e-9)
    speed, spin = trajectory.velocity[-1, 0, :3], trajectory.velocity[-1, 0, 3:]
    np.testing.assert_allclose(speed, np.cross(spin, [0, 0, 0.3]), atol=1e-9)  # rolling, or at rest
    assert_picture("toppling_cylinder")


def test_lens():
    result = run("lens")
    trajectory, on_edge = result["trajectory"], result["on_edge"]
    assert np.diff(energy(trajectory)).max() <= 1e-9 * energy(trajectory)[0]
    assert np.any(on_edge)
    assert not on_edge[-1]  # it ends on a cap
    assert trajectory.contacts.gap.min() >= -1e-12
    assert_picture("lens")


def test_superquadric():
    trajectory = run("superquadric")["trajectory"]
    assert energy(trajectory).max() <= (1 + 1e-9) * energy(trajectory)[0]
    # while it rocks, the error of first order
    assert np.diff(energy(trajectory)).max() <= 1e-5 * energy(trajectory)[0]
    assert trajectory.certificate["energy"].max() == 0.0
    assert trajectory.contacts.gap.min() >= -1e-12
    assert np.any(trajectory.contacts.normal_impulse[:, 2] > 0)  # they meet
    assert_picture("superquadric")


def test_parts_feeding(monkeypatch):
    """With fewer drops than the thousand of the example."""
    monkeypatch.setattr(sys, "argv", ["parts_feeding.py", "--drops", "128"])
    result = run("parts_feeding")
    faces, shares = result["faces"], result["shares"]
    assert len(faces) == 128
    assert result["uprightness"].min() >= 1 - 1e-9  # every part lies flat
    assert shares[0] > shares[1] > shares[2]  # the broader the face, the likelier
    again, _ = result["run"](20)
    assert np.array_equal(again, faces[:20])  # the same for the same seed
    other, _ = result["run"](20, seed=1)
    assert not np.array_equal(other, faces[:20])
    # parts balanced over a random direction through their centre would fall on faces by their solid
    # angles, which add to 1
    assert result["solid_angle_shares"]().sum() == pytest.approx(1.0, abs=1e-12)
    assert_picture("parts_feeding")


def test_every_example_is_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} <= tested


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p)], ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for block in python_blocks(page):
        # the blocks of a page share their names, as a reader expects
        exec(compile(block, str(page), "exec"), names)
    assert len(names) > 2
