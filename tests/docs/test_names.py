"""Names of the code that the documents point to are there, and so is the code that the table of
mutations changes."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.glob("implicit_stepper/*/*.py"), *ROOT.glob("shapes/**/*.py")]
MODULES = {stem: [path for path in FILES if path.stem == stem] for stem in {path.stem for path in FILES}}
OBJECTS = {"run", "scene", "trajectory"}  # whose names examples use, beside modules of these names
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("notation", "model", "solver", "steppers", "joints", "derivatives")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_modules_have_what_documents_name(page):
    """Of every `module.name` in a document, with a module of that name."""
    missing = []
    for module, name in re.findall(r"`([a-z_]+)\.([A-Za-z_]+)", page.read_text()):
        if module in MODULES and module not in OBJECTS:
            nodes = [node for path in MODULES[module] for node in ast.walk(ast.parse(path.read_text()))]
            known = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
            if name not in known | {node.id for node in nodes if isinstance(node, ast.Name)}:
                missing.append(f"{module}.{name}")
    assert missing == []


def test_what_mutations_change_stands_once_in_its_file_and_has_tests():
    changes = tomllib.loads((ROOT / "benchmarks" / "mutations.toml").read_text())["change"]
    assert [own["name"] for own in changes if (ROOT / own["file"]).read_text().count(own["old"]) != 1] == []
    paths = {test.partition("::")[0] for own in changes for test in own["tests"]}
    assert [path for path in paths if not (ROOT / path).exists()] == []
