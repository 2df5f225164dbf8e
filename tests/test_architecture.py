"""The plan of the rooms: imports go down one list, siblings do not know each other, and modules and
functions stay short."""

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A room imports from rooms above it in this list only; rooms in one line do not know each other.
ORDER = (
    {"shapes"},
    {"runtime"},
    {"model"},
    {"solvers"},
    {"collision"},
    {"constraints"},
    {"scene"},
    {"stepping"},
    {"implicit_euler", "time_lagged"},
    {"radau", "many_bodies"},
    {"run"},
    {"output"},
    {"paper"},
    {"commands"},
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
MODULES = sorted([*ROOT.glob("implicit_stepper/*/*.py"), *ROOT.glob("shapes/**/*.py")])


def imported(module: Path):
    """Dotted names of the package's own modules and names that `module` imports, as tuples."""
    own = module.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = (
                (*own[: len(own) - node.level], *(node.module or "").split("."))
                if node.level
                else tuple(node.module.split("."))
            )
            base = tuple(part for part in base if part)
            if base[0] in ("implicit_stepper", "shapes"):
                yield from ((*base, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                tuple(a.name.split(".")) for a in node.names if a.name.split(".")[0] in ("implicit_stepper", "shapes")
            )


def room(dotted) -> str:
    """The room of a dotted name."""
    return "shapes" if dotted[0] == "shapes" else dotted[1]


def test_every_folder_is_a_room_of_the_plan_and_tells_what_it_is():
    folders = {path.parent.name for path in ROOT.glob("implicit_stepper/*/*.py")}
    assert folders | {"shapes"} == set(LEVEL)
    assert {path.name for path in ROOT.glob("implicit_stepper/*.py")} == {"__init__.py", "__main__.py"}
    for name in sorted(folders):
        page = ROOT / "implicit_stepper" / name / "README.md"
        assert page.exists(), f"{name} has no README.md"
        text = page.read_text()
        assert len(text.splitlines()) <= 60, f"{page} is more than a page"
        parts = {path.stem for path in page.parent.glob("*.py")} - {"__init__"}
        assert [part for part in sorted(parts) if f"- `{part}`:" not in text] == []
    text = (ROOT / "shapes" / "README.md").read_text()
    assert len(text.splitlines()) <= 60
    parts = {path.stem for path in ROOT.glob("shapes/**/*.py")} - {"__init__"}
    assert [part for part in sorted(parts) if f"- `{part}`:" not in text] == []


def test_imports_go_down_the_list_of_rooms():
    """`find_wrong` finds an arrow up where there is one, and there is none."""

    def find_wrong(own, imports):
        return [".".join(name) for name in imports if room(name) != own and LEVEL[room(name)] >= LEVEL[own]]

    assert find_wrong("time_lagged", [("implicit_stepper", "implicit_euler", "ncp")]) == [
        "implicit_stepper.implicit_euler.ncp"
    ]
    assert find_wrong("shapes", [("implicit_stepper", "model", "rotation")]) == ["implicit_stepper.model.rotation"]
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in MODULES
        if (found := find_wrong(room(path.relative_to(ROOT).parts), imported(path)))
    }
    assert wrong == {}


def names_in(source: str) -> set[str]:
    """All names, attributes and imported names in a module."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return names | {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_no_kind_of_constraint_is_named_above_them():
    """Joints, laws of joints and groups are named where they are written, and where they are made
    of what a user says, and so are the modules in which they stand, but for `joint`, which all
    joints share; all else knows the protocol of `constraints.conditions` alone."""
    makers = {"scene": None, "many_bodies": {"catalog.py"}}
    kinds, modules, named = set(), set(), {}
    for path in ROOT.glob("implicit_stepper/constraints/*.py"):
        classes = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        joints = path.stem in ("joints", "of_users", "gears", "nonholonomic", "pair_loads")
        own = {name for name in classes if joints or name.endswith("Group")} - {"Form", "Place"}
        kinds |= own
        modules |= {path.stem} if own else set()
    assert {"ContactGroup", "LimitGroup", "MotorGroup", "Hinge", "Gear", "UserConstraint"} <= kinds

    modules -= {"joint"}
    assert {"contact_group", "joint_limits", "joint_friction", "gears"} <= modules

    def find_named(source):
        return sorted(names_in(source) & kinds)

    def find_modules(imports):
        return sorted({name[2] for name in imports if name[1:2] == ("constraints",) and len(name) > 2} & modules)

    assert find_named("def of(g: ContactGroup): return g.joints.Hinge") == ["ContactGroup", "Hinge"]
    assert find_modules([("implicit_stepper", "constraints", "gears"), ("shapes", "box")]) == ["gears"]
    for path in MODULES:
        own = room(path.relative_to(ROOT).parts)
        made = own in makers and (makers[own] is None or path.name in makers[own])
        if LEVEL[own] > LEVEL["constraints"] and not made:
            named[str(path.relative_to(ROOT))] = find_named(path.read_text()) + find_modules(imported(path))
    assert {path: found for path, found in named.items() if found} == {}


def test_kinds_of_constraints_apply_no_complementarity_function():
    """They state conditions; which function or branch makes rows of these is written once, for all
    of them."""
    functions = {"fischer_burmeister", "fischer_burmeister_cone", "natural_disc", "stage_rows", "cone_rows", "held_rows"}

    def find_applied(source):
        return sorted(names_in(source) & functions)

    assert find_applied("rows = fischer_burmeister(a, branches.stage_rows(b))") == ["fischer_burmeister", "stage_rows"]
    found = {}
    for path in ROOT.glob("implicit_stepper/constraints/*.py"):
        classes = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef) and n.name.endswith("Group")]
        if classes and (applied := find_applied(path.read_text())):
            found[path.name] = applied
    assert found == {}
    assert {"fischer_burmeister"} <= set(find_applied((ROOT / "implicit_stepper/constraints/branches.py").read_text()))


def test_the_library_leaves_the_interpreter_of_its_process_alone():
    """The commands touch theirs, and offer it to others."""

    def touches(source):
        nodes = ast.walk(ast.parse(source))
        names = {getattr(node, "attr", getattr(node, "id", getattr(node, "name", None))) for node in nodes}
        return sorted(names & {"gc", "__code__", "setrecursionlimit", "setswitchinterval"})

    assert touches("import gc\nf.__code__ = f.__code__.replace()\nsys.setrecursionlimit(9)") == [
        "__code__",
        "gc",
        "setrecursionlimit",
    ]
    found = {path.relative_to(ROOT).as_posix() for path in MODULES if touches(path.read_text())}
    assert found == {"implicit_stepper/runtime/interpreter.py"}
    asking = {
        room(path.relative_to(ROOT).parts) for path in MODULES for name in imported(path) if name[-1] == "faster_tracing"
    }
    assert asking == {"commands"}


def test_runs_ask_what_a_stepper_can_and_not_which_it_is():
    """But for rollouts, to which `RadauContact` of one stage is another stepper."""

    def asks(source):
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        named = [f"{ast.unparse(call.func)} {ast.unparse(call.args[0])}" for call in calls if call.args]
        return {"isinstance stepper", "getattr stepper", "hasattr stepper", "isinstance self.stepper"} & set(named)

    assert asks("if isinstance(stepper, GeometricallyImplicit): ...") == {"isinstance stepper"}
    assert {path.stem for path in MODULES if asks(path.read_text())} == {"rollout", "arguments"}


def test_caches_are_bounded():
    """What is kept for arguments that a user makes up is kept for the last of them."""

    def unbounded(source):
        functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
        with_it = [f for f in functions if any(ast.unparse(d) == "functools.cache" for d in f.decorator_list)]
        return [f.name for f in with_it if f.args.args or f.args.vararg or f.args.kwonlyargs]

    assert unbounded("@functools.cache\ndef f(x): ...\n@functools.cache\ndef g(): ...") == ["f"]
    assert {path.name: found for path in MODULES if (found := unbounded(path.read_text()))} == {}


def test_rooms_stand_on_at_most_twelve_floors():
    """Of the package itself; `shapes` is below it."""
    below = {name: set() for name in LEVEL}
    for path in MODULES:
        own = room(path.relative_to(ROOT).parts)
        below[own] |= {room(name) for name in imported(path)} - {own, "shapes"}

    def floors(name):
        return 1 + max((floors(other) for other in below[name]), default=0)

    assert max(floors(name) for name in LEVEL) <= 12


def test_modules_import_each_other_without_a_circle():
    graph = {}
    for path in MODULES:
        name = path.relative_to(ROOT).with_suffix("").parts
        graph[name] = {target for dotted in imported(path) for target in (dotted, dotted[:-1])}
    done, open_ = set(), []

    def visit(name):
        assert name not in open_, f"circle of imports: {open_[open_.index(name) :]}"
        if name in done or name not in graph:
            return
        open_.append(name)
        for target in graph[name]:
            visit(target)
        open_.pop()
        done.add(name)

    for name in graph:
        visit(name)


def test_docstrings_and_comments_have_at_most_a_hundred_columns():
    """But comments at the end of a line of code, which are part of it."""

    def too_wide(source):
        lines, prose = source.splitlines(), set()
        for node in ast.walk(ast.parse(source)):
            documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            if documented and ast.get_docstring(node) is not None:
                prose |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
                prose.add(token.start[0])
        return [number for number in sorted(prose) if len(lines[number - 1]) > 100]

    wide = "x" * 96
    assert too_wide(f'"""A.\n\n    {wide}\n    {wide}y\n"""\n# {wide}xyz\nf = 0  # {wide}\n') == [4, 6]
    prose = [*MODULES, *ROOT.glob("implicit_stepper/*.py"), *ROOT.glob("examples/*.py")]
    found = {str(path.relative_to(ROOT)): too_wide(path.read_text()) for path in prose}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_modules_and_functions_are_short():
    modules, functions = {}, {}
    for path in MODULES:
        text, name = path.read_text(), str(path.relative_to(ROOT))
        modules[name] = len(text.splitlines())
        nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
        functions |= {f"{name}: {node.name}": node.end_lineno - node.lineno + 1 for node in nodes}
    assert {name: lines for name, lines in modules.items() if lines > 320} == {}
    assert {name: lines for name, lines in functions.items() if lines > 60} == {}
