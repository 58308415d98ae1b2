"""Rewrites that propagation compares with the original program, such as slicing the weight of a fused projection."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Annotation, Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.sharding.propagate import propagate
from meshgen.sharding.rewrites.passes import ALTERNATIVES
from meshgen.sharding.rewrites.slice_into_pad import slice_into_pad
from meshgen.spec import P
from meshgen.testing.oracle import check

DOT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ()}


def alternatives(module: Module) -> list[Module]:
    """Return the result of each rewrite that changes `module`."""
    return [rewritten for rewrite in ALTERNATIVES if (rewritten := rewrite(module)) is not module]


def fused(rows: int, spec: tuple[str | None, str | None]) -> Module:
    """Return a program that multiplies the two halves of x @ w."""
    graph = Graph("main", [Value(TensorType((rows, 16), "f32"), "x"), Value(TensorType((16, 64), "f32"), "w")])
    both = graph.add("dot_general", graph.inputs, [TensorType((rows, 64), "f32")], DOT).result
    half = TensorType((rows, 32), "f32")
    cuts = [{"start": (0, c), "limit": (rows, c + 32), "stride": (1, 1)} for c in (0, 32)]
    parts = [graph.add("slice", [both], [half], cut).result for cut in cuts]
    graph.outputs = [graph.add("multiply", parts, [half]).result]
    return Module(
        make_mesh({"x": 4}),
        graph,
        in_annotations=[Annotation(P(None, None)), Annotation(P(*spec))],
        out_annotations=[Annotation(P(None, "x"))],
    )


def partitioned(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "partition")["partition"]


def test_slice_of_entire_dot_prevents_rewrite() -> None:
    module = fused(8, (None, "x"))
    graph = module.graph
    (dot,) = (node for node in graph.nodes if node.op == "dot_general")
    everything = {"start": (0, 0), "limit": (8, 64), "stride": (1, 1)}
    graph.outputs.append(graph.add("slice", [dot.result], [dot.result.type], everything).result)
    assert alternatives(module) == []


def test_rewritten_program_computes_same_result() -> None:
    module = fused(8, (None, "x"))
    (other,) = alternatives(module)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(v.type.sizes).astype(np.float32) for v in module.graph.inputs]
    for left, right in zip(evaluate(module.graph, args), evaluate(other.graph, args), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=16 * 2.0**-23 * float(np.abs(left).max()))


def test_slices_move_to_small_weight() -> None:
    assert [n.op for n in propagate(fused(4096, (None, "x"))).graph.nodes].count("dot_general") == 2


def test_slices_stay_after_dot_if_moving_them_is_not_cheaper() -> None:
    module = fused(4096, (None, None))
    module.in_annotations[0] = module.out_annotations[0] = Annotation(P("x", None))
    assert [n.op for n in propagate(module).graph.nodes].count("dot_general") == 1


def test_dot_with_other_user_is_not_sliced() -> None:
    module = fused(8, (None, "x"))
    module.graph.outputs.append(module.graph.nodes[0].result)
    module.out_annotations.append(None)
    assert alternatives(module) == []


CAPTURED = """
module {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8x16xf32>, %w: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %p: tensor<i1>) -> tensor<8x32xf32> {
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
    %a = stablehlo.slice %h [0:8, 0:32] : (tensor<8x64xf32>) -> tensor<8x32xf32>
    %b = stablehlo.slice %h [0:8, 32:64] : (tensor<8x64xf32>) -> tensor<8x32xf32>
    %m = stablehlo.multiply %a, %b : tensor<8x32xf32>
    %r = "stablehlo.if"(%p) ({
      %c = stablehlo.slice %h [0:8, 16:48] : (tensor<8x64xf32>) -> tensor<8x32xf32>
      stablehlo.return %c : tensor<8x32xf32>
    }, {
      stablehlo.return %m : tensor<8x32xf32>
    }) : (tensor<i1>) -> tensor<8x32xf32>
    return %r : tensor<8x32xf32>
  }
}
"""


def test_dot_used_in_branch_is_not_sliced() -> None:
    module = parse_text(CAPTURED)
    assert alternatives(module) == []
    assert check(module, pipeline=partitioned).ok


INNER_PRODUCT = """
module {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<16x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<16x24xf32> {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %a) : tensor<i32>, tensor<16x24xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %f = stablehlo.reshape %v : (tensor<16x24xf32>) -> tensor<384xf32>
      %g = stablehlo.reshape %a : (tensor<16x24xf32>) -> tensor<384xf32>
      %d = stablehlo.dot_general %f, %g, contracting_dims = [0] x [0] : (tensor<384xf32>, tensor<384xf32>) -> tensor<f32>
      %w = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> tensor<16x24xf32>
      %s = stablehlo.divide %v, %w : tensor<16x24xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %s : tensor<i32>, tensor<16x24xf32>
    }
    return %r#1 : tensor<16x24xf32>
  }
}
"""


def test_inner_product_of_flattened_tensors_is_not_gathered() -> None:
    module = parse_text(INNER_PRODUCT)
    assert check(module, pipeline=partitioned).ok
    analysis = analyze(partitioned(module))
    all_reduce_bytes = 2 * 7 * 4 / 8  # bytes that each device sends in a ring all_reduce of one f32 over 8 devices
    assert {record.kind for record in analysis.collectives} == {"all_reduce"}
    assert analysis.ring_bytes == 3 * all_reduce_bytes


SUM_OF_PADS = """
module {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<2x6xf32>, %b: tensor<3x6xf32>, %c: tensor<1x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<6x6xf32> {
    %z = stablehlo.constant dense<FILL> : tensor<f32>
    %p = stablehlo.pad %a, %z, low = [1, 0], high = [3, 0], interior = [0, 0] : (tensor<2x6xf32>, tensor<f32>) -> tensor<6x6xf32>
    %q = stablehlo.pad %b, %z, low = [LOW, 0], high = [HIGH, 0], interior = [0, 0] : (tensor<3x6xf32>, tensor<f32>) -> tensor<6x6xf32>
    %r = stablehlo.pad %c, %z, low = [0, 0], high = [5, 0], interior = [0, 0] : (tensor<1x6xf32>, tensor<f32>) -> tensor<6x6xf32>
    %s = stablehlo.add %p, %q : tensor<6x6xf32>
    %t = stablehlo.add %s, %r : tensor<6x6xf32>
    return %t : tensor<6x6xf32>
  }
}
"""


@pytest.mark.parametrize("fill, low, is_concatenated", [("0.0", 3, True), ("0.0", 2, False), ("1.0", 3, False)])
def test_sum_of_disjoint_zero_pads_becomes_concatenation(fill: str, low: int, is_concatenated: bool) -> None:
    """Check that a sum of padded tensors becomes a concatenation only if their rows are disjoint and the padding is
    zero.
    """
    text = SUM_OF_PADS.replace("FILL", fill).replace("LOW", str(low)).replace("HIGH", str(3 - low))
    module = parse_text(text)
    assert [node.op for node in propagate(module).graph.nodes].count("concatenate") == is_concatenated
    assert check(module, pipeline=partitioned).ok


@pytest.mark.parametrize(("start", "limit"), [(0, 3), (5, 8)], ids=["before", "behind"])
def test_slice_of_only_padding_is_not_rewritten(start: int, limit: int) -> None:
    graph = Graph("main", [Value(TensorType((2,), "f32"), "x"), Value(TensorType((), "f32"), "zero")])
    attrs = {"low": (3,), "high": (3,), "interior": (0,)}
    padded = graph.add("pad", graph.inputs, [TensorType((8,), "f32")], attrs).result

    def cut(start: int, limit: int) -> Graph | None:
        cuts = {"start": (start,), "limit": (limit,), "stride": (1,)}
        node = Node("slice", [padded], [Value(TensorType((limit - start,), "f32"))], cuts)
        return slice_into_pad.rewrite(Graph("main", graph.inputs, [*graph.nodes, node], [node.result]))

    assert cut(start, limit) is None
    wider = cut(start, limit + 1) if start == 0 else cut(start - 1, limit)
    assert wider is not None and [node.op for node in wider.nodes] == ["pad"]
