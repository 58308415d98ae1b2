"""The pass `iota-gather-to-batch`: gathers and scatters that index each row by its own number stay within the row.

Rows that a reshape merges are sharded by the first merged dim.
"""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Module, Value
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.types.inference import verify_graph
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.sharding.rewrites.iota_gather_to_batch import iota_dim, iota_gather_to_batch
from meshgen.testing.oracle import check

ROWS = """
    %i = stablehlo.iota dim = 0 : tensor<8xi32>
    %col = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %zero = stablehlo.constant dense<0> : tensor<8x1xi32>
    %eight = stablehlo.constant dense<8> : tensor<8x1xi32>
    %below = stablehlo.compare LT, %col, %zero, SIGNED : (tensor<8x1xi32>, tensor<8x1xi32>) -> tensor<8x1xi1>
    %up = stablehlo.add %col, %eight : tensor<8x1xi32>
    %safe = stablehlo.select %below, %up, %col : tensor<8x1xi1>, tensor<8x1xi32>
    %row = stablehlo.broadcast_in_dim %safe, dims = [0, 1] : (tensor<8x1xi32>) -> tensor<8x3x1xi32>
    %place = stablehlo.reshape %ids : (tensor<8x3xi32>) -> tensor<8x3x1xi32>
"""
IDS = '%ids: tensor<8x3xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
X = '%x: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
JOIN = "(tensor<8x3x1xi32>, tensor<8x3x1xi32>) -> tensor<8x3x2xi32>"


def program(body: str, arguments: str, result: str) -> str:
    split = 'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>'
    return f"""
module {{
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main({arguments}) -> ({result} {{{split}}}) {{
{body}
  }}
}}
"""


LOOKED_UP = program(
    ROWS
    + f"""
    %at = stablehlo.concatenate %row, %place, dim = 2 : {JOIN}
    %y = "stablehlo.gather"(%x, %at) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
      start_index_map = [0, 1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}}>
      : (tensor<8x12xf32>, tensor<8x3x2xi32>) -> tensor<8x3xf32>
    return %y : tensor<8x3xf32>""",
    f"{X}, {IDS}",
    "tensor<8x3xf32>",
)
COUNTED = program(
    ROWS
    + f"""
    %at = stablehlo.concatenate %row, %place, dim = 2 : {JOIN}
    %none = stablehlo.constant dense<0.0> : tensor<8x12xf32>
    %one = stablehlo.constant dense<1.0> : tensor<8x3xf32>
    %y = "stablehlo.scatter"(%none, %at, %one) <{{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>,
      indices_are_sorted = false, unique_indices = false}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<8x12xf32>, tensor<8x3x2xi32>, tensor<8x3xf32>) -> tensor<8x12xf32>
    return %y : tensor<8x12xf32>""",
    IDS,
    "tensor<8x12xf32>",
)
TURNED = LOOKED_UP.replace("%row, %place, dim", "%place, %row, dim").replace(
    "start_index_map = [0, 1]", "start_index_map = [1, 0]"
)
THIRD = program(  # gathers a window of each row; the index has two more dims
    """
    %n = stablehlo.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8xi32>
    %row = stablehlo.reshape %n : (tensor<8xi32>) -> tensor<8x1xi32>
    %m = stablehlo.convert %ids : tensor<8x1xi32>
    %at = stablehlo.concatenate %m, %row, %m, dim = 1 : (tensor<8x1xi32>, tensor<8x1xi32>, tensor<8x1xi32>) -> tensor<8x3xi32>
    %y = "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1],
      start_index_map = [0, 1, 2], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 2>}>
      : (tensor<5x8x6xf32>, tensor<8x3xi32>) -> tensor<8x2xf32>
    return %y : tensor<8x2xf32>""",
    '%x: tensor<5x8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, '
    '%ids: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}',
    "tensor<8x2xf32>",
)
PROGRAMS = {"looked up": LOOKED_UP, "counted": COUNTED, "turned": TURNED, "a window of each row": THIRD}


@pytest.mark.parametrize("name", PROGRAMS)
def test_indexing_own_row_moves_no_bytes(name: str) -> None:
    assert moved_bytes(PROGRAMS[name]) == 0


