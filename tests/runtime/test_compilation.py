"""What a user waits for at first: every program of a run is compiled once, ahead of the run, and
never again for other numbers."""

import functools
import gc
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.paper import scenes
from implicit_stepper.runtime import compilation, compilation_cache
from implicit_stepper.runtime.compilation import in_one_piece, jit, prepare
from implicit_stepper.stepping.loop import programs

RUNS = """
import collections, jax, shapes, sys
import implicit_stepper as ist
from implicit_stepper.runtime import progress

progress.SECONDS, progress._MOST_AT_FIRST = 0.0, 1  # one problem a call: what a program hands back, it takes again
compiled = collections.Counter()

def note(event, duration, fun_name="", **more):
    if event.endswith("/backend_compile_duration") and "<lambda>" not in fun_name:  # `compilation` asks for options so
        compiled[fun_name] += 1

shape, stepper, choice = eval(sys.argv[1])
for mass, spin in ((1.0, 3.0), (2.0, 1.0)):
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    body = scene.add_body(
        name="body", shape=shape, mass=mass, inertia=[mass * i for i in (0.1, 0.11, 0.12)],
        position=(0, 0, 0.5), velocity=(1, 0, 0, 0, 0, spin),
    )
    scene.add_contact(floor, body, friction=0.3)
    jax.monitoring.register_event_duration_secs_listener(note)
    ist.simulate(scene, stepper, duration=0.1, **choice)
    print(*(f"{name}={count}" for name, count in compiled.items()))
    compiled.clear()
    jax.monitoring.clear_event_listeners()
"""


STEPS = {"closest_of_form": 1, "init": 1, "_march": 1, "certificates": 1}
LADDER = {"without_cuts", "_cut"}  # for a step that its warm start does not solve
CHOSEN = {"closest_of_form": 1, "resume": 1, "advance": 1, "here": 1, "certificates": 1}


