"""A draw of benchmarks/mixed_battery.py, whose whole run stands in docs/benchmarks.md, and what its audit sees."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import implicit_stepper as ist

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import audit
import mixed_battery

PLAIN = 29  # two smooth bodies on an incline: one compiled kernel


@pytest.fixture(scope="module")
def audited():
    scene, world, h, _ = mixed_battery.draw(PLAIN, 0)
    return world, ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=mixed_battery.STEPS * h), h


def worst(world, run, h):
    return {law for law, (value, _) in audit.audit(world, run, h).items() if not value <= mixed_battery.ALLOWED}


def test_a_draw_passes_the_audit(audited):
    assert worst(*audited) == set()
    assert np.any(audited[1].contacts.normal_impulse > 0)


def test_the_audit_sees_what_is_changed(audited):
    """By 1e-6 of the field, in the step with the largest impulse; penetration and the cone need an error of their sign."""
    world, run, h = audited
    step, contact = np.unravel_index(np.argmax(run.contacts.normal_impulse), run.contacts.normal_impulse.shape)

    def changed(name, change):
        values = np.array(getattr(run.contacts, name))
        values[step, contact] = values[step, contact] + change
        return dataclasses.replace(run, contacts=dataclasses.replace(run.contacts, **{name: values}))

    length, impulse = 1e-6 * world.length, 1e-6 * np.max(run.contacts.normal_impulse)
    assert "momentum" in worst(world, changed("normal_impulse", impulse), h)
    assert {"momentum", "dissipation"} & worst(world, changed("friction_impulse", impulse), h)
    assert "distance" in worst(world, changed("gap", -length), h)
    assert "distance" in worst(world, changed("point_1", length), h)
    assert "distance" in worst(world, changed("normal", 1e-6), h)
    assert "tangent" in worst(world, changed("tangent", 1e-6), h)
    sunk = np.array(run.position)
    sunk[step + 1] -= 10 * length * np.array([0, 0, 1.0])
    assert {"poses", "penetration"} <= worst(world, dataclasses.replace(run, position=sunk), h)
    turned = np.array(run.orientation)
    turned[step + 1] = np.roll(
        (Rotation.from_rotvec([0, 1e-6, 0]) * Rotation.from_quat(np.roll(turned[step + 1], -1, axis=-1))).as_quat(),
        1,
        axis=-1,
    )
    assert "poses" in worst(world, dataclasses.replace(run, orientation=turned), h)


def test_supports_and_sides_of_the_auditors_solids_agree():
    """A point is inside exactly where no supporting plane parts it from the body: sampled from both sides of the surface."""
    rng = np.random.default_rng(0)
    normals = rng.normal(size=(4000, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    for name, kind in mixed_battery.KINDS.items():
        _, solid = kind(1.0)
        for x in rng.normal(size=(20, 3)):
            inside = x * 0.98 / _gauge(solid, x)
            beyond = np.max(normals @ inside - solid.support(normals))
            assert beyond <= 0, name
            outward = np.max(normals @ (inside * 1.25) - solid.support(normals))
            assert outward > 0, name
        assert np.all(solid.support(normals) <= solid.radius + 1e-12), name


def _gauge(solid, x):
    """How many times as long as its way to the surface x is, by bisection."""
    low, high = 0.0, 1.0
    while solid.outside(high * x) < 0:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if solid.outside(middle * x) < 0 else (low, middle)
    return 1 / high
