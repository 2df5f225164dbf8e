"""The page of a run: one file that asks nothing of a network, has the run's numbers, and a script
that draws them."""

import argparse
import dataclasses
import functools
import io
import json
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

import implicit_stepper as ist
import shapes
from implicit_stepper.commands import view
from implicit_stepper.model.records import Joints
from implicit_stepper.output import animation, pictured, viewer

CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
NO_WEBGL = """
const first = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind) { return kind === "2d" ? first.call(this, kind) : null; };
"""
EVIL = "</script><script>alert(1)</script>"


@functools.cache
def thrown():
    """A ball whose name would end a script, thrown onto a floor, over a fixed stone."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_fixed(name="stone", shape=shapes.Sphere(0.2), position=(2, 2, 0.2))
    ball = scene.add_body(name=EVIL, shape=shapes.Sphere(0.5), position=(0, 0, 0.6), mass=1.0, velocity=(2, 0, 0, 0, 0, 3))
    scene.add_contact(floor, ball, friction=0.3)
    return ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.5)


@functools.cache
def rolling():
    """A disc in the plane."""
    scene = ist.Scene(dimension=2)
    line = scene.add_fixed(name="line", shape=shapes.HalfPlane(normal=(0, 1)))
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.5), position=(0, 0.5), mass=1.0, velocity=(1, 0, 0))
    scene.add_contact(line, disc, friction=0.3)
    return ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.5)


@pytest.fixture(scope="module", params=[thrown, rolling], ids=lambda f: f.__name__)
def made(request, tmp_path_factory):
    run, folder = request.param(), tmp_path_factory.mktemp("page")
    run.save(folder / "run.npz")
    view.run(argparse.Namespace(run=str(folder / "run.npz"), html=None, film=None, show=False))
    return run, folder / "run.html"


def nodes_of_pictures(run):
    """The ends of steps nearest to 31 even times: 60 pictures a second for half a second."""
    return np.argmin(np.abs(run.time - np.linspace(0, 0.5, 31)[:, None]), axis=1)


class Tags(HTMLParser):
    """All tags with what they name."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_a_page_asks_nothing_of_a_network_and_is_small(made):
    text, tags = made[1].read_text(encoding="utf-8"), Tags()
    tags.feed(text)
    assert not [name for tag, names in tags.found for name in names if name in ("src", "href", "action")]
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|import\(|WebSocket", text)
    assert [names.get("http-equiv") for tag, names in tags.found if tag == "meta"][1] == "Content-Security-Policy"
    assert [tag for tag, _ in tags.found].count("script") == 2  # no name has made another
    assert made[1].stat().st_size < 300_000


def test_a_page_holds_the_numbers_of_the_run(made):
    run, path = made
    data = json.loads(re.search(r'<script id="data"[^>]*>([\s\S]*?)</script>', path.read_text()).group(1))
    d = run.position.shape[-1]
    nodes = nodes_of_pictures(run)
    np.testing.assert_allclose(data["times"], run.time[nodes], rtol=0, atol=1e-4)
    moving = {body["name"]: body for body in data["bodies"]}[run.names[0]]
    np.testing.assert_allclose(np.array(moving["poses"])[:, :d], run.position[nodes, 0], rtol=0, atol=1e-3)
    total = next(line for line in data["curves"][0]["lines"] if line["name"] == "total")
    energy = run.energy()
    np.testing.assert_allclose(total["values"], (energy.total - energy.gravity.min())[nodes], rtol=1e-4)
    assert len(data["floors"]) == 1
    closed = [force is not None for force in data["contacts"][0]["force"]]
    np.testing.assert_array_equal(closed, run.contacts.normal_impulse[np.maximum(nodes - 1, 0), 0] > 1e-6)


def test_pictures_between_chosen_steps_show_the_motion_and_the_forces():
    """A ball that lands at speed, slides and rolls, in a dozen steps: a page has 60 pictures a
    second of it, with its place, gap, contact point, normal and friction forces in closed form."""
    radius, height, mu, speed, g = 0.1, 0.05, 0.1, 3.0, 9.81
    scene = ist.Scene()
    lane = scene.add_fixed(name="lane", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    start = {"position": (0, 0, radius + height), "velocity": (speed, 0, 0, 0, 0, 0)}
    scene.add_contact(lane, scene.add_body(name="ball", shape=shapes.Sphere(radius), mass=2.0, **start), friction=mu)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-6, duration=1.2)
    assert len(run) < 40
    lands = np.sqrt(2 * height / g)
    # after the impact, whose friction is mu of it and spins the ball
    slides = speed - mu * g * lands
    rolls = lands + (speed - 3.5 * mu * g * lands) / (3.5 * mu * g)
    data, t = viewer.content(run, scene), np.linspace(0, 1.2, 73)
    np.testing.assert_allclose(data["times"], t, atol=1e-4)
    on, until = t > lands, np.clip(t - lands, 0, rolls - lands)
    x = speed * np.minimum(t, lands) + slides * until - mu * g * until**2 / 2
    x += speed * 5 / 7 * np.maximum(t - rolls, 0)
    found = np.array(data["bodies"][0]["poses"])
    np.testing.assert_allclose(found[:, 0], x, atol=1e-4)
    np.testing.assert_allclose(found[:, 2], radius + np.where(on, 0, height - g * t**2 / 2), atol=1e-4)
    (gap,) = (panel["lines"][0]["values"] for panel in data["curves"] if panel["title"] == "gap [m]")
    np.testing.assert_allclose(gap[1:], np.where(on, 0, height - g * t**2 / 2)[1:], atol=1e-5)
    (contact,) = data["contacts"]
    assert [force is not None for force in contact["force"]] == on.tolist()
    points, arrows = (np.array([v for v in contact[key] if v]) for key in ("point", "force"))
    np.testing.assert_allclose(points, np.stack([x, 0 * x, 0 * x], axis=1)[on], atol=1e-3)
    sliding = (t < rolls)[on]  # mu of the normal force against the motion, and none as it rolls
    np.testing.assert_allclose(arrows / arrows[:, 2:], np.outer(sliding, [-mu, 0, 0]) + [0, 0, 1], atol=1e-3)
    (force,) = (panel["lines"][0]["values"] for panel in data["curves"] if panel["title"] == "normal force [N]")
    np.testing.assert_allclose(force[1:], 2.0 * g * on[1:], atol=1e-2)  # and no peak of the impact
    assert data["events"] == [round(event.time, 6) for event in run.events]
    # of a run of milliseconds as many as of half a second
    soon = viewer.content(run[:1], scene)
    assert run.time[1] < 0.03
    np.testing.assert_allclose(soon["times"], np.linspace(0, run.time[1], 31), rtol=0, atol=1e-3 * run.time[1])


def test_pictures_at_an_impact_are_those_before_and_after_it():
    """A ball that falls .2 m and keeps a quarter of its energy: at the picture of its landing, also
    where that is the end of the run; of other pictures the one at that time is after it."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.1), position=(0, 0, 0.3), mass=1.0)
    scene.add_contact(floor, ball, friction=0.0, restitution=ist.Newton(0.5))
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.02, duration=0.3)
    (at,) = np.flatnonzero(np.diff(run.time) == 0)
    kinetic = run.kinetic_energy()
    np.testing.assert_allclose(kinetic[at + 1], kinetic[at] / 4, rtol=1e-9)
    assert len(run.time) <= 19  # so that a page shows all ends of steps
    for whole in (run, run[: at + 1]):
        data = viewer.content(whole, scene)
        lines = {line["name"]: line["values"] for line in data["curves"][0]["lines"]}
        np.testing.assert_allclose(lines["kinetic"], kinetic[: len(whole.time)], rtol=1e-4)
    few = pictured.pictured(run, np.array([0.0, run.time[at], 0.3]))
    np.testing.assert_array_equal(few.velocity, run.velocity[[0, at + 1, -1]])
    ended = pictured.pictured(run[: at + 1], np.array([0.0, 0.1, run.time[at]]))
    np.testing.assert_array_equal(ended.velocity[-1], run.velocity[at + 1])


def test_a_page_draws_what_friction_could_give():
    """On the scale of the forces: mu of the normal force around the normal, and no friction outside
    of it; with two coefficients and a direction, the first semi-axis along it."""
    run = thrown()
    (contact,) = viewer.content(run, run.scene())["contacts"]
    law = ist.FrictionEllipsoid(0.3, e_t=1.0, e_o=0.4, direction=(0, 1, 0))
    turned = dataclasses.replace(
        run, contacts=dataclasses.replace(run.contacts, tangent=np.tile([0.0, 1.0, 0.0], (len(run), 1, 1)))
    )
    narrow = viewer.Stage(run.scene(), turned, forces=True).friction(0, law)
    pairs = [(force, axes) for force, axes in zip(contact["force"], contact["friction"], strict=True) if force]
    assert len(pairs) > 20
    for force, axes in pairs:
        t, o = np.array(axes)
        pressed = abs(force[2])  # the floor's normal is z
        np.testing.assert_allclose([np.linalg.norm(t), np.linalg.norm(o)], 0.3 * pressed, rtol=1e-3)
        np.testing.assert_allclose([t[2], o[2], t @ o], 0.0, atol=1e-3 * pressed)
        assert np.linalg.norm(force[:2]) <= 0.3 * pressed * (1 + 1e-3)
    lengths = np.linalg.norm(narrow, axis=2)
    np.testing.assert_allclose(lengths[:, 1], 0.4 * lengths[:, 0], rtol=1e-12)
    np.testing.assert_allclose(narrow[:, 0], lengths[:, :1] * [0, 1, 0], atol=1e-12)


@pytest.mark.skipif(shutil.which("node") is None, reason="no JavaScript here")
def test_the_script_draws_the_run_and_moves_it(made):
    """Without a browser: on a canvas that notes what is drawn."""
    run, path = made
    command = ["node", str(Path(__file__).with_name("viewer_check.js")), str(path)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (told["first"], told["moved"], told["played"]) == ("t = 0.000 s", "t = 0.500 s", "t = 0.500 s")
    assert told["pictures"] > 10
    assert told["drawn"]["bad"] == 0  # no number that is none
    assert told["drawn"]["fills"] > 2 * told["pictures"]
    assert {"energy [J]", "gap [m]", "normal force [N]"} <= set(told["drawn"]["texts"])

    def middle(picture):
        own = [face["points"] for face in picture["faces"] if face.get("body") == run.names[0]]
        return np.mean([point[:2] for face in own for point in face], axis=0)

    start, end = middle(told["start"]), middle(told["end"])
    assert end[0] > start[0] + 20  # it goes along x, to the right
    for picture in (told["start"], told["end"]):
        inside = [0 <= p[0] <= 820 and 0 <= p[1] <= 560 for f in picture["faces"] if f.get("body") for p in f["points"]]
        assert all(inside)
        depths = [face["depth"] or np.inf for face in picture["faces"]]
        assert depths == sorted(depths, reverse=True)  # from back to front
    assert len(told["end"]["lines"]) == 1
    assert len(told["end"]["rings"]) == (1 if run.position.shape[-1] == 3 else 0)
    # the floor pushes up
    assert told["end"]["lines"][0]["to"][1] < told["end"]["lines"][0]["from"][1]


def _coloured(picture):
    """Columns and rows of the pixels that are no grey, of a picture that holds bodies and nothing
    else of a colour."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(int)
    rows, columns = np.nonzero(np.ptp(pixels, axis=2) > 40)
    return columns, rows


@pytest.fixture(scope="module")
def browser():
    """A Chromium without a window, by the driver of the extra `browser`."""
    driver = pytest.importorskip("playwright.sync_api", reason="no driver of browsers here: pip install -e '.[browser]'")
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip(f"no browser here: none of {', '.join(CHROMIUM)} is installed")
    with driver.sync_playwright() as drivers:
        opened = drivers.chromium.launch(executable_path=found, args=["--no-sandbox", "--headless"])
        yield opened
        opened.close()


@pytest.mark.parametrize("webgl", [True, False], ids=["by WebGL", "without WebGL"])
def test_a_browser_shows_the_run_and_moves_it(made, browser, webgl):
    """The ball goes to the right by the slider and by playing, and the page has no error and asks
    for nothing."""
    page, told = browser.new_page(viewport={"width": 1320, "height": 760}), []
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith("file:") else told.append(asked.url))
    if not webgl:
        page.add_init_script(NO_WEBGL)
    page.goto(made[1].as_uri())
    for layer in ("forces", "friction", "joints"):
        page.uncheck(f"#{layer}")
    stage = page.locator("#stage")
    start = _coloured(stage.screenshot())
    page.locator("#time").focus()
    page.keyboard.press("End")
    assert page.text_content("#now") == "t = 0.500 s"
    end = _coloured(stage.screenshot())
    page.click("#play")  # from the start again
    page.locator("#play", has_text="play").wait_for()
    played = _coloured(stage.screenshot())
    page.close()
    assert told == []
    assert min(len(columns) for columns, _ in (start, end, played)) > 500  # no picture is empty
    assert np.mean(end[0]) > np.mean(start[0]) + 20  # of all bodies, of which the stone stands
    np.testing.assert_array_equal(played, end)


