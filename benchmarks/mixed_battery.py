"""Random scenes of two to eight mixed bodies, audited by code that shares nothing with the solver.

    python benchmarks/mixed_battery.py --results mixed.jsonl
    python benchmarks/mixed_battery.py --replay 17 3

Runs the scenes of `mixed_scenes` whose results the file does not hold yet, adds a line for each,
and prints a Markdown table for docs/benchmarks.md of all that it holds: by how scenes start, the
steps, how many are lost, the largest violations in the `audit`, and the times of the dearest step
and of the dearest scene of 100 steps, without those of compiling.
Programs are kept on disk, but a process holds some .7 GB of them for each structure: give it few
at once (`--structures`).
"""

import argparse
import itertools
import json
import os
import signal
import time
from pathlib import Path
from unittest import mock

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import audit
import jax
import numpy as np
from mixed_scenes import GRAVITY, MORE, RANDOM, STARTS, draw, structure
from tqdm import tqdm

import implicit_stepper as ist
from implicit_stepper.stepping import fallback

STEPS = 100  # of a scene
ALLOWED = 1e-8  # in the audit, whose units are not quite the certificate's; that one asks for 1e-10
LIMIT = 600  # [s] after which a scene is stopped, and the step that it works on counted as lost
_COMPILED = []  # intervals of time in which JAX traced or compiled


def _compiled(event, seconds, **_):
    if "compil" in event or "trace" in event:
        _COMPILED.append((time.monotonic() - seconds, time.monotonic()))


jax.monitoring.register_event_duration_secs_listener(_compiled)


def _compiling(begun):
    """Wall time [s] of `_COMPILED` since `begun`; intervals may overlap."""
    total, reached = 0.0, begun
    for start, end in sorted(_COMPILED):
        total += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    return total


_DEAR = []  # times [s] of single steps that the warm start does not solve


def _timed(*arguments, climb=fallback.climb):
    begun = time.monotonic()
    try:
        return climb(*arguments)
    finally:
        _DEAR.append(time.monotonic() - begun - _compiling(begun))


def run(number, again, *, limit=LIMIT):
    """The `again`-th scene of a structure, simulated and audited: its result, a dictionary for
    JSON."""
    scene, world, h, start = draw(number, again)
    made, lost = structure(number), None
    _COMPILED.clear()
    _DEAR.clear()
    begun = time.monotonic()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(limit)
    try:
        with mock.patch.object(fallback, "climb", _timed):
            trajectory = ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=STEPS * h, progress=False)
    except ist.StepError as error:
        trajectory, lost = error.trajectory, str(error)
    except ist.Interrupted as error:
        trajectory, lost = error.trajectory, f"stopped after {limit} s"
    finally:
        signal.alarm(0)
    wall = time.monotonic() - begun
    result = {"structure": number, "draw": again, "kinds": made.kinds, "place": made.place, "start": start}
    result |= {"size": float(world.length), "h": float(h * np.sqrt(GRAVITY / world.length)), "contacts": len(world.contacts)}
    result |= {"lost": lost, "compiling": round(_compiling(begun), 2), "seconds": round(wall - _compiling(begun), 2)}
    # others come in calls of about a tenth of a second
    result |= {"dearest": round(max(_DEAR, default=0.1), 2)}
    result |= {"steps": 0 if trajectory is None else len(trajectory), "worst": {}, "wrong": [], "gained": 0.0}
    if result["steps"]:
        laws = audit.audit(world, trajectory, h)
        result["worst"] = {law: value for law, (value, _) in laws.items()}
        result["wrong"] = [f"{law} {value:.1e} at step {k}" for law, (value, k) in laws.items() if not value <= ALLOWED]
        result["gained"] = audit.gained(world, trajectory)
        result["rungs"] = np.bincount(trajectory.stats.rung).tolist()
        result["substeps"] = int(np.sum(trajectory.stats.substeps > 1))
        result["iterations"] = int(np.sum(trajectory.stats.iterations))
    return result


LAWS = {
    "momentum": ("momentum",),
    "pose": ("poses", "time"),
    "distance": ("distance", "tangent"),
    "penetration": ("penetration",),
    "p_n _|_ gap": ("p_n _|_ gap",),
    "cone, dissipation": ("cone", "dissipation"),
    "energy": ("energy",),
}
HEADER = (
    f"| start | scenes | steps | lost | wrong | by the warm start [%] | worst {' | '.join(LAWS)} | energy gained | "
    "ms a step | dearest step [s] | dearest scene [s] |\n|" + "---|" * (10 + len(LAWS))
)


def row(name, results):
    """A Markdown table row of `results`."""
    steps = sum(one["steps"] for one in results)
    lost, wrong = (sum(bool(one[what]) for one in results) for what in ("lost", "wrong"))
    warm = 100 * sum(one["rungs"][0] for one in results if one["steps"]) / max(steps, 1)
    worst = [
        max((one["worst"][law] for one in results for law in laws if one["steps"]), default=0.0) for laws in LAWS.values()
    ]
    gained, seconds = max(one["gained"] for one in results), [one["seconds"] for one in results]
    dearest = max(one.get("dearest", one["seconds"]) for one in results)
    return (
        f"| {name} | {len(results)} | {steps} | {lost} | {wrong} | {warm:.2f} | {' | '.join(f'{w:.0e}' for w in worst)} | "
        f"{gained:.0e} | {1e3 * sum(seconds) / max(steps, 1):.1f} | {dearest:.1f} | {max(seconds):.1f} |"
    )


def table(results):
    """Prints a row for each way to start, and what was lost or wrong."""
    print(HEADER)
    for start in STARTS:
        own = [one for one in results if one["start"] == start]
        if own:
            print(row(start, own))
    print(row("all", results))
    for one in results:
        for what in ("lost", "wrong"):
            if one[what]:
                print(f"{what}: {one['structure']} {one['draw']} ({one['place']}, {one['start']}): {one[what]}")


def whole(structures, draws, file):
    """Runs what `file` does not hold yet, and returns all its results."""
    file.touch()
    results = [json.loads(line) for line in file.read_text().splitlines()]
    done = {(one["structure"], one["draw"]) for one in results}
    for number, again in tqdm(list(itertools.product(structures, draws)), disable=None):
        if (number, again) not in done:
            results.append(run(number, again))
            with file.open("a") as stream:
                print(json.dumps(results[-1]), file=stream)
    return results


def main():
    """All structures, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    numbers = list(range(RANDOM + len(MORE)))
    parser.add_argument("--structures", type=int, nargs="*", default=numbers, help="their numbers, in this order")
    parser.add_argument("--draws", type=int, default=6, help="of each structure")
    parser.add_argument("--results", type=Path, default=Path("mixed.jsonl"), help="file of a line for each scene")
    parser.add_argument("--replay", type=int, nargs=2, metavar=("STRUCTURE", "DRAW"), help="one scene alone")
    arguments = parser.parse_args()
    ist.use_compilation_cache()
    if arguments.replay:
        table([run(*arguments.replay)])
    else:
        table(whole(arguments.structures, range(arguments.draws), arguments.results))


if __name__ == "__main__":
    main()
