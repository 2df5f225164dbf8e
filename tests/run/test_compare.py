"""Comparisons: every number of the table against a closed form on the sliding block, failures
named, files and figures."""

import csv
import dataclasses
import re

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.commands import compare as command
from implicit_stepper.commands import main
from implicit_stepper.output import comparison_plots
from implicit_stepper.paper import comparisons, scenes
from implicit_stepper.run import compare, references
from implicit_stepper.stepping import fallback

G, MU, SPEED = 9.81, 0.5, 6.0
METHODS = {name: comparisons.METHODS[name] for name in ("implicit", "ccp")}


class _Lost(ist.GeometricallyImplicit):
    """Solves nothing after .1 s, and has one other start to try: `test_robustness` climbs the
    ladder, whose programs take long to compile."""

    @property
    def can(self):
        return dataclasses.replace(super().can, divisible=False)

    def restarts(self, system, state, memory, h):
        yield "free flight", memory

    def step(self, system, state, memory, h):
        step = super().step(system, state, memory, h)
        late = state.time > 0.1
        wrong = dataclasses.replace(step.state, velocity=step.state.velocity + late)
        return dataclasses.replace(step, state=wrong, result=step.result + late * int(ist.Result.NOT_CONVERGED))


@pytest.fixture(scope="module")
def comparison():
    steppers = METHODS | {"closed-form": ist.ClosedFormGap(gaps=()), "lost": _Lost()}
    case = comparisons.CASES["block"]
    return ist.compare(case.scene(), steppers, (0.01, 0.02), case.reference, duration=0.4, progress=False)


def entry(comparison, method, h):
    return next(e for e in comparison.entries if (e.method, e.h) == (method, h))


def test_entries_come_method_after_method_with_the_largest_step_first(comparison):
    assert [(e.method, e.h) for e in comparison.entries[:4]] == [
        ("implicit", 0.02), ("implicit", 0.01), ("ccp", 0.02), ("ccp", 0.01)
    ]  # fmt: skip


@pytest.mark.parametrize("h", [0.02, 0.01])
def test_the_implicit_step_lags_by_half_a_step_of_braking(comparison, h):
    """x after n steps is v t - mu g t (t + h)/2: short of the exact parabola by mu g t h/2."""
    found = entry(comparison, "implicit", h)
    assert found.error == pytest.approx(MU * G * 0.4 * h / 2, abs=1e-10)
    assert found.velocity_error <= 1e-9
    assert found.gap <= 1e-12
    assert (found.predicted, found.failure) == (0.0, "")
    assert found.seconds > 0
    if h == 0.01:
        assert found.order == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("h", [0.02, 0.01])
def test_the_artifact_of_the_relaxation_is_predicted(comparison, h):
    """In its first step the block slides at v - mu g h - mu v_n, is launched, and rises to mu h
    times that speed."""
    found = entry(comparison, "ccp", h)
    launch = MU * (SPEED - MU * G * h) / (1 + MU**2)
    expected = MU * h * (SPEED - MU * G * h - MU * launch)
    assert found.predicted == pytest.approx(expected, abs=1e-10)
    assert found.measured == pytest.approx(expected, abs=1e-10)
    assert found.velocity_error >= launch


def test_methods_that_fail_are_named_and_the_others_go_on(comparison):
    lost = entry(comparison, "lost", 0.02)
    assert lost.failure.startswith("not converged at t = 0.14")
    assert len(comparison.trajectories["lost", 0.02]) == 6
    # a shorter run has smaller errors: no number of it stands beside those of whole ones
    assert np.all(np.isnan([lost.error, lost.velocity_error, lost.gap, lost.energy, lost.measured, lost.iterations]))
    assert "| lost | 0.02 |  |" in comparison.table()
    refused = ist.compare(
        scenes.two_spheres(),
        {"closed-form": ist.ClosedFormGap(), "ccp": METHODS["ccp"]},
        [0.05],
        lambda times: (np.ones((len(times), 1, 3)), np.ones((len(times), 1, 6))),
        duration=0.1,
    )
    assert refused.entries[0].failure.startswith("refused: there is no closed form")
    assert np.isnan(refused.entries[0].error)
    assert refused.entries[1].failure == ""
    assert "no closed form" in refused.table()


