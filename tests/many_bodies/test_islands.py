"""Islands of bodies in a step: those that stand are left alone, those that are lost together are
solved apart."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import advance, islands

H, RADIUS, SPARSE = 0.01, 0.05, ist.GeometricallyImplicit(jacobian="sparse")


@pytest.fixture
def solved(monkeypatch):
    """Pairs of all problems for which Newton's method is asked."""
    asked, newton = [], advance.newton

    def told(problem, *rest, **named):
        sides = [slots.sides[:count] for slots, count in zip(problem.slots, problem.counts, strict=True)]
        asked.append({tuple(pair) for own in sides for pair in own.tolist()})
        return newton(problem, *rest, **named)

    monkeypatch.setattr(advance, "newton", told)
    return asked


def rolling(gap):
    """Three balls that stand on each other, and one that rolls towards the lowest, `gap` [m] before
    it."""
    scene = ist.Scene()
    for number in range(3):
        scene.add_body(name=f"{number}", shape=shapes.Sphere(RADIUS), mass=0.5, position=(0, 0, (2 * number + 1) * RADIUS))
    scene.add_body(
        name="rolls", shape=shapes.Sphere(RADIUS), mass=0.5, position=(-2 * RADIUS - gap, 0, RADIUS),
        velocity=(0.5, 0, 0, 0, 0.5 / RADIUS, 0),
    )  # fmt: skip
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=0.3)
    return scene


def test_bodies_that_stand_are_left_as_they_are_until_something_comes(solved):
    run = ist.simulate(rolling(0.051), SPARSE, h=H, duration=14 * H)
    # in the first step forces are found; bodies 0, 1 and 2 stand, 3 rolls, 4 is the floor
    standing = {(0, 4), (0, 1), (1, 2)}
    assert standing <= solved[0]
    alone = sum(pairs == {(3, 4)} for pairs in solved)
    assert alone >= 4
    moves = np.max(np.abs(run.velocity[:, :3]), axis=(1, 2))
    hit = int(np.argmax(moves > 0.01))
    assert 8 <= hit <= 12
    np.testing.assert_array_equal(run.velocity[2 : 2 + alone, :3], np.stack(alone * [run.velocity[1, :3]]))
    assert run.velocity[hit, 0, 0] > 0.1
    assert max(np.max(v) for v in run.certificate.values()) <= 1e-10


def test_islands_change_nothing_of_a_step(monkeypatch):
    scene = rolling(0.031)
    own = ist.simulate(scene, SPARSE, h=H, duration=10 * H)
    monkeypatch.setattr(islands, "islands", lambda problem: None)
    whole = ist.simulate(scene, SPARSE, h=H, duration=10 * H)
    for name in ("position", "velocity"):
        np.testing.assert_allclose(getattr(own, name), getattr(whole, name), rtol=0, atol=1e-11)
    np.testing.assert_allclose(own.contacts.normal_impulse, whole.contacts.normal_impulse, rtol=0, atol=1e-11)


def test_islands_that_are_lost_together_are_solved_apart(monkeypatch, solved):
    """Two pairs of balls meet in the same step: no start solves both at once, any solves one."""
    scene = ist.Scene()
    for number, (y, speed) in enumerate(((0, 1), (0, -1), (1, 1), (1, -2))):
        place = ((2 * (number % 2) - 1) * 1.05 * RADIUS, y, 0)
        begins = {"position": place, "velocity": (speed, 0, 0, 0, 0, 0)}
        scene.add_body(name=f"{number}", shape=shapes.Sphere(RADIUS), mass=0.5, **begins)
    scene.add_contacts(friction=0.3)
    newton = advance.newton

    def failing(problem, *rest, **named):
        found = newton(problem, *rest, **named)
        return found if sum(problem.counts) < 2 else found._replace(point=rest[0], residual=1.0, converged=False)

    monkeypatch.setattr(advance, "newton", failing)
    run = ist.simulate(scene, SPARSE, h=H, duration=H)
    # they close gaps of 5 mm, and not more, about the mean of their velocities
    np.testing.assert_allclose(run.velocity[-1, :, 0], [0.25, -0.25, -0.25, -0.75], rtol=0, atol=1e-12)
    assert [len(pairs) for pairs in solved] == [2, 1, 1]
    assert run.stats.substeps[0] == 1
