"""Rebounds of bodies that meet in faces: where the impulse acts, against statics and closed
forms."""

import dataclasses

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.detection import closest_points
from implicit_stepper.radau import face_rebounds, impact
from implicit_stepper.radau.impact_certificate import impact_violations
from implicit_stepper.runtime.compilation import jit

E, MU, INERTIA = 0.5, 0.3, (1.0**2 + 0.1**2) / 12  # of a bar of 1 kg, 1 m long and .1 m high
LEFT, RIGHT = -0.3, 0.2  # [m]: where the blocks are, each .1 m wide
meet_at = jit(lambda system, state, closest: impact.meet(system, state, closest)[0], once=True)


def flat(length: float, height: float) -> shapes.Shape:
    return shapes.Polygon([(x * length / 2, y * height / 2) for x in (-1, 1) for y in (-1, 1)])


def bar(law):
    """A bar that lies on two blocks, without weight."""
    scene = ist.Scene(dimension=2, gravity=(0, 0), length_scale=0.1, acceleration_scale=10.0)
    block = flat(0.1, 0.1)
    blocks = [scene.add_fixed(name=f"block {x}", shape=block, position=(x, -0.05)) for x in (LEFT, RIGHT)]
    body = scene.add_body(name="bar", shape=flat(1.0, 0.1), mass=1.0, inertia=INERTIA, position=(0, 0.05))
    for one in blocks:
        scene.add_contact(one, body, friction=MU, restitution=law)
    return scene.build()


@pytest.fixture(scope="module", params=[ist.Newton, ist.Poisson], ids=["Newton", "Poisson"])
def lies(request):
    system, state = bar(request.param(E))
    return system, state, closest_points(system, state)


def met(lies, velocity, x=0.0):
    """With the bar `x` [m] further to the right, moving at `velocity`."""
    system, state, closest = lies
    before = dataclasses.replace(state, velocity=np.array([velocity], float), position=state.position + np.array([x, 0.0]))
    closest = closest_points(system, before)
    (hit,), *_, rebounds, _ = face_rebounds.meet(lambda *at: (meet_at(*at),), system, before, closest)
    assert rebounds
    violations = impact_violations(system, before, hit.state, hit.contacts)
    assert max(float(np.max(values)) for values in violations.values()) <= 1e-11
    return hit


def test_a_bar_that_lands_flat_on_two_blocks_leaves_them_flat(lies):
    """It parts with e times its speed and without spin; the blocks share (1 + e) m v as the lever
    says about points within them."""
    hit = met(lies, (0, -2, 0))
    np.testing.assert_allclose(hit.state.velocity[0], [0, 2 * E, 0], rtol=0, atol=1e-12)
    share, place = np.asarray(hit.contacts.normal_impulse), np.asarray(hit.contacts.point_2[:, 0])
    assert np.sum(share) == pytest.approx(2 * (1 + E), abs=1e-12)
    assert share @ place == pytest.approx(0, abs=1e-12)
    assert np.all(np.abs(place - [LEFT, RIGHT]) <= 0.05 + 1e-12)


@pytest.mark.parametrize(("speed", "left"), [(2.0, 2.0 - 3 * MU), (0.5, 0.0)], ids=["slips", "sticks"])
def test_its_friction_does_not_turn_it(lies, speed, left):
    """Friction slows it by at most mu (1 + e) v; its moment moves the centre of pressure. By
    Poisson's law what sticks does turn, as its expansion presses where its compression did."""
    hit = met(lies, (speed, -2, 0))
    if left == 0 and lies[0].groups[0].of_impulses:
        shift, rub = 0.05 * speed / 2, -(2 * E) * 0.05 * speed / 2 * 0.05 / (INERTIA + 0.05**2)
        spin = (2 * E * shift + 0.05 * rub) / INERTIA
        np.testing.assert_allclose(hit.state.velocity[0], [rub, 2 * E, spin], rtol=0, atol=1e-11)
        return
    np.testing.assert_allclose(hit.state.velocity[0], [left, 2 * E, 0], rtol=0, atol=1e-11)
    lever = hit.contacts.normal_impulse @ hit.contacts.point_2[:, 0]
    assert lever == pytest.approx(0.05 * (speed - left), abs=1e-11)


def test_beyond_its_blocks_it_tips_about_the_rim():
    """Without friction, its centre beyond the last block's rim, r away: p = (1 + e) v / (1 + r^2 /
    I), and every other point of the blocks is left sooner."""
    system, state = bar(ist.Newton(E))
    system = dataclasses.replace(system, groups=tuple(dataclasses.replace(g, mu=0 * g.mu) for g in system.groups))
    r = -0.1
    hit = met((system, state, None), (0, -2, 0), x=RIGHT + 0.05 - r)
    p = 2 * (1 + E) / (1 + r**2 / INERTIA)
    np.testing.assert_allclose(hit.state.velocity[0], [0, p - 2, r * p / INERTIA], rtol=0, atol=1e-11)
    np.testing.assert_allclose(hit.contacts.normal_impulse, [0, p], rtol=0, atol=1e-11)


@pytest.mark.parametrize("spin", [3.0, 30.0])
def test_a_bar_that_turns_parts_from_both_blocks_as_fast_as_it_came_or_faster(spin):
    """Newton's law holds at both blocks: parting v+ >= -e v-, with no impulse where it is more. At
    3 rad/s both press, at 30 rad/s the left one alone, on its outer rim."""
    system, state = bar(ist.Newton(E))
    hit = met((system, state, None), (0, -2, spin))
    at = np.array([LEFT, RIGHT]) + np.array([[-0.05], [0.05]])  # the blocks' rims
    before, after = -2 + spin * at, hit.state.velocity[0, 1] + hit.state.velocity[0, 2] * at
    assert np.min(after + E * np.minimum(before, 0)) >= -1e-11
    p, place = np.asarray(hit.contacts.normal_impulse), np.asarray(hit.contacts.point_2[:, 0])
    slack = hit.state.velocity[0, 1] + 2 * E * -1 + (hit.state.velocity[0, 2] + E * spin) * place
    np.testing.assert_allclose(p * slack, 0, atol=1e-11)
    assert np.array_equal(p > 1e-9, [True, spin < 10])