def test_a_trajectory_serves_as_reference():
    case = comparisons.CASES["block"]
    fine = ist.simulate(case.scene(), METHODS["implicit"], h=0.005, duration=0.4)
    found = ist.compare(case.scene(), {"implicit": METHODS["implicit"]}, [0.02], fine, duration=0.4)
    assert found.entries[0].error == pytest.approx(MU * G * 0.4 * (0.02 - 0.005) / 2, abs=1e-10)
    for end, h, step in ((0.4, 0.008, 0.005), (0.007, 0.003, 0.005)):  # the last step, which is cut, divides nothing
        with pytest.raises(
            ValueError, match=rf"`reference` has no state at t = {h} s: its step {step} s must divide every `h`"
        ):
            ist.compare(case.scene(), {"implicit": METHODS["implicit"]}, [h], _until(fine, end), duration=end)


def _until(run, end):
    """As if its last step had been cut at `end` [s]."""
    cut = run[: int(np.ceil(end / run.h - 1e-6))]
    return dataclasses.replace(cut, time=np.append(cut.time[:-1], end))


def test_methods_whose_times_are_not_known_are_refused_before_any_run(monkeypatch):
    """Against a trajectory of fixed steps, which has nothing between them."""
    case = comparisons.CASES["block"]
    fine = ist.simulate(case.scene(), METHODS["implicit"], h=0.02, duration=0.4)
    monkeypatch.setattr(compare, "_result", lambda *run: pytest.fail(f"{run} was made"))
    methods = {"implicit": METHODS["implicit"], "radau": ist.Adaptive(ist.RadauContact(), 1e-6)}
    with pytest.raises(
        ist.errors.ComparisonError, match=r"its steps of 0.02 s alone.*`Adaptive`.*RadauContact\(\) with `tol`"
    ):
        ist.compare(case.scene(), methods, [0.02], fine, duration=0.4)


@pytest.mark.thorough
def test_rebounds_are_compared_with_a_run_that_has_their_times(monkeypatch):
    """With itself, which differs by nothing, before and after impacts. One whose impact is at
    another time fails, and the run before it stays."""

    def falling(height):
        scene = ist.Scene(dimension=2)
        ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
        disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.1 + height), velocity=(0, -1, 0))
        scene.add_contact(ground, disc, restitution=ist.Newton(0.5))
        return scene

    euler = METHODS["implicit"]
    own, above = (ist.simulate(falling(height), euler, h=0.02, duration=0.06) for height in (0.03, 9.0))
    assert np.sum(np.diff(own.time) == 0) == 1
    methods = {"first": euler, "second": euler}
    found = ist.compare(falling(0.03), methods, [0.02], own, duration=0.06, progress=False)
    for entry in found.entries:
        assert (entry.failure, entry.error, entry.velocity_error, entry.energy) == ("", 0, 0, 0)
    with pytest.raises(ist.errors.ComparisonError, match="and at its impacts, which with `h` = 0.01 s are at other times"):
        ist.compare(falling(0.03), methods, [0.01], own, duration=0.06)
    made = iter([above, own])
    monkeypatch.setattr(compare, "_result", lambda *_: (next(made), 1e-3, ""))
    found = ist.compare(falling(0.03), methods, [0.02], above, duration=0.06, progress=False)
    first, second = found.entries
    impact = own.time[1:][np.diff(own.time) == 0][0]
    assert (first.failure, first.error) == ("", 0)
    assert second.failure.startswith(f"not compared: `reference` has no state at t = {impact:.9g} s")
    assert np.isnan([second.error, second.gap, second.seconds]).all()
    assert found.trajectories["second", 0.02] is own
    assert set(comparison_plots.figures(found)) == {"convergence", "work_precision", "through_time"}