def test_joints_are_drawn_where_they_are(tmp_path):
    """A rod from the stone to a point of the ball, which turns; in a page, and in a film's picture;
    and what it pulls."""
    run = thrown()
    none = np.zeros((len(run), 1, 1))
    # [N s] in steps of 10 ms: 5 N
    pull = np.tile([0.0, 0.03, 0.04, 0.0, 0.0, 0.0], (len(run), 1, 1))
    joints = Joints(-pull, pull, none, none, none, none)
    contacts = dataclasses.replace(run.contacts, joints=joints)
    run = dataclasses.replace(run, contacts=contacts, joint_names=("rod",), wound=((),))
    scene = run.scene()
    names = {spec.handle.name: spec.handle for spec in scene._specs.values()}
    point, fixed = np.array([0.3, 0.0, 0.4]), np.array([2, 2, 0.2]) + [0, 0, 0.2]
    length = np.linalg.norm(np.array([0, 0, 0.6]) + point - fixed)
    scene.add_joint(names["stone"], names[EVIL], ist.Distance((0, 0, 0.2), point, length), name="rod")
    data = viewer.content(run, scene)
    nodes = nodes_of_pictures(run)
    turned = Rotation.from_quat(run.quaternion[nodes, 0], scalar_first=True).apply(point)
    (joint,) = data["joints"]
    assert joint["name"] == "rod"
    np.testing.assert_allclose(joint["ends"][0], np.tile(fixed, (len(nodes), 1)), atol=1e-3)
    np.testing.assert_allclose(joint["ends"][1], run.position[nodes, 0] + turned, atol=1e-3)
    (reaction,) = data["reactions"]
    np.testing.assert_allclose(reaction["point"][1:], np.array(joint["ends"][1])[1:], atol=1e-3)
    along = np.array(reaction["force"]) / np.linalg.norm(reaction["force"], axis=1, keepdims=True)
    np.testing.assert_allclose(along, np.tile([0, 0.6, 0.8], (len(nodes), 1)), atol=1e-3)
    viewer.write(run, tmp_path / "run.html", scene=scene)
    animation.write(run, tmp_path / "run.gif", scene=scene, fps=4)
    if shutil.which("node"):
        command = ["node", str(Path(__file__).with_name("viewer_check.js")), str(tmp_path / "run.html")]
        told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        first, last = ([line for line in told[when]["lines"] if line.get("joint")] for when in ("start", "end"))
        assert (len(first), len(last)) == (1, 1)
        assert first[0]["from"] == last[0]["from"]
        assert first[0]["to"][0] + 20 < last[0]["to"][0]


