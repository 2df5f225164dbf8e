"""Runs that would not fit into the machine are refused before they start."""

import dataclasses

import numpy as np
import pytest

import implicit_stepper as ist
from implicit_stepper.paper import scenes
from implicit_stepper.run import memory


def kept(run) -> int:
    """Bytes of all arrays of a trajectory."""
    parts = [run.position, run.orientation, run.velocity, *run.certificate.values()]
    parts += [getattr(run.contacts, field.name) for field in dataclasses.fields(run.contacts)]
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


def test_a_run_that_would_not_fit_is_refused_at_once(monkeypatch):
    scene, stepper = scenes.two_spheres(), ist.GeometricallyImplicit()
    run = ist.simulate(scene, stepper, h=0.01, duration=0.2)
    monkeypatch.setattr(memory, "memory", lambda: 40.0 * kept(run))
    ist.simulate(scene, stepper, h=0.01, duration=0.4)
    with pytest.raises(ValueError, match=r"1001 steps of 1 bodies and 2 contacts .* GiB.*shorter `duration`"):
        ist.simulate(scene, stepper, h=0.01, duration=10.0)
    with pytest.raises(ValueError, match="10000 steps .* GiB"):
        ist.simulate(scene, ist.GeometricallyImplicit(jacobian="sparse"), h=0.001, duration=10.0)


def test_what_a_run_keeps_is_estimated_within_a_factor_of_two(monkeypatch):
    """Arrays are held twice, as steps and as a trajectory."""
    run = ist.simulate(scenes.two_spheres(), ist.GeometricallyImplicit(), h=0.01, duration=0.2)
    system, _ = scenes.two_spheres().build()
    monkeypatch.setattr(memory, "memory", lambda: 4.0 * kept(run))
    memory.refuse_too_large(system, system.contact_count, len(run))
    monkeypatch.setattr(memory, "memory", lambda: 1.0 * kept(run))
    with pytest.raises(ValueError, match="GiB"):
        memory.refuse_too_large(system, system.contact_count, len(run))


def test_a_containers_limit_counts(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_LIMIT", limit)
    whole = memory.memory()
    limit.write_text("max\n")
    assert memory.memory() == whole > 2**28
    limit.write_text("1048576\n")
    assert memory.memory() == 2**20