def test_chosen_steps_are_a_method_and_a_reference():
    """The block's motion is a parabola until it stops, which three stages step exactly, up to the
    certificate."""
    case = comparisons.CASES["block"]
    fine = ist.simulate(case.scene(), ist.RadauContact(), tol=1e-8, duration=0.4)
    methods = {"implicit": METHODS["implicit"], "radau:1e-8": ist.Adaptive(ist.RadauContact(), 1e-8)}
    reported = []
    found = ist.compare(case.scene(), methods, [0.02], fine, duration=0.4, report=reported.append)
    assert tuple(reported) == found.entries
    euler, radau = found.entries
    assert euler.error == pytest.approx(MU * G * 0.4 * 0.02 / 2, abs=1e-10)
    assert radau.error <= 1e-10
    assert radau.tol == 1e-8
    assert radau.h == pytest.approx(0.4 / len(found.trajectories["radau:1e-8", 1e-8]))
    assert "| radau:1e-8 | tol 1e-08 |" in found.table()
    # as if it began with an impact, of which the polynomials know what is after it alone
    struck = dataclasses.replace(fine, time=np.append(fine.time[0], fine.time[[0, *range(2, len(fine.time))]]))
    states = references.reference_of(struck)(struck.time)
    for known, state in zip((fine.position, fine.velocity, fine.orientation), states, strict=True):
        np.testing.assert_array_equal(state, known)
    assert set(comparison_plots.figures(found)) == {"convergence", "work_precision", "through_time"}


def test_chosen_steps_end_at_the_switches_of_a_scene_file(monkeypatch, tmp_path, capsys):
    """Those of the reference and of methods, as far as a run goes; steps of a fixed h have none."""
    asked, path = [], tmp_path / "switched.toml"
    path.write_text(
        """format = 1
        [scene]
        dimension = 2
        [[body]]
        name = "disc"
        shape = { kind = "Disc", radius = 0.1 }
        mass = 1.0
        position = [0.0, 0.0]
        force = ["10*step(t-0.05)", 0.0]
        [run]
        tol = 1e-6
        duration = 0.1
        switches = [0.05]
        """
    )

    def told(scene, stepper, **choice):
        asked.append(choice.get("switches"))
        if choice.get("on_failure") != "return":  # as the run before the one that is timed has it
            raise ist.errors.RunError("it is told what to run.")

    for module in (compare, command):
        monkeypatch.setattr(module, "simulate", told)
    for duration in ("0.1", "0.04"):
        given = ["compare", str(path), "--methods", "implicit", "--h", "0.01", "--out", str(tmp_path / "out")]
        assert main.main([*given, "--duration", duration]) == 2
    assert asked == [(0.05,), ()]
    methods = {"implicit": METHODS["implicit"], "radau": ist.Adaptive(ist.RadauContact(), 1e-6)}

    def rests(times):
        return np.zeros((len(times), 1, 2)), np.zeros((len(times), 1, 3))

    found = ist.compare(ist.load_scene(path), methods, [0.01], rests, duration=0.1, progress=False)
    assert {entry.failure for entry in found.entries} == {"refused: it is told what to run."}
    assert asked[2:] == [None, None, (), (0.05,)]


def test_a_comparison_that_is_interrupted_keeps_its_runs(monkeypatch, tmp_path, capsys):
    """In the second run: the first is whole, the second as far as it got, and the command writes
    both."""
    case, real, made = comparisons.CASES["block"], fallback.warm, []

    def warm(*arguments):
        made.append(arguments)
        if len(made) == 5:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(fallback, "warm", warm)
    with pytest.raises(ist.ComparisonInterrupted, match="interrupted after 1 of 2 runs") as caught:
        ist.compare(case.scene(), {"implicit": METHODS["implicit"]}, [0.01, 0.02], case.reference, duration=0.4)
    whole, part = caught.value.comparison.entries
    assert whole.failure == ""
    assert part.failure.startswith("interrupted at t = 0")
    made.clear()
    given = ["compare", "block", "--methods", "implicit", "--h", "0.01,0.02", "--duration", "0.4", "--out", str(tmp_path)]
    assert main.main(given) == 130
    printed = capsys.readouterr()
    assert "| implicit | 0.02 |" in printed.out
    assert f"interrupted; what was done until then is in {tmp_path}" in printed.err
    assert ist.load(tmp_path / "implicit-h=0.02.npz").time[-1] == pytest.approx(0.4)
    assert "interrupted at t = " in (tmp_path / "comparison.md").read_text()