def test_a_film_follows_a_body_shows_it_turn_and_leaves_out_what_is_without_a_shape(tmp_path):
    """Around a ball; octants of it are dark, faces of a box are not."""
    run, box = thrown(), shapes.Box((0.1, 0.1, 0.1))
    scene = run.scene()
    scene.add_fixed(name="near", shape=box, position=(0.5, 0, 1))
    scene.add_fixed(name="far", shape=box, position=(50, 0, 0))
    # held in the inertial frame, which is a body without a shape
    scene.add_moving(name="hand", pose=ist.MovingPose((50, 1, 0)), shape=box, mass=1.0)
    whole, close = viewer.Stage(scene, run, forces=True), viewer.Stage(scene, run, forces=True, follow=EVIL)
    assert set(whole.meshes) == {"stone", EVIL, "near", "far", "hand"}
    for node in (0, 50):
        low, high = close.window(node)
        np.testing.assert_allclose((low + high) / 2, run.position[node, 0], atol=1e-12)
        np.testing.assert_allclose(high - low, 7 * 0.5, rtol=0.02)
    # the stone is 2.8 m away; the hand, which the run does not know, is in its own frame
    assert (len(list(whole.placed(0))), len(list(close.placed(0)))) == (5, 3)
    ball, face = close.painted[EVIL][0], close.painted["near"][0]
    assert face.shape == (3,)
    brightest = np.max(ball, axis=1)
    assert 0.4 < np.mean(brightest < np.max(brightest)) < 0.6
    run.plot.animation(tmp_path / "run.gif", fps=2, follow=EVIL)
    scene = ist.Scene()
    for name, shape, z in (("plate", shapes.HalfSpace(normal=(0, 0, 1)), 0), ("ball", shapes.Sphere(0.1), 5)):
        scene.add_body(name=name, shape=shape, position=(0, 0, z), mass=1.0, inertia=(1, 1, 1))
    endless = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.01)
    with pytest.raises(ValueError, match="`follow` = 'plate' has no surface to be drawn: of moving bodies there are 'ball'"):
        endless.plot.animation(tmp_path / "run.gif", follow="plate")
    with pytest.raises(KeyError, match="'nobody'"):
        run.plot.animation(tmp_path / "run.gif", follow="nobody")


