"""Points of contacts that push nothing, found apart from the rest of a step."""

import sys
from pathlib import Path

import numpy as np
import pytest

import implicit_stepper as ist

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import drop_battery


@pytest.mark.thorough
def test_tables_that_fly_beside_each_other_ask_for_no_jacobians():
    """Closest points of their 25 pairs of parts jump from end to end of edges. In one Newton
    iteration with all else they take 173 Jacobians in 60 steps, and one step another start."""
    run = ist.simulate(drop_battery.drop("table", "each other", 0), ist.GeometricallyImplicit(), h=0.002, duration=0.12)
    assert np.min(run.contacts.gap) > 0.3
    assert np.sum(run.stats.iterations) <= 30
    assert np.all(run.stats.rung == 0)
    assert max(np.max(v) for v in run.certificate.values()) < 1e-12
