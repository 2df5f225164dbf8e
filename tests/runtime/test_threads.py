"""LAPACK has one thread while the library works, and as many as before after it, also when that
ends in an exception."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import implicit_stepper as ist
import shapes
from implicit_stepper.commands import main


def blas_threads():
    """Of every BLAS of this process, as OpenBLAS itself says."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, "blas"):
        yield
        assert blas_threads() == {2}


@dataclasses.dataclass(frozen=True)
class _Watched(ist.ConeComplementarity):
    """Notes the number of threads when it is compiled, and may refuse the scene then."""

    refuses: bool = False

    def init(self, system, state, closest=None):
        seen.append(blas_threads())
        if self.refuses:
            raise ValueError("refused")
        return super().init(system, state, closest)


seen = []


@pytest.mark.parametrize("refuses", [False, True])
def test_a_run_has_one_thread_and_puts_back_what_was(refuses):
    scene = ist.Scene()
    scene.add_body(name="ball", shape=shapes.Sphere(0.5), mass=1.0, position=(0, 0, 1))
    seen.clear()
    if refuses:
        with pytest.raises(ValueError, match="refused"):
            ist.simulate(scene, _Watched(refuses=True), h=0.01, duration=0.02)
    else:
        ist.simulate(scene, _Watched(), h=0.01, duration=0.02)
    assert seen == [{1}]
    assert blas_threads() == {2}


def test_other_problems_and_the_commands_have_one_thread(monkeypatch, tmp_path):
    seen.clear()

    def function(z):
        seen.append(blas_threads())
        return z - 1.0

    assert ist.solve_ncp(function, jnp.zeros(2), jnp.zeros(2, bool)).converged
    monkeypatch.setattr("implicit_stepper.collision.closest_points._query", lambda *_: 1 / (0 * function(0.0)))
    with pytest.raises(ZeroDivisionError):
        ist.closest_points(shapes.Sphere(1.0), ((0, 0, 0), (1, 0, 0, 0)), shapes.Sphere(1.0), ((3, 0, 0), (1, 0, 0, 0)))
    monkeypatch.setattr(main, "_writable", lambda folder: 1 / (0 * function(0.0)))
    with pytest.raises(ZeroDivisionError):
        main.main(["reproduce", "--out", str(tmp_path)])
    assert all(threads == {1} for threads in seen)
    assert len(seen) >= 3


def test_runs_side_by_side_share_the_limit():
    """The first of two to end leaves the other its limit, and the last puts back what was before
    the first."""
    with ThreadPoolExecutor(1) as other:
        first, second = ist.one_blas_thread(), ist.one_blas_thread()
        first.__enter__()
        other.submit(second.__enter__).result()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        other.submit(second.__exit__, None, None, None).result()
    assert blas_threads() == {2}
