"""The time-stepper of Stewart and Trinkle: by hand, against exact motions, and the polygons of the
paper's figure 1."""

import csv
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import implicit_stepper as ist
import shapes
from implicit_stepper.commands import main
from implicit_stepper.model import rotation
from implicit_stepper.model.bodies import State
from implicit_stepper.paper import exact, exact_polygon, figures, polygon, reproduce, scenes
from implicit_stepper.runtime.compilation import jit
from implicit_stepper.stepping.stepper import Stepper

STEPPER = ist.Linearized()
G = 9.81
UNAIDED = "no impulse on an axis without friction"


@pytest.fixture(scope="module")
def polygons():
    """What the quick case of `reproduce` gives: our trajectory, its rows, and the polygons'
    trajectories."""
    return reproduce.polygons(True)


def step_of(scene, trajectory):
    """System, states before and after, and contacts of the first step."""
    system, state = jax.tree.map(jnp.asarray, scene.build())
    contacts = jax.tree.map(lambda a: jnp.asarray(a[0]), trajectory.contacts)
    after = ("time", "position", "orientation", "velocity")
    return system, state, State(*(jnp.asarray(getattr(trajectory, name)[1]) for name in after)), contacts


def test_protocol():
    assert isinstance(STEPPER, Stepper)
    assert isinstance(polygon.RollingPolygon(10), Stepper)


def test_arguments():
    for name, value in (("facets", 2), ("facets", 8.0), ("tolerance", 0.0), ("max_pivots", 0)):
        with pytest.raises(ValueError, match=f"`{name}`"):
            ist.Linearized(**{name: value})
    with pytest.raises(ValueError, match="`sides`"):
        polygon.RollingPolygon(3)


@pytest.mark.parametrize("angle", [0.0, 0.2, 0.6])
def test_sliding_block_stays_down_and_brakes_along_a_facet(angle):
    """Of 8 directions that nearest to -v brakes; no launch: the gap stays zero, whatever the
    speed."""
    scene = ist.Scene(gravity=(0.0, 0.0, -G), length_scale=1.0)
    plane = scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    start = 6.0 * np.array([np.cos(angle), np.sin(angle), 0, 0, 0, 0])
    block = {"shape": shapes.Sphere(0.5), "mass": 1.0, "inertia": (1e12,) * 3, "position": (0.0, 0.0, 0.5)}
    scene.add_contact(plane, scene.add_body(name="block", velocity=start, **block), friction=0.5)
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=0.5)
    assert np.max(np.abs(trajectory.contacts.gap)) <= 1e-12
    facet = np.round(angle / (np.pi / 4)) * np.pi / 4
    braking = 0.5 * G * np.array([np.cos(facet), np.sin(facet)])
    assert trajectory.velocity[1, 0, :2] == pytest.approx(start[:2] - 0.01 * braking, abs=1e-11)
    if angle == 0.0:
        assert trajectory.velocity[-1, 0, 0] == pytest.approx(6.0 - 0.5 * 0.5 * G, abs=1e-10)


def test_block_sticks():
    """Below mu m g friction holds; the same scene slides above it."""
    start = ist.simulate(scenes.block(speed=0.02, mu=0.5), STEPPER, h=0.01, duration=0.05)
    assert np.max(np.abs(start.velocity[1:, 0, :3])) <= 1e-11
    assert start.contacts.friction_impulse[0, 0, :2] == pytest.approx([-0.02, 0.0], abs=1e-11)
    assert start.contacts.friction_impulse[1:] == pytest.approx(0.0, abs=1e-11)


