"""Painleve's region as an event: its border in closed form, in the plane and in space."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import detection
from implicit_stepper.constraints.detection import closest_points
from implicit_stepper.constraints.linear_rows import linear_rows
from implicit_stepper.radau.painleve import wedges

HALF, FOOT = 0.5, 0.02  # [m]
TURN = np.arctan(2.0)  # of the rod from level


def begins(dimension, mu, h=1.0, sticks=False):
    """The events "wedges" of a uniform rod, on a round foot, that is dragged with its centre behind
    its end and hardly turns, in a step of h [s] in which the foot `sticks` or slides."""
    about = 1.0 * HALF**2 / 3
    made = ist.Scene(dimension=dimension)
    up = (0, 1) if dimension == 2 else (0, 0, 1)
    floor = made.add_fixed(name="floor", shape=(shapes.HalfPlane if dimension == 2 else shapes.HalfSpace)(normal=up))
    at = np.array([HALF * np.cos(TURN), HALF * np.sin(TURN) + FOOT])  # the foot is at the origin
    if dimension == 2:
        parts, place = [(shapes.Disc(FOOT), ((-HALF, 0), 0.0))], {"position": at, "angle": TURN, "velocity": (-1, 0, 1e-9)}
    else:
        parts = [(shapes.Sphere(FOOT), ((-HALF, 0, 0), (1, 0, 0, 0)))]
        # the rod in a vertical plane at 30 degrees
        aside, slope = np.array([np.cos(np.pi / 12), 0, 0, np.sin(np.pi / 12)]), (np.cos(TURN / 2), -np.sin(TURN / 2))
        (w, z), (c, s) = aside[[0, 3]], slope
        along = np.array([np.cos(np.pi / 6), np.sin(np.pi / 6), 0])
        place = {"position": along * at[0] + [0, 0, at[1]], "quaternion": (w * c, -z * s, w * s, z * c)}
        place["velocity"] = (*-along, 0, 0, 1e-9)
        about = (0.01, about, about)
    rod = made.add_body(name="rod", shapes=parts, mass=1.0, inertia=about, centre_of_mass=(0,) * dimension, **place)
    made.add_contact(floor, rod, friction=mu)
    system, state = made.build()
    here = detection.find(system, state, closest_points(system, state))
    rows, nothing = linear_rows(system, state, here.geometry), np.zeros((1, dimension if dimension == 2 else 4))
    contacts = detection.record(here, rows, nothing, state.velocity, here.geometry.psi)
    standing = jax.tree.map(lambda a: np.asarray(a)[None], (state, contacts))
    modes = SimpleNamespace(sticking=(np.array([[sticks]]),))
    return wedges(system, state, SimpleNamespace(state=standing[0], contacts=standing[1], modes=modes, h=np.array([h])))


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_region_begins_where_friction_presses_more_than_the_force_lifts(dimension):
    """1 / m + x (x - mu y) / I < 0, with the foot at (-x, -y) from the centre; without a foot mu is
    4/3 at the least."""
    x, y, about = HALF * np.cos(TURN), HALF * np.sin(TURN) + FOOT, HALF**2 / 3
    critical = (about + x**2) / (x * y)
    assert critical == pytest.approx(4 / 3 * HALF * np.sin(TURN) / y)
    assert begins(dimension, critical * (1 - 1e-9)) == []
    (event,) = begins(dimension, critical * (1 + 1e-9))
    assert event == (0.0, 0, "wedges")
    # what sticks was stopped in the step, if it did not roll so far that this alone leaves a slip
    assert begins(dimension, critical * (1 + 1e-9), sticks=True) == [event]
    assert begins(dimension, critical * (1 + 1e-9), h=1e9, sticks=True) == []


@pytest.mark.thorough
def test_what_rolls_on_a_flat_belly_does_not_slide_into_the_region():
    """A rattleback, whose points of contact move by a metre a radian: it sticks all the time, and
    its spin of -4 rad/s goes into rocking."""
    a, spin = np.array([0.2, 0.05, 0.04]), np.array([0.02, 0.01, -4.0])
    c, s = np.cos(0.12), np.sin(0.12)
    aslant = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    low = -(a**2) * [0, np.sin(0.02), np.cos(0.02)] / np.sqrt(np.sum((a * [0, np.sin(0.02), np.cos(0.02)]) ** 2))
    arm = np.array([low[0], np.cos(0.02) * low[1] - np.sin(0.02) * low[2], np.sin(0.02) * low[1] + np.cos(0.02) * low[2]])
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    stone = scene.add_body(
        name="stone",
        shape=shapes.Ellipsoid(tuple(a)),
        mass=1.0,
        inertia=aslant @ np.diag([8e-4, 7e-3, 7.4e-3]) @ aslant.T,
        position=(0, 0, -arm[2]),
        quaternion=(np.cos(0.01), np.sin(0.01), 0, 0),
        velocity=(*-np.cross(spin, arm), *spin),
    )
    scene.add_contact(floor, stone, friction=20.0)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-7, duration=2.5)
    assert run.events == ()
    assert abs(run.velocity[-1, 0, 5]) < 0.1 * abs(spin[2])
    assert set(ist.contact_states(scene, run).states.ravel()) == {"stick"}
