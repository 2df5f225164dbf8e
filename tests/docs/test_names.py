"""Names of the code that the documents point to are there."""

import ast
import re
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