def test_drilling():
    """The paper's spinning sphere: the axes +-e_r of the cone are exact, so torque and spin are
    those of the ellipsoid."""
    scene = ist.Scene(gravity=(0.0, 0.0, -G))
    plane = scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    start = {"position": (0.0, 0.0, 1.0), "velocity": (0.0, 0.0, 0.0, 0.0, 0.0, 1.962)}
    sphere = scene.add_body(name="sphere", shape=shapes.Sphere(1.0), mass=1.0, inertia=(0.4, 0.4, 0.4), **start)
    scene.add_contact(plane, sphere, friction=ist.FrictionEllipsoid(mu=0.2, e_r=0.4))
    trajectory = ist.simulate(scene, STEPPER, h=0.07, duration=1.4)
    spin = trajectory.velocity[:, 0, 5]
    assert -np.diff(spin[:15]) == pytest.approx(0.13734, abs=1e-10)
    assert spin[14] == pytest.approx(0.03924, abs=1e-10)
    assert spin[15:] == pytest.approx(0.0, abs=1e-10)
    assert trajectory.contacts.friction_impulse[0, 0, 2] / 0.07 == pytest.approx(-0.7848, abs=1e-10)


def test_sphere_on_two_spheres():
    """All of the paper's example 3, in which both contacts slide and open; more facets, smaller
    errors."""
    answer, errors = exact.two_spheres(4.0), []
    for facets in (8, 32):
        trajectory = ist.simulate(scenes.two_spheres(), ist.Linearized(facets=facets), h=0.01, duration=4.0)
        assert len(trajectory) == 400
        assert np.max(trajectory.stats.rung) == 0
        assert max(np.max(violation) for violation in trajectory.certificate.values()) <= 1e-11
        errors.append(np.max(np.abs(trajectory.position[300, 0] - answer.at([3.0]).position[0])))
    # most of the error stays: no number of facets makes an ellipsoid of a bipyramid in force and
    # torque, nor moves the rows
    assert errors[1] < errors[0] < 0.2


def test_certificate_sees_every_equation():
    trajectory = ist.simulate(scenes.block(), STEPPER, h=0.01, duration=0.02)
    system, state, after, contacts = step_of(scenes.block(), trajectory)
    certificate = jit(STEPPER.certificate)

    def violations(contacts):
        return {name: float(np.max(v)) for name, v in certificate(system, state, after, contacts, 0.01).items()}

    good = violations(contacts)
    assert max(good.values()) <= 1e-12
    push = 1e-3
    wrong = {
        "pull": dataclasses.replace(contacts, normal_impulse=-contacts.normal_impulse),
        "cone": dataclasses.replace(contacts, friction_impulse=contacts.friction_impulse * (1 + push)),
        "dissipation": dataclasses.replace(contacts, friction_impulse=contacts.friction_impulse * (1 - push)),
        "linearised gap": dataclasses.replace(contacts, gap_start=contacts.gap_start - push),
        "complementarity": dataclasses.replace(contacts, gap_start=contacts.gap_start + push),
        "momentum": dataclasses.replace(contacts, normal_impulse=contacts.normal_impulse * (1 + push)),
        UNAIDED: dataclasses.replace(contacts, friction_impulse=contacts.friction_impulse.at[0, 2].add(push)),
    }
    # see test_certificate.py
    assert set(wrong) == set(good) - {"pose", "closest points", "tangent", "slip"}
    for name, changed in wrong.items():
        assert violations(changed)[name] >= 1e-4, name
    # with the spin that the torque gives the block nothing else tells of it
    spin = push / system.inertia[0, 2, 2]
    drilled = dataclasses.replace(wrong[UNAIDED], slip=contacts.slip.at[0, 2].add(spin))
    turn = np.array([0.0, 0.0, 0.01 * spin])
    spun = dataclasses.replace(
        after,
        velocity=after.velocity.at[0, 5].add(spin),
        orientation=rotation.advance(after.orientation[0], turn)[None],
    )
    found = {name: float(np.max(v)) for name, v in certificate(system, state, spun, drilled, 0.01).items()}
    assert {name for name, violation in found.items() if violation > 1e-10} == {UNAIDED}


@pytest.mark.parametrize("facets", [3, 4, 7, 8])
def test_gauge_is_the_least_sum_of_beta(facets):
    stepper, random = ist.Linearized(facets=facets), np.random.default_rng(facets)
    directions = np.asarray(stepper._directions(3))
    for y in random.normal(size=(20, 3)):
        least = linprog(np.ones(len(directions)), A_eq=directions.T, b_eq=y).fun
        assert stepper._gauge(y[None])[0] == pytest.approx(least, abs=1e-9)


