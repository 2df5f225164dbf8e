"""Bodies that overlap though they should not: what is said of it, and what is refused."""

import warnings

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.radau import driver
from implicit_stepper.run import fixed_run

STEPPER = ist.GeometricallyImplicit()
RADIUS = 0.2


def on_floor(*places, floor_declared=True, pair_declared=False, velocity=None, compliance=None):
    """Balls of .2 m, their centres at `places`, the first of them with a `velocity`."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    balls = [
        scene.add_body(
            name=f"ball {i}",
            shape=shapes.Sphere(RADIUS),
            position=place,
            mass=2.0,
            inertia=(0.03, 0.03, 0.03),
            velocity=velocity if i == 0 else None,
        )
        for i, place in enumerate(places)
    ]
    for ball in balls if floor_declared else ():
        scene.add_contact(floor, ball, friction=0.3, compliance=compliance)
    if pair_declared:
        scene.add_contact(*balls)
    return scene


def run(scene, duration=0.1, h=0.01):
    return ist.simulate(scene, STEPPER, h=h, duration=duration)


def test_an_undeclared_pair_that_comes_to_overlap_is_warned_of_once():
    """The first ball rolls at 1 m/s and reaches the second after 1 s; 200 steps are two chunks."""
    scene = on_floor((0, 0, RADIUS), (1.4, 0, RADIUS), velocity=(1, 0, 0, 0, 5, 0))
    with pytest.warns(ist.OverlapWarning, match="ball 0 and ball 1 overlap, and no contact of the two is declared") as seen:
        run(scene, duration=2.0)
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_a_body_that_falls_through_an_undeclared_floor_is_warned_of():
    with pytest.warns(ist.OverlapWarning, match="ball 0 and floor overlap"):
        run(on_floor((0, 0, 2 * RADIUS), floor_declared=False), duration=0.5)


def test_no_false_alarm():
    """Neighbours that touch, a ball that passes over another, and bodies whose pair is declared."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(on_floor((0, 0, RADIUS), (2 * RADIUS, 0, RADIUS)))
        run(on_floor((0, 0, 4 * RADIUS), (0.5, 0, RADIUS), velocity=(10, 0, 0, 0, 0, 0)))


def test_a_start_in_overlap_says_what_speed_it_becomes():
    """From rest at a depth d the step ends at gap 0 with the speed d/h, of which the push did m
    (d/h)^2 / 2 and the weight the rest; parting_work is twice that."""
    depth, h = 0.05, 0.01
    with pytest.warns(ist.OverlapWarning, match=r"floor and ball 0 overlap by 0.05 m .* at up to 5 m/s") as seen:
        found = run(on_floor((0, 0, RADIUS - depth)))
    assert seen[0].filename == __file__
    np.testing.assert_allclose(found.velocity[1, 0, 2], depth / h, rtol=1e-12)
    np.testing.assert_allclose(found.parting_work()[0], 2.0 * (depth / h + 9.81 * h) * depth / h, rtol=1e-12)
    assert np.all(found.parting_work()[1:] < 1e-9)


def test_a_start_deep_inside_is_refused():
    with pytest.raises(ValueError, match=r"the smaller one: floor and ball 0 by 0.11 m of 0.2 m. Move"):
        run(on_floor((0, 0, 0.09)))


def test_what_starts_deep_inside_is_told_before_steps_are_compiled(monkeypatch):
    """By fixed steps and by chosen ones."""

    def compiled(*_):
        raise AssertionError

    monkeypatch.setattr(fixed_run, "prepare", compiled)
    monkeypatch.setattr(driver, "prepare", compiled)
    for more in ({"stepper": STEPPER, "h": 0.01}, {"stepper": ist.RadauContact(), "tol": 1e-6}):
        with pytest.raises(ist.errors.OverlapError, match="floor and ball 0"):
            ist.simulate(on_floor((0, 0, 0.09)), duration=0.1, **more)
        with pytest.raises(AssertionError):  # what it would be otherwise
            ist.simulate(on_floor((0, 0, RADIUS)), duration=0.1, **more)


@pytest.mark.parametrize(
    "stepper", [ist.GeometricallyImplicit(), pytest.param(ist.RadauContact(), marks=pytest.mark.thorough)]
)
def test_all_that_start_deep_inside_are_told(stepper):
    """Of balls that chosen steps find in each other, too."""
    scene = on_floor((0, 0, 0.09), (0.5, 0, 0.08))
    choice = {"tol": 1e-6} if stepper.can.adaptive else {"h": 0.01}
    with pytest.raises(ValueError, match=r"floor and ball 1 .*by 0.12 m.*floor and ball 0 .*by 0.11 m"):
        ist.simulate(scene, stepper, **choice, duration=0.01, progress=False)


def test_compliant_contacts_may_start_in_overlap():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(on_floor((0, 0, RADIUS - 1e-3), compliance=ist.Compliance(stiffness=2e4)))
