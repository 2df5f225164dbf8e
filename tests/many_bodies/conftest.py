"""Problems of single steps of many bodies."""

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.host_newton import newton
from implicit_stepper.many_bodies.problem import Point, rows, slipping
from implicit_stepper.many_bodies.step import may_touch, no_memory, posed


@pytest.fixture(scope="session")
def balls_on_a_floor():
    """A function of friction, step [s] and velocities: the problem of a first step of balls of .1 m
    and 500 kg/m^3 that touch a floor and not each other, and where it begins."""

    def of(mu, h, velocities):
        scene = ist.Scene()
        floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.0))
        ball = {"shape": shapes.Sphere(0.1), "density": 500}
        balls = [
            scene.add_body(name=f"ball {k}", position=(k, 0, 0.1), velocity=velocity, **ball)
            for k, velocity in enumerate(velocities)
        ]
        scene.add_contacts(friction=mu, between=(balls, [floor]))
        system, state = scene.build(contacts=False)
        state = jax.tree.map(np.asarray, state)
        known = catalog(system, scene.body_parts(), scene.body_pairs())
        own = posed(known, system, state, no_memory(), h, may_touch(known, system, state, h), "projection")
        return own.problem, own.start

    return of


@pytest.fixture(scope="session")
def with_impulses():
    """A function of a problem with contacts of one form, where it begins, and dimensionless (p_n,
    y): its root with these impulses in the place of its own, and F there."""

    def of(problem, start, impulses):
        V, (own,) = newton(problem, start, 1e-12, 40).point
        own, pair = own.copy(), problem.slots[0].group.pair.unknowns
        own[:, pair : pair + 3] = impulses
        at = Point(V, (own,))
        return slipping(problem, at, rows(problem, at))

    return of
