"""Single changes of the library that its tests must see: each is made in a copy, and those that no
test sees are named.

    python benchmarks/mutations.py                 all of `mutations.toml`, half an hour of one core
    python benchmarks/mutations.py gears closes    those whose file, text or name has such a word

A change is a `file`, the `old` text, which must stand there exactly once, the `new` one, and the
`tests` that know the file. Before it, these must pass as they are. Of a change that no result can
show, as where only the work to a solution changes, `unseen` says why; it is made all the same. The
exit status is 1 if a change survives that has no such reason, and 2 if a text is not found once or
tests fail without a change.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".toml")
COPIED = ("implicit_stepper", "shapes", "tests", "benchmarks", "examples", "docs", "pyproject.toml", "README.md")
LONGEST = 1800.0  # [s] of tests: a change may make a loop endless, and then is seen


def changes(words: list[str]) -> list[dict]:
    """Those of the table that have one of the words, or all. Exits where a text does not stand once
    in its file."""
    found = tomllib.loads(TABLE.read_text())["change"]
    if words:
        found = [of for of in found if any(word in f"{of['file']} {of['old']} {of['name']}" for word in words)]
    for of in found:
        count = (ROOT / of["file"]).read_text().count(of["old"])
        if count != 1 or of["old"] == of["new"]:
            print(f"{of['name']}: {of['old']!r} stands {count} times in {of['file']}, not once, or is not changed.")
            sys.exit(2)
    return found


def passes(copy: Path, tests: list[str]) -> bool:
    """Whether tests pass in the copy, up to the first that does not; programs that were compiled
    before are used again."""
    how = ["-n", "0", "-q", "-x", "-m", "", "-o", f"cache_dir={ROOT / '.pytest_cache'}"]  # thorough ones too
    command = [sys.executable, "-m", "pytest", *how, *tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "OPENBLAS_NUM_THREADS": "1"}
    try:
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=LONGEST).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    """Makes the changes one after another, and names those that survive."""
    asked, known, survived = changes(sys.argv[1:]), set(), []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
        for of in asked:
            tests, file = of["tests"], copy / of["file"]
            if tuple(tests) not in known:
                if not passes(copy, tests):
                    print(f"{' '.join(tests)}: fails without any change.")
                    return 2
                known.add(tuple(tests))
            text, begun = file.read_text(), time.monotonic()
            file.write_text(text.replace(of["old"], of["new"]))
            seen = not passes(copy, tests)
            file.write_text(text)
            told = "seen" if seen else f"survives: {of['unseen']}" if "unseen" in of else "SURVIVES"
            print(f"{of['file']}, {of['name']}: {told} ({time.monotonic() - begun:.0f} s)", flush=True)
            survived += [of["name"]] * (not seen and "unseen" not in of)
    print(f"{len(asked)} changes, {len(survived)} survive unexplained{': ' * bool(survived)}{', '.join(survived)}")
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main())
