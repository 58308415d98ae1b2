"""Tests of StableHLO control flow: captured values become operands, and text, graph and JAX agree on the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate

WHILE = """
func.func @main(%n: tensor<i32>, %step: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %start = stablehlo.constant dense<5.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %s = %start) : tensor<i32>, tensor<f32>
    cond {
      %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = func.call @advance(%s, %step) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %j, %t : tensor<i32>, tensor<f32>
    }
  return %r#1 : tensor<f32>
}
func.func private @advance(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
"""
CASE = """
func.func @main(%k: tensor<i32>, %x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %r = "stablehlo.case"(%k) ({
    %s = stablehlo.add %x, %x : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }, {
    %s = stablehlo.subtract %y, %x : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<i32>) -> tensor<f32>
  return %r : tensor<f32>
}
"""


@pytest.mark.parametrize("count", [0, 1, 4])
def test_while_carries_captured_values(count: int) -> None:
    module = parse_text(WHILE)
    loop = module.graph.nodes[-1]
    assert len(loop.operands) == len(loop.results) == 5  # The loop carries i and s, and captures %n, %one and %step.
    args = [np.asarray(count, np.int32), np.asarray(0.25, np.float32)]
    for graph in (module.graph, parse_text(print_text(module)).graph):
        assert evaluate(graph, args)[0] == 5.0 + 0.25 * count


@pytest.mark.parametrize("index, expected", [(0, 6.0), (1, 7.0), (9, 7.0)])
def test_case_branches_get_equal_inputs(index: int, expected: float) -> None:
    module = parse_text(CASE)
    node = module.graph.nodes[0]
    assert [value.type for value in node.operands[1:]] == [value.type for value in node.regions[0].inputs]
    assert len(node.regions[0].inputs) == len(node.regions[1].inputs) == 2
    args = [np.asarray(index, np.int32), np.asarray(3, np.float32), np.asarray(10, np.float32)]
    printed = print_text(module)
    assert printed == print_text(parse_text(printed))
    for graph in (module.graph, parse_text(printed).graph):
        assert evaluate(graph, args)[0] == expected


def _jax_programs() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def scan(x: Any, w: Any) -> Any:
        return lax.scan(lambda carry, row: (jnp.tanh(carry @ w + row), carry.sum()), x[0], x)

    return {
        "softmax": lambda x, w: jax.nn.softmax(x @ w, axis=-1),
        "layernorm": lambda x, w: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) @ w,
        "scan": scan,
        "cond": lambda x, w: lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: x - 1),
        "sort": lambda x, w: (jnp.sort(x, axis=0), jnp.argsort(w, axis=1)),
        "top_k": lambda x, w: lax.top_k(x, 2),
        "argmax": lambda x, w: jnp.argmax(x, axis=1),
        "index": lambda x, w: x[jnp.array([2, 0, 1, 2])] + w.at[1].add(2.0)[:, :1].T,
        "roll": lambda x, w: jnp.roll(x, 2, axis=1)[::-1, 1::2],
        "window": lambda x, w: lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 2), "SAME"),
        "grad": jax.grad(lambda x, w: jnp.sum(jax.nn.gelu(x @ w) ** 2), argnums=1),
        "bits": lambda x, w: lax.bitcast_convert_type(x, jnp.int32) ^ 5,
        "conv": lambda x, w: lax.conv(x[None, None], w[None, None, :2, :3], (1, 2), "SAME"),
    }


NAMES = ["softmax", "layernorm", "scan", "cond", "sort", "top_k", "argmax", "index", "roll", "window", "grad", "bits", "conv"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_program_lowered_by_jax_matches_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((3, 5), np.float32), rng.standard_normal((5, 5), np.float32)
    function = jax.jit(_jax_programs()[name])
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(function(x, w))]
    module = parse_text(function.lower(x, w).as_text())
    used = len(module.graph.inputs)
    args = [x, w][:used] if used == 2 or name not in ("grad",) else [w]
    results = evaluate(parse_text(print_text(module)).graph, args)
    for result, reference in zip(results, expected, strict=True):
        assert result.shape == reference.shape and result.dtype == reference.dtype
        # At most a few dozen f32 ops in sequence, each with a relative error of 2^-23, on values up to about 100.
        np.testing.assert_allclose(result, reference, rtol=64 * 2**-23, atol=64 * 2**-23)


@pytest.mark.parametrize("name", ["softmax", "scan", "cond", "sort", "index", "window", "argmax", "conv"])
def test_jax_parses_the_printed_text(name: str) -> None:
    jax = pytest.importorskip("jax")
    mlir = pytest.importorskip("jax.interpreters.mlir")
    ir = pytest.importorskip("jaxlib.mlir.ir")
    x, w = np.zeros((3, 5), np.float32), np.zeros((5, 5), np.float32)
    text = print_text(parse_text(jax.jit(_jax_programs()[name]).lower(x, w).as_text()))
    with mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        assert ir.Module.parse(text).operation.verify()
