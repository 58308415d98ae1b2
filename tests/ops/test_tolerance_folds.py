"""Tests of error bounds of reduction regions: they cover every order, stay small, and are 0 if nothing is rounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from meshgen.ir.graph import Graph
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.common import Array
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.tolerance.bounds import error_bound

HYPOT = "%1 = stablehlo.multiply %p, %p : tensor<f32>\n%2 = stablehlo.multiply %q, %q : tensor<f32>\n%3 = stablehlo.add %1, %2 : tensor<f32>\n%4 = stablehlo.sqrt %3 : tensor<f32>\nstablehlo.return %4 : tensor<f32>"
LOGADDEXP = "%1 = stablehlo.maximum %p, %q : tensor<f32>\n%2 = stablehlo.subtract %p, %q : tensor<f32>\n%3 = stablehlo.abs %2 : tensor<f32>\n%4 = stablehlo.negate %3 : tensor<f32>\n%5 = stablehlo.exponential %4 : tensor<f32>\n%6 = stablehlo.log_plus_one %5 : tensor<f32>\n%7 = stablehlo.add %1, %6 : tensor<f32>\nstablehlo.return %7 : tensor<f32>"
BODIES: dict[str, tuple[str, float, Callable[[Array], Array]]] = {
    "hypot": (HYPOT, 0.0, lambda x: np.sqrt((x.astype("f8") ** 2).sum(1))),
    "logaddexp": (LOGADDEXP, -1e30, lambda x: np.log(np.exp(x.astype("f8")).sum(1))),
}


def reduced(body: str, init: float, count: int) -> Graph:
    text = f"""func.func @main(%x: tensor<4x{count}xf32>) -> tensor<4xf32> {{
  %z = stablehlo.constant dense<{init:e}> : tensor<f32>
  %r = "stablehlo.reduce"(%x, %z) <{{dimensions = array<i64: 1>}}> ({{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
{body}
  }}) : (tensor<4x{count}xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}"""
    return parse_text(text).graph


def one_by_one(graph: Graph, x: Array, init: float) -> Array:
    """Reduce the columns of `x` in order with the reduction region, rounding after each step."""
    (region,) = next(node for node in graph.nodes if node.op == "reduce_region").regions
    total = np.full(len(x), init, np.float32)
    for column in x.T:
        (total,) = evaluate(region, [total, column])
    return total


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("count", [1, 2, 7, 300])
def test_region_reduction_bound_covers_any_order(name: str, count: int) -> None:
    body, init, exact = BODIES[name]
    x = np.random.default_rng(count).standard_normal((4, count)).astype(np.float32)
    graph = reduced(body, init, count)
    (result,), (bound,) = evaluate(graph, [x]), error_bound(graph, [x])
    for other in (exact(x), one_by_one(graph, x, init), one_by_one(graph, x[:, ::-1], init)):
        assert np.all(np.abs(result - other) <= bound)
    assert np.all(bound > 0) and np.all(bound < 1e-5 * count * (1 + np.abs(result)))


SUMS = """%1 = stablehlo.add %p, %q : tensor<f32>
  %2 = stablehlo.add %r, %s : tensor<i32>
  stablehlo.return %1, %2 : tensor<f32>, tensor<i32>"""
ARGUMENTS = "^bb0(%p: tensor<f32>, %r: tensor<i32>, %q: tensor<f32>, %s: tensor<i32>):"


def several(op: str, attributes: str, result: Sequence[int], body: str = SUMS) -> Graph:
    shape = "x".join(map(str, result))
    text = f"""func.func @main(%x: tensor<3x40xf32>, %i: tensor<3x40xi32>) -> (tensor<{shape}xf32>, tensor<{shape}xi32>) {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<0> : tensor<i32>
  %a, %b = "stablehlo.{op}"(%x, %i, %z, %n) <{{{attributes}}}> ({{
  {ARGUMENTS}
  {body}
  }}) : (tensor<3x40xf32>, tensor<3x40xi32>, tensor<f32>, tensor<i32>) -> (tensor<{shape}xf32>, tensor<{shape}xi32>)
  return %a, %b : tensor<{shape}xf32>, tensor<{shape}xi32>
}}"""
    return parse_text(text).graph


ARGMAX = """%1 = stablehlo.compare GT, %p, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %2 = stablehlo.select %1, %p, %q : tensor<i1>, tensor<f32>
  %3 = stablehlo.select %1, %r, %s : tensor<i1>, tensor<i32>
  stablehlo.return %2, %3 : tensor<f32>, tensor<i32>"""
WINDOW = "window_dimensions = array<i64: 1, 20>, window_strides = array<i64: 1, 20>"


@pytest.mark.parametrize(("op", "attributes", "result"), [("reduce", "dimensions = array<i64: 1>", (3,)), ("reduce_window", WINDOW, (3, 2))])  # fmt: skip
def test_variadic_reduction_bound_covers_reverse_order(op: str, attributes: str, result: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).standard_normal((3, 40)).astype(np.float32)
    graph = several(op, attributes, result)
    summed, count = evaluate(graph, [x, np.ones((3, 40), np.int32)])
    bound, exact = error_bound(graph, [x, np.ones((3, 40), np.int32)])
    backwards = np.add.accumulate(x.reshape(*result, -1)[..., ::-1], axis=-1, dtype=np.float32)[..., -1]
    assert np.all(np.abs(summed - backwards) <= bound) and np.all(bound > 0) and np.all(bound < 1e-3)
    assert not exact.any() and np.all(count == 120 // summed.size)


@pytest.mark.parametrize(("op", "attributes", "result"), [("reduce", "dimensions = array<i64: 1>", (3,)), ("reduce_window", WINDOW, (3, 2))])  # fmt: skip
def test_selecting_region_has_zero_bound(op: str, attributes: str, result: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).standard_normal((3, 40)).astype(np.float32)
    indices = np.broadcast_to(np.arange(40, dtype=np.int32), x.shape)
    for bound in error_bound(several(op, attributes, result, ARGMAX), [x, indices]):
        assert not bound.any()


def test_select_and_scatter_bound_covers_overlapping_windows() -> None:
    text = """func.func @main(%x: tensor<9xf32>, %s: tensor<7xf32>) -> tensor<9xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: 3>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<9xf32>, tensor<7xf32>, tensor<f32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}"""
    graph = parse_text(text).graph
    x = np.array([0, 1, 5, 1, 0, 0, 4, 0, 0], np.float32)
    source = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], np.float32)
    (bound,) = error_bound(graph, [x, source])
    (result,) = evaluate(graph, [x, source])
    backwards = np.float32(source[2] + source[1]) + source[0]
    assert abs(result[2] - backwards) <= bound[2] and 0 < bound[2] < 1e-5
    assert not bound[[0, 1, 7, 8]].any(), "no window sums into these elements"
