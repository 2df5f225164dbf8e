"""First closest points: by programs that scenes with the same classes of shapes share."""

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.detection import closest_of_form, closest_points


def scene(heights, **friction):
    """Balls above a floor, each beside the next one."""
    made = ist.Scene()
    balls = [
        made.add_body(name=f"ball {k}", shape=shapes.Sphere(0.1 + 0.01 * k), mass=1.0, position=(0.5 * k, 0, height))
        for k, height in enumerate(heights)
    ]
    floor = made.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.25), position=(0, 0, -0.25))
    for k, ball in enumerate(balls):
        made.add_contact(ball, floor, **friction)
        if k:
            made.add_contact(balls[k - 1], ball, **friction)
    return made.build()


def test_scenes_of_the_same_classes_share_programs():
    """And each contact has the gap of its own two bodies."""
    closest_points(*scene([0.3, 0.2], friction=0.1))
    compiled = []
    listen = jax.monitoring.register_event_duration_secs_listener
    listen(lambda event, _, fun_name="", **more: compiled.append(fun_name) if "backend_compile" in event else None)
    heights = [0.1, 0.25, 0.05, 0.4]  # the third is in the floor
    system, state = scene(heights, friction=ist.FrictionEllipsoid(mu=0.3, e_r=0.01), compliance=ist.Compliance(1e4))
    found = closest_points(system, state)
    jax.monitoring.clear_event_listeners()
    assert not [name for name in compiled if closest_of_form.__name__ in name]
    gaps = np.zeros(system.contact_count)
    for own, group in zip(found, system.groups, strict=True):
        gaps[list(group.numbers)] = own[:, 9]
    radii, places = 0.1 + 0.01 * np.arange(4), np.stack([0.5 * np.arange(4), np.zeros(4), heights], axis=1)
    above, between = heights - radii, np.linalg.norm(np.diff(places, axis=0), axis=1) - radii[1:] - radii[:-1]
    assert gaps == pytest.approx([above[0], *np.stack([above[1:], between], axis=1).reshape(-1)], abs=1e-12)