def test_files_and_figures(comparison, tmp_path):
    tmp_path = tmp_path / "a" / "new folder"
    comparison.save(tmp_path)
    with (tmp_path / "comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["error"]) == comparison.entries[0].error
    assert ist.load(tmp_path / "ccp-h=0.01.npz").h == 0.01
    assert (tmp_path / "comparison.md").read_text().count("\n") == len(comparison.entries) + 2
    figures = comparison_plots.figures(comparison)
    assert set(figures) == {"convergence", "work_precision", "through_time"}
    drawn = {line.get_label() for line in figures["convergence"].axes[0].get_lines()}
    assert {"implicit", "ccp", "order 1"} <= drawn
    assert all(axes.get_ylabel() for figure in figures.values() for axes in figure.axes)


def test_files_of_steps_that_agree_in_six_digits_are_told_apart_and_bars_divide_no_cells(comparison, tmp_path):
    entry, near = comparison.entries[1], 0.01 * (1 + 1e-9)
    entries = [
        dataclasses.replace(entry, method="lin|x"),
        dataclasses.replace(entry, method="lin|x", h=near, failure="a\nb|"),
    ]
    runs = {own.key: comparison.trajectories[entry.key] for own in entries}
    dataclasses.replace(comparison, entries=tuple(entries), trajectories=runs).save(tmp_path)
    assert {path.name for path in tmp_path.glob("*.npz")} == {"lin|x-h=0.01.npz", f"lin|x-h={near!r}.npz"}
    header, _, *lines = (tmp_path / "comparison.md").read_text().splitlines()
    assert [line.replace("\\|", "").count("|") for line in lines] == [header.count("|")] * 2
    assert lines[1].endswith("| a b\\| |")


def test_the_command_compares_a_scene_of_the_users_own(tmp_path, capsys):
    (tmp_path / "mine.py").write_text("from implicit_stepper.paper import scenes\nscene = scenes.block()\n")
    out = tmp_path / "out"
    given = [str(tmp_path / "mine.py"), "--methods", "implicit,ccp", "--h", "0.02", "--duration", "0.1"]
    assert main.main(["compare", *given, "--reference", "implicit:0.01", "--out", str(out)]) == 0
    assert "| ccp | 0.02 |" in capsys.readouterr().out
    assert {"comparison.csv", "comparison.md", "convergence.png", "work_precision.png", "through_time.png"} <= {
        path.name for path in out.iterdir()
    }


def test_a_scene_file_says_how_long_it_is_compared_and_by_which_steps(tmp_path, capsys):
    scene = scenes.block()
    scene.run = ist.RunSettings(duration=0.04, h=0.02)
    scene.save(tmp_path / "mine.toml")
    given = [str(tmp_path / "mine.toml"), "--methods", "implicit", "--out", str(tmp_path / "out")]
    assert main.main(["compare", *given]) == 0
    printed = capsys.readouterr().out
    assert "reference: radau:1e-8" in printed
    assert printed.index("| implicit | 0.02 |") < printed.index("| implicit | 0.01 |")
    assert ist.load(tmp_path / "out" / "implicit-h=0.01.npz").time[-1] == pytest.approx(0.04)


def test_a_robot_s_file_says_by_which_steps_it_is_compared(tmp_path, capsys):
    """Its steps are those of its own simulator, and half of them."""
    (tmp_path / "ball.xml").write_text(
        "<mujoco><option timestep='0.02'/><worldbody><body><freejoint/><geom type='sphere' size='0.1' mass='1'/></body>"
        "</worldbody></mujoco>"
    )
    given = [str(tmp_path / "ball.xml"), "--methods", "explicit", "--duration", "0.04", "--reference", "explicit:0.01"]
    assert main.main(["compare", *given, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.index("| explicit | 0.02 |") < printed.index("| explicit | 0.01 |")
    assert ist.load(tmp_path / "out" / "explicit-h=0.01.npz").time[-1] == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "neither a file nor one of two-spheres, block, disc"),
        ([__file__], "The scene has no run settings that say it: it needs --h, --duration."),
        ([__file__, "--reference", "exact"], "--reference exact: only two-spheres, block, disc"),
        ([__file__, "--h", "x,y", "--methods", "magic,tricks"], "no 'magic'; the methods are "),
        ([__file__, "--h", "x,y", "--methods", "magic,tricks"], "there is no 'tricks'"),
        (
            [__file__, "--h", "x,y", "--methods", "magic,tricks"],
            "--h: 'x' is not a number above 0. --h: 'y' is not",
        ),
        ([__file__, "--h", "x,y", "--methods", "magic,tricks"], "that say it: it needs --duration."),
        (["block", "--methods", "ccp:1e-8"], "'ccp:1e-8' has fixed steps, from --h; radau can choose its steps"),
        (
            ["block", "--methods", "ccp,radau:1e-6", "--reference", "ccp:0.01"],
            "alone, and those of radau:1e-6 end at other times",
        ),
        (["block", "--methods", "magic"], "there is no 'magic'; the methods are implicit"),
        (["block", "--h", "small"], "--h: 'small' is not a number"),
        (["block", "--duration", "nan"], "--duration: 'nan' is not a number above 0"),
        (["block", "--reference", "magic:0.1"], "must be exact, METHOD:H or radau:TOL"),
        (["block", "--reference", "radau"], "--reference 'radau' lacks its tolerance: give radau:TOL, for instance 1e-8."),
        (["block", "--reference", "ccp:"], "--reference 'ccp:' lacks its step [s]: give ccp:H, for instance 0.001."),
        (
            ["block", "--methods", "radau:"],
            "--methods: 'radau:' lacks its tolerance: give radau:TOL, for instance radau:1e-8.",
        ),
        (["block", "--h", "-1"], "--h: '-1' is not a number above 0"),
        (["block", "--duration", "0"], "--duration: '0.0' is not a number above 0"),
    ],
)
def test_misuse_is_said(arguments, message, tmp_path, capsys):
    assert main.main(["compare", *arguments, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


_NO_NAMES = (1, None, "", " ", "lin/x", "..\\x", "two\nlines")


def _lost_between(times):
    """The motion of the block, which is not known between .25 and .35 s."""
    position, velocity = comparisons.sliding_block(times)
    return np.where((abs(times - 0.3) < 0.05)[:, None, None], np.nan, position), velocity


def test_a_reference_without_numbers_at_times_that_are_not_known_before_fails_the_run(monkeypatch):
    case = comparisons.CASES["block"]
    run = ist.simulate(case.scene(), METHODS["implicit"], h=0.02, duration=0.4)
    monkeypatch.setattr(compare, "_result", lambda *_: (run, 1e-3, ""))
    methods = {"radau": ist.Adaptive(ist.RadauContact(), 1e-6)}
    (entry,) = ist.compare(case.scene(), methods, [], _lost_between, duration=0.4, progress=False).entries
    assert entry.failure.startswith("not compared: `reference` returns positions at t = 0.26 s that are not finite")


def test_bad_arguments_are_refused():
    scene, reference = scenes.block(), comparisons.sliding_block
    for arguments, message in (
        ((3, METHODS, [0.1], reference), "`scene` = 3"),
        ((scene, {}, [0.1], reference), "`steppers` = {}"),
        ((scene, METHODS, [], reference), "`h` is empty"),
        *(((scene, {name: METHODS["ccp"]}, [0.1], reference), re.escape(f"has the name {name!r}")) for name in _NO_NAMES),
        (
            (scene, dict.fromkeys(("a:b", "a-b"), METHODS["ccp"]), [0.1], reference),
            "whose runs would both be 'a-b-h=0.1.npz'",
        ),
        ((scene, METHODS, 0.1, reference), r"`h` = 0.1 must be a list of steps \[s\], of one step \[0.1\]"),
        ((scene, METHODS, [0.1], 3), "`reference` = 3"),
        ((scene, METHODS, [0.1], lambda times: np.zeros(3)), r"returns an object of shape \(3,\) for 11 times"),
        ((scene, METHODS, [0.1], _lost_between), "returns positions at t = 0.3 s that are not finite"),
        (
            (scene, METHODS, [0.1], lambda times: times[99]),
            "must have all of 11 times from 0 to 1 s, and fails there: IndexErr",
        ),
        ((scene, METHODS, [0.1], lambda times: (times, times)), r"it needs positions \(11, 1, 3\), velocities \(11, 1, 6\)"),
    ):
        with pytest.raises(ValueError, match=message):
            ist.compare(*arguments, duration=1.0)
    for tol in (ist.Tolerance(1e-6), 0.0, "fine"):
        with pytest.raises(ValueError, match="`tol` ="):
            ist.Adaptive(ist.RadauContact(), tol)


def test_energies_of_bodies_that_tumble_are_of_their_own_orientation(tmp_path):
    """Of a brick; by a function without orientations none can be told. Figures need no contact."""
    scene = ist.Scene(gravity=(0, 0, 0))
    spinning = {"position": (0, 0, 0), "velocity": (0, 0, 0, 0.3, 5.0, 0.3)}
    scene.add_body(name="brick", shape=shapes.Box((0.1, 0.2, 0.3)), mass=1.0, inertia=(1.0, 2.0, 3.0), **spinning)
    steppers = {"implicit": ist.GeometricallyImplicit()}
    reference = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=1.0)
    made = ist.compare(scene, steppers, [0.02], reference, duration=1.0)
    run = made.trajectories["implicit", 0.02]
    apart = np.max(np.abs(run.kinetic_energy() - reference.kinetic_energy()[::2])) / np.max(reference.kinetic_energy())
    assert made.entries[0].energy == pytest.approx(apart, rel=1e-12)
    energies, *others = comparison_plots.figures(made)["through_time"].axes
    assert len(energies.lines) == 1
    assert [len(axes.lines) for axes in others] == [2, 0, 0]
    without = ist.compare(
        scene, steppers, [0.02], lambda times: (reference.position[::2], reference.velocity[::2]), duration=1.0
    )
    assert np.isnan(without.entries[0].energy)
    assert without.entries[0].error == made.entries[0].error


def test_a_run_that_begins_with_an_impact_begins_before_it():
    """Its first two nodes have one time; and sums of many steps are times of these."""
    scene = ist.Scene(dimension=2, gravity=(0, -9.81))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.1), velocity=(0, -2, 0))
    scene.add_contact(floor, disc, restitution=ist.Newton(0.5))
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.03)
    assert run.time[:2].tolist() == [0, 0]
    found = references.reference_of(run)(np.array([0.0, 0.01]))[1][:, 0, 1]
    np.testing.assert_allclose(found, [-2.0, 1.0 - 0.0981], rtol=0, atol=1e-9)
    late = dataclasses.replace(run, time=run.time * (1 + 4 * np.finfo(float).eps))
    references.reference_of(late)(np.array([0.01, 0.02, 0.03]))


def test_bodies_that_are_not_round_beside_a_heavy_one_have_no_energies_without_orientations():
    scene = ist.Scene(gravity=(0, 0, 0), acceleration_scale=1.0)
    heavy = {"mass": 1.0, "inertia": (1e6, 1e6, 1e6)}
    scene.add_body(name="heavy", shape=shapes.Sphere(0.1), position=(5, 0, 0), **heavy)
    plate = {"mass": 1.0, "inertia": (0.1, 0.2, 0.3), "velocity": (0, 0, 0, 1, 2, 3)}
    scene.add_body(name="plate", shape=shapes.Sphere(0.1), position=(0, 0, 0), **plate)
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.1, duration=0.2)
    assert np.all(np.isnan(compare._kinetic(run, run.velocity)))
    np.testing.assert_allclose(compare._kinetic(run, run.velocity, run.orientation), run.kinetic_energy())


def test_steps_longer_than_the_run_are_refused():
    with pytest.raises(ist.errors.ComparisonError, match="`h` = 0.2 s is longer than `duration` = 0.05 s"):
        ist.compare(scenes.block(), {"implicit": ist.GeometricallyImplicit()}, [0.2, 0.05], lambda t: None, duration=0.05)
