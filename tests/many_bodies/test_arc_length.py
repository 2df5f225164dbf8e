"""The central path by its arc length: around the folds of a curve that is known, to the root that
Newton's method finds, and through the step in which a ball hits bricks."""

import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import arc_length
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.host_newton import Found, newton
from implicit_stepper.many_bodies.problem import rows
from implicit_stepper.many_bodies.step import may_touch, no_memory, posed

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import wall

H = 0.01


def test_a_path_is_followed_around_its_folds(monkeypatch):
    """log kappa = z^3 - 3 z turns at z = 1 and z = -1, at -2 and 2."""

    def on_curve(problem, unknowns, shape):
        z, t = unknowns
        left = z**3 - 3 * z - t
        return unknowns, types.SimpleNamespace(bodies=np.array([left]), contacts=(), largest=abs(left))

    class Linear:
        def __init__(self, z):
            self.slope = 3 * z**2 - 3
            self.along = np.array([-1 / self.slope])

        def solved(self, F):
            return F.bodies / self.slope

    monkeypatch.setattr(arc_length, "_rows", on_curve)
    monkeypatch.setattr(arc_length, "_linear", lambda problem, unknowns, shape, F: Linear(unknowns[0]))
    at, way = arc_length._first(None, None, np.array([2.2, 2.2**3 - 6.6])), []
    for _ in range(150):
        at = arc_length._further(None, None, at, 0.1)[0]
        way.append(at.unknowns)
    z, t = np.transpose(way)
    assert np.all(np.diff(z) < 0)  # as it went on, though log kappa grew for a while
    np.testing.assert_allclose(t, z**3 - 3 * z, rtol=0, atol=arc_length._NEAR)
    turns = z[1:-1][np.diff(np.sign(np.diff(t))) != 0]
    np.testing.assert_allclose(turns, (1, -1), atol=0.1)
    assert z[-1] < -1.9


def first_step(scene, h):
    """The problem of its first step."""
    system, state = scene.build(contacts=False)
    state = jax.tree.map(np.asarray, state)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    return posed(known, system, state, no_memory(), h, may_touch(known, system, state, h), "projection")


@pytest.fixture(scope="module")
def landing():
    """The problem of a step in which a ball lands on another one that lies on a floor."""
    scene = ist.Scene()
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.0))
    scene.add_body(name="low", shape=shapes.Sphere(0.1), density=500, position=(0, 0, 0.1))
    fast = (0.3, 0, -2, 0, 0, 0)
    scene.add_body(name="high", shape=shapes.Sphere(0.1), density=500, position=(0.02, 0, 0.305), velocity=fast)
    scene.add_contacts(friction=0.4)
    return first_step(scene, H)


def test_the_path_ends_at_the_root_of_the_step(landing):
    found = arc_length.followed(landing.problem, landing.start, 1e-12, 40)
    assert found.converged
    assert found.residual <= 1e-12
    other = newton(landing.problem, landing.start, 1e-12, 40)
    assert other.converged
    np.testing.assert_allclose(found.point.V, other.point.V, rtol=0, atol=1e-10)
    slots = landing.problem.slots
    pressing = [z[:, own.group.pair.unknowns] for own, z in zip(slots, found.point.contacts, strict=True)]
    assert min(map(np.min, pressing)) > 1  # in units of what a step without contact changes


def test_the_end_of_the_path_is_a_root_as_it_is(landing, monkeypatch):
    """Where the corrections of the step itself lead nowhere, as they do where forces are
    redundant."""

    def on_the_path_only(problem, start, *limits, **more):
        if problem.step.kappa is None:
            return Found(start, np.inf, 1, False)
        return newton(problem, start, *limits, **more)

    monkeypatch.setattr(arc_length, "newton", on_the_path_only)
    found = arc_length.followed(landing.problem, landing.start, 1e-12, 40)
    assert found.converged
    assert rows(landing.problem, found.point).largest <= 1e-12
    other = newton(landing.problem, landing.start, 1e-12, 40)
    np.testing.assert_allclose(found.point.V, other.point.V, rtol=0, atol=1e-10)


def test_the_step_in_which_a_ball_hits_bricks_is_solved():
    """From where the bricks lie, without a memory: to the path's end, with friction and faces."""
    scene, place = wall.wall(1, 3), (0.03, -wall.DEPTH / 2 - wall.RADIUS - 0.005, 0.2)
    ball = shapes.Sphere(wall.RADIUS)
    scene.add_body(name="ball", shape=ball, mass=wall.MASS, position=place, velocity=(0, wall.SPEED, 0, 0, 0, 0))
    scene.add_contacts(friction=wall.FRICTION)
    own = first_step(scene, wall.H)
    found = arc_length.followed(own.problem, own.start, 1e-11, 40)
    assert found.converged
    assert rows(own.problem, found.point).largest <= 1e-11
    before, after = wall.SPEED, (found.point.V * own.problem.velocity)[-1, 1]
    assert after < 0.9 * before  # the ball is slowed down


def test_a_path_that_does_not_arrive_says_so(landing, monkeypatch):
    monkeypatch.setattr(arc_length, "_BUDGET", 1)
    assert not arc_length.followed(landing.problem, landing.start, 1e-12, 40).converged