def test_arrows_act_on_the_parts_of_a_body_whose_name_has_a_bracket():
    """On two feet at rest, upwards: half of the weight each."""
    scene, foot = ist.Scene(), shapes.Sphere(0.1)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    feet = [(foot, ((x, 0, 0), (1, 0, 0, 0))) for x in (0.1, -0.1)]
    scene.add_contact(floor, scene.add_body(name="box[3]", shapes=feet, position=(0, 0, 0.1), mass=1.0))
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.02)
    assert run.contact_names == (("floor", "box[3][0]"), ("floor", "box[3][1]"))
    arrows, scale = viewer.Stage(scene, run, forces=True)._forces()
    np.testing.assert_allclose((arrows / scale)[..., 2], 9.81 / 2, rtol=1e-9)


def test_what_has_no_page_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no file .*none.npz"):
        view.run(argparse.Namespace(run=str(tmp_path / "none.npz"), html=None, film=None, show=False))
    with pytest.raises(ValueError, match="a page needs a run of one step or more"):
        rolling()[3:3].plot.page(tmp_path / "run.html")


def test_a_run_is_shown_to_this_machine_alone(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    shown = ist.view(rolling(), wait=False)
    assert opened == [shown.url]
    assert shown.url in capsys.readouterr().out
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", shown.url)
    assert shown._server.server_address[0] == "127.0.0.1"
    with urllib.request.urlopen(shown.url, timeout=10) as answer:
        assert answer.read().decode() == viewer.page(rolling())
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    elsewhere = urllib.request.Request(shown.url, headers={"Host": "elsewhere.example"})
    for asked, code in ((shown.url + "run.npz", 404), (elsewhere, 403)):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(asked, timeout=10)
        assert caught.value.code == code
    shown.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(shown.url, timeout=10)


def test_the_command_shows_a_run_until_ctrl_c(monkeypatch, tmp_path, capsys):
    """Ctrl-C comes while the page is asked for."""
    rolling().save(tmp_path / "run.npz")

    def interrupt(self, timeout=None):
        raise KeyboardInterrupt

    def ask(url):
        asked.append(urllib.request.urlopen(url, timeout=10).status)
        monkeypatch.setattr(threading.Thread, "join", interrupt)

    asked = []
    monkeypatch.setattr("webbrowser.open", ask)
    view.run(argparse.Namespace(run=str(tmp_path / "run.npz"), html=None, film=None, show=True))
    assert asked == [200]
    assert "until Ctrl-C" in capsys.readouterr().out
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.parametrize(("size", "place", "begun"), [(5e-5, 0.0, 0.0), (0.5, 3e4, 0.0), (0.5, 0.0, 1e6)])
def test_small_far_and_late_runs_are_shown_as_they_are(size, place, begun):
    """A body that spins by 1 rad/s and moves by its size in half a second."""
    scene = ist.Scene(gravity=(0, 0, 0), length_scale=size, acceleration_scale=1.0)
    scene.add_body(
        name="body", shape=shapes.Box((size,) * 3), mass=1.0, position=(place, 0, size), velocity=(2 * size, 0, 0, 0, 1, 0)
    )
    start = dataclasses.replace(scene.build()[1], time=np.asarray(begun))
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.05, duration=0.5, start=start)
    shown = viewer.content(run, scene)
    (body,) = shown["bodies"]
    poses = np.array(body["poses"])
    np.testing.assert_allclose(poses[:, :3], run.position[:, 0], rtol=0, atol=1e-4 * size)
    np.testing.assert_allclose(poses[:, 3:], run.orientation[:, 0], rtol=0, atol=1e-4)
    np.testing.assert_allclose(shown["times"], run.time, rtol=0, atol=1e-4)
    assert len(set(shown["times"])) == len(run.time)
