"""Every number that README states as measured, made again, and compared with what README says.

    python benchmarks/readme_numbers.py            all: four minutes
    python benchmarks/readme_numbers.py --quick    without timings and the test of 200 000 steps

Writes benchmarks/readme_numbers.json, of which README's claims are made: `CLAIMS` has their
wording. The command prints each claim that README does not state in these words and numbers.
tests/docs/test_readme.py compares the two without measuring, and measures what takes seconds again.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import numpy as np

import implicit_stepper as ist
from implicit_stepper.paper import comparisons, exact, order_five, reproduce, scenes

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "readme_numbers.json"
HELD = "tests/stepping/test_robustness.py::test_perturbations_of_example_3_lose_no_step[500]"

# README's words, with the names of numbers where it has them.
CLAIMS = (
    "takes {example_3_seconds:.3f} s to an error of {example_3_error:.1e} m, on one core",
    "| `GeometricallyImplicit` | Chakraborty et al. (2007) | {block_implicit_error:.3f} m, first order | 0 |",
    "| `RadauContact` | the same at every stage of Radau IIA | {block_radau_error:.0e} m with `tol` = 1e-8 | 0 |",
    "| Negrut, Serban, Tasora (2017) | {block_ccp_error:.3f} m, order {block_ccp_order:.2f}: it is launched and floats | "
    "{block_ccp_gap:.3f} m |",
    "| the same, `relaxed=False` | | {block_ncp_error:.3f} m, first order | 0 |",
    "| `Linearized` | Stewart and Trinkle (1996) | {block_lcp_error:.3f} m, first order | 0 |",
    "| `Explicit` | Liu and Wang (2005) | {block_explicit_error:.3f} m, first order | 0 |",
    "| `Convex` | Castro et al. (2022) | {block_convex_error:.3f} m, order {block_convex_order:.2f}: it is launched and "
    "glides | {block_convex_gap:.3f} m |",
    "| 1, disc rolling | drift of kinetic energy, 10 000 steps, 300 m | 0 | {disc_drift:.1e}, relative |",
    "| | gap | 0 | {disc_gap:.0e} m |",
    "| 2, sphere spinning, h = .07 | loss of spin a step | .13734 rad/s | the same, to {spin_error:.0e} |",
    "| | torque in the last moving step | .2242285714 N m | the same, to {torque_error:.0e} |",
    "| contact 2 slips, contacts 1 and 2 open | 2.9448, 3.2132, 3.7016 s | {slips:.2f}, {first_opens:.2f}, "
    "{second_opens:.2f} s |",
    "| | position at 3 s | first order in h | {position_error:.3f} m off; order {position_order:.3f} over h = .02 to "
    ".0025 |",
    "| | Richardson extrapolation of it | second order | {extrapolated_error:.1e} m off; order {extrapolated_order:.2f} |",
    "| | `RadauContact`, tol = 1e-8, 4 s | | {example_3_error:.1e} m off |",
    "| | the same at h = .1 and .05 s, to 2.9 s | order 5 | order {radau_order:.2f} |",
    "| all | largest violation of the paper's equations, same steps | 0 | {violation:.0e}, dimensionless (1e-10 is "
    "allowed) |",
    "A step of example 3 at h = .01 costs {step_residuals:.0f} evaluations of its residual "
    "({step_microseconds:.0f} microseconds on one core) and {step_jacobians:.1f} Jacobians",
)
# what rounding makes of 0
ROUNDING = ("disc_drift", "disc_gap", "spin_error", "torque_error", "violation")


def reproduction():
    """The rows of `implicit-stepper reproduce`, and a `violation` of all steps of the three
    examples at four h."""
    rows = {name: reproduce.CASES[name].run(False)[1] for name in ("spin", "disc", "two-spheres")}
    order = {row.quantity: row for row in order_five.order_five(False)[1]}

    def row(case, begins):
        (found,) = [r for r in rows[case] if r.quantity.startswith(begins)]
        return found

    runs = [
        ist.simulate(scene(), ist.GeometricallyImplicit(), h=h, duration=4.0, progress=False)
        for scene in (scenes.disc, scenes.spin, scenes.two_spheres)
        for h in (0.1, 0.07, 0.01, 0.001)
    ]
    return {
        "disc_drift": row("disc", "kinetic energy, largest").ours,
        "disc_gap": row("disc", "gap, largest").ours,
        "spin_error": row("spin", "w_z falls").error,
        "torque_error": row("spin", "friction torque in the last").error,
        "slips": row("two-spheres", "contact 2 slips, h = 0.01").ours,
        "first_opens": row("two-spheres", "contact 1 opens, h = 0.01").ours,
        "second_opens": row("two-spheres", "contact 2 opens, h = 0.01").ours,
        "position_error": _example_3_position_error(),
        "position_order": row("two-spheres", "order in h of the position").ours,
        "extrapolated_error": row("two-spheres", "position at 3 s, extrapolated").ours,
        "extrapolated_order": _second(rows["two-spheres"]),
        "radau_order": order["order in h of the position, h = 0.1 and 0.05 s"].ours,
        "example_3_error": order[f"error in position, ends of steps to {order_five.DURATION:g} s, tol = 1e-08"].ours,
        "violation": max(float(np.max(v)) for run in runs for v in run.certificate.values()),
    }


def _example_3_position_error():
    run = ist.simulate(scenes.two_spheres(), ist.GeometricallyImplicit(), h=0.01, duration=3.0, progress=False)
    return float(np.linalg.norm(run.position[300, 0] - exact.two_spheres().at(np.array([3.0])).position[0]))


def _second(rows):
    """Of the two orders of extrapolations the position's, which comes after its own first order."""
    names = [row.quantity for row in rows]
    position = next(i for i, name in enumerate(names) if name.startswith("order in h of the position"))
    return rows[position + 1].ours


