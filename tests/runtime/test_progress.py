"""Long runs: Ctrl-C keeps what was computed, in every kind of run, and word is given of what takes
so long."""

import dataclasses
import functools
import io
import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import implicit_stepper as ist
from implicit_stepper.paper import scenes
from implicit_stepper.radau import driver, event_loop
from implicit_stepper.runtime import progress
from implicit_stepper.runtime.compilation import jit, prepare
from implicit_stepper.stepping import fallback

EULER, RADAU = ist.GeometricallyImplicit(), ist.RadauContact()


def interrupted_after(calls, function):
    """`function`, and Ctrl-C in the place of the call after so many."""
    made = []

    def call(*arguments):
        made.append(arguments)
        if len(made) > calls:
            raise KeyboardInterrupt
        return function(*arguments)

    return call


@pytest.mark.parametrize("on_failure", ["raise", "return"])
def test_fixed_steps_that_are_interrupted_keep_what_was_computed(monkeypatch, on_failure):
    """The same numbers, to the bit, as of the run that was not; and the rest of it from the error's
    state."""
    whole = ist.simulate(scenes.spin(), EULER, h=0.005, duration=1.0)
    monkeypatch.setattr(fallback, "warm", interrupted_after(2, fallback.warm))
    with pytest.raises(ist.Interrupted, match=r"interrupted at t = 0\.\d+ s\. The \d+ steps until then") as caught:
        ist.simulate(scenes.spin(), EULER, h=0.005, duration=1.0, on_failure=on_failure)
    monkeypatch.undo()
    kept, state = caught.value.trajectory, caught.value.state
    assert 0 < len(kept) < len(whole)
    for name in ("time", "position", "orientation", "velocity"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(whole, name)[: len(kept) + 1])
    assert f"duration={1.0 - float(state.time):.9g}" in str(caught.value)
    rest = ist.simulate(scenes.spin(), EULER, h=0.005, duration=1.0 - float(state.time), start=state)
    assert len(kept) + len(rest) == len(whole)
    # what a step may differ by, in units of g h = .05 m/s, times 200 of them
    np.testing.assert_allclose(rest.velocity[-1], whole.velocity[-1], rtol=0, atol=1e-10)


def test_steps_before_a_fallback_that_is_interrupted_are_kept(monkeypatch):
    monkeypatch.setattr(fallback, "climb", interrupted_after(0, fallback.climb))
    with pytest.raises(ist.Interrupted) as caught:
        ist.simulate(scenes.spin(), _LostLater(), h=0.005, duration=1.0)
    assert len(caught.value.trajectory) == 21


class _LostLater(ist.GeometricallyImplicit):
    """Says of steps after .1 s that they were not solved."""

    def step(self, system, state, memory, h):
        step = super().step(system, state, memory, h)
        late = state.time > 0.1 + 1e-9
        return dataclasses.replace(step, result=jax.numpy.where(late, int(ist.Result.NOT_CONVERGED), step.result))


def test_chosen_steps_that_are_interrupted_keep_what_was_computed(monkeypatch):
    """The ball has landed and slides when Ctrl-C comes: its landing and impact are kept, too."""
    whole = ist.simulate(scenes.landing_ball(), RADAU, tol=1e-8, duration=1.2)
    monkeypatch.setattr(event_loop, "advance", interrupted_after(2, event_loop.advance))
    monkeypatch.setattr(driver, "first_call", lambda unknowns: 8)
    with pytest.raises(ist.Interrupted, match="interrupted at t = ") as caught:
        ist.simulate(scenes.landing_ball(), RADAU, tol=1e-8, duration=1.2)
    kept, state = caught.value.trajectory, caught.value.state
    assert 0 < len(kept) < len(whole)
    np.testing.assert_array_equal(kept.position, whole.position[: len(kept) + 1])
    assert kept.events == tuple(event for event in whole.events if event.time <= kept.time[-1])
    monkeypatch.undo()
    rest = ist.simulate(scenes.landing_ball(), RADAU, tol=1e-8, duration=1.2 - float(state.time), start=state)
    np.testing.assert_allclose(rest.position[-1], whole.position[-1], rtol=0, atol=1e-8)


@pytest.mark.parametrize(("stepper", "choice"), [(EULER, {"h": 0.005}), (RADAU, {"tol": 1e-8})])
def test_a_run_that_is_interrupted_before_its_first_step_has_no_trajectory(monkeypatch, stepper, choice):
    for module in ("run.fixed_run", "radau.driver"):
        monkeypatch.setattr(sys.modules[f"implicit_stepper.{module}"], "prepare", interrupted_after(0, None))
    with pytest.raises(ist.Interrupted, match="interrupted before the first step") as caught:
        ist.simulate(scenes.landing_ball(), stepper, duration=1.2, **choice)
    assert caught.value.trajectory is None
    assert float(caught.value.state.time) == 0.0


