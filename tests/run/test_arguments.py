"""What functions of runs are given as a scene, a stepper or a trajectory, and is none."""

import dataclasses

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.run import scene_run
from implicit_stepper.run.settings import refuse_settings
from implicit_stepper.runtime.errors import RunError

STEPPER, STEPS = ist.GeometricallyImplicit(), {"h": 0.1, "duration": 1.0}


def scene():
    made = ist.Scene()
    made.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 1))
    return made


def started(time):
    return dataclasses.replace(scene().build()[1], time=time)


def many():
    return jax.tree.map(lambda a: np.stack([a, a]), scene().build()[1])


def rolled_out(**given):
    system, start = scene().build()
    return ist.rollout(system, STEPPER, 0.1, 2, start=start, **given)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ist.contact_states("run.npz", scene()), "`scene` = 'run.npz' must be a Scene"),
        (lambda: ist.contact_states(scene(), "run.npz"), "`trajectory` = 'run.npz' must be a Trajectory"),
        (lambda: ist.force_ranges(None, STEPPER, None), "`scene` = None must be a Scene"),
        (lambda: ist.force_ranges(scene(), type(STEPPER), None), "`stepper` = .* must be a stepper"),
        (lambda: ist.force_ranges(scene(), STEPPER, None), "`trajectory` = None must be a Trajectory"),
        (lambda: ist.least_forces(scene(), None, STEPPER), "`stepper` = None must be a stepper"),
        (lambda: ist.solutions(0.1, scene()), "`scene` = 0.1 must be a Scene"),
        (lambda: ist.sensitivities(None, STEPPER, None, ["mu"]), "`scene` = None must be a Scene"),
        (lambda: ist.sensitivities(scene(), STEPPER, None, ["mu"]), "`trajectory` = None must be a Trajectory"),
        (lambda: ist.simulate_batch(None, STEPPER, h=0.1, duration=1.0), "`scene` = None must be a Scene"),
        (lambda: ist.run_scene("fall.toml"), "`scene` = 'fall.toml' must be a Scene"),
        (lambda: ist.view("run.npz"), "`trajectory` = 'run.npz' must be a Trajectory: `load` reads that of a file"),
        (lambda: ist.simulate(scene(), STEPPER, **STEPS, start=started("now")), "`start.time` = now .* finite numbers"),
        (lambda: ist.simulate(scene(), STEPPER, **STEPS, start=started(1j)), "`start.time` = 1j .* it needs finite numbers"),
        (lambda: ist.simulate(scene(), STEPPER, **STEPS, checkpoint=5), "`checkpoint` = 5 must be a path: text, or a"),
        (lambda: ist.simulate(scene(), STEPPER, **STEPS, resume=5), "`resume` = 5 must be a path"),
        (lambda: ist.simulate(scene(), ist.RadauContact(), tol=1e-6, duration=1.0, resume=5), "`resume` = 5 must be a path"),
        (lambda: ist.simulate_batch(scene(), STEPPER, **STEPS, states=many(), folder=3), "`folder` = 3 must be a path"),
        (lambda: ist.Comparison((), {}, None).save(3), "`folder` = 3 must be a path"),
        (lambda: ist.load(None), "`path` = None must be a path"),
        (lambda: ist.load_scene(None), "`path` = None must be a path"),
        (lambda: scene().save(3), "`path` = 3 must be a path"),
        (lambda: ist.use_compilation_cache(3), "`path` = 3 must be a path"),
        (lambda: ist.simulate(scene(), STEPPER, **STEPS, progress="no"), "`progress` = 'no' must be True, False or None"),
        (lambda: ist.simulate(scene(), STEPPER, **STEPS, estimate_error="no"), "`estimate_error` = 'no' must be True or F"),
        (lambda: ist.simulate(scene(), STEPPER, **STEPS, estimate_error=None), "`estimate_error` = None must be True or F"),
        (lambda: ist.simulate_batch(scene(), STEPPER, **STEPS, progress=1), "`progress` = 1 must be True, False or None"),
        (lambda: ist.compare(scene(), {"a": STEPPER}, [0.1], None, duration=1.0, progress="no"), "`progress` = 'no' must"),
        (lambda: rolled_out(economical="no"), "`economical` = 'no' must be True or False"),
        (lambda: scene().add_fixed(name="a", shape=shapes.Sphere(0.1), apart="no"), "`apart` = 'no' must be True or False"),
        (lambda: ist.simulate(scene(), STEPPER, **STEPS, switches=0.5), "`switches` = 0.5 must be a list of times"),
        (lambda: ist.simulate(scene(), STEPPER, **STEPS, switches=[[1], [2, 3]]), "`switches` = .* must be 2 real numbers"),
    ],
)  # fmt: skip
def test_other_things_are_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize(("time", "refused"), [(-5.0, True), (5.0, True), (0.0, False), (0.1 * 3, False)])
def test_switches_lie_within_the_run(time, refused):
    """Up to its end, but for rounding; what goes on from a start may have those of all its
    motion."""
    chosen = {"tol": 1e-6, "duration": 0.3, "switches": [time]}
    if refused:
        with pytest.raises(RunError, match=rf"`switches` has {time:g} s, and the run lasts from 0 to 0.3 s"):
            ist.simulate(scene(), ist.RadauContact(), **chosen)
    else:
        refuse_settings(ist.RadauContact(), **chosen)
    refuse_settings(ist.RadauContact(), **chosen, goes_on=True)


def test_a_shorter_run_of_a_scene_leaves_out_its_later_switches(monkeypatch):
    made, asked = scene(), []
    monkeypatch.setattr(scene_run, "simulate", lambda *_, switches, **__: asked.append(switches))
    made.run = ist.RunSettings(duration=1.0, tol=1e-6, switches=(0.2, 0.5))
    ist.run_scene(made, duration=0.3)
    ist.run_scene(made, duration=0.3, start=started(0.4))
    ist.run_scene(made, duration=0.3, switches=(0.7,))
    assert asked == [(0.2,), (0.2, 0.5), (0.7,)]
