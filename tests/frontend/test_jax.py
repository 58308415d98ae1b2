"""Lowered and exported JAX functions that are imported in the same process: names, shardings and results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import read
from meshgen.frontend.jax import is_jax
from meshgen.ops.evaluate.evaluator import evaluate

jax = pytest.importorskip("jax")


@jax.jit
def layer(x: Any, params: dict[str, Any]) -> Any:
    return jax.nn.gelu(x @ params["w"] + params["b"])


ARGS = (
    np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    {"b": np.ones(5, np.float32), "w": np.full((4, 5), 0.25, np.float32)},
)


def test_lowered_function_keeps_names_and_results() -> None:
    lowered = layer.lower(*ARGS)
    assert is_jax(lowered) and is_jax(layer)
    module, signature = read(lowered, {"x": 2})
    assert [value.name for value in module.graph.inputs] == ["x", "params.b", "params.w"]
    assert (module.mesh.names, signature.positional) == (("x",), ("x", "params"))
    (result,) = evaluate(module.graph, [ARGS[0], ARGS[1]["b"], ARGS[1]["w"]])
    # tolerance for sums of 4 terms and an activation, with values below 2
    np.testing.assert_allclose(result, np.asarray(layer(*ARGS)), rtol=0, atol=64 * np.finfo(np.float32).eps)


def test_exported_function_is_imported() -> None:
    import jax.export

    exported = jax.export.export(layer)(*ARGS)
    assert is_jax(exported)
    module, _ = read(exported, {"x": 2})
    assert [str(value.type) for value in module.graph.inputs] == ["f32[3,4]", "f32[5]", "f32[4,5]"]


def test_is_jax_rejects_other_objects() -> None:
    assert not any(is_jax(value) for value in ("text", layer.__wrapped__, 3, {}))


def test_locations_are_lines_of_user_program() -> None:
    """Locations are lines of the user's source file, never of the text that JAX prints."""
    line = two_layers.__code__.co_firstlineno + 1
    arg = jax.ShapeDtypeStruct((8, 8), "float32")
    exe = mg.compile(jax.jit(two_layers).lower(arg, arg), {"x": 4}, in_specs={"w": mg.P("x", None)}, target="cpu")
    (collective,) = exe.comms
    assert f"test_jax.py:{line + 1}" in collective.why and "<text>" not in f"{exe.comms}{exe.explain()}"
    locations = {node.op: node.loc for node in exe.stages["import"].graph.nodes}
    assert locations["tanh"] is not None and (locations["tanh"].line, locations["tanh"].file) == (line, __file__)


def two_layers(x: Any, w: Any) -> Any:
    h = jax.numpy.tanh(x)
    return h @ w
