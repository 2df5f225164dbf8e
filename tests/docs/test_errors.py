"""Every error that a user can meet has a code, and the page of errors is complete."""

import ast
import inspect
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.commands import explain
from implicit_stepper.commands.main import main
from shapes.errors import Explained

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = {
    re.search(r"`(\w+)`", line).group(1): [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.split("## How a step ends")[0].splitlines()
    if line.startswith('| <a id="')
}
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for folder in ("implicit_stepper", "shapes")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
# what Python itself or the package catches again, and no user meets
CAUGHT = {
    ("implicit_stepper/__init__.py", "AttributeError"),  # what `getattr` asks for
    ("implicit_stepper/run/origin.py", "TypeError"),  # caught in the next line
    ("implicit_stepper/run/simulate.py", "KeyboardInterrupt"),  # becomes an `Interrupted`
    ("implicit_stepper/runtime/program_keys.py", "NotImplementedError"),  # a program without a key
    # before anything of the package can be imported: its text names the page
    ("implicit_stepper/__init__.py", "ImportError"),
}


def own_classes():
    """All classes with a code, as they are defined."""
    found, kinds = {}, list(Explained.__subclasses__())
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        found[kind.__name__] = kind
    return found


def raised(tree):
    """Names of what is made where something is raised, through the functions that make errors."""
    makers = {
        function.name: {ast.unparse(node.value.func) for node in ast.walk(function) if isinstance(node, ast.Return)
                        and isinstance(node.value, ast.Call)}
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            call = isinstance(node.exc, ast.Call)
            name = ast.unparse(node.exc.func if call else node.exc)
            if name in makers and makers[name]:
                yield from ((made, True) for made in makers[name])
            else:
                yield name, not call or bool(node.exc.args or node.exc.keywords)


def test_every_error_that_is_raised_has_a_code_and_a_message():
    """Read from the sources: a `raise` of any other class, or of none that is known, is found."""
    own = own_classes()
    # a class that is an argument, or an error told once more with its file
    passed = {"error", "type(error)"}
    seen, wrong = 0, []
    for path, tree in TREES.items():
        for name, told in raised(tree):
            seen += 1
            if (name not in own and name not in passed and (path, name) not in CAUGHT) or not told:
                wrong.append((path, name))
    assert wrong == []
    assert seen > 380


def test_a_class_that_is_an_argument_has_a_code():
    """`error(...)` stands in `shapes/arguments.py` alone, and what is given for it is one of
    ours."""
    assert {path for path, tree in TREES.items() for name, _ in raised(tree) if name == "error"} == {"shapes/arguments.py"}
    given = {
        ast.unparse(word.value)
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "error" and isinstance(word.value, ast.Name) and word.value.id.endswith("Error")
    }
    assert given == {"ShapeArgumentError"}
    defaults = set(re.findall(r"error: type\[ValueError\] = (\w+)", (ROOT / "shapes" / "arguments.py").read_text()))
    assert defaults == {"ArgumentError"}


def test_every_code_is_raised_and_stands_on_the_page_as_in_its_docstring():
    own = own_classes()
    assert own.keys() == ROWS.keys()
    for name, (anchor, base, means, do) in ROWS.items():
        assert f'<a id="{name.lower()}"></a>' in anchor
        assert base == f"`{own[name].__bases__[-1].__name__}`"
        paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(own[name].__doc__).split("\n\n")]
        plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell) for cell in (means, do)]
        assert plain == paragraphs[:2], name
    made = {name for tree in TREES.values() for name, _ in raised(tree)}
    everywhere = "\n".join((ROOT / path).read_text(encoding="utf-8") for path in TREES)
    families = {"ShapeError", "SceneFileError", "ArgumentError", "ShapeArgumentError"}
    unused = own.keys() - made - families
    assert {name for name in unused if not re.search(rf"\b{name},\n|\b{name}\(", everywhere)} == set()


def test_the_note_stands_below_the_message_where_python_and_commands_show_it(tmp_path, capsys):
    with pytest.raises(shapes.ShapeError) as caught:
        shapes.Sphere(-1)
    last = traceback.format_exception_only(caught.value)[-1].strip()
    assert last == "[ShapeArgumentError] docs/errors.md#shapeargumenterror, or: implicit-stepper explain ShapeArgumentError"
    body = '[[body]]\nname = "a"\nshape = { kind = "Sphere", radius = -1 }\nposition = [0, 0, 1]\n'
    (tmp_path / "wrong.toml").write_text(f"format = 1\n{body}")
    assert main(["check", str(tmp_path / "wrong.toml")]) == 2
    told = capsys.readouterr().err.splitlines()
    assert "`radius` = -1.0 must be positive" in told[0]
    assert told[1].startswith("[SceneBuildError, caused by ShapeArgumentError] docs/errors.md#shapeargumenterror")
    assert isinstance(caught.value, ValueError)  # as Python's own kinds are


def test_explain_says_what_the_page_says(capsys):
    assert main(["explain", "OpenJointError"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("A joint whose points or axes are not together")
    assert main(["explain", "NOT_CONVERGED"]) == 0
    assert "a smaller `h`" in capsys.readouterr().out
    assert main(["explain", "nothing"]) == 2
    assert "[CommandError]" in capsys.readouterr().err
    assert main(["explain"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert set(listed) == own_classes().keys() | {result.name for result in ist.Result}
    assert listed == list(explain.codes())


def test_another_package_of_that_name_is_told_with_the_page(tmp_path):
    (tmp_path / "shapes.py").write_text("")
    told = subprocess.run(
        [sys.executable, "-c", "import implicit_stepper"],
        cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": ""}, capture_output=True, text=True, check=False,
    ).stderr  # fmt: skip
    assert "rename that file or folder" in told
    assert "docs/errors.md#another-package-named-shapes" in told


def test_every_way_in_which_a_step_ends_is_on_the_page():
    rows = {result.name: f'| <a id="{result.name.lower()}"></a>`{result.name}` |' for result in ist.Result}
    assert [name for name, row in rows.items() if row not in PAGE] == []
