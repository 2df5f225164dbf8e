"""The page of errors is complete."""

import ast
import builtins
from pathlib import Path

import implicit_stepper as ist

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = {
    name.strip(" `"): line.split("|")[2].strip(" `")
    for line in PAGE.split("A `StepError` has")[0].splitlines()
    if line.startswith("| `")
    for name in line.split("|")[1].split(",")
}
NODES = [
    node
    for folder in ("implicit_stepper", "shapes")
    for path in sorted((ROOT / folder).rglob("*.py"))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
]


def test_every_class_of_errors_is_on_the_page_with_its_base():
    """Also those that are not public; and the page has no others."""
    known = {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
    own = {
        node.name: base.id
        for node in NODES
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in known
    }
    assert {"StepError", "SceneFileError", "ShapeError", "OverlapWarning"} <= own.keys()
    assert {name: base for name, base in ROWS.items() if name not in known} == own


def test_every_error_that_is_raised_is_on_the_page():
    """And a message comes with each: nothing is raised bare, but what was caught."""
    raised = [node.exc for node in NODES if isinstance(node, ast.Raise) and node.exc is not None]
    calls = [exc for exc in raised if isinstance(exc, ast.Call) and isinstance(exc.func, ast.Name)]
    named = {exc.func.id for exc in calls if exc.func.id[0].isupper()}
    assert len(calls) > 300
    assert named - ROWS.keys() == set()
    assert [ast.unparse(exc) for exc in calls if not exc.args and not exc.keywords] == []
    bare = {ast.unparse(exc) for exc in raised if isinstance(exc, ast.Name) and exc.id[0].isupper()}
    # which `simulate` makes an `Interrupted` or a `CheckpointError` of
    assert bare <= {"KeyboardInterrupt"}


def test_every_way_in_which_a_step_ends_is_on_the_page():
    assert [result.name for result in ist.Result if f"| `{result.name}` |" not in PAGE] == []