def test_a_scene_without_contacts_flies():
    scene = ist.Scene()
    scene.add_body(name="stone", shape=shapes.Sphere(1.0), mass=1.0, position=(0, 0, 0), velocity=(1, 0, 0, 0, 0, 0))
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=0.1)
    assert trajectory.velocity[-1, 0] == pytest.approx([1, 0, -0.1 * G, 0, 0, 0], abs=1e-12)


def test_polygons_against_closed_forms(polygons):
    ours, rows, study = polygons
    assert all(row.ok for row in rows)
    final = {n: run.kinetic_energy()[-1] for n, run in study.by_sides.items()}
    # derived by hand: 6.75 exp(-4 g h t / 3), and (1 + 2 pi / 1000 * 4)^-2
    assert final[1000] == pytest.approx(4.000, abs=0.02)
    assert final[10] < final[50] < final[1000] < ours.kinetic_energy()[-1] == pytest.approx(6.75, abs=1e-11)
    ratio = {h: run.kinetic_energy()[-1] / 6.75 for h, run in study.by_step.items()}
    assert list(ratio.values()) == sorted(ratio.values())
    assert ratio[1e-3] == pytest.approx(0.95157, rel=0.01)
    assert abs(ratio[2e-3] / 0.95157 - 1) > 0.01  # corners still come faster than steps
    assert ratio[5e-4] < 0.95157


def test_polygon_never_goes_below_the_line(polygons):
    """All 1000 corners, not only the contacts, and the curvature of their paths counts in the
    polygon's favour."""
    for run in polygons[2].by_step.values():
        place = run.position[:, 0, 1, None] - np.cos(run.angle[:, :1] + 2 * np.pi * np.arange(1000) / 1000)
        assert np.min(place) >= -1e-12


def test_polygon_certificate_sees_a_corner_without_contact(polygons):
    """With omega larger at the end, a corner farther ahead than any contact goes through the
    line."""
    stepper = polygon.RollingPolygon(1000)
    system, state, after, contacts = step_of(polygon.rolling(), polygons[2].by_sides[1000])
    certificate = jit(stepper.certificate)
    assert certificate(system, state, after, contacts, 0.01)["all corners"].max() <= 1e-12
    # the contacts as they are: only the motion at the end is another one, that keeps them on the
    # line
    turned = dataclasses.replace(after, velocity=after.velocity + jnp.array([[0.0, 0.045, 3.0]]))
    found = certificate(system, state, turned, contacts, 0.01)
    assert found["all corners"].max() > found["linearised gap"].max() + 1e-4


def test_collisions_in_closed_form():
    """Against the product of the impacts themselves: 1000 corners, each keeps the angular momentum
    about the next."""
    b = 2 * np.pi / 1000
    omega, time = 3.0, 0.0
    while time < 4.0:
        time += b / omega
        omega *= (0.5 + np.cos(b)) / 1.5
    assert exact_polygon.after_collisions(time, 1000) == pytest.approx(0.75 * omega**2, rel=1e-5)
    assert exact_polygon.after_collisions(4.0, 1000) / 6.75 == pytest.approx(0.95157, abs=5e-6)


def test_polygons_are_reproduced_and_drawn(polygons, tmp_path, monkeypatch):
    run = dataclasses.replace(reproduce.CASES["polygons"], run=lambda quick: polygons)
    monkeypatch.setitem(reproduce.CASES, "polygons", run)
    assert main.main(["reproduce", "--case", "polygons", "--quick", "--out", str(tmp_path)]) == 0
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures == {"figure-1a-polygon-sides.png", "figure-1b-polygon-steps.png"}
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        assert {row["case"] for row in csv.DictReader(file)} == {"polygons"}
    for figure in (figures.polygon_sides, figures.polygon_steps):
        (axes,) = figure(polygons[0], polygons[2]).axes
        assert axes.get_xlabel() == "time [s]"
        assert axes.get_ylabel() == "kinetic energy [J]"
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), polygons[0].kinetic_energy())
