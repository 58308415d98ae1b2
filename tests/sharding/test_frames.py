"""Frames: slices of sharded rows are computed in the index space of the full tensor, so that only a halo moves."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Graph, Value
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.ops.types.inference import verify_graph
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.sharding.rewrites import frames, row_views
from meshgen.sharding.rewrites.slice_to_halo import in_frames
from meshgen.testing.oracle import check
from meshgen.testing.random_graphs import random_arguments, random_program
from tests.cost_models import use

F32 = 4  # bytes
N, WIDE = 32, 8  # sizes of a tensor: 32 rows, sharded over 4 devices, and 8 columns
ROW = WIDE * F32
X = 'tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'


def program(body: str, arguments: str = f"%x: {X}", result: str = X) -> str:
    return f"""
module {{
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main({arguments}) -> ({result}) {{
{body}
  }}
}}
"""


SHIFTED = program("""
    %a = stablehlo.slice %x [1:32, 0:8] : (tensor<32x8xf32>) -> tensor<31x8xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<1x8xf32>
    %b = stablehlo.concatenate %a, %zero, dim = 0 : (tensor<31x8xf32>, tensor<1x8xf32>) -> tensor<32x8xf32>
    return %b : tensor<32x8xf32>""")

GRADIENT = program("""
    %up = stablehlo.slice %x [2:32, 0:8] : (tensor<32x8xf32>) -> tensor<30x8xf32>
    %down = stablehlo.slice %x [0:30, 0:8] : (tensor<32x8xf32>) -> tensor<30x8xf32>
    %inner = stablehlo.subtract %up, %down : tensor<30x8xf32>
    %half = stablehlo.constant dense<0.5> : tensor<30x8xf32>
    %scaled = stablehlo.multiply %inner, %half : tensor<30x8xf32>
    %r0 = stablehlo.slice %x [0:1, 0:8] : (tensor<32x8xf32>) -> tensor<1x8xf32>
    %r1 = stablehlo.slice %x [1:2, 0:8] : (tensor<32x8xf32>) -> tensor<1x8xf32>
    %first = stablehlo.subtract %r1, %r0 : tensor<1x8xf32>
    %r30 = stablehlo.slice %x [30:31, 0:8] : (tensor<32x8xf32>) -> tensor<1x8xf32>
    %r31 = stablehlo.slice %x [31:32, 0:8] : (tensor<32x8xf32>) -> tensor<1x8xf32>
    %last = stablehlo.subtract %r31, %r30 : tensor<1x8xf32>
    %y = stablehlo.concatenate %first, %scaled, %last, dim = 0 : (tensor<1x8xf32>, tensor<30x8xf32>, tensor<1x8xf32>) -> tensor<32x8xf32>
    return %y : tensor<32x8xf32>""")

FIXED_EDGES = program("""
    %up = stablehlo.slice %x [2:32, 1:7] : (tensor<32x8xf32>) -> tensor<30x6xf32>
    %down = stablehlo.slice %x [0:30, 1:7] : (tensor<32x8xf32>) -> tensor<30x6xf32>
    %left = stablehlo.slice %x [1:31, 0:6] : (tensor<32x8xf32>) -> tensor<30x6xf32>
    %a = stablehlo.add %up, %down : tensor<30x6xf32>
    %inner = stablehlo.add %a, %left : tensor<30x6xf32>
    %one = stablehlo.constant dense<1> : tensor<2xi32>
    %y = "stablehlo.scatter"(%x, %one, %inner) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>, unique_indices = true}> ({
    ^bb0(%old: tensor<f32>, %new: tensor<f32>):
      stablehlo.return %new : tensor<f32>
    }) : (tensor<32x8xf32>, tensor<2xi32>, tensor<30x6xf32>) -> tensor<32x8xf32>
    return %y : tensor<32x8xf32>""")

WRAPPED = program("""
    %last = stablehlo.slice %x [31:32, 0:8] : (tensor<32x8xf32>) -> tensor<1x8xf32>
    %first = stablehlo.slice %x [0:1, 0:8] : (tensor<32x8xf32>) -> tensor<1x8xf32>
    %p = stablehlo.concatenate %last, %x, %first, dim = 0 : (tensor<1x8xf32>, tensor<32x8xf32>, tensor<1x8xf32>) -> tensor<34x8xf32>
    %up = stablehlo.slice %p [2:34, 0:8] : (tensor<34x8xf32>) -> tensor<32x8xf32>
    %down = stablehlo.slice %p [0:32, 0:8] : (tensor<34x8xf32>) -> tensor<32x8xf32>
    %here = stablehlo.slice %p [1:33, 0:8] : (tensor<34x8xf32>) -> tensor<32x8xf32>
    %a = stablehlo.add %up, %down : tensor<32x8xf32>
    %y = stablehlo.subtract %a, %here : tensor<32x8xf32>
    return %y : tensor<32x8xf32>""")

LOGITS = 'tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}'
PADDED_VOCABULARY = program("""
    %cut = stablehlo.slice %x [0:8, 0:29] : (tensor<8x32xf32>) -> tensor<8x29xf32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %most = stablehlo.reduce(%cut init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8x29xf32>, tensor<f32>) -> tensor<8xf32>
    %wide = stablehlo.broadcast_in_dim %most, dims = [0] : (tensor<8xf32>) -> tensor<8x29xf32>
    %less = stablehlo.subtract %cut, %wide : tensor<8x29xf32>
    %exp = stablehlo.exponential %less : tensor<8x29xf32>
    %sum = stablehlo.reduce(%exp init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x29xf32>, tensor<f32>) -> tensor<8xf32>
    %log = stablehlo.log %sum : tensor<8xf32>
    %index = stablehlo.reshape %t : (tensor<8xi32>) -> tensor<8x1xi32>
    %hit = "stablehlo.gather"(%cut, %index) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<8x29xf32>, tensor<8x1xi32>) -> tensor<8xf32>
    %a = stablehlo.add %log, %most : tensor<8xf32>
    %y = stablehlo.subtract %a, %hit : tensor<8xf32>
    return %y : tensor<8xf32>""", f"%x: {LOGITS}, %t: tensor<8xi32>", "tensor<8xf32>")  # fmt: skip
ALL_REDUCE = 2 * 3 * 8 * F32 // 4  # bytes per device of an all-reduce of one f32 per row (8 rows) over 4 devices

JOINED = program("""
    %cut = stablehlo.slice %b [0:28, 0:8] : (tensor<32x8xf32>) -> tensor<28x8xf32>
    %y = stablehlo.concatenate %a, %cut, dim = 0 : (tensor<64x8xf32>, tensor<28x8xf32>) -> tensor<92x8xf32>
    return %y : tensor<92x8xf32>""", f"%a: {X.replace('32x8', '64x8')}, %b: {X}", X.replace("32x8", "92x8"))  # fmt: skip
# Rows that the busiest device sends. Device 2 has rows [32, 48) of the first tensor and sends 14 of them to device 1.
# It has rows [16, 24) of the other tensor and sends all of them to device 3.
BUSIEST = 14 + 8

MERGED = program("""
    %cut = stablehlo.slice %x [2:32, 0:8] : (tensor<32x8xf32>) -> tensor<30x8xf32>
    %more = stablehlo.negate %cut : tensor<30x8xf32>
    %flat = stablehlo.reshape %more : (tensor<30x8xf32>) -> tensor<240xf32>
    return %flat : tensor<240xf32>""", result="tensor<240xf32>")  # fmt: skip

PROGRAMS = {
    "joined to a part of another tensor": (JOINED, BUSIEST * ROW),
    "next row, zeros at the end": (SHIFTED, ROW),
    "central differences, one-sided at the ends": (GRADIENT, 2 * ROW),
    "inner points written into a tensor": (FIXED_EDGES, 2 * ROW),
    "wrapped around": (WRAPPED, 2 * ROW),
    "maximum, sum and label of logits without padding": (PADDED_VOCABULARY, 3 * ALL_REDUCE),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sliced_rows_move_only_halo(name: str) -> None:
    text, moved = PROGRAMS[name]
    module = parse_text(text)
    result = check(module, pipeline=lambda m: run_stages(m, Options("cpu"), Timing(), "partition")["partition"])
    assert result.ok, name
    local = run_stages(module, Options("cpu"), Timing(), "partition")["partition"]
    assert analyze(local).ring_bytes <= moved, name


BIG = 'tensor<320x4xT> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
ADDED = """({
      ^bb0(%p: tensor<T>, %q: tensor<T>):
        %t = stablehlo.add %p, %q : tensor<T>
        stablehlo.return %t : tensor<T>
      })"""
COUNTED = """%k = stablehlo.iota dim = 0 : tensor<316x4xT>
    %s = stablehlo.maximum %c, %k : tensor<316x4xT>"""
READ = """%g = "stablehlo.gather"(%c, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<316x4xT>, tensor<2x1xI>) -> tensor<2x4xT>
    %h = stablehlo.reduce(%g init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2x4xT>, tensor<T>) -> tensor<4xT>
    %w = stablehlo.broadcast_in_dim %h, dims = [1] : (tensor<4xT>) -> tensor<316x4xT>
    %s = stablehlo.multiply %c, %w : tensor<316x4xT>"""
WRITTEN = f"""%u = stablehlo.constant dense<3.0> : tensor<2x4xT>
    %s = "stablehlo.scatter"(%c, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {ADDED} : (tensor<316x4xT>, tensor<2x1xI>, tensor<2x4xT>) -> tensor<316x4xT>"""
COLUMN = f"""%u = stablehlo.slice %c [0:316, 1:2] : (tensor<316x4xT>) -> tensor<316x1xT>
    %s = "stablehlo.scatter"(%c, %j, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0>}}> {ADDED} : (tensor<316x4xT>, tensor<2xI>, tensor<316x1xT>) -> tensor<316x4xT>"""


@pytest.mark.parametrize(
    ("use", "element", "index"),
    [(COUNTED, "bf16", "i32"), (READ, "f32", "i8"), (READ, "f32", "ui8"), (WRITTEN, "f32", "i8"), (WRITTEN, "f32", "ui8"), (COLUMN, "f32", "i32")],
    ids=["counted in a narrow type", "looked up", "looked up, unsigned", "written to", "written to, unsigned", "written a whole column"],
)  # fmt: skip
def test_row_indices_are_shifted_into_frame(use: str, element: str, index: str) -> None:
    """Check the index of row r, which is r + 2 in a frame with a halo of two rows.

    In the dtype of the index, r + 2 would overflow i8 at 127 and be rounded in bf16 at 257.
    """
    text = program(f"""
    %z = stablehlo.constant dense<0.0> : tensor<T>
    %a = stablehlo.slice %x [4:320, 0:4] : (tensor<320x4xT>) -> tensor<316x4xT>
    %b = stablehlo.slice %x [0:316, 0:4] : (tensor<320x4xT>) -> tensor<316x4xT>
    %c = stablehlo.maximum %a, %b : tensor<316x4xT>
    {use}
    %e = stablehlo.slice %x [0:2, 0:4] : (tensor<320x4xT>) -> tensor<2x4xT>
    %y = stablehlo.concatenate %e, %s, %e, dim = 0 : (tensor<2x4xT>, tensor<316x4xT>, tensor<2x4xT>) -> tensor<320x4xT>
    return %y : tensor<320x4xT>""", f"%x: {BIG}, %i: tensor<2x1xI>, %j: tensor<2xI>", BIG)  # fmt: skip
    module = parse_text(text.replace("xT", f"x{element}").replace("<T", f"<{element}").replace("xI", f"x{index}"))
    x, i, j = (value.type for value in module.graph.inputs)
    rows = np.random.default_rng(0).normal(size=x.sizes).astype(x.numpy_dtype)
    last = np.iinfo(i.numpy_dtype).max if index != "i32" else 315
    arguments = [rows, np.array([[last], [3]], i.numpy_dtype), np.array([0, 2], j.numpy_dtype)]
    assert in_frames(module.graph, lambda *_: 4) is not None
    assert check(
        module, pipeline=lambda m: run_stages(m, Options("cpu"), Timing(), "partition")["partition"], args=arguments
    ).ok


def _split_into_rows(value: Value, dim: int) -> int:
    """Pretend that every dim is split into single rows, so that every possible frame is used."""
    return value.type.sizes[dim]


def _results_are_close(left: Graph, right: Graph, arguments: list[np.ndarray]) -> bool:
    results = [Evaluator().graph(graph, arguments) for graph in (left, right)]
    pairs = zip(*[[np.asarray(r).astype(complex) for r in side] for side in results], strict=True)
    return all(np.allclose(a, b, rtol=1e-2, atol=1e-3, equal_nan=True) for a, b in pairs)


def test_framed_programs_compute_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"rewriting.near": 1}, frames, row_views)
    count = 0
    graphs = [(parse_text(text), 0) for text in (MERGED, *(text for text, _ in PROGRAMS.values()))]
    for module, seed in [*graphs, *((random_program(seed), seed) for seed in range(300))]:
        if module.parts or any(node.op == "manual" for node in module.graph.nodes):
            continue
        if (framed := in_frames(module.graph, _split_into_rows)) is not None:
            assert not verify_graph(framed), seed
            assert _results_are_close(module.graph, framed, random_arguments(module, seed)), seed
            count += 1
    assert count > 10
