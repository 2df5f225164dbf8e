"""Scenes of benchmarks/mixed_battery.py, whose whole run stands in docs/benchmarks.md; see
`test_audit` for its auditor."""

import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import implicit_stepper as ist

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import mixed_battery
import mixed_scenes

PLAIN = 29  # two smooth bodies on an incline: one compiled kernel


@pytest.mark.thorough
def test_draws_pass_the_audit_and_are_not_run_again(tmp_path, monkeypatch, capsys):
    file = tmp_path / "results.jsonl"
    results = mixed_battery.whole([PLAIN], range(3), file)
    assert [one["lost"] for one in results] == [None] * 3
    assert [one["wrong"] for one in results] == [[]] * 3
    assert [one["steps"] for one in results] == [mixed_battery.STEPS] * 3
    monkeypatch.delattr(mixed_battery, "run")
    assert mixed_battery.whole([PLAIN], range(3), file) == [json.loads(line) for line in file.read_text().splitlines()]
    mixed_battery.table(results)
    assert capsys.readouterr().out.splitlines()[-1].startswith("| all | 3 | 300 | 0 | 0 |")


def test_a_scene_that_is_stopped_is_lost(monkeypatch):
    def endless(*_, **__):
        raise ist.Interrupted(trajectory=None, state=SimpleNamespace(time=0.0), end=1.0)

    monkeypatch.setattr(mixed_battery.ist, "simulate", endless)
    result = mixed_battery.run(PLAIN, 0, limit=7)
    assert (result["steps"], result["lost"]) == (0, "stopped after 7 s")
    assert mixed_battery.row("all", [result]).startswith("| all | 1 | 0 | 1 | 0 |")


def test_the_library_and_the_auditor_are_given_the_same_bodies():
    """Inequalities of the library are negative where the auditor's is; those of a rounded shape are
    its core's."""
    points = np.random.default_rng(0).normal(size=(200, 3)) * 0.4
    for name, kind in mixed_scenes.KINDS.items():
        if name != "rounded box":
            shape, solid = kind(1.0)
            values = jax.vmap(shape.value)(points).reshape(len(points), -1)
            assert np.array_equal(np.max(values, axis=1) < 0, solid.outside(points) < 0), name


def test_draws_cover_what_is_promised():
    drawn = [mixed_scenes.draw(*numbers) for numbers in itertools.product(range(0, 40, 7), range(3))]
    counts = {len(mixed_scenes.structure(n).kinds) for n in range(mixed_scenes.RANDOM + len(mixed_scenes.MORE))}
    assert {min(counts), max(counts)} == {2, 8}
    assert {start for *_, start in drawn} == set(mixed_scenes.STARTS)
    masses = [world.mass for _, world, _, _ in drawn]
    assert max(np.max(mass) / np.min(mass) for mass in masses) > 1e3