@pytest.mark.parametrize(
    ("run", "programs"),
    [
        ("shapes.Sphere(0.5), ist.GeometricallyImplicit(), {'h': 0.01}", STEPS),
        ("shapes.Sphere(0.5), ist.RadauContact(), {'tol': 1e-6}", CHOSEN),
        # steps of one stage, with certificates of their own, find the forces in faces
        pytest.param(
            "shapes.Box((0.5, 0.5, 0.5)), ist.RadauContact(), {'tol': 1e-6}",
            STEPS | CHOSEN | {"certificates": 2, "sudden": 1, "remembered": 1, "_later": 1, "_closing": 1},
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_run_compiles_its_programs_once_and_nothing_else(run, programs):
    script = subprocess.run([sys.executable, "-c", RUNS, run], capture_output=True, text=True, check=True)
    entries = [[entry.split("=") for entry in line.split()] for line in script.stdout.splitlines()]
    first, second = ({name[len("jit(") : -1]: int(count) for name, count in run} for run in entries)
    assert {name: count for name, count in first.items() if name not in LADDER} == programs
    assert set(second) <= LADDER


def test_preparing_compiles_for_shapes_alone_and_once():
    traced = []

    @jit
    def doubled(x):
        traced.append("doubled")
        return 2 * x

    @jit
    def summed(x, y):
        traced.append("summed")
        return x @ y

    def programs(ahead, stepper, x):
        traced.append(stepper)
        ahead(summed, x, ahead(doubled, x))

    for x in (np.arange(3.0), np.ones(3)):
        prepare(programs, "stepper", x)
    assert traced == ["stepper", "doubled", "summed"]
    assert float(summed(x, doubled(x))) == 6.0
    assert traced == ["stepper", "doubled", "summed"]
    prepare(programs, "stepper", np.ones(4))
    assert traced == 2 * ["stepper", "doubled", "summed"]


def test_static_arguments_may_be_left_to_their_defaults():
    @functools.partial(jit, static_argnums=(0, 2), apart=True)
    def scaled(power, x, factor=2.0):
        return factor * x**power

    for arguments, expected in (((2, 3.0), 18.0), ((2, 3.0, 10.0), 90.0), ((1, 3.0), 6.0), ((1, 4.0), 8.0)):
        assert float(scaled(*arguments)) == expected


def test_scenes_that_differ_in_names_alone_share_programs():
    """What is traced for one serves the other; each keeps its names."""
    traced = []

    def weight(system):
        traced.append(system.names)
        return system.mass @ np.ones(len(system.names))

    program, systems = jit(weight), []
    for names in (("egg",), ("ball",), ("egg", "ball")):
        scene = ist.Scene()
        for name in names:
            scene.add_body(name=name, shape=shapes.Sphere(0.1), mass=2.0, position=(len(name), 0, 0))
        systems.append(scene.build()[0])
        assert program(systems[-1]) == 2.0 * len(names)
        assert jax.tree.map(np.asarray, systems[-1]).names == names
    assert traced == [("egg",), ("egg", "ball")]
    one, other, more = map(jax.tree.structure, systems)
    assert one == other != more


def test_programs_of_the_last_structures_are_kept_and_the_others_come_back(monkeypatch):
    monkeypatch.setattr(compilation, "_KEPT", 2)
    doubled = jit(lambda x: 2 * x, apart=True)
    for size in (1, 2, 3, 1, 3):
        np.testing.assert_array_equal(doubled(np.ones(size)), np.full(size, 2.0))
        assert len(doubled.prepared) <= 2
    assert [shape.shape for _, _, (shape,) in doubled.prepared] == [(2,), (3,)]


def test_the_library_leaves_the_collector_alone_and_a_process_of_its_own_has_it_look_less_often():
    seen = []

    @jit
    def fails(x):
        seen.append((gc.isenabled(), gc.get_threshold()))
        raise ArithmeticError("in tracing")

    def compiles(x, *, where):
        prepare(lambda ahead, stepper, x: ahead(fails, x), where, x)

    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        for one in (compiles, ist.faster_tracing(compiles)):
            with pytest.raises(ArithmeticError, match="in tracing"):
                one(jax.numpy.ones(3), where=one)
        assert gc.get_threshold() == (700, 10, 10)
        assert ist.faster_tracing(lambda x: 2 * x)(4) == 8
    finally:
        gc.set_threshold(*before)
    assert seen == [(True, (700, 10, 10)), (True, (50_000, 20, 100))]


CACHED = """
import jax, sys
import implicit_stepper as ist

print(ist.use_compilation_cache(*sys.argv[1:]))
seen = []
jax.monitoring.register_event_listener(lambda event, **more: seen.append(event))
jax.jit(lambda x: x + 1)(1.0)  # compiled in no time
print(*(sum(event.endswith(kind) for event in seen) for kind in ("cache_hits", "cache_misses")))
"""


def _cached(*arguments, **environment):
    """Folder, hits and misses of a new process."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")} | environment
    script = subprocess.run(
        [sys.executable, "-c", CACHED, *map(str, arguments)], capture_output=True, text=True, env=settings, check=True
    )
    folder, counts = script.stdout.splitlines()
    return folder, *map(int, counts.split())


def test_what_one_process_compiled_another_loads(tmp_path):
    assert _cached(tmp_path) == (str(tmp_path), 0, 1)
    assert _cached(JAX_COMPILATION_CACHE_DIR=str(tmp_path)) == (str(tmp_path), 1, 0)


@pytest.fixture
def _settings_left_alone(monkeypatch):
    """The cache of these tests is that of pytest."""
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"])
    names = ("dir", "min_compile_time_secs", "min_entry_size_bytes")
    names = ["jax_compilation_cache_dir", *(f"jax_persistent_cache_{name}" for name in names[1:])]
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.compilation_cache.reset_cache()


@pytest.mark.usefixtures("_settings_left_alone")
def test_the_compilation_cache_is_where_the_user_keeps_caches(tmp_path, monkeypatch):
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ist.use_compilation_cache() == tmp_path / "implicit-stepper"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "implicit-stepper")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert ist.use_compilation_cache() == tmp_path / "implicit-stepper"  # JAX has been told where


@pytest.mark.usefixtures("_settings_left_alone")
def test_folders_of_the_compilation_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    jax.config.update("jax_compilation_cache_dir", None)
    with pytest.raises(OSError, match="`path` = .*file/folder' cannot be written"):
        ist.use_compilation_cache(tmp_path / "file" / "folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert ist.use_compilation_cache() is None
    assert jax.config.jax_compilation_cache_dir is None


@pytest.mark.usefixtures("_settings_left_alone")
def test_the_compilation_cache_is_bounded(tmp_path, monkeypatch):
    for age, name in enumerate(("young-cache", "old-cache", "older-cache", "notes.txt")):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    monkeypatch.setattr(compilation_cache, "_ROOM", 250)
    ist.use_compilation_cache(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["notes.txt", "old-cache", "young-cache"]


# Of the programs of example 3, with room for 5 %: a first call from a full cache waits for these to
# be traced and lowered, some .4 ms each (docs/decisions/0021-first-calls.md). Other versions of JAX
# write the same programs with others.
EQUATIONS = {"closest_of_form": 2320, "init": 276, "_march": 2900, "certificates": 930}


@pytest.mark.skipif(jax.__version__ != "0.10.1", reason="equations were counted with jax 0.10.1")
def test_first_calls_trace_no_more_than_they_did():
    stepper = ist.GeometricallyImplicit()
    system, state = jax.device_put(scenes.two_spheres().build())
    traced = {}

    def ahead(program, *arguments):
        static = (0,) if arguments[0] is stepper else ()
        found = jax.jit(program.__wrapped__, static_argnums=static).trace(*arguments)
        traced[program.__name__] = _equations(found.jaxpr.jaxpr)
        return found.out_info

    programs(ahead, stepper, system, state, 0.01)
    assert traced.keys() == EQUATIONS.keys()
    assert all(count <= EQUATIONS[name] for name, count in traced.items()), traced


def _equations(jaxpr) -> int:
    """With those of inner programs."""
    inner = jax.tree.leaves([list(e.params.values()) for e in jaxpr.eqns], is_leaf=lambda value: hasattr(value, "eqns"))
    return len(jaxpr.eqns) + sum(_equations(getattr(one, "jaxpr", one)) for one in inner if hasattr(one, "eqns"))


def test_no_loop_is_shared_out_over_cores(monkeypatch):
    """Nor is what the user leaves out forgotten."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=reshape-mover,dot-merger --xla_cpu_max_isa=AVX2")
    options = compilation._options.__wrapped__(False)
    assert options["xla_disable_hlo_passes"] == "reshape-mover,dot-merger,cpu-parallel-task-assigner"
    found = {}
    for name, given in {"ours": options, "plain": {"xla_disable_hlo_passes": ""}}.items():
        text = jax.jit(lambda x: jnp.exp(x) + 1.0, compiler_options=given).lower(jnp.zeros(10**7)).compile().as_text()
        found[name] = "outer_dimension_partitions" in text
    assert not found["ours"]
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    assert found["plain"] == (len(cores) > 1)  # else the line before could not fail


def test_a_loop_in_one_piece_is_the_same_loop(monkeypatch):
    """Its operations would be dispatched one by one, each time round."""

    def halved(begun):
        return jax.lax.fori_loop(0, 40, lambda _, now: (now[0].at[::2].multiply(0.5), now[1] + scale), begun)

    scale = jnp.linspace(1.0, 2.0, 400)
    begun = jnp.ones(400), 0 * scale
    one = jax.jit(functools.partial(in_one_piece, halved))
    for found, expected in zip(one(begun), jax.jit(halved)(begun), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert "xla_cpu_small_call" in one.lower(begun).as_text()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "xla_cpu_small_call" not in jax.jit(lambda at: in_one_piece(halved, at)).lower(begun).as_text()
