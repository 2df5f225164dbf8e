"""The gaps at which a relaxation puts contacts, by its formula, are those that they have:
benchmarks/relaxation_meter.py."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import relaxation_meter


@pytest.mark.parametrize(
    ("scene", "method"),
    [
        ("sliding block", "cone complementarity"),
        ("rolling disc", "cone complementarity"),
        ("example 3", "cone complementarity"),
        ("example 3", "the same, unrelaxed"),
    ],
)
def test_artifacts_are_predicted(scene, method):
    predicted, measured = relaxation_meter.meter(scene, method)
    assert len(measured) >= 4
    np.testing.assert_allclose(measured, predicted, rtol=0, atol=1e-10)
    if method == "cone complementarity" and scene != "rolling disc":
        assert measured.max() > 1e-4  # there is something to predict
