"""Plots, the paper's figures and pictures: labels with units, the right data, and nothing changed
outside."""

import dataclasses

import matplotlib
import numpy as np
import pytest

import implicit_stepper as ist
from implicit_stepper.model.records import Contacts, Stages, Stats
from implicit_stepper.output import plots
from implicit_stepper.paper import exact, figures, pictures
from implicit_stepper.paper.raycast import Ball, Camera, Raster

STEPS = {"spin": (0.07, 20), "disc": (0.01, 300), "two-spheres": (0.1, 40), "order-five": (0.1, 40)}


def made_up(case):
    """A trajectory with the shapes of a case, and random numbers in it."""
    h, n = STEPS[case]
    random = np.random.default_rng(7)
    d, k = (2, 1) if case == "disc" else (3, 3)
    nc = 2 if case in ("two-spheres", "order-five") else 1
    sizes = {"friction_impulse": k, "slip": k, "point_1": d, "point_2": d, "normal": d, "tangent": d, "multipliers_1": 1,
             "multipliers_2": 1}  # fmt: skip
    shapes = {f.name: (n, nc, sizes[f.name]) if f.name in sizes else (n, nc) for f in dataclasses.fields(Contacts)}
    contacts = {name: random.normal(size=shape) for name, shape in shapes.items()}
    contacts["normal_impulse"] = np.abs(contacts["normal_impulse"])
    contacts["normal_impulse"][-3:] = 0.0
    stages = Stages(random.normal(size=(n, 3, 1, 6)), random.normal(size=(n, 3, 1, 6)), None, None)
    contacts["stages"] = stages if case == "order-five" else None
    orientation = random.normal(size=(n + 1, 1, 4 if d == 3 else 1))
    return ist.Trajectory(
        time=h * np.arange(n + 1),
        position=random.normal(size=(n + 1, 1, d)),
        orientation=orientation / np.linalg.norm(orientation, axis=-1, keepdims=True),
        velocity=random.normal(size=(n + 1, 1, 6 if d == 3 else 3)),
        contacts=Contacts(**contacts),
        stats=Stats(*np.ones((4, n))),
        certificate={},
        h=np.full(n, h) if case == "order-five" else h,
        names=("body",),
        contact_names=(("other", "body"),) * nc,
        mass=np.ones(1),
        inertia=0.4 * np.eye(3)[None] if d == 3 else np.full((1, 1, 1), 0.5),
    )


@pytest.fixture(scope="module")
def trajectories():
    return {case: made_up(case) for case in STEPS}


def assert_labelled(figure):
    """Every axes has a label with a unit on each of its scales; the time of axes that share it is
    on the lowest."""
    for axes in figure.axes:
        assert "[" in axes.get_ylabel(), figure
    assert any("[s]" in axes.get_xlabel() for axes in figure.axes)


def curves(axes):
    return {line.get_label(): line.get_ydata() for line in axes.lines}


@pytest.mark.parametrize("case", STEPS)
def test_velocities(trajectories, case):
    trajectory = trajectories[case]
    figure = plots.velocities(trajectory)
    assert_labelled(figure)
    drawn = [line.get_ydata() for axes in figure.axes for line in axes.lines]
    np.testing.assert_array_equal(np.transpose(drawn), trajectory.velocity[:, 0])
    named = plots.velocities(trajectory, trajectory.names[0])
    np.testing.assert_array_equal([line.get_ydata() for axes in named.axes for line in axes.lines], drawn)
    with pytest.raises(KeyError, match="no moving body is named 'egg'"):
        plots.velocities(trajectory, "egg")


@pytest.mark.parametrize("case", STEPS)
def test_contact_forces(trajectories, case):
    trajectory = trajectories[case]
    friction = ist.FrictionEllipsoid(mu=0.2, e_r=0.3)
    figure = plots.contact_forces(trajectory, friction=friction)
    assert_labelled(figure)
    forces, speeds = (curves(axes) for axes in figure.axes)
    contacts, h = trajectory.contacts, trajectory.h
    np.testing.assert_array_equal(forces["normal force $N$"], contacts.normal_impulse[:, 0] / h)
    mu = 0.2 if contacts.mu is None else contacts.mu[:, 0]  # as it was in the step
    np.testing.assert_allclose(forces[r"$\mu N$"], mu * contacts.normal_impulse[:, 0] / h, rtol=1e-14)
    tangential = np.linalg.norm(contacts.slip[:, 0, :2], axis=1)
    # open at the end
    np.testing.assert_array_equal(speeds["sliding speed"], np.append(tangential[:-3], np.zeros(3)))
    bare = curves(plots.contact_forces(trajectory).axes[0])
    expected = np.linalg.norm(contacts.friction_impulse[:, 0, :2], axis=1) / h
    np.testing.assert_array_equal(bare["tangential friction"], expected)


def test_the_time_of_forces_is_that_of_the_run(trajectories):
    """Of a slice, and of runs that take no time: without a step, and with nothing but an impact."""
    whole = trajectories["order-five"]
    axes = plots.contact_forces(whole[10:20]).axes[0]
    np.testing.assert_allclose(axes.get_xlim(), (1.0, 2.0), rtol=1e-14)
    struck = dataclasses.replace(whole[:1], time=np.zeros(2), h=np.zeros(1))
    for none in (whole[5:5], struck):
        assert [len(line.get_xdata()) for line in plots.contact_forces(none).axes[0].lines] == [0, 0]


