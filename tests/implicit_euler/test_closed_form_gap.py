"""Spheres written as ellipsoids, with their closest points inside the NCP, against the closed-form
gap |x1 - x2| - r1 - r2.

The oracle is an implicit Euler step of example 3 written here from scratch for known contact modes
(contact 1 slides, contact 2 sticks) and solved by scipy; it shares no line with the library.
"""

import numpy as np
import pytest
import scipy.optimize

import implicit_stepper as ist
import shapes
from implicit_stepper.paper import scenes

CENTRES, REACH = np.array([[0.0, 0.0, 0.0], [0.0, 11.4, 0.0]]), np.array([11.0, 10.0])
MU, E, FORCE, INERTIA = 0.2, np.array([1.0, 1.0, 0.3]), np.array([1.0, 2.6, -9.81]), 0.4


def contact(x, nu, i):
    """Outward normal, a tangent basis, and slip (v_t, v_o, v_r) of the small sphere of radius 1 on
    sphere i."""
    n = (x - CENTRES[i]) / np.linalg.norm(x - CENTRES[i])
    t = np.cross(n, [0.0, 1.0, 0.0])
    t /= np.linalg.norm(t)
    o = np.cross(n, t)
    slip = nu[:3] + np.cross(nu[3:], -n)
    return n, t, o, np.array([t @ slip, o @ slip, n @ nu[3:]])


def one_step(x, nu, h, guess):
    def equations(u):
        nu_next, p_n, p_f = u[:6], u[6:8], u[8:].reshape(2, 3)
        x_next = x + h * nu_next[:3]
        impulse, moment, rows = h * FORCE, np.zeros(3), []
        for i in (0, 1):
            n, t, o, slip = contact(x_next, nu_next, i)
            f = p_n[i] * n + p_f[i, 0] * t + p_f[i, 1] * o
            impulse, moment = impulse + f, moment + np.cross(-n, f) + p_f[i, 2] * n
            rows.append((np.linalg.norm(x_next - CENTRES[i]) - REACH[i]) / h)
            if i == 0:
                rows += list(p_f[i] + MU * p_n[i] * E**2 * slip / np.linalg.norm(E * slip))
            else:
                rows += list(slip)
        return np.concatenate([nu_next[:3] - nu[:3] - impulse, INERTIA * (nu_next[3:] - nu[3:]) - moment, rows])

    root = scipy.optimize.root(equations, guess, method="hybr", options={"xtol": 1e-15})
    assert np.abs(equations(root.x)).max() < 1e-12
    return root.x


@pytest.mark.parametrize("h", [0.1, 0.01])
def test_ellipsoids_with_equal_axes_step_like_the_closed_form_gap(h):
    count = round(2.0 / h)
    ours = ist.simulate(scenes.two_spheres(), ist.GeometricallyImplicit(), h=h, duration=2.0)
    x, nu = ours.position[0, 0], np.zeros(6)
    guess = np.concatenate([[0.5 * h, 0, 0, 0, 0.4 * h, 0], [2.6 * h, 8.8 * h], np.zeros(6)])
    for k in range(count):
        guess = one_step(x, nu, h, guess)
        nu = guess[:6]
        x = x + h * nu[:3]
        assert np.abs(ours.velocity[k + 1, 0] - nu).max() <= 1e-10
        assert np.abs(ours.position[k + 1, 0] - x).max() <= 1e-10
        assert np.abs(ours.contacts.normal_impulse[k] - guess[6:8]).max() <= 1e-10


def test_a_sphere_is_an_ellipsoid_with_equal_axes():
    runs = []
    for shape in (shapes.Sphere(1.0), shapes.Ellipsoid((1.0, 1.0, 1.0))):
        scene = ist.Scene()
        ball = scene.add_body(name="ball", shape=shape, density=1.0, position=(0, 0, 1.2), velocity=(1, 0.5, 0, 2, 0, 3))
        floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
        scene.add_contact(ball, floor, friction=ist.FrictionEllipsoid(mu=0.3, e_r=0.2))
        runs.append(ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=1.0))
    assert np.abs(runs[0].position - runs[1].position).max() <= 1e-10
    assert np.abs(runs[0].velocity - runs[1].velocity).max() <= 1e-10
