"""Programs that a process loads without tracing them: they are found by all that a trace depends
on, or not at all."""

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import ladder, ncp
from implicit_stepper.model.bodies import State
from implicit_stepper.runtime import program_keys, saved_programs
from implicit_stepper.stepping import loop

RUN = """
import sys
import jax
import implicit_stepper as ist, shapes

ist.use_compilation_cache(sys.argv[1])
traced = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, fun_name="", **more: traced.append(fun_name) if event.endswith("/jaxpr_trace_duration") else None
)
scene = ist.Scene()
floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
box = scene.add_body(
    name="box", shape=shapes.Box((.2, .1, .1)), density=1e3, position=(0, 0, .11), velocity=(1, 0, 0, 0, 0, 2)
)
scene.add_contact(floor, box, friction=0.3)
run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.2)
print(*sorted(set(traced) & {"closest_of_form", "init", "_march", "certificates", "_attempt", "_cut"}))
print(run.position.tobytes().hex(), run.contacts.normal_impulse.tobytes().hex())
"""

SMALL = """
import sys
import jax, numpy as np
import implicit_stepper as ist
from implicit_stepper.implicit_euler.ladder import _moved

ist.use_compilation_cache(sys.argv[1])
seen = []
jax.monitoring.register_event_listener(lambda event, **more: seen.append(event.rpartition("/")[-1]))
state = ist.State(np.array(0.0), np.ones((2, 3)), np.tile([1.0, 0, 0, 0], (2, 1)), np.zeros((2, 6)))
print(_moved(state, np.ones((2, 6)), 0.5).position.tolist())
print(seen.count("cache_hits"), seen.count("cache_misses"))
"""


def _lines(script, folder) -> list[str]:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    command = [sys.executable, "-c", script, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=settings, check=True).stdout.splitlines()


def test_a_second_process_traces_no_program_of_a_run(tmp_path):
    """LAPACK, which the closest points of a box need, is found, too."""
    first, second = (_lines(RUN, tmp_path) for _ in range(2))
    assert first[0] == "_march certificates closest_of_form init"
    assert second[0] == ""
    assert second[1] == first[1]


def _kept(folder) -> tuple[int, int]:
    return len(list(folder.glob("*-program"))), len(list(folder.glob("*-seen")))


@pytest.mark.thorough
def test_programs_of_jaxs_own_folder_are_compiled_anew_where_they_are_met_again(tmp_path):
    """As after a change of the sources that leaves a program as it is: XLA does not write one
    twice."""
    moved = _lines(SMALL, tmp_path)[0]
    assert moved == "[[1.5, 1.5, 1.5], [1.5, 1.5, 1.5]]"
    assert _kept(tmp_path) == (1, 0)
    for file in tmp_path.glob("*-program"):
        file.unlink()
    for left in ((0, 1), (1, 0), (1, 0)):
        assert _lines(SMALL, tmp_path)[0] == moved
        assert _kept(tmp_path) == left


def _refused(*_, **__):
    raise PermissionError


def test_a_damaged_program_is_none(tmp_path, monkeypatch):
    lowered = ladder._moved.lower(*_moving())
    saved_programs.write(tmp_path, "it", lowered.compile(), lowered.out_info)
    (file,) = tmp_path.iterdir()
    held, place = file.read_bytes(), 100
    written, results = saved_programs.read(tmp_path, "it")
    assert jax.tree.structure(results) == jax.tree.structure(lowered.out_info)
    assert len(written) < len(held)
    with monkeypatch.context() as changed:  # a folder that may be read alone
        changed.setattr(saved_programs.Path, "touch", _refused)
        assert saved_programs.read(tmp_path, "it")[0] == written
    file.write_bytes(held[:place] + bytes([held[place] ^ 8]) + held[place + 1 :])
    assert saved_programs.read(tmp_path, "it") is None
    assert not list(tmp_path.iterdir())
    assert saved_programs.read(tmp_path, "other") is None


def _moving(count=2, h=0.5):
    state = State(np.array(0.0), np.ones((count, 3)), np.tile([1.0, 0, 0, 0], (count, 1)), np.zeros((count, 6)))
    return state, np.ones((count, 6)), h


def _key(*dynamic, program=ladder._moved, static=()):
    return program_keys.program_key(program, static, dynamic)


def _system(**friction):
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    shape = friction.pop("shape", shapes.Sphere(0.5))
    body = scene.add_body(name="body", shape=shape, mass=1.0, inertia=np.ones(3), position=(0, 0, 1), **friction)
    scene.add_contact(floor, body, friction=0.3)
    return scene.build()[0]


