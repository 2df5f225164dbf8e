"""README's numbers are those that benchmarks/readme_numbers.py measured, and what takes seconds is
measured again here."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import readme_numbers  # noqa: E402

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBERS = json.loads(readme_numbers.STORED.read_text())["numbers"]
# Rows of README's tables whose numbers are counts, or are held by the test of that name.
COUNTED = ("steps solved at h", "steps lost of 200 000 (500 scenes)", "Tzitzouris and Pang")


def test_every_claim_is_stated_with_the_measured_numbers():
    assert readme_numbers.stated(TEXT, NUMBERS) == []


def test_every_number_in_the_tables_of_evidence_is_a_claim():
    claims = [" ".join(claim.format(**NUMBERS).split()) for claim in readme_numbers.CLAIMS]
    sections = "".join(re.findall(r"## (?:Compare methods|Evidence)\n.*?(?=\n## |\Z)", TEXT, flags=re.DOTALL))
    rows = [" ".join(line.split()) for line in sections.split("\n") if line.startswith("|") and re.search(r"\d", line)]
    header = re.compile(r"^\| (stepper|example of the paper)|^\|---")
    unclaimed = [
        row
        for row in rows
        if not header.search(row) and not any(claim in row for claim in claims) and not any(c in row for c in COUNTED)
    ]
    assert unclaimed == []


@pytest.mark.thorough
def test_what_is_quick_to_measure_is_as_stored():
    """Errors of the scheme to .1 %; what rounding makes of 0 to a factor of 5, as another processor
    rounds otherwise."""
    for name, value in readme_numbers.reproduction().items():
        if name in readme_numbers.ROUNDING:
            assert value <= 5 * NUMBERS[name], name
        else:
            assert value == pytest.approx(NUMBERS[name], rel=1e-3), name
