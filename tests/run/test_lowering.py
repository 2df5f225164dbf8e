"""Programs are lowered for CUDA, which needs no such device, and none of them goes back to the
host."""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import export

import implicit_stepper as ist
from implicit_stepper.implicit_euler import side_by_side
from implicit_stepper.paper import scenes
from implicit_stepper.run import batch
from implicit_stepper.stepping import loop

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import derivatives  # noqa: E402

STEPPER = ist.GeometricallyImplicit()


def programs():
    system, start = jax.tree.map(jnp.asarray, scenes.two_spheres().build())
    closest = [jax.ShapeDtypeStruct((2, 12), float)]
    memory = jax.eval_shape(STEPPER.init, system, start, closest)

    def loss(mass, memory):
        own = jax.tree_util.tree_map(lambda leaf: leaf, system)
        own = ist.rollout(type(own)(**{**own.__dict__, "mass": mass}), STEPPER, 0.01, 3, start=start, memory=memory)
        return jnp.sum(own.states.position[-1])

    how = side_by_side.of_platform("cuda")
    many, room = {"mu": jnp.full((how.width, 2), 0.2)}, jnp.full(system.contact_count, jnp.inf)
    return {
        "steps": (lambda memory: loop._march(STEPPER, system, start, memory, 0.01, 8), memory),
        "gradient": (jax.grad(loss), system.mass, memory),
        "batch": (lambda many: batch.fixed_batch.run(STEPPER, how, system, start, None, room, many, 0.01, 8), many),
    }


@pytest.fixture(scope="module")
def exported():
    """Traced as where JAX's default device is one, with what the programs share traced once; no
    test gets these functions."""
    jax.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: "cuda")
        found = {
            name: export.export(jax.jit(function), platforms=["cuda"])(*arguments)
            for name, (function, *arguments) in programs().items()
        }
    jax.clear_caches()
    return found


@pytest.mark.parametrize("name", ["steps", "gradient", "batch"])
def test_programs_are_lowered_for_cuda_and_stay_there(name, exported):
    """Without QR, which takes longest there."""
    text = exported[name].mlir_module()
    assert exported[name].platforms == ("cuda",)
    assert "callback" not in text
    assert "lapack" not in text
    called = re.findall(r"custom_call @([\w.$]+)", text)
    assert len(called) > 0
    assert [name for name in called if not name.startswith("cu")] == []
    assert "cusolver_potrf_ffi" in called
    assert not any("qr" in name for name in called)


@pytest.mark.thorough
def test_the_rule_for_derivatives_leaves_a_program_that_asks_for_none_as_it_is():
    """To the letter, once compiled: so it costs nothing, however long it runs. Before, a function
    that hands on the root tells one from the other."""
    lowered = [derivatives.stepped(1, differentiable)[0] for differentiable in (True, False)]
    assert lowered[0].as_text() != lowered[1].as_text()
    texts = [program.compile().as_text() for program in lowered]
    assert derivatives.operations(texts[0]) > 1000
    assert texts[0] == texts[1]
