"""Tests of the module printer: names, literals, and the form of each op."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from xdsl.printer import Printer

from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.literals import quoted
from meshgen.mlir.text import parse_text, print_text
from tests.mlir.every_op import NAMES, program

F32 = TensorType((4,), "f32")
T = "tensor<4x6xf32>"
# Ops of the shard dialect on tiles. The printer must reproduce this text exactly.
ON_TILES = {
    "all_gather": f"shard.all_gather %x on @g grid_axes = [1] gather_axis = 1 : {T} -> tensor<4x18xf32>",
    "parts_of_axes": f'shard.all_gather %x on @g grid_axes = [1] gather_axis = 1 {{axes = ["1:(1)3"]}} : {T} -> tensor<4x18xf32>',
    "reasons": f'shard.all_gather %x on @g grid_axes = [1] gather_axis = 1 {{why = "a \\22b\\22", edges = array<i64: 0, 2>}} : {T} -> tensor<4x18xf32>',
    "all_reduce": f"shard.all_reduce %x on @g grid_axes = [0, 1] : {T} -> {T}",
    "all_reduce_max": f"shard.all_reduce %x on @g grid_axes = [1, 0] reduction = max : {T} -> {T}",
    "all_slice": f"shard.all_slice %x on @g grid_axes = [1] slice_axis = 1 : {T} -> tensor<4x2xf32>",
    "all_to_all": f"shard.all_to_all %x on @g grid_axes = [0] split_axis = 0 concat_axis = 1 : {T} -> tensor<2x12xf32>",
    "broadcast": f"shard.broadcast %x on @g grid_axes = [0] root = [1] : ({T}) -> {T}",
    "gather": f"shard.gather %x on @g grid_axes = [1] gather_axis = 1 root = [1] : ({T}) -> tensor<4x18xf32>",
    "reduce": f"shard.reduce %x on @g grid_axes = [1, 0] reduction = max root = [2, 1] : ({T}) -> {T}",
    "reduce_scatter": f"shard.reduce_scatter %x on @g grid_axes = [0] reduction = max scatter_axis = 0 : {T} -> tensor<2x6xf32>",
    "scatter": f"shard.scatter %x on @g grid_axes = [0] scatter_axis = 0 root = [1] : ({T}) -> tensor<2x6xf32>",
    "send": f"shard.send %x on @g grid_axes = [0] destination = [1] : ({T}) -> {T}\n    %q = shard.recv %r on @g grid_axes = [0] source = [0] : ({T}) -> {T}",
    "recv_any": f"shard.send %x on @g grid_axes = [0] destination = [1] : ({T}) -> {T}\n    %q = shard.recv %r on @g grid_axes = [0] : ({T}) -> {T}",
    "shift": f"shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1 rotate : {T} -> {T}",
    "shift_back": f"shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = -1 : {T} -> {T}",
    "to_partial": f"meshgen.to_partial %x on @g grid_axes = [0] : {T} -> {T}",
    "permute_pairs": f"meshgen.permute_pairs %x on @g grid_axes = [0] pairs = [[0, 3], [3, 0]] : {T} -> {T}",
    "fetch_rows": f"meshgen.fetch_rows %x on @g grid_axes = [0] dim = 0 base = -1 step = 4 limit = 8 wrap : {T} -> tensor<6x6xf32>",
    "process_index": "meshgen.process_index on @g grid_axes = [0, 1] : tensor<i32>",
    "mask_padding": f"meshgen.mask_padding %x on @g grid_axes = [0] dim = 0 size = 7 fill = 0.000000e+00 : f64 : {T} -> {T}",
    "view": f"stablehlo.reshape %x {{meshgen.view}} : ({T}) -> tensor<24xf32>",
    "applied": f"stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : ({T}, tensor<f32>) -> tensor<4xf32>",
    "scheduled": f'stablehlo.negate %x {{sched.item = #sched.item<stream 1 waits = [0, 2] records = 3 seconds = "1e-05" start = "0.1" hidden = "0.0" exposed = "1e-05">, sched.buffers = [#sched.buffer<3 "h" temporary storage = 2 offset = 1024>]}} : {T}',
}  # fmt: skip
WHOLE = {
    "slice": f"stablehlo.slice %x [0:4, 1:6:2] : ({T}) -> tensor<4x3xf32>",
    "pad": f"stablehlo.pad %x, %z, low = [0, 1], high = [1, 0], interior = [0, 2] : ({T}, tensor<f32>) -> tensor<5x17xf32>",
    "compare": f"stablehlo.compare LT, %x, %x, FLOAT : ({T}, {T}) -> tensor<4x6xi1>",
    "reduce_precision": f"stablehlo.reduce_precision %x, format = e5m10 : {T}",
    "dot_general": f"stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [HIGH, DEFAULT] : ({T}, {T}) -> tensor<4xf32>",
    "complex": "stablehlo.complex %x, %x : tensor<4x6xcomplex<f32>>",
    "convolution": "stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [1, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, true]} {feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x4x4x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x3x4x1xf32>",
    "barrier": f"sdy.propagation_barrier %x allowed_direction=FORWARD : {T}",
    "option": f'stablehlo.negate %x {{sharding = [[0 : i64], ["1:(1)3"]]}} : {T}',
}  # fmt: skip


def on_tiles(line: str) -> str:
    """Return a program at stage partition."""
    slot = f"{{meshgen.layout = #meshgen.split<@g, [[], []]>, meshgen.global = {T}}}"
    scalar = "{meshgen.layout = #meshgen.split<@g, []>, meshgen.global = tensor<f32>}"
    return f"""builtin.module attributes {{meshgen.stage = "partition"}} {{
  shard.grid @g(shape = 2x3)
  func.func public @main(%x: {T} {slot}, %z: tensor<f32> {scalar}) {{
    %r = {line}
    func.return
  }}
}}
"""


def on_global_arrays(line: str) -> str:
    """Return a program at stage import."""
    return f"""builtin.module attributes {{meshgen.stage = "import"}} {{
  shard.grid @g(shape = 2x3)
  func.func public @main(%x: {T}, %z: tensor<f32>, %a: tensor<1x4x4x1xf32>, %k: tensor<2x2x1x1xf32>) {{
    %r = {line}
    func.return
  }}
}}
"""


@pytest.mark.parametrize("name", ON_TILES)
def test_op_on_tiles_round_trips_exactly(name: str) -> None:
    text = on_tiles(ON_TILES[name])
    assert print_text(parse_text(text)) == text


@pytest.mark.parametrize("name", WHOLE)
def test_op_on_global_arrays_round_trips_exactly(name: str) -> None:
    text = on_global_arrays(WHOLE[name])
    assert print_text(parse_text(text)) == text


# the import folds its size operands
@pytest.mark.parametrize("name", [name for name in NAMES if name != "set_dimension_size"])
def test_printed_op_is_stable_after_reparsing(name: str) -> None:
    text = print_text(parse_text(program(name)))
    assert print_text(parse_text(text)) == text


def printed(graph: Graph) -> list[str]:
    return [line.strip() for line in print_text(Module(make_mesh({"x": 2}), graph)).splitlines() if " = " in line]


def test_duplicate_names_get_suffixes_and_unnamed_values_numbers() -> None:
    graph = Graph("main", [Value(F32, "a"), Value(F32, "a"), Value(F32), Value(F32, "no name")])
    for name in ("a_0", "0", ""):
        graph.add("negate", [graph.inputs[0]], [F32], name=name)
    text = print_text(Module(make_mesh({"x": 2}), graph))
    assert "(%a: tensor<4xf32>, %a_0: tensor<4xf32>, %0: tensor<4xf32>, %1: tensor<4xf32>)" in text
    assert [line.partition(" = ")[0].strip() for line in text.splitlines() if "negate" in line] == ["%a_1", "%2", "%3"]


def test_equal_constants_of_different_bits_print_differently() -> None:
    graph = Graph("main")
    for value in (0.0, -0.0, np.nan, 1.0):
        graph.add("constant", [], [TensorType((), "f32")], {"value": np.array(value, np.float32)})
    texts = [line.partition("dense<")[2].partition(">")[0] for line in printed(graph) if "dense" in line]
    assert len({*texts}) == 4 and texts[1].startswith("-0")


@pytest.mark.parametrize("content", ["plain", 'a "b" \\ c', "\x00\x1f\x7f\n", "é %s", ""])
def test_strings_are_quoted_as_by_xdsl(content: str) -> None:
    stream = StringIO()
    Printer(stream=stream).print_string_literal(content)
    assert quoted(content) == stream.getvalue()