def test_friction_length():
    impulse = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.6]])
    drilling, none = ist.FrictionEllipsoid(mu=1.0, e_r=0.3), ist.FrictionEllipsoid(mu=1.0)
    np.testing.assert_allclose(plots.friction_length(impulse, drilling), [5.0, 2.0], rtol=1e-15)
    np.testing.assert_array_equal(plots.friction_length(impulse, none), [5.0, 0.0])
    np.testing.assert_array_equal(plots.friction_length(np.array([[-2.0]]), ist.FrictionEllipsoid(mu=1.0)), [2.0])


def test_kinetic_energy(trajectories):
    figure = plots.kinetic_energy(trajectories["spin"])
    assert_labelled(figure)
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), trajectories["spin"].kinetic_energy())


def test_rounding_errors_do_not_fill_an_axis(trajectories):
    velocity = 3.0 + 1e-14 * np.arange(301)[:, None, None] * np.ones(3)
    for axes in plots.velocities(dataclasses.replace(trajectories["disc"], velocity=velocity)).axes:
        assert np.ptp(axes.get_ylim()) > 1e-3


def test_every_figure_of_the_paper_is_labelled(trajectories, monkeypatch):
    """Of the exact solution a state every tenth of a second: 2000 of them take seconds."""
    settings, at = dict(matplotlib.rcParams), exact.TwoSpheres.at

    def sparse(solution, time):
        found, back = np.unique(np.round(time, 1), return_inverse=True)
        states = at(solution, found)
        return dataclasses.replace(states, **{f.name: getattr(states, f.name)[back] for f in dataclasses.fields(states)})

    monkeypatch.setattr(exact.TwoSpheres, "at", sparse)
    for case, functions in figures.FIGURES.items():
        for name, function in functions.items():
            figure = function(trajectories[case])
            figure.draw_without_rendering()
            if name.endswith("scene") and case != "disc":  # a scale bar instead of axes
                assert any(text.get_text() in ("1 m", "5 m") for text in figure.axes[0].texts)
            elif name.endswith("scene"):
                assert figure.axes[0].get_xlabel() == "x [m]"
                assert figure.axes[0].get_ylabel() == "y [m]"
            else:
                assert_labelled(figure)
    assert dict(matplotlib.rcParams) == settings


def test_disc_figure_takes_other_methods(trajectories):
    time = np.array([0.0, 3.0])
    others = {"64-gon": (time, np.array([6.75, 6.0])), "1000-gon": (time, np.array([6.75, 6.7]))}
    lines = figures.disc_energy(trajectories["disc"], others).axes[0].lines
    drawn = {line.get_label(): (line.get_xydata(), line.get_color()) for line in lines}
    np.testing.assert_array_equal(drawn["64-gon"][0], [[0.0, 6.75], [3.0, 6.0]])
    assert len({colour for _, colour in drawn.values()}) == 4


@pytest.mark.parametrize("case", pictures.ANIMATIONS)
def test_animation(trajectories, case, tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(pictures, "FRAMES", 3)
    pictures.ANIMATIONS[case](trajectories[case], tmp_path / "x.gif")
    with image.open(tmp_path / "x.gif") as animation:
        assert animation.n_frames == 3


def test_camera_sees_what_it_should():
    camera = Camera(0.4, 0.3, (-2.0, 2.0, -1.0, 1.0))
    np.testing.assert_allclose(camera.axes @ camera.axes.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(camera.axes) == pytest.approx(1.0)
    assert camera.project([0.0, 0.0, 1.0])[0] == 0.0  # up is up
    ahead = Camera(0.0, 0.0, (-1.0, 1.0, -1.0, 1.0))  # from +x, y to the right
    np.testing.assert_array_equal(ahead.project([5.0, 2.0, 3.0]), [2.0, 3.0])


def test_balls_cover_their_area_and_hide_what_is_behind():
    camera = Camera(0.3, 0.5, (-2.0, 2.0, -1.5, 1.5))
    # before the other, on the line of sight
    near = Ball(0.9 * camera.axes[2], 0.5, (1.0, 0.0, 0.0))
    far = Ball(np.zeros(3), 1.0, (0.0, 0.0, 1.0))
    one, other = (Raster(camera, 150).paint(a).paint(b).image() for a, b in ((near, far), (far, near)))
    np.testing.assert_array_equal(one, other)
    area = 16.0 * 0.75 / one[..., 0].size  # [m^2] of a pixel
    # [m^2] of the pixels, 0.02 m wide, that the edge of the unit disc cuts
    perimeter = 2.0 * np.pi * 0.02
    assert one[..., 3].sum() * area == pytest.approx(np.pi, abs=perimeter)
    assert (one[..., 0] > one[..., 2]).sum() * area == pytest.approx(np.pi / 4.0, abs=perimeter / 2.0)


def test_octants_turn_with_the_body():
    """Seen along z, a ball turned by 90 degrees about z has light and dark swapped; turned by 180
    degrees, none."""
    camera = Camera(0.0, np.pi / 2.0, (-1.2, 1.2, -1.2, 1.2))
    half = np.sqrt(0.5)
    still, quarter, turned = (
        Raster(camera, 60).paint(Ball(np.zeros(3), 1.0, (1.0, 1.0, 1.0), np.array(q))).image()[20, 35, 0]
        for q in ([1.0, 0.0, 0.0, 0.0], [half, 0.0, 0.0, half], [0.0, 0.0, 0.0, 1.0])
    )
    assert still == turned
    assert min(still, quarter) / max(still, quarter) == pytest.approx(0.72)
