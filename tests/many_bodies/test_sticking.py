"""Static friction among pairs that are found: thresholds and times of breaking away against closed
forms, the same steps with pairs declared, and what no run may have."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import sticking
from implicit_stepper.stepping.run_certificate import HELD

G, H, STEPS, MU, MU_S = 9.81, 0.01, 130, 0.3, 0.5
STEEP = np.arctan(MU_S * (1 + np.array([-1e-6, 1e-6])))
PULLS = 2.0, 4.0, 6.0  # [N/s]
SLIDES = 0.2  # [m/s], the last one at first
LAW = ist.FrictionEllipsoid(MU, mu_s=MU_S)
BALL = {"shape": shapes.Sphere(0.1), "mass": 1.0, "inertia": (1e12,) * 3}  # which does not turn


def scene():
    """Balls of 1 kg on slopes just below and just above the limit, and on a floor under growing
    pulls."""
    made = ist.Scene(length_scale=0.1)
    for i, angle in enumerate(STEEP):
        up = np.array([-np.sin(angle), 0, np.cos(angle)])
        slope = made.add_fixed(name=f"slope {i}", shape=shapes.HalfSpace(normal=up))
        lies = made.add_body(name=f"lies {i}", position=0.1 * up + (0, i, 0), **BALL)
        made.add_contacts(friction=LAW, between=([slope], [lies]))
    floor = made.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)), position=(0, 0, -9))
    for k, rate in enumerate(PULLS):
        moves = {"velocity": (SLIDES * (k == 2), 0, 0, 0, 0, 0), "wrench": ist.Wrench((f"{rate}*t", 0, 0))}
        pulled = made.add_body(name=f"pulled {k}", position=(0, 3 + k, -8.9), **moves, **BALL)
        made.add_contacts(friction=LAW, between=([floor], [pulled]))
    return made


def run(jacobian):
    return ist.simulate(scene(), ist.GeometricallyImplicit(jacobian=jacobian), h=H, duration=STEPS * H)


pytestmark = pytest.mark.filterwarnings("ignore::implicit_stepper.OverlapWarning")


@pytest.fixture(scope="module")
def found():
    return run("sparse")


def coefficients(found, first, second):
    return found.contacts.mu[:, found.contact_names.index((first, second))]


def test_a_ball_slides_if_and_only_if_its_slope_is_steeper_than_mu_s(found):
    assert np.max(np.abs(found.velocity[:, 0])) <= 1e-11
    sliding = G * (np.sin(STEEP[1]) - MU * np.cos(STEEP[1])) * STEPS * H
    assert np.linalg.norm(found.velocity[-1, 1]) == pytest.approx(sliding, rel=1e-9)
    assert np.all(coefficients(found, "lies 0", "slope 0") == MU_S)
    assert np.all(coefficients(found, "lies 1", "slope 1") == MU)


def test_a_pull_that_grows_breaks_a_ball_away_in_the_step_in_which_it_passes_mu_s(found):
    """A pull acts as at the start of a step. What slides first stops, is held, breaks away."""
    starts = H * np.arange(STEPS)
    for k, rate in enumerate(PULLS[:2]):
        held = rate * starts <= MU_S * G
        np.testing.assert_array_equal(coefficients(found, f"pulled {k}", "floor"), np.where(held, MU_S, MU))
        slid = np.cumsum(np.where(held, 0.0, H * (rate * starts - MU * G)))
        np.testing.assert_allclose(found.velocity[1:, 2 + k, 0], slid, rtol=0, atol=1e-10)
    mu, speed = coefficients(found, "pulled 2", "floor"), found.velocity[:, 4, 0]
    breaks = int(np.argmax(PULLS[2] * starts > MU_S * G))
    stops = int(np.argmax(speed < 1e-9))
    assert 0 < stops < breaks < STEPS
    np.testing.assert_array_equal(mu, np.where((np.arange(STEPS) < stops) | (np.arange(STEPS) >= breaks), MU, MU_S))


def test_steps_are_those_with_pairs_declared(found):
    declared = run("by size")
    assert found.contact_names == declared.contact_names
    np.testing.assert_array_equal(found.contacts.mu, declared.contacts.mu)
    np.testing.assert_allclose(found.velocity, declared.velocity, rtol=0, atol=1e-10)


def test_no_run_may_hold_by_mu_s_what_slips(found, monkeypatch):
    """Were all contacts held as if they did not slip, the certificate would say so."""
    assert max(np.max(values) for values in found.certificate.values()) <= 1e-10
    monkeypatch.setattr(sticking, "NO_SLIP", 1e9)
    with pytest.raises(ist.StepError, match="held by static friction") as caught:
        run("sparse")
    assert caught.value.certificate[HELD] == pytest.approx(SLIDES / np.sqrt(0.1 * G))


@pytest.mark.thorough
def test_a_pile_is_held_by_both_coefficients():
    """Balls that fall into a corner: what presses has mu or mu_s, and mu_s only where it does not
    slip; the run goes on from its end."""
    made, rng = ist.Scene(), np.random.default_rng(0)
    for normal in ((0, 0, 1), (0.8, 0, 0.6), (-0.8, 0, 0.6), (0, 0.8, 0.6), (0, -0.8, 0.6)):
        made.add_fixed(name=f"plane {normal}", shape=shapes.HalfSpace(normal=normal))
    for number in range(4):
        place = (*rng.uniform(-0.02, 0.02, 2), 0.15 + 0.21 * number)
        made.add_body(name=f"ball {number}", shape=shapes.Sphere(0.1), mass=1.0, position=place)
    made.add_contacts(friction=LAW)
    settings = {"h": H, "duration": 0.3}
    stepper = ist.GeometricallyImplicit(jacobian="sparse")
    first = ist.simulate(made, stepper, **settings)
    then = ist.simulate(made, stepper, start=first, **settings)
    whole = ist.simulate(made, stepper, h=H, duration=0.6)
    np.testing.assert_allclose(then.end.position, whole.end.position, rtol=0, atol=1e-9)
    presses = whole.contacts.normal_impulse > 1e-9
    mu, slips = whole.contacts.mu[presses], whole.contacts.sigma[presses]
    assert set(mu) == {MU, MU_S}
    assert np.max(slips[mu == MU_S]) <= 1e-9


@pytest.mark.thorough
def test_an_impact_holds_what_slips_neither_before_nor_after_it():
    """A disc lies on a floor and is struck from above, along a line at 45 degrees: it rolls off
    where mu_s is above 1/3, and slides with mu where it is not. The impulses of step and impact
    together are P, P / sqrt(2) of the floor, with P = (1 + e) v / (1 + 1/3) and (1 + e) v / (1.5 -
    mu / 2)."""
    made, disc, e = ist.Scene(dimension=2, gravity=(0, 0)), {"shape": shapes.Disc(0.1), "mass": 1.0}, 0.5
    floor, line = made.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1))), np.array([1, -1]) / np.sqrt(2)
    for i, mu_s in enumerate((0.35, 0.32)):
        place = np.array([i, 0.1])
        lies = made.add_body(name=f"lies {i}", position=place, **disc)
        strikes = made.add_body(name=f"strikes {i}", position=place - 0.21 * line, velocity=(*line, 0), **disc)
        made.add_contacts(friction=ist.FrictionEllipsoid(MU, mu_s=mu_s), between=([floor], [lies]))
        made.add_contacts(friction=0.0, restitution=ist.Newton(e), between=([strikes], [lies]))
    stepper = ist.GeometricallyImplicit(jacobian="sparse")
    found = ist.simulate(made, stepper, h=H, duration=2 * H)
    (impact,) = np.flatnonzero(found.h == 0)
    names = [pair for i in (0, 1) for pair in ((f"lies {i}", f"strikes {i}"), (f"lies {i}", "floor"))]
    order = [found.contact_names.index(pair) for pair in names]
    P = (1 + e) / np.array([1 + 1 / 3, 1.5 - MU / 2])
    sums = np.sum(found.contacts.normal_impulse[[impact - 1, impact]], axis=0)[order]
    np.testing.assert_allclose(sums, np.outer(P, [1, 1 / np.sqrt(2)]).reshape(-1), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(found.contacts.mu[impact, order], [0, 0.35, 0, MU])
    speeds = P / np.sqrt(2) * [2 / 3, 1 - MU]
    np.testing.assert_allclose(found.velocity[-1, [0, 2], 0], speeds, rtol=0, atol=1e-9)
    assert max(np.max(values) for values in found.certificate.values()) <= 1e-10
    with pytest.raises(ValueError, match="found its pairs step by step"):
        ist.sensitivities(made, stepper, found, ["mu"])
