"""What threads cost or save LAPACK's QR in the sizes that steps have, alone and with the cores
shared.

    python benchmarks/blas_threads.py

`linear.damped_step` factorises a matrix (2 n, n + 1) for n unknowns. For each n and each number of
threads, a Markdown row with the CPU time and the wall time of one, alone and while another process
does the same: the least of the repeats, which a busy machine disturbs least, and the median, which
says what waiting costs.
"""

import multiprocessing
import os
import statistics
import time

import jax
import numpy as np
from threadpoolctl import threadpool_limits

import implicit_stepper  # noqa: F401  (switches JAX to float64 and loads the OpenBLAS that jaxlib calls)
from implicit_stepper.solvers.linear import damped_step

SIZES = (28, 84, 133, 250, 415, 800, 1600)
THREADS = (1, os.cpu_count() or 1)
SECONDS = 3.0  # for each row
REPEATS = 5  # at least


def factorisations(n, threads):
    """CPU and wall times [s] of damped steps of n unknowns."""
    rng = np.random.default_rng(0)
    jacobian, residual = rng.standard_normal((n, n)), rng.standard_normal(n)
    solve, times = jax.jit(damped_step), []
    solve(jacobian, residual, 1e-10).block_until_ready()
    with threadpool_limits(threads, "blas"):
        end = time.perf_counter() + SECONDS
        while len(times) < REPEATS or time.perf_counter() < end:
            cpu, wall = time.process_time(), time.perf_counter()
            solve(jacobian, residual, 1e-10).block_until_ready()
            times.append((time.process_time() - cpu, time.perf_counter() - wall))
    return times


def row(n, threads, beside):
    """One line of the table."""
    cpu, wall = zip(*factorisations(n, threads), strict=True)
    cells = [f"{1e3 * f(values):.3g}" for values in (cpu, wall) for f in (min, statistics.median)]
    print(f"| {n} | {threads} | {beside} | {' | '.join(cells)} |", flush=True)


def main():
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before\n")
    print(
        "| unknowns | threads | beside | CPU least [ms] | median | wall least [ms] | median |\n|---|---|---|---|---|---|---|"
    )
    for n in SIZES:
        for threads in dict.fromkeys(THREADS):
            row(n, threads, "nothing")
            other = multiprocessing.get_context("spawn").Process(target=_forever, args=(n, threads))
            other.start()
            time.sleep(SECONDS)  # it starts and compiles
            row(n, threads, "the same")
            other.kill()
            other.join()


def _forever(n, threads):
    while True:
        factorisations(n, threads)


if __name__ == "__main__":
    main()
