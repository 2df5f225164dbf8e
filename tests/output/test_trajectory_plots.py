"""`trajectory.plot` and films: the right data, pictures that are not empty, and a saved run that
knows its scene."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image, ImageSequence

import implicit_stepper as ist
import shapes
from implicit_stepper import drawing
from implicit_stepper.output import viewer
from implicit_stepper.output.stage import Stage
from implicit_stepper.run.compare import _measures

SCENES = Path(__file__).parents[2] / "examples" / "scenes"


@pytest.fixture(scope="module")
def spin(tmp_path_factory):
    """A run that was saved and loaded."""
    path = tmp_path_factory.mktemp("spin") / "run.npz"
    ist.run_scene(ist.load_scene(SCENES / "spinning_sphere.toml")).save(path)
    return ist.load(path)


@pytest.fixture(scope="module")
def planar():
    """A disc that slides until it rolls on a slope, beside a fixed one."""
    scene = ist.Scene(dimension=2)
    slope = scene.add_fixed(name="slope", shape=shapes.HalfPlane(normal=(0, 1)), angle=-0.2)
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.5), position=(0.5 * np.sin(0.2), 0.5 * np.cos(0.2)), mass=1.0)
    scene.add_contact(slope, disc, friction=0.1)
    return ist.simulate(scene, ist.GeometricallyImplicit(), h=0.02, duration=0.4)


def test_a_saved_run_knows_its_scene_settings_and_versions(spin):
    origin = spin.origin
    assert origin.settings["h"] == 0.07
    assert origin.settings["stepper"].startswith("GeometricallyImplicit(tolerance=1e-12")
    assert origin.versions["implicit-stepper"] == ist.__version__
    assert origin.versions["jax"] == jax.__version__
    again = ist.run_scene(spin.scene())
    np.testing.assert_array_equal(again.velocity, spin.velocity)
    assert spin[3:5].origin is origin


def test_a_run_of_a_load_that_no_file_holds_says_so(tmp_path):
    scene = ist.Scene()
    scene.add_body(name="ball", shape=shapes.Sphere(0.5), position=(0, 0, 0), mass=1.0, wrench=lambda *_: jax.numpy.zeros(6))
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.1, duration=0.1)
    assert run.scene().description() == scene.description()  # in the same process
    run.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="the run does not know its scene, which no file could hold"):
        ist.load(tmp_path / "run.npz").scene()


def test_energy_has_three_lines_that_add_up(spin):
    kinetic, weight, total = spin.plot.energy().axes[0].lines
    np.testing.assert_allclose(total.get_ydata(), kinetic.get_ydata() + weight.get_ydata(), atol=1e-12)
    np.testing.assert_array_equal(kinetic.get_ydata(), spin.kinetic_energy())
    assert weight.get_ydata().min() == 0


def test_phase_is_velocity_over_position(spin, planar):
    line = planar.plot.phase("disc", "x").axes[0].lines[0]
    np.testing.assert_array_equal(line.get_xdata(), planar.position[:, 0, 0])
    np.testing.assert_array_equal(line.get_ydata(), planar.velocity[:, 0, 0])
    turned = planar.plot.phase("disc", "angle").axes[0]
    np.testing.assert_array_equal(turned.lines[0].get_ydata(), planar.velocity[:, 0, 2])
    assert turned.get_xlabel() == "angle of disc [rad]"
    with pytest.raises(ValueError, match="`coordinate` = 'w' must be one of x, y, z"):
        spin.plot.phase("ball", "w")


def test_events_show_when_a_contact_slides(planar):
    """On a slope of .2 rad a disc slides as long as mu = .1 holds: tan .2 < 3 mu, so it rolls."""
    axes = planar.plot.events().axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["slope and disc"]
    assert axes.get_legend_handles_labels()[1] == ["sticks or rolls"]
    free = ist.Scene()
    free.add_body(name="ball", shape=shapes.Sphere(0.5), position=(0, 0, 0), mass=1.0)
    with pytest.raises(ValueError, match="the run has no contacts"):
        ist.simulate(free, ist.GeometricallyImplicit(), h=0.1, duration=0.1).plot.events()


def test_contacts_and_bodies_are_named(spin):
    assert spin.plot.contact("floor", "ball").axes[0].get_ylabel() == "force [N]"
    assert spin.plot.velocity("ball").axes[1].get_ylabel() == "angular velocity [rad/s]"
    with pytest.raises(KeyError, match="no moving body is named 'egg'"):
        spin.plot.velocity("egg")


@pytest.mark.parametrize("which", ["spin", "planar"])
def test_a_film_has_its_pictures(which, request, tmp_path):
    run = request.getfixturevalue(which)
    run.plot.animation(tmp_path / "run.gif", fps=5)
    with Image.open(tmp_path / "run.gif") as film:
        pictures = [np.asarray(picture.convert("RGB"), float) for picture in ImageSequence.Iterator(film)]
    assert len(pictures) == int(np.ceil(run.time[-1] * 5 - 1e-6)) + 1
    assert min(np.std(picture) for picture in pictures) > 10
    # the body, in all of them
    blue = [np.mean((p[..., 2] > 90) & (p[..., 0] < 60)) for p in pictures]
    assert min(blue) > 0.01
    if which == "planar":  # it moves
        assert np.mean(np.abs(pictures[0] - pictures[-1]) > 60) > 0.005


def test_other_films_are_refused(spin, tmp_path):
    with pytest.raises(ValueError, match=r"must end with .gif or .mp4"):
        spin.plot.animation(tmp_path / "run.avi")
    with pytest.raises(ValueError, match="a film needs a run of one step or more"):
        spin[3:3].plot.animation(tmp_path / "run.gif")
    for options, says in (
        ({"speed": np.nan}, "`speed` = nan"),
        ({"fps": "fast"}, "`fps` = 'fast'"),
        ({"size": 4}, "`size` has shape"),
        ({"elevation": "high"}, "`elevation` = 'high'"),
    ):
        with pytest.raises(ValueError, match=says):
            spin.plot.animation(tmp_path / "run.gif", **options)


def test_a_film_that_is_over_at_once_has_its_start_and_end(spin, tmp_path):
    spin.plot.animation(tmp_path / "run.gif", speed=1e9)
    assert (tmp_path / "run.gif").stat().st_size > 0
    assert not list(tmp_path.glob(".*"))


def test_a_film_that_needs_ffmpeg_says_so(spin, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ImportError, match="needs the program ffmpeg: install it, or write .gif"):
        spin.plot.animation(tmp_path / "run.mp4")


@pytest.fixture(scope="module")
def flight():
    """A ball that flies over a floor and never touches it, with impulses left by rounding."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 1), velocity=(1, 0, 2, 0, 1, 0))
    scene.add_contact(floor, ball, friction=0.3)
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.03)
    rest = np.array([[1e-23], [0.0], [1e-21]])
    impulses = dataclasses.replace(run.contacts, normal_impulse=rest, friction_impulse=rest[..., None] * [0.2, 0.1, 0.0])
    return scene, dataclasses.replace(run, contacts=impulses)


