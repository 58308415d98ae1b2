"""Tests of unknown sizes in upstream dialects: input sizes determine the sizes of fills, slices, pads and loops."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.sharding.analyze import analyze
from meshgen.sizes.program import with_shapes
from meshgen.testing.oracle import check
from tests.mlir.payload import lowered, normal

OPEN = """shard.grid @g(shape = 4)
func.func @main(%x: tensor<?x5xf32>, %b: tensor<5xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %z = arith.constant 2.0 : f32
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<?x5xf32>
  %d = tensor.dim %x, %c0 : tensor<?x5xf32>
  %e = tensor.empty(%d) : tensor<?x5xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<?x5xf32>) -> tensor<?x5xf32>
  %a = linalg.add ins(%xs, %i : tensor<?x5xf32>, tensor<?x5xf32>) outs(%e : tensor<?x5xf32>) -> tensor<?x5xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<?x5xf32>, tensor<5xf32>) outs(%e : tensor<?x5xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %v = arith.mulf %p, %q : f32
    linalg.yield %v : f32
  } -> tensor<?x5xf32>
  %f = tensor.empty(%d) : tensor<?xf32>
  %k = linalg.fill ins(%z : f32) outs(%f : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.reduce { arith.addf } ins(%m : tensor<?x5xf32>) outs(%k : tensor<?xf32>) dimensions = [1]
  return %r : tensor<?xf32>
}"""


@pytest.mark.parametrize("rows", [1, 4, 10])
def test_unknown_sizes_are_inferred_from_the_inputs(rows: int) -> None:
    """This includes fills and broadcasts, whose sizes no operand determines."""
    x, b = normal(rows, 5), normal(5)
    module = with_shapes(parse_text(OPEN), {"x": (rows, 5)})
    (result,) = evaluate(module.graph, [x, b])
    np.testing.assert_allclose(result, 2 + ((x + 2) * b).sum(1), rtol=1e-5)
    assert check(module, pipeline=lowered, args=[x, b]).ok
    assert rows == 1 or not analyze(lowered(module)).collectives


# Value: the type, body and expected results of a program over `%x: tensor<?x6xf32>` with sizes computed from `?`.
OF_SIZES: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "halves": (
        "T",
        "  %h = arith.divui %d, %c2 : index\n  %a = tensor.extract_slice %x[0, 0] [%h, 6] [1, 1] : T to T\n"
        "  %b = tensor.extract_slice %x[%h, 0] [%h, 6] [1, 1] : T to T\n  %r = arith.addf %a, %b : T",
        lambda x: x[: len(x) // 2] + x[len(x) // 2 : len(x) // 2 * 2],
    ),
    "steps": (
        "tensor<?x2xf32>",
        "  %h = arith.ceildivsi %d, %c2 : index\n  %r = tensor.extract_slice %x[0, 1] [%h, 2] [2, 3] : T to tensor<?x2xf32>",
        lambda x: x[::2, 1:5:3],
    ),
    "a column": (
        "T",
        "  %a = tensor.extract_slice %x[0, 1] [%d, 1] [1, 1] : T to tensor<?xf32>\n"
        "  %r = tensor.insert_slice %a into %x[0, 0] [%d, 1] [1, 1] : tensor<?xf32> into T",
        lambda x: np.concatenate([x[:, 1:2], x[:, 1:]], 1),
    ),
    "a row of run time": (
        "tensor<?x?xf32>",
        "  %i = arith.index_cast %n : i64 to index\n"
        "  %e = tensor.dim %x, %c1 : T\n  %r = tensor.extract_slice %x[%i, 0] [%c2, %e] [1, 1] : T to tensor<?x?xf32>",
        lambda x: x[1:3],
    ),
    "padded by as much again": (
        "tensor<?x8xf32>",
        "  %z = arith.constant 3.0 : f32\n  %r = tensor.pad %x low[1, 0] high[%d, 2] {\n  ^bb0(%i: index, %j: index):\n"
        "    tensor.yield %z : f32\n  } : T to tensor<?x8xf32>",
        lambda x: np.pad(x, ((1, len(x)), (0, 2)), constant_values=3),
    ),
    "filled": (
        "tensor<?x?xf32>",
        "  %z = arith.constant 2.0 : f32\n  %e = tensor.empty(%d, %d) : tensor<?x?xf32>\n"
        "  %r = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>",
        lambda x: np.full((len(x), len(x)), 2, "f4"),
    ),
    "expanded": (
        "tensor<?x2x6xf32>",
        "  %h = arith.divui %d, %c2 : index\n"
        "  %r = tensor.expand_shape %x [[0, 1], [2]] output_shape [%h, 2, 6] : T into tensor<?x2x6xf32>",
        lambda x: x.reshape(-1, 2, 6),
    ),
    "a loop over the rows": (
        "tensor<6xf32>",
        "  %s = arith.constant dense<0.0> : tensor<6xf32>\n"
        "  %r = scf.for %i = %c0 to %d step %c1 iter_args(%a = %s) -> tensor<6xf32> {\n"
        "    %row = tensor.extract_slice %x[%i, 0] [1, 6] [1, 1] : T to tensor<6xf32>\n"
        "    %t = arith.addf %a, %row : tensor<6xf32>\n    scf.yield %t : tensor<6xf32>\n  }",
        lambda x: x.sum(0),
    ),
}


def of_sizes(name: str, split: str) -> str:
    kind, body, _ = OF_SIZES[name]
    numbers = "\n".join(f"  %c{n} = arith.constant {n} : index" for n in range(3))
    text = f"""shard.grid @g(shape = 3)
func.func @main(%x: T {{meshgen.sharding = #meshgen.annotation<@g, [{split}]>}}, %n: i64) -> {kind} {{
{numbers}
  %d = tensor.dim %x, %c0 : T
{body}
  return %r : {kind}
}}"""
    return re.sub(r"\bT\b", "tensor<?x6xf32>", text)


@pytest.mark.parametrize("split", ['["0"], []', '[], ["0"]'])
@pytest.mark.parametrize("name", OF_SIZES)
def test_computed_sizes_follow_from_unknown_dims(name: str, split: str) -> None:
    x, n = normal(8, 6), np.array(1)
    module = with_shapes(parse_text(of_sizes(name, split)), {"x": x.shape})
    (result,) = evaluate(module.graph, [x, n])
    np.testing.assert_allclose(result, OF_SIZES[name][2](x), rtol=1e-5)
    assert check(module, pipeline=lowered, args=[x, n]).ok


def test_slice_out_of_bounds_at_known_sizes_is_refused() -> None:
    text = of_sizes("halves", '["0"], []').replace("%x[%h, 0]", "%x[%d, 0]")
    with pytest.raises(ProgramError) as caught:
        with_shapes(parse_text(text), {"x": (8, 6)})
    assert caught.value.diagnostics[0].code == "MG0104" and caught.value.diagnostics[0].loc is not None
