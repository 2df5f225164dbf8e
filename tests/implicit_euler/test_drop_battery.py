"""A fixed slice of benchmarks/drop_battery.py, whose whole run stands in docs/benchmarks.md, and
its replay."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

import implicit_stepper as ist

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import drop_battery


@pytest.mark.parametrize("family", ["box", "superquadric 1.2", "superquadric 8"])
def test_no_step_of_a_slice_is_lost(family):
    tally = drop_battery.run(family, "plane", range(6), h=0.01, duration=1.5)
    assert tally.lost == []
    assert tally.steps == 6 * 150
    assert tally.residual <= 1e-9
    assert tally.penetration <= 1e-9
    assert tally.gain <= 1e-9
    assert np.concatenate(tally.iterations).mean() <= 8
    assert tally.rungs[0] >= 0.95 * tally.steps  # 98 % over the whole battery


class _WithoutTheLadder(ist.GeometricallyImplicit):
    """Has one other start to try, of which no program is to be compiled."""

    @property
    def can(self):
        return dataclasses.replace(super().can, divisible=False)

    def restarts(self, system, state, memory, h):
        yield "free flight", memory


def test_a_lost_step_is_saved_and_replayed(tmp_path, capsys):
    scene = drop_battery.drop("box", "plane", 0)
    with pytest.raises(ist.StepError) as caught:
        ist.simulate(scene, _WithoutTheLadder(max_iterations=1), h=0.01, duration=1.5)
    drop_battery.record(tmp_path, "box", "plane", 0, 0.01, caught.value)
    (saved,) = tmp_path.iterdir()
    stored = np.load(saved)
    for field in dataclasses.fields(caught.value.state):
        np.testing.assert_array_equal(stored[field.name], getattr(caught.value.state, field.name))
    drop_battery.replay(saved)
    assert "solved on rung" in capsys.readouterr().out
