"""Bodies on more supports than they need, and the settings of an independent conic solver."""

import clarabel

import implicit_stepper as ist
import shapes

G, MASS, H = 9.81, 3.0, 0.01


def cart(push):
    """Two equal pads 1 m apart, pushed by `push` [N] in the plane, with a moment that keeps both
    loads equal, mu = .2."""
    scene, height = ist.Scene(dimension=2, gravity=(0, -G)), 0.1
    line = scene.add_fixed(name="line", shape=shapes.HalfPlane(normal=(0, 1)))
    pads = [(shapes.Disc(height), ((x, 0.0), 0.0)) for x in (-0.5, 0.5)]
    wrench = (push, 0, push * height)
    body = scene.add_body(name="cart", shapes=pads, mass=MASS, inertia=0.5, position=(0, height), wrench=wrench, apart=True)
    scene.add_contact(line, body, friction=0.2)
    return scene


def table(legs, at, mu, push=(0, 0)):
    """Spheres at `legs` (n, 2) under one body, whose weight is at `at` (2,) by a moment, pushed by
    `push` [N]."""
    scene, radius = ist.Scene(gravity=(0, 0, -G)), 0.1
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    moment = (-MASS * G * at[1] - push[1] * radius, MASS * G * at[0] + push[0] * radius, 0)
    feet = [(shapes.Sphere(radius), ((*leg, 0.0), (1, 0, 0, 0))) for leg in legs]
    body = scene.add_body(
        name="table",
        shapes=feet,
        mass=MASS,
        inertia=(0.5, 0.5, 0.8),
        position=(0, 0, radius),
        wrench=(*push, 0, *moment),
        apart=True,
    )
    scene.add_contact(floor, body, friction=mu)
    return scene


def exact():
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = False, 1e-12, 1e-12, 1e-12
    return settings
