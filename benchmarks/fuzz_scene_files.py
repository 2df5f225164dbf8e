"""Scene files that are wrong: mutations of the examples, files made from the schema with traps in
them, and formulas from a grammar with traps; and both kinds of files as Hypothesis chooses them.

Each must be a valid scene, or a clean error within a second, and run nothing.

    python benchmarks/fuzz_scene_files.py --count 20000 --made 20000 --formulas 20000 --seed 0
    python benchmarks/fuzz_scene_files.py --hypothesis 20000 --seed 0
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import time
import traceback
from pathlib import Path

import hypothesis
from hypothesis import strategies as st

from implicit_stepper import SceneFileError
from implicit_stepper.run.scene_run import stepper_of
from implicit_stepper.scene import toml
from shapes import ShapeError, x, y, z
from shapes.expressions.parse import FUNCTIONS, parse

SCENES = sorted((Path(__file__).parents[1] / "examples" / "scenes").glob("*.toml"))
TRAPS = [
    "nan", "inf", "-inf", "1e400", "-1", "0", "1e-320", "1e308", "9" * 50, "true", '""', "[]", "{}", "[[]]", "[nan, 1, 2]",
    "[1, 2]", "[0, 0, 0, 0]", '"x"', '"floor"', '"__import__(\'os\').system(\'touch fuzzed\')"', '"9**9**9"',
    '"x**x"', '"(" ', '"sqrt(-x)"', '"1/(x-x)"', '"lambda: 0"', '"exp(exp(exp(x)))"', '"x.__class__"', '"[1]"', '"t"',
    '"x**2"', '"-x**2-y**2-z**2"', '"x**4+y**4+z**4-1"', '"sqrt(x)"', '"log(x)"', '"abs(x)+abs(y)+abs(z)-1"', "1979-05-27",
    '{ kind = "Sphere", radius = -1 }', '{ kind = "Lens" }', '"all"', '["all", "all"]', '"\\u0000"', "'''a\nb'''",
]  # fmt: skip
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.fork",
    "os.remove",
    "os.rename",
    "subprocess.Popen",
    "socket.connect",
    "shutil.rmtree",
)


def mutated(text: str, rng: random.Random) -> str:
    """One to four changes to the text of a file."""
    for _ in range(rng.randint(1, 4)):
        lines = text.split("\n")
        i, kind = rng.randrange(len(lines)), rng.randrange(9)
        if kind == 0 and text:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice("\"'[]{}=.,#\n -+e0x\x00é\\") + text[at + rng.randint(0, 2) :]
            continue
        if kind == 1:
            lines.pop(i)
        elif kind == 2:
            lines.insert(rng.randrange(len(lines)), lines[i])
        elif kind == 3:
            lines[i] = lines[i][: rng.randint(0, len(lines[i]))]
        elif kind == 4 and "=" in lines[i]:
            lines[i] = lines[i].split("=")[0] + "= " + rng.choice(TRAPS)
        elif kind == 5:
            words = lines[i].replace(",", " , ").replace("]", " ] ").split(" ")
            words[rng.randrange(len(words))] = rng.choice(TRAPS)
            lines[i] = " ".join(words)
        elif kind == 6 and "=" in lines[i]:
            lines[i] = (
                rng.choice(["format", "units", "name", "shape", "parts", "mass", "bodies", "h"])
                + " ="
                + lines[i].split("=")[1]
            )
        elif kind == 7 and '"' in lines[i]:
            parts = lines[i].split('"')
            parts[1::2] = [formula(rng, 4) if rng.random() < 0.7 else part for part in parts[1::2]]
            lines[i] = '"'.join(parts)
        elif kind == 8:
            j = rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
        text = "\n".join(lines)
    return text


# by kind: what each argument may be; "#" is a length, "v" a vector, "0" a number, "n" a unit
# vector, "f" a formula
SHAPES = {
    "Sphere": {"radius": "#"}, "Ellipsoid": {"semi_axes": "###"}, "Disc": {"radius": "#"}, "Ellipse": {"semi_axes": "##"},
    "Box": {"half_sizes": "###"}, "Wedge": {"length": "#", "width": "#", "height": "#"},
    "Cylinder": {"radius": "#", "half_height": "#"}, "Capsule": {"radius": "#", "half_length": "#"},
    "Frustum": {"radius_bottom": "#", "radius_top": "#", "height": "#"}, "Cone": {"radius": "#", "height": "#", "tip": "0"},
    "Lens": {"radius_1": "#", "radius_2": "#", "thickness": "#"}, "HalfSpace": {"normal": "n", "offset": "0"},
    "HalfPlane": {"normal": "n", "offset": "0"}, "Superquadric": {"semi_axes": "###", "epsilon": "##"},
    "Polytope": {"vertices": "vvvvvv"}, "Point": {"length": "#"}, "Rounded": {"shape": "s", "radius": "#"},
    "cut": {"shape": "s", "normal": "n", "offset": "0"}, "Intersection": {"parts": "ss"},
    "ImplicitShape": {"inequalities": "f"},
}  # fmt: skip
JOINTS = {
    "BallJoint": "pp", "Hinge": "ppaa", "Slider": "ppaa", "Cylindrical": "ppaa", "Screw": "ppaal", "Planar": "ppaa",
    "Universal": "ppaa", "Fixed": "pp", "Distance": "ppd", "Spring": "ppdk", "gear": "g", "spring along": "jk",
    "motion along": "jf", "limit along": "js", "motor along": "jm", "Weld": "pp",
}  # fmt: skip
KEYS = {
    "p": ("point_1", "point_2"), "a": ("axis_1", "axis_2"), "l": ("lead",), "d": ("length",), "k": ("stiffness", "damping"),
    "j": ("joint",), "f": ("formula",), "s": ("side", "bound"), "m": ("speed", "most"), "g": ("joints", "ratio"),
}  # fmt: skip


def value(rng: random.Random, kind: str) -> str:
    """The text of a value of these kinds, or a trap in its place."""
    if rng.random() >= 0.96:  # (for Hypothesis a file with small draws is a simple one)
        return rng.choice(TRAPS)
    if kind in ("s", "ss"):
        one = shape(rng)
        return one if kind == "s" else f"[{one}, {shape(rng)}]"
    if kind == "f":
        return f'["{formula(rng, 4)}"]' if rng.random() < 0.3 else '["x**2 + 2*y**2 + z**4 - 1"]'
    if kind == "n":
        return rng.choice(["[0, 0, 1]", "[0, 1]", "[1, 1, 1]", "[0.6, 0.8]", "[0, 0.6, 0.8]"])
    made = [f"[{', '.join(str(round(rng.uniform(-1, 1), 2)) for _ in range(3))}]" if one == "v"
            else str(round(rng.uniform(0.05, 1) if one == "#" else rng.uniform(-1, 1), 3)) for one in kind]  # fmt: skip
    return made[0] if len(made) == 1 else f"[{', '.join(made)}]"


def shape(rng: random.Random) -> str:
    """The table of a shape."""
    kind = rng.choice(list(SHAPES))
    given = {key: value(rng, what) for key, what in SHAPES[kind].items() if rng.random() < 0.98}
    return "{ " + ", ".join(f"{key} = {text}" for key, text in {"kind": f'"{kind}"', **given}.items()) + " }"


def made(rng: random.Random) -> str:
    """A file with one to four bodies, what joins them and how it is run, from the schema."""
    names = [f"body {n}" for n in range(rng.randint(1, 4))]
    pair = lambda: f'["{rng.choice(names)}", "{rng.choice([*names, "floor"])}"]'  # noqa: E731
    lines = [f"format = {value(rng, '#') if rng.random() >= 0.98 else 1}"]
    lines += [f'units = "{rng.choice(["m", "mm", "in", "parsec"])}"'] if rng.random() >= 0.7 else []
    lines += ["[scene]", f"dimension = {rng.choice([2, 3])}"] if rng.random() >= 0.7 else []
    lines += ["[[body]]", 'name = "floor"', "fixed = true", 'shape = { kind = "HalfSpace", normal = [0, 0, 1] }']
    for name in names:
        parts = rng.random() >= 0.8
        of = f"parts = [{{ shape = {shape(rng)} }}, {{ shape = {shape(rng)}, position = {value(rng, '000')} }}]"
        given = {
            "velocity": "000",
            "spin": "000",
            "force": "000",
            "centre_of_mass": "000",
            "quaternion": "0000",
            "mass": "#",
        }
        lines += ["[[body]]", f'name = "{name}"', of if parts else f"shape = {shape(rng)}", f"density = {value(rng, '#')}"]
        lines += [f"position = {value(rng, '000')}"] if rng.random() < 0.95 else []
        lines += [f"{key} = {value(rng, what)}" for key, what in given.items() if rng.random() >= 0.92]
    for _ in range(rng.randint(0, 3)):
        rules = [f"bodies = {pair()}", 'bodies = "all"', f"among = {pair()}", f"between = [{pair()}, {pair()}]"]
        lines += ["[[contact]]", rng.choice(rules), f"friction = {value(rng, '#')}"]
        lines += ["compliance = { stiffness = 1e5, dissipation_time = 0.1 }"] if rng.random() >= 0.9 else []
        lines += [f"restitution = {value(rng, '#')}"] if rng.random() >= 0.9 else []
    texts = {"axis_1": "n", "axis_2": "n", "point_1": "000", "point_2": "000"}
    words = {"joint": '"j0"', "formula": '"0.1*sin(2*t)"', "side": '"low"', "joints": '["j0", "j1"]'}
    for n in range(rng.randint(0, 3)):
        kind = rng.choice(list(JOINTS))
        lines += ["[[joint]]", f'kind = "{kind}"', f'name = "j{n}"']
        lines += [f"bodies = {pair()}"] if JOINTS[kind][0] == "p" else []
        lines += ["project = true"] if rng.random() >= 0.7 else []
        for key in (key for what in dict.fromkeys(JOINTS[kind]) for key in KEYS[what]):
            lines.append(f"{key} = {words.get(key) or value(rng, texts.get(key, '#'))}")
    run = rng.choice(["h = 0.01", "tol = 1e-6", "h = 0.01\ntol = 1e-6", f"h = {value(rng, '#')}", 'stepper = "Convex"'])
    return "\n".join([*lines, "[run]", f"duration = {value(rng, '#')}", run])


def formula(rng: random.Random, depth: int) -> str:
    """A formula, mostly of what is allowed."""
    if depth == 0 or rng.random() < 0.15:
        good = ["x", "y", "z", "a", "1", "2", "0.5", "-1", "pi", "3.7e-3", "x**2", "(x/a)**4"]
        bad = ["0", "1e999", "e", "1j", "''", "x.y", "x[0]", "9**99", "1e308", "10**200", "__import__", "None", "(x)", "t"]
        return rng.choice(good if rng.random() < 0.92 else bad)
    a, b = formula(rng, depth - 1), formula(rng, depth - 1)
    kind = rng.random()
    if kind < 0.6:
        return f"({a}{rng.choice([' + ', ' - ', '*', '/'])}{b})"
    if kind < 0.75:
        return f"({a})**{rng.choice(['2', '4', '3', '-1', '0.5', '1.5', '(1/3)', b])}"
    if kind < 0.95:
        name = rng.choice([*FUNCTIONS, "max", "step"])
        return f"{name}({', '.join([a, '3', '2'][: FUNCTIONS.get(name, (1,))[0]])})"
    return rng.choice([f"{a} <= {b}", f"{a} if {b} else 1", f"lambda x: {a}", f"{a}^{b}", f"[{a}]", f"{a} {b}", f"f({a})"])


def outcome(text: str) -> str:
    """Of reading one file: "scene", "refused", or what went wrong."""
    try:
        scene = toml.scene_of(toml.read(text))
        scene.build()
        if scene.run is not None:
            stepper_of(scene.run)
    except (SceneFileError, ValueError):
        # of the last two lines: no body moves, or a stepper that there is not
        return "refused"
    except Exception:
        return traceback.format_exc()
    return "scene"


def formula_outcome(text: str) -> str:
    """Of reading one formula."""
    try:
        parse(text, {"x": x, "y": y, "z": z})
    except ShapeError:
        return "refused"
    except Exception:
        return traceback.format_exc()
    return "formula"


def files():
    """Both kinds of files, by a strategy of Hypothesis: it makes the least of a wrong one."""
    chosen, texts = st.randoms(use_true_random=False), [path.read_text() for path in SCENES]
    return st.one_of(st.builds(mutated, st.sampled_from(texts), chosen), st.builds(made, chosen))


class Tally:
    """How many files had each outcome, the longest CPU time [s] of each, and what was done that
    only code of a file could do."""

    def __init__(self):
        self.forbidden, self.judging = [], False
        sys.addaudithook(self.watch)
        self.counts = collections.Counter()
        self.slowest = {"scene": 0.0, "refused": 0.0, "formula": 0.0}

    def watch(self, event, arguments) -> None:
        if self.judging and event in FORBIDDEN:
            self.forbidden.append(f"{event} {arguments}")

    def add(self, judge, text: str) -> str:
        """The outcome of one more."""
        begun, self.judging = time.process_time(), True
        found = judge(text)
        taken, self.judging = time.process_time() - begun, False
        self.counts[found if found in self.slowest else "WRONG"] += 1
        if found not in self.slowest:
            print(f"{found}\n--- of\n{text}\n======", file=sys.stderr)
        elif taken > self.slowest[found]:
            self.slowest[found] = taken
            if taken > 0.5:
                print(f"{taken:.2f} s, {found}:\n{text}\n", file=sys.stderr)
        return found


def choose(count: int, seed: int, tally: Tally) -> None:
    """So many files as Hypothesis chooses them; ends with the least wrong one, if there is one."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    @hypothesis.given(files())
    def check(text):
        assert tally.add(outcome, text) in tally.slowest

    check()


def main() -> None:
    """Prints how many there were of each outcome, and the longest time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--made", type=int, default=0)
    parser.add_argument("--formulas", type=int, default=0)
    parser.add_argument("--hypothesis", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, texts, tally = random.Random(arguments.seed), [path.read_text() for path in SCENES], Tally()
    jobs = [(outcome, mutated(rng.choice(texts), rng)) for _ in range(arguments.count)]
    jobs += [(outcome, made(rng)) for _ in range(arguments.made)]
    jobs += [(formula_outcome, formula(rng, rng.randint(1, 7))) for _ in range(arguments.formulas)]
    for text in texts:
        outcome(text)  # first calls are not counted
    for judge, text in jobs:
        tally.add(judge, text)
    if arguments.hypothesis:
        choose(arguments.hypothesis, arguments.seed, tally)
    slowest = {k: round(v, 3) for k, v in tally.slowest.items()}
    print(dict(tally.counts), "slowest [CPU s]", slowest, "forbidden calls:", tally.forbidden)


if __name__ == "__main__":
    main()
