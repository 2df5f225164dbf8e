"""The auditor of benchmarks/mixed_battery.py and a motion in closed form: a box slides on a floor
while a capsule that spins about its upright axis falls towards it. That passes, and no change of it
does."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import audit
import solids
from audit import Contact, Plane, Side

H, G, MU, STEPS = 0.01, 9.81, 0.4, 6
MASS, INERTIA = np.array([2.0, 0.5]), np.array([[0.1, 0.2, 0.3], [0.02, 0.02, 0.01]])
SIZES, RADIUS, HALF, HEIGHT, SPIN = (0.5, 0.3, 0.2), 0.1, 0.2, 1.0, 3.0
ALLOWED = 1e-9


def world(mu=MU, offset=0.0, sizes=SIZES, direction=(1.0, 0.0, 0.0)):
    plane = Side(None, Plane(np.array([0.0, 0.0, 1.0]), offset))
    box, capsule = Side(0, solids.box(sizes)), Side(1, solids.capsule(RADIUS, HALF))
    contacts = (
        Contact(plane, box, mu, np.array([1.0, 0.5, 0.1]), np.array(direction)),
        Contact(box, capsule, mu, np.array([1.0, 1.0, 0.0])),
    )
    return audit.World(MASS, INERTIA, np.array([0.0, 0.0, -G]), 0.5, contacts)


def motion(rubs=-1.0, gap=0.0):
    """Friction `rubs` times mu p_n along x; a floor `gap` [m] below the box, so that records say
    it."""
    steps = np.arange(STEPS + 1)
    velocity = np.zeros((STEPS + 1, 2, 6))
    velocity[:, 0, 0] = 1 + rubs * MU * G * H * steps
    velocity[:, 1, 2], velocity[:, 1, 5] = -G * H * steps, SPIN
    position = np.tile([[0.0, 0.0, SIZES[2]], [0.1, 0.0, HEIGHT]], (STEPS + 1, 1, 1))
    position[1:] += H * np.cumsum(velocity[1:, :, :3], axis=0)
    orientation = np.tile([1.0, 0.0, 0.0, 0.0], (STEPS + 1, 2, 1))
    orientation[:, 1, 0], orientation[:, 1, 3] = np.cos(SPIN * H * steps / 2), np.sin(SPIN * H * steps / 2)
    under, over = position[1:, 0].copy(), position[1:, 1].copy()
    under[:, 0] -= rubs * MU * SIZES[2]  # where the moment of friction is balanced
    under[:, 2], over[:, 2] = 0.0, over[:, 2] - HALF - RADIUS
    below, top = under.copy(), over.copy()
    below[:, 2], top[:, 2] = -gap, 2 * SIZES[2]
    normal_impulse, friction_impulse = np.zeros((STEPS, 2)), np.zeros((STEPS, 2, 3))
    normal_impulse[:, 0] = MASS[0] * G * H
    friction_impulse[:, 0, 0] = rubs * MU * normal_impulse[:, 0]
    contacts = SimpleNamespace(
        normal_impulse=normal_impulse,
        friction_impulse=friction_impulse,
        gap=np.stack([np.full(STEPS, gap), over[:, 2] - top[:, 2]], axis=1),
        point_1=np.stack([below, top], axis=1),
        point_2=np.stack([under, over], axis=1),
        normal=np.tile([0.0, 0.0, 1.0], (STEPS, 2, 1)),
        tangent=np.tile([1.0, 0.0, 0.0], (STEPS, 2, 1)),
    )
    stats = SimpleNamespace(substeps=np.ones(STEPS, int))
    return SimpleNamespace(
        time=H * steps, position=position, orientation=orientation, velocity=velocity, contacts=contacts, stats=stats
    )


def caught(run, **changes):
    return {law for law, (value, _) in audit.audit(world(**changes), run, H).items() if not value <= ALLOWED}


def test_what_is_right_passes_and_loses_energy():
    assert caught(motion()) == set()
    # nearly along the normal: it orients nothing
    assert caught(motion(), direction=(0.0, 0.05, 1.0)) == set()
    assert audit.gained(world(), motion()) == 0


FIELDS = ("normal_impulse", "friction_impulse", "gap", "point_1", "point_2", "normal", "tangent")


@pytest.mark.parametrize("name", ["time", "position", "orientation", "velocity", *FIELDS])
def test_every_number_of_a_record_counts(name):
    """Each entry of a step, changed by 1e-6 up and down, or to NaN. Free is only how the tangent of
    the isotropic contact turns about its normal."""
    for index in np.ndindex(np.shape(getattr(motion(), name, getattr(motion().contacts, name, None)))[1:]):
        if (name, *index) == ("tangent", 1, 1):
            continue
        for change in (1e-6, -1e-6, np.nan):
            run = motion()
            values = getattr(run if name not in FIELDS else run.contacts, name)
            values[(3, *index)] += change
            assert caught(run), (index, change)


@pytest.mark.parametrize(
    ("run", "changes", "laws"),
    [
        (motion(), {"mu": MU * (1 - 1e-6)}, {"cone", "dissipation"}),  # friction beyond its bound
        (motion(), {"mu": MU * (1 + 1e-6)}, {"dissipation"}),  # less than it could dissipate
        (motion(rubs=1.0), {}, {"dissipation", "energy"}),  # along the slip
        (motion(gap=1e-6), {"offset": -1e-6}, {"p_n _|_ gap"}),  # a push from afar
        (motion(gap=-1e-6), {"offset": 1e-6}, {"p_n _|_ gap", "penetration"}),
        (motion(), {"sizes": (0.5, 0.3, 0.2 + 1e-6)}, {"distance", "penetration"}),
        (motion(), {"direction": (1.0, 1e-6, 0.0)}, {"tangent"}),
    ],
)
def test_what_is_balanced_but_breaks_a_law_is_named(run, changes, laws):
    assert caught(run, **changes) == laws


def test_a_pull_is_no_push():
    """Box and capsule glued by a pull that both momenta account for."""
    run, pull = motion(), 1e-6
    run.contacts.normal_impulse[0] += [-pull, -pull]
    run.velocity[1, 1, 2] -= pull / MASS[1]
    run.position[1, 1, 2] -= H * pull / MASS[1]
    assert "p_n _|_ gap" in caught(run)


def test_shorter_steps_are_audited_at_their_end_alone():
    run = motion()
    run.stats.substeps[2] = 2
    run.contacts.normal_impulse[2, 0] *= 1.1
    assert caught(run) == set()
    # the sum of impulses may be that of an instant at which they touched
    run.contacts.gap[2, 0] += 1e-6
    assert caught(run) == {"distance"}
    run.contacts.normal_impulse[2, 0] *= -1
    assert caught(run) == {"distance", "p_n _|_ gap"}


SOLIDS = {
    "ellipsoid": solids.ellipsoid((0.7, 0.4, 0.3)),
    "superquadric 1.5": solids.superquadric((0.5, 0.4, 0.35), 1.5),
    "superquadric 8": solids.superquadric((0.5, 0.4, 0.35), 8.0),
    "box": solids.box(SIZES),
    "tetrahedron": solids.polytope(0.6 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])),
    "frustum": solids.frustum(0.6, 0.25, -0.4, 0.5),
    "cone": solids.frustum(0.5, 0.025, -0.2, 0.6),
    "lens": solids.lens(0.7, 0.5),
    "capsule": solids.capsule(0.25, 0.4),
    "rounded box": solids.rounded_box((0.45, 0.3, 0.2), 0.05),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_support_functions_and_inequalities_are_of_the_same_body(name):
    """max n.x over points of the surface, found by the inequality alone, is the support function
    from below."""
    solid, rng = SOLIDS[name], np.random.default_rng(0)
    surface = rng.normal(size=(40000, 3))
    low, high = np.zeros(len(surface)), np.full(len(surface), 10.0)
    for _ in range(60):
        middle = (low + high) / 2
        inside = solid.outside(surface * middle[:, None]) < 0
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    surface *= low[:, None]
    normals = rng.normal(size=(50, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    reached = np.max(surface @ normals.T, axis=0)
    assert np.all(reached <= solid.support(normals) + 1e-12)
    assert np.all(reached >= solid.support(normals) - 0.03)  # 40 000 points miss corners by as much
    assert np.all(solid.support(normals) <= solid.radius + 1e-12)