def moved_bytes(text: str) -> int:
    """Check the results of a program and return the bytes that it moves."""
    module = parse_text(text)
    assert check(module, pipeline=partitioned).ok
    return analyze(partitioned(module)).ring_bytes


def partitioned(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "partition")["partition"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_batched_gather_and_scatter_compute_same_result(name: str) -> None:
    """Some indices are out of bounds: gathers clamp them, scatters drop their updates."""
    graph = parse_text(PROGRAMS[name]).graph
    rewritten = iota_gather_to_batch.rewrite(graph)
    assert rewritten is not None
    assert not verify_graph(rewritten)
    rng = np.random.default_rng(0)
    for ids in (rng.integers(0, 12, 24), rng.integers(-30, 30, 24)):
        args = [
            np.resize(ids, v.type.sizes).astype(np.int32)
            if v.type.dtype == "i32"
            else rng.standard_normal(v.type.sizes).astype(np.float32)
            for v in graph.inputs
        ]
        for left, right in zip(evaluate(graph, args), evaluate(rewritten, args), strict=True):
            np.testing.assert_array_equal(left, right)


OTHERS = {
    "rows from one on": ("iota dim = 0 : tensor<8xi32>", "constant dense<[1, 2, 3, 4, 5, 6, 7, 8]> : tensor<8xi32>"),
    "of another dim": ("%col, dims = [0, 1] : (tensor<8x1xi32>)", "%i3, dims = [1] : (tensor<3xi32>)"),
    "of more rows": ("tensor<8x12xf32>", "tensor<9x12xf32>"),
    "no number below zero": ("compare LT", "compare LE"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_gather_with_other_indices_is_unchanged(name: str) -> None:
    old, new = OTHERS[name]
    text = LOOKED_UP.replace(old, new)
    if "%i3" in new:
        text = text.replace("%col =", "%i3 = stablehlo.iota dim = 0 : tensor<3xi32>\n    %col =").replace(
            "%safe, dims = [0, 1] : (tensor<8x1xi32>)", new
        )
    assert text != LOOKED_UP
    assert iota_gather_to_batch.rewrite(parse_text(text).graph) is None


def test_iota_dim_is_traced_through_index_arithmetic() -> None:
    graph = parse_text(LOOKED_UP).graph
    producers = graph.index.producers
    values_by_name: dict[str, Value] = {value.name: value for value in graph.values() if value.name}
    iota_dims = {
        name: iota_dim(values_by_name[name], producers) for name in ("i", "col", "safe", "row", "up", "below", "place")
    }
    assert iota_dims == {"i": 0, "col": 0, "safe": 0, "row": 0, "up": None, "below": None, "place": None}


def flattened_rows_program(batch: int) -> str:
    """Return a program that shards the rows of each image, and flattens images and rows."""
    flat = f"tensor<{batch * 16}x8xf32>"
    return f"""
module {{
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%x: tensor<{batch}x16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}, {{}}]>}},
      %w: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}})
      -> (tensor<{batch}x16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}, {{}}]>}}) {{
    %more = stablehlo.negate %x : tensor<{batch}x16x8xf32>
    %flat = stablehlo.reshape %more : (tensor<{batch}x16x8xf32>) -> {flat}
    %h = stablehlo.dot_general %flat, %w, contracting_dims = [1] x [0] : ({flat}, tensor<8x8xf32>) -> {flat}
    %y = stablehlo.tanh %h : {flat}
    %back = stablehlo.reshape %y : ({flat}) -> tensor<{batch}x16x8xf32>
    return %back : tensor<{batch}x16x8xf32>
  }}
}}
"""


@pytest.mark.parametrize(
    "batch, sent", [(16, 7 / 8), (8, 7 / 8), (2, 1)], ids=["evenly", "one each", "the axis is cut"]
)
def test_merged_minor_rows_are_exchanged(batch: int, sent: float) -> None:
    """Check that each device exchanges a part of its tile with other devices. A gather would move seven tiles."""
    tile = batch * 2 * 8 * 4
    assert 0 < moved_bytes(flattened_rows_program(batch)) <= 2 * tile * sent