@pytest.mark.parametrize("gravity", [9.81, 0.0, None])
def test_nothing_is_drawn_of_a_contact_that_stays_open(flight, gravity):
    scene, run = flight
    run = dataclasses.replace(run, gravity=None if gravity is None else np.array([0, 0, -gravity]))
    assert len(run.plot.events().axes[0].collections) == 0
    assert not np.any(run.plot.contact().axes[1].lines[0].get_ydata())
    stage = Stage(scene, run, forces=True)
    assert all(len(start) == 0 for start, _ in map(stage.arrows, range(4)))


def test_a_contact_that_stays_open_carries_nothing_in_a_comparison(flight):
    scene, run = flight
    reference = run.position, run.velocity
    found = _measures(run, ist.GeometricallyImplicit(), lambda _: reference, np.array([0.3]))
    assert found["gap"] == found["measured"] == 0


def test_a_scene_without_surfaces_is_not_drawn(spin, tmp_path):
    scene = ist.Scene()
    scene.add_body(name="ball", shape=shapes.HalfSpace(normal=(0, 0, 1)), mass=1.0, inertia=(1, 1, 1), position=(0, 0, 0))
    for draw in (
        lambda: spin.plot.animation(tmp_path / "run.gif", scene=scene),
        lambda: viewer.page(spin, scene),
        lambda: drawing.poses(scene, spin),
    ):
        with pytest.raises(ValueError, match="its bodies have no surface that ends"):
            draw()


@pytest.mark.parametrize("steps", [[99], "a", None, [], [1.5], 3])
def test_steps_that_the_run_has_not_are_no_pictures(spin, steps):
    with pytest.raises(ValueError, match="`steps` = .* must list numbers of states, of which the run has"):
        drawing.poses(spin.scene(), spin, steps=steps)
