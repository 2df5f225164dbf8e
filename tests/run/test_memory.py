"""Runs that would not fit into the machine are refused before they start."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.paper import scenes
from implicit_stepper.run import memory
from implicit_stepper.runtime import compilation
from implicit_stepper.runtime import memory as machine


def kept(run) -> int:
    """Bytes of all arrays of a trajectory."""
    parts = [run.position, run.orientation, run.velocity, *run.certificate.values()]
    parts += [getattr(run.contacts, field.name) for field in dataclasses.fields(run.contacts)]
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


def test_a_run_that_would_not_fit_is_refused_at_once(monkeypatch):
    scene, stepper = scenes.two_spheres(), ist.GeometricallyImplicit()
    run = ist.simulate(scene, stepper, h=0.01, duration=0.2)
    monkeypatch.setattr(machine, "there", lambda: 40.0 * kept(run))
    ist.simulate(scene, stepper, h=0.01, duration=0.4)
    with pytest.raises(ValueError, match=r"1001 steps of 1 bodies and 2 contacts .* GiB.*shorter `duration`"):
        ist.simulate(scene, stepper, h=0.01, duration=10.0)
    with pytest.raises(ValueError, match="10000 steps .* GiB"):
        ist.simulate(scene, ist.GeometricallyImplicit(jacobian="sparse"), h=0.001, duration=10.0)


def test_what_a_run_keeps_is_estimated_within_a_factor_of_two(monkeypatch):
    """Arrays are held twice, as steps and as a trajectory."""
    run = ist.simulate(scenes.two_spheres(), ist.GeometricallyImplicit(), h=0.01, duration=0.2)
    system, _ = scenes.two_spheres().build()
    monkeypatch.setattr(machine, "there", lambda: 4.0 * kept(run))
    memory.refuse_too_large(system, system.contact_count, len(run))
    monkeypatch.setattr(machine, "there", lambda: 1.0 * kept(run))
    with pytest.raises(ValueError, match="GiB"):
        memory.refuse_too_large(system, system.contact_count, len(run))


def test_a_containers_limit_counts(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_LIMIT", limit)
    whole = machine.there()
    limit.write_text("max\n")
    assert machine.there() == whole > 2**28
    limit.write_text("1048576\n")
    assert machine.there() == 2**20


def test_no_step_has_more_pairs_than_the_user_allows():
    """Four balls fall on a floor: their pairs with it may touch from some step on, and those of one
    another never."""
    scene = ist.Scene()
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    for i in range(4):
        scene.add_body(name=f"ball {i}", shape=shapes.Sphere(0.1), mass=1.0, position=(i, 0.0, 0.2))
    scene.add_contacts(friction=0.5)
    found = ist.GeometricallyImplicit(jacobian="sparse")
    run = ist.simulate(scene, found, h=0.01, duration=0.2, most_pairs=4)
    assert len(run.contact_names) == np.sum(run.contacts.normal_impulse[-1] > 0) == 4
    with pytest.raises(ist.StepError, match="4 pairs: more .* than `most_pairs` allows. Raise it") as caught:
        ist.simulate(scene, found, h=0.01, duration=0.2, most_pairs=3)
    kept = caught.value.trajectory
    assert (caught.value.result, 0 < len(kept) < len(run)) == (ist.Result.TOO_MANY_PAIRS, True)
    np.testing.assert_array_equal(kept.position, run.position[: len(kept) + 1])
    with pytest.raises(ValueError, match=r"10 contacts, all of which this run holds, and `most_pairs` is 4: raise it"):
        ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.2, most_pairs=4)
    with pytest.raises(ValueError, match=r"10 contacts, all of which this run holds"):
        ist.simulate(scene, ist.RadauContact(), tol=1e-4, duration=0.2, most_pairs=4)
    for wrong in (-1, 2.5, True, "4"):
        with pytest.raises(ValueError, match="`most_pairs` = .* must be a whole number"):
            ist.simulate(scene, found, h=0.01, duration=0.2, most_pairs=wrong)


def test_a_program_that_would_not_fit_is_not_started(monkeypatch):
    """The system ends a process that asks for more memory than there is without a word."""

    @compilation.jit
    def outer(a):
        return jnp.outer(a, a) @ jnp.outer(a, a)

    def programs(ahead, stepper, a):
        ahead(outer, a)

    monkeypatch.setattr(machine, "free", lambda: 2 * 8 * 1e6)  # [bytes] two matrices
    compilation.prepare(programs, None, jnp.ones(900))
    with pytest.raises(ValueError, match=r"would need about 0.0\d* GiB of memory, and of the machine's 0.01.*: .* declared"):
        compilation.prepare(programs, None, jnp.ones(1100))


def test_what_other_processes_hold_is_not_free(monkeypatch, tmp_path):
    system = tmp_path / "meminfo"
    monkeypatch.setattr(machine, "_SYSTEM", system)
    assert machine.free() == machine.there()
    system.write_text("MemTotal:  4000 kB\nMemAvailable:    1000 kB\n")
    assert machine.free() == 1000 * 1024
