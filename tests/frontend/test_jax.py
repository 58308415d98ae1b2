"""What JAX lowers or exports, read in process: names, shardings, numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.api import read
from meshgen.frontend.jax import is_jax
from meshgen.ir.evaluate.evaluator import evaluate

jax = pytest.importorskip("jax")


@jax.jit
def layer(x: Any, params: dict[str, Any]) -> Any:
    return jax.nn.gelu(x @ params["w"] + params["b"])


ARGS = (
    np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    {"b": np.ones(5, np.float32), "w": np.full((4, 5), 0.25, np.float32)},
)


def test_a_lowered_function_keeps_names_and_numbers() -> None:
    lowered = layer.lower(*ARGS)
    assert is_jax(lowered)
    module, signature = read(lowered, {"x": 2})
    assert [value.name for value in module.graph.inputs] == ["x", "params.b", "params.w"]
    assert (module.mesh.names, signature.positional) == (("x",), ("x", "params"))
    (got,) = evaluate(module.graph, [ARGS[0], ARGS[1]["b"], ARGS[1]["w"]])
    # 4 products and an activation of a few operations, values below 2
    np.testing.assert_allclose(got, np.asarray(layer(*ARGS)), rtol=0, atol=64 * np.finfo(np.float32).eps)


def test_an_exported_function_is_read() -> None:
    import jax.export

    exported = jax.export.export(layer)(*ARGS)
    assert is_jax(exported)
    module, _ = read(exported, {"x": 2})
    assert [str(value.type) for value in module.graph.inputs] == ["f32[3,4]", "f32[5]", "f32[4,5]"]


def test_other_objects_are_no_jax_programs() -> None:
    assert not any(is_jax(thing) for thing in ("text", layer, 3, {}))
