"""What a user waits for at first: every program of a run is compiled once, ahead of the run, and never again for other
numbers."""

import gc
import subprocess
import sys

import jax
import numpy as np
import pytest

from implicit_stepper.compilation import jit, prepare

RUNS = """
import collections, jax, shapes, sys
import implicit_stepper as ist

compiled = collections.Counter()

def note(event, duration, fun_name="", **more):
    if event.endswith("/backend_compile_duration") and "<lambda>" not in fun_name:  # `compilation` asks for options so
        compiled[fun_name] += 1

shape, stepper, choice = eval(sys.argv[1])
for mass, spin in ((1.0, 3.0), (2.0, 1.0)):
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    body = scene.add_body(
        name="body", shape=shape, mass=mass, inertia=[mass * i for i in (0.1, 0.11, 0.12)],
        position=(0, 0, 0.5), velocity=(1, 0, 0, 0, 0, spin),
    )
    scene.add_contact(floor, body, friction=0.3)
    jax.monitoring.register_event_duration_secs_listener(note)
    ist.simulate(scene, stepper, duration=0.1, **choice)
    print(*(f"{name}={count}" for name, count in compiled.items()))
    compiled.clear()
    jax.monitoring.clear_event_listeners()
"""


STEPS = {"closest_points": 1, "init": 1, "_march": 1, "certificates": 1}
LADDER = {"_no_cuts", "_cut"}  # for a step that its warm start does not solve
CHOSEN = {"closest_points": 1, "_resume": 1, "advance": 1, "_here": 1, "certificates": 1}


@pytest.mark.parametrize(
    ("run", "programs"),
    [
        ("shapes.Sphere(0.5), ist.GeometricallyImplicit(), {'h': 0.01}", STEPS),
        ("shapes.Sphere(0.5), ist.RadauContact(), {'tol': 1e-6}", CHOSEN),
        # steps of one stage, with certificates of their own, find the forces in faces
        (
            "shapes.Box((0.5, 0.5, 0.5)), ist.RadauContact(), {'tol': 1e-6}",
            STEPS | CHOSEN | {"certificates": 2, "sudden": 1, "remembered": 1},
        ),
    ],
)
def test_a_run_compiles_its_programs_once_and_nothing_else(run, programs):
    script = subprocess.run([sys.executable, "-c", RUNS, run], capture_output=True, text=True, check=True)
    entries = [[entry.split("=") for entry in line.split()] for line in script.stdout.splitlines()]
    first, second = ({name[len("jit(") : -1]: int(count) for name, count in run} for run in entries)
    assert {name: count for name, count in first.items() if name not in LADDER} == programs
    assert set(second) <= LADDER


def test_preparing_compiles_for_shapes_alone_and_once():
    traced = []

    @jit
    def doubled(x):
        traced.append("doubled")
        return 2 * x

    @jit
    def summed(x, y):
        traced.append("summed")
        return x @ y

    def programs(ahead, stepper, x):
        traced.append(stepper)
        ahead(summed, x, ahead(doubled, x))

    for x in (np.arange(3.0), np.ones(3)):
        prepare(programs, "stepper", x)
    assert traced == ["stepper", "doubled", "summed"]
    assert float(summed(x, doubled(x))) == 6.0
    assert traced == ["stepper", "doubled", "summed"]
    prepare(programs, "stepper", np.ones(4))
    assert traced == 2 * ["stepper", "doubled", "summed"]


@pytest.mark.parametrize("collects", [True, False])
def test_preparing_leaves_the_collector_as_it_was(collects):
    before = []

    @jit
    def fails(x):
        before.append(gc.isenabled())
        raise ArithmeticError("in tracing")

    was, switch = gc.isenabled(), {True: gc.enable, False: gc.disable}
    switch[collects]()
    try:
        with pytest.raises(ArithmeticError, match="in tracing"):
            prepare(lambda ahead, stepper, x: ahead(fails, x), None, jax.numpy.ones(3))
        after = gc.isenabled()
    finally:
        switch[was]()
    assert before == [False]
    assert after == collects
