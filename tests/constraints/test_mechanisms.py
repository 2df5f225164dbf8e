"""Short runs of benchmarks/mechanisms.py, whose long ones stand in docs/benchmarks.md."""

import sys
from pathlib import Path

import numpy as np
import pytest

import implicit_stepper as ist

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from mechanisms import G, grip, pin, run  # noqa: E402

H, STEPS = 1e-3, 300


@pytest.mark.parametrize("case", ["grip", "pin"])
def test_what_friction_holds_does_not_creep(case):
    found = run(case, STEPS, H)
    assert len(found) == STEPS
    assert np.max(np.abs(found.velocity)) <= 1e-12
    assert max(np.max(values) for values in found.certificate.values()) <= 1e-10


@pytest.mark.parametrize(("scene", "rate"), [(grip, (-G, 1)), (pin, (0.3 * 0.05 * G * 2 / 0.04, 2))])
def test_beyond_the_bound_it_moves_by_what_is_left(scene, rate):
    """With 1.001 of what friction holds: the disc falls by g (1 - 1 / 1.001), and the wheel, m = 2
    kg and radius .2 m, turns ever faster by .001 mu r m g / I, I = m .2^2 / 2."""
    found = ist.simulate(scene(1.001), ist.GeometricallyImplicit(), h=H, duration=STEPS * H)
    share = 1 - 1 / 1.001 if scene is grip else 0.001
    np.testing.assert_allclose(found.velocity[1:, 0, rate[1]], share * rate[0] * found.time[1:], rtol=1e-6)