def test_keys_are_those_of_structure_and_types():
    key = _key(*_moving())
    assert key == _key(*_moving())
    state, velocity, h = _moving()
    # other numbers
    assert key == _key(dataclasses.replace(state, time=np.array(7.0)), 3 * velocity, 2.0)
    assert key == _key(*jax.tree.map(jnp.asarray, (state, velocity)), h)
    shapes_of = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (state, velocity))
    assert key == _key(*shapes_of, h)
    others = [
        _key(*_moving(3)),
        _key(state, velocity, np.array(h)),  # no Python number, so of no weak type
        _key(state, velocity.astype(np.float32), h),
        _key((state, velocity), h),
        _key(*_moving(), program=loop._march),
        _key(*_moving(), static=(1,)),
    ]
    assert len({key, *others}) == 1 + len(others)


def test_keys_tell_scenes_and_steppers_apart_that_need_other_programs():
    stepper = ist.GeometricallyImplicit()
    system = _system()

    def key(stepper=stepper, system=system):
        return _key(system, program=loop._march, static=(stepper,))

    assert key() == key(ist.GeometricallyImplicit(), _system())
    x, y, z = shapes.x, shapes.y, shapes.z
    ball = shapes.ImplicitShape([x**2 + y**2 + z**2 - 0.25])
    oval = shapes.ImplicitShape([x**2 + y**2 + 2 * z**2 - 0.25])
    others = [
        key(ist.GeometricallyImplicit(tolerance=1e-9)),
        key(ist.GeometricallyImplicit(max_iterations=41)),
        key(ist.RadauContact()),
        key(system=_system(shape=shapes.Box((0.5, 0.5, 0.5)))),
        key(system=_system(shape=ball)),
        key(system=_system(shape=oval)),
        key(system=dataclasses.replace(system, dimension=2)),
    ]
    assert None not in others
    assert len({key(), *others}) == 1 + len(others)
    assert key(system=dataclasses.replace(system, names=("other", "floor"))) == key()


@pytest.mark.parametrize("name", ["jax_enable_x64", "jax_default_matmul_precision", "jax_debug_nans"])
def test_keys_hold_the_settings_of_jax(name):
    before, key = getattr(jax.config, name), _key(*_moving())
    jax.config.update(name, "highest" if before is None else not before)
    try:
        assert _key(*_moving()) != key
    finally:
        jax.config.update(name, before)


def test_keys_hold_the_numbers_of_modules_and_no_functions_of_others(monkeypatch):
    key = _key(*_moving())
    with monkeypatch.context() as changed:
        changed.setattr(ladder, "_PATIENCE", 6)
        assert _key(*_moving()) not in (None, key)
    for place, name in ((ncp, "linearize"), (ist.RadauContact, "step")):
        with monkeypatch.context() as changed:
            changed.setattr(place, name, lambda *_: None)
            assert _key(*_moving()) is None
    assert _key(*_moving()) == key


def test_what_cannot_be_described_has_no_key():
    def push(time, position, orientation, velocity):
        return jnp.array([time, 0.0, 0.0, 0.0, 0.0, 0.0])

    own = sympy.Function("own")(sympy.Symbol("x"))
    system = _system(wrench=push)
    assert _key(system, program=loop._march, static=(ist.GeometricallyImplicit(),)) is None
    assert _key(*_moving(), program=push) is None
    assert _key(*_moving(), program=jax.jit(push)) is None
    for static in (own, np.ones(3), push, object(), jax.tree.structure(1), (1, [push])):
        assert _key(*_moving(), static=(static,)) is None


def test_descriptions_tell_values_apart():
    x = sympy.Symbol("x", real=True)
    values = [
        None, True, 1, 1.0, np.float64(1.0), "1", b"1", (1,), [1], {1: 1}, frozenset([1]), x, sympy.Symbol("x"), x + 1,
        sympy.Integer(1), sympy.Float(1), ist.Result.SOLVED, ist.State, ladder._moved, (1, (2,)), ((1, 2),), (1, 2),
        1.0000000000000002, "1,1", ("1", "1"), ("1,1",),
    ]  # fmt: skip
    texts = [program_keys.described(value) for value in values]
    assert len(set(texts)) == len(values)
    assert program_keys.described(frozenset("abc")) == program_keys.described(frozenset("cba"))