@pytest.mark.parametrize("choice", [{"h": 0.02}, {"tol": 1e-8}])
def test_short_calls_change_no_number(monkeypatch, choice):
    """One problem a call, or as many as there is room for."""
    scene, stepper = scenes.landing_ball(), RADAU if "tol" in choice else EULER
    runs = []
    for seconds in (0.0, 1e9):
        monkeypatch.setattr(progress, "SECONDS", seconds)
        runs.append(ist.simulate(scene, stepper, duration=1.2, **choice))
    for name in ("time", "position", "orientation", "velocity"):
        np.testing.assert_array_equal(getattr(runs[0], name), getattr(runs[1], name))
    assert runs[0].events == runs[1].events


def test_calls_become_as_long_as_a_tenth_of_a_second():
    assert [progress.first_call(n) for n in (28, 84, 415, 5000)] == [16, 16, 4, 1]
    assert progress.next_call(16, 1.6, 128) == 1
    assert progress.next_call(16, 0.04, 128) == 40
    assert progress.next_call(16, 1e-4, 1024) == 8 * 16
    assert progress.next_call(16, 1e-4, 32) == 32


@pytest.mark.parametrize("middle", [False, True])
def test_an_interruption_does_not_wait_for_the_compiler(monkeypatch, middle):
    """Of the programs of a run, and of one that is first called in the middle of it."""

    class Lowered:
        out_info = None

        def compile(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(3.0)

    @functools.partial(jit, static_argnums=0, apart=True)
    def program(stepper):
        return stepper

    def programs(ahead, stepper):
        ahead(program, stepper)

    monkeypatch.setattr(program, "lower", lambda *_: Lowered())
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        program("stepper") if middle else prepare(programs, "stepper")
    assert time.monotonic() - begun < 2.0


def test_without_a_terminal_lines_say_how_far_a_slow_run_is(monkeypatch):
    """Twice: while it compiles, and while it steps, whose rate does not count the compiling."""
    errors, scene = io.StringIO(), scenes.spin()
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setattr(progress, "_EVERY", 0.1)
    with progress.Progress(400, "steps", None) as told:
        with progress.compiling():
            time.sleep(0.25)
        told.to(120)
        with progress.doing("fallback starts at t = 1.2 s"):
            time.sleep(0.25)
        assert told.line(10.25) == "implicit-stepper: 120 of 400 steps after 10 s (12 a second)"
    lines = errors.getvalue().splitlines()
    assert "implicit-stepper: 0 of 400 steps after 0 s: compiling" in lines
    assert lines[-1].startswith("implicit-stepper: 120 of 400 steps after ")
    assert lines[-1].endswith("a second): fallback starts at t = 1.2 s")
    errors.truncate(0)
    monkeypatch.setattr(progress, "_EVERY", 30.0)
    ist.simulate(scene, EULER, h=0.005, duration=0.1)
    with progress.Progress(400, "steps", False):
        progress.compiling()
    assert errors.getvalue().strip("\0") == ""


def test_on_a_terminal_a_bar_leaves_out_what_compiling_took(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.Progress(400, "steps", None) as told:
        with progress.compiling():
            time.sleep(0.5)
        told.to(1)
        assert told._bar.format_dict["elapsed"] < 0.4
    assert "compiling" in sys.stderr.getvalue()


SCRIPT = """
import implicit_stepper as ist
from implicit_stepper.stepping import fallback
from implicit_stepper.paper import scenes

warm = fallback.warm

def told(*arguments):
    print("steps", flush=True)
    return warm(*arguments)

fallback.warm = told
ist.simulate(scenes.spin(), ist.GeometricallyImplicit(), h=1e-6, duration=1.0, progress=False)
"""


def test_a_real_signal_ends_the_run_of_a_script():
    """Of 10^6 steps, after some hundred."""
    run = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert [run.stdout.readline() for _ in range(8)] == 8 * ["steps\n"]
        run.send_signal(signal.SIGINT)
        begun = time.monotonic()
        errors = run.communicate(timeout=60)[1]
    finally:
        run.kill()
    assert time.monotonic() - begun < 10.0  # a second, on a machine with other work
    assert "implicit_stepper.model.results.Interrupted: interrupted at t = " in errors
    assert run.returncode not in (0, -signal.SIGKILL)