def block():
    """The sliding block under the methods of README's table: error and order at h = .01 s, and the
    largest gap of contacts that carry."""
    found, names = {}, ("implicit", "radau", "ncp", "ccp", "lcp", "explicit", "convex")
    for name in names:
        settings = [{"tol": 1e-8}] if name == "radau" else [{"h": 0.02}, {"h": 0.01}]
        errors = []
        for setting in settings:
            run = ist.simulate(scenes.block(), comparisons.METHODS[name], duration=1.5, progress=False, **setting)
            away = run.position[:, 0] - comparisons.sliding_block(run.time)[0][:, 0]
            errors.append(float(np.max(np.linalg.norm(away, axis=1))))
        carries = run.contacts.normal_impulse > 1e-6 * np.max(run.contacts.normal_impulse)
        found[f"block_{name}_error"] = errors[-1]
        found[f"block_{name}_order"] = float(np.log2(errors[0] / errors[-1]))
        found[f"block_{name}_gap"] = float(np.max(np.abs(run.contacts.gap[carries])))
    return found


def timings():
    """Example 3: seconds of a whole run at tol = 1e-8, and a first-order step against its residual,
    on one core."""
    import step_cost

    step_cost.on({min(step_cost.CORES)})
    times = []
    for _ in range(10):
        start = time.perf_counter()
        ist.simulate(scenes.two_spheres(), ist.RadauContact(), tol=1e-8, duration=4.0, progress=False)
        times.append(time.perf_counter() - start)
    cost, residual, iterations = step_cost.example_3(friction="projection", tolerance=1e-10, h=0.01)
    step_cost.on(step_cost.CORES)
    return {
        "example_3_seconds": statistics.median(times[1:]),
        "step_microseconds": 1e6 * statistics.median(cost),
        "step_residuals": statistics.median(c / r for c, r in zip(cost, residual, strict=True)),
        "step_jacobians": float(np.mean(iterations)),
    }


def held():
    """What a test holds: no step of 200 000 is lost."""
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "", HELD], cwd=ROOT, check=True)


def stated(text, numbers):
    """The claims that a README of `text` does not state with these `numbers`."""
    flat = " ".join(text.split())
    claims = [claim.format(**numbers) for claim in CLAIMS]
    return [claim for claim in claims if " ".join(claim.split()) not in flat]


def main():
    """Measures, stores, compares."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="keep the stored timings, and do not run the test")
    arguments = parser.parse_args()
    stored = json.loads(STORED.read_text())["numbers"] if STORED.exists() else {}
    numbers = stored | reproduction() | block()
    if not arguments.quick:
        numbers |= timings()
        held()
    measured = {
        "date": datetime.date.today().isoformat(),
        "version": ist.__version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "numbers": numbers,
    }
    STORED.write_text(json.dumps(measured, indent=1) + "\n")
    for claim in stated((ROOT / "README.md").read_text(encoding="utf-8"), numbers):
        print(f"README does not say: {claim}")


if __name__ == "__main__":
    main()
