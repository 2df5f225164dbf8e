"""The certificate accepts a solved step and names the equation that a tampered one violates."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import implicit_stepper as ist
from implicit_stepper.compilation import jit
from implicit_stepper.paper import scenes

H = 0.01


@pytest.fixture(scope="module")
def sliding_step():
    """Example 3 after .5 s: contact 0 slides, contact 1 sticks."""
    system, state = jax.tree.map(jnp.asarray, scenes.two_spheres().build())
    stepper = ist.GeometricallyImplicit()
    step = jit(lambda state, memory: stepper.step(system, state, memory, H))
    memory = jit(stepper.init)(system, state)
    for _ in range(50):
        before = state
        result = step(state, memory)
        state, memory = result.state, result.memory
    return system, before, result


def violations(system, before, after, contacts):
    return {name: float(jnp.max(v)) for name, v in ist.certificate(system, before, after, contacts, H).items()}


def test_a_solved_step_is_certified(sliding_step):
    system, before, result = sliding_step
    found = violations(system, before, result.state, result.contacts)
    assert max(found.values()) <= 1e-10
    assert {"momentum", "closest points", "gap", "p_n _|_ f(a2)", "friction", "cone", "sigma zeta", "dissipation"} <= set(
        found
    )


# what is changed, by how much, and which equations must notice; the units of docs/model.md give the size to expect
TAMPERED = [
    ("normal_impulse", 1e-6, {"momentum", "sigma zeta"}),
    ("normal_impulse", -1e-6, {"momentum", "cone"}),
    ("friction_impulse", 1e-6, {"momentum", "friction", "dissipation"}),
    ("point_1", 1e-6, {"closest points"}),
    ("point_2", 1e-6, {"closest points", "p_n _|_ f(a2)"}),
    ("normal", 1e-6, {"closest points"}),
    ("gap", -1e-6, {"gap", "closest points"}),
    ("multipliers_1", 1e-6, {"closest points"}),
]


@pytest.mark.parametrize(("name", "change", "expected"), TAMPERED, ids=[f"{t[0]} {t[1]:+}" for t in TAMPERED])
def test_each_tampered_quantity_is_noticed(sliding_step, name, change, expected):
    system, before, result = sliding_step
    contacts = dataclasses.replace(result.contacts, **{name: getattr(result.contacts, name) + change})
    found = violations(system, before, result.state, contacts)
    assert {key for key in expected if found[key] > 1e-8} == expected


def test_a_wrong_end_state_is_noticed(sliding_step):
    system, before, result = sliding_step
    moved = dataclasses.replace(result.state, velocity=result.state.velocity + 1e-6)
    assert violations(system, before, moved, result.contacts)["momentum"] > 1e-6
    spun = dataclasses.replace(result.state, position=result.state.position + 1e-6)
    assert violations(system, before, spun, result.contacts)["closest points"] > 1e-8


def test_pulling_contacts_are_noticed(sliding_step):
    system, before, result = sliding_step
    contacts = dataclasses.replace(result.contacts, normal_impulse=-result.contacts.normal_impulse)
    assert violations(system, before, result.state, contacts)["normal impulse"] > 0.1
