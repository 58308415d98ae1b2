"""Tests of the printer for the dialects of LLVM 22: its text, the import of this text, and ops that it cannot express."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from meshgen import api
from meshgen.errors import ProgramError
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.mlir.upstream.module import print_upstream
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.testing.random_graphs import random_arguments

DATA = Path(__file__).parent.parent / "data"
LAYER = """shard.grid @mesh(shape = 2x4) {axis_names = ["dp", "tp"]}
func.func @main(%x: tensor<8x16xf32> {meshgen.sharding = #meshgen.split<@mesh, [["dp"], []]>}, %w: tensor<16x32xf32>)
    -> (tensor<8x32xf32> {meshgen.sharding = #meshgen.split<@mesh, [["dp"], []]>}) {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %t = stablehlo.tanh %h : tensor<8x32xf32>
  return %t : tensor<8x32xf32>
}"""


def program(lines: str, arguments: str = "%x: tensor<4x6xf32>", result: str = "tensor<4x6xf32>") -> Module:
    text = f"shard.grid @g(shape = 4)\nfunc.func @main({arguments}) -> {result} {{\n{lines}\n  return %r : {result}\n}}"
    return parse_text(text, "p.mlir")


def test_upstream_text_has_annotations_as_operations() -> None:
    assert (
        print_upstream(parse_text(LAYER))
        == """module {
  shard.grid @mesh(shape = 2x4) {axis_names = ["dp", "tp"]}
  func.func public @main(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
    %0 = shard.sharding @mesh split_axes = [[0], []] : !shard.sharding
    %x_0 = shard.shard %x to %0 : tensor<8x16xf32>
    %1 = arith.constant 0.000000e+00 : f32
    %2 = tensor.empty() : tensor<8x32xf32>
    %3 = linalg.fill ins(%1 : f32) outs(%2 : tensor<8x32xf32>) -> tensor<8x32xf32>
    %h = linalg.matmul {precision = ["DEFAULT", "DEFAULT"]} ins(%x_0, %w : tensor<8x16xf32>, tensor<16x32xf32>) outs(%3 : tensor<8x32xf32>) -> tensor<8x32xf32>
    %4 = tensor.empty() : tensor<8x32xf32>
    %t = linalg.map { math.tanh } ins(%h : tensor<8x32xf32>) outs(%4 : tensor<8x32xf32>)
    %t_0 = shard.shard %t to %0 annotate_for_users : tensor<8x32xf32>
    return %t_0 : tensor<8x32xf32>
  }
}
"""
    )


def test_upstream_text_after_propagation_annotates_operands_and_results() -> None:
    text = print_upstream(api.plan(LAYER, target="cpu").stages["propagate"])
    matmul = re.search(r"linalg.matmul .*ins\((%\d+), (%\d+) .* outs\((%\d+) ", text)
    assert matmul and all(f"{name} = shard.shard" in text for name in matmul.groups())
    assert "%h = shard.shard" in text and "%t = shard.shard" in text


def test_upstream_text_after_partition_has_local_types_and_collectives() -> None:
    plan = api.plan((DATA / "mlir/a06_mlp_sequence_parallel.mlir").read_text(), target="cpu")
    text = print_upstream(plan.stages["partition"])
    assert "shard.shard " not in text
    assert re.findall(r"shard\.(\w+) %\w+ on @g grid_axes = \[0\]", text) == ["all_gather", "reduce_scatter"]


OPERATIONS = {
    "unsigned": ("%u = stablehlo.bitcast_convert %x : (tensor<4x6xf32>) -> tensor<4x6xui32>\n%d = stablehlo.divide %u, %u : tensor<4x6xui32>\n"
                 "%r = stablehlo.convert %d : (tensor<4x6xui32>) -> tensor<4x6xf32>", "arith.divui"),
    "comparison": ("%c = stablehlo.compare GT, %x, %x, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>\n"
                   "%r = stablehlo.convert %c : (tensor<4x6xi1>) -> tensor<4x6xf32>", "arith.cmpf ogt"),
    "logistic": ("%r = stablehlo.logistic %x : tensor<4x6xf32>", "tosa.sigmoid"),
    "sign": ("%r = stablehlo.sign %x : tensor<4x6xf32>", "math.copysign"),
    "is_finite": ("%f = stablehlo.is_finite %x : (tensor<4x6xf32>) -> tensor<4x6xi1>\n%r = stablehlo.convert %f : (tensor<4x6xi1>) -> tensor<4x6xf32>",
                  "math.isfinite"),
    "clamp": ("%a = stablehlo.constant dense<-0.5> : tensor<f32>\n%b = stablehlo.constant dense<0.5> : tensor<f32>\n"
              "%r = stablehlo.clamp %a, %x, %b : (tensor<f32>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>", "arith.minimumf"),
    "narrow": ("%h = stablehlo.convert %x : (tensor<4x6xf32>) -> tensor<4x6xbf16>\n%k = stablehlo.convert %h : (tensor<4x6xbf16>) -> tensor<4x6xf16>\n"
               "%r = stablehlo.convert %k : (tensor<4x6xf16>) -> tensor<4x6xf32>", "arith.truncf"),
    "iota": ("%i = stablehlo.iota dim = 1 : tensor<4x6xf32>\n%r = stablehlo.add %x, %i : tensor<4x6xf32>", "tensor.generate"),
    "reverse": ("%r = stablehlo.reverse %x, dims = [1] : tensor<4x6xf32>", "(d0, 5 - d1)"),
    "reshape": ("%a = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<3x8xf32>\n%r = stablehlo.reshape %a : (tensor<3x8xf32>) -> tensor<4x6xf32>",
                "output_shape [3, 8]"),
    "slice": ("%a = stablehlo.slice %x [0:4, 0:6:2] : (tensor<4x6xf32>) -> tensor<4x3xf32>\n"
              "%r = stablehlo.concatenate %a, %a, dim = 1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>", "[0, 0] [4, 3] [1, 2]"),
    "pad": ("%z = stablehlo.constant dense<2.0> : tensor<f32>\n"
            "%a = stablehlo.pad %x, %z, low = [1, -2], high = [0, 1], interior = [1, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<8x5xf32>\n"
            "%r = stablehlo.slice %a [0:4, 0:5] : (tensor<8x5xf32>) -> tensor<4x5xf32>", "tensor.insert_slice"),
    "broadcast": ("%a = stablehlo.slice %x [0:1, 0:6] : (tensor<4x6xf32>) -> tensor<1x6xf32>\n"
                  "%r = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<4x6xf32>", "dimensions = [0]"),
    "turned": ("%a = stablehlo.slice %x [0:4, 0:4] : (tensor<4x6xf32>) -> tensor<4x4xf32>\n"
               "%r = stablehlo.broadcast_in_dim %a, dims = [2, 0] : (tensor<4x4xf32>) -> tensor<4x3x4xf32>", "permutation = [1, 0]"),
    "outer": ("%r = stablehlo.dot_general %x, %x, contracting_dims = [] x [] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6x4x6xf32>", "linalg.generic"),
    "batch": ("%r = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4xf32>",
              "linalg.contract"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_upstream_text_of_op_computes_the_same(name: str) -> None:
    lines, form = OPERATIONS[name]
    result = re.findall(r"tensor<[^>]*>", lines)[-1]
    module = program(lines, result=result)
    text = print_upstream(module)
    assert form in text
    args = random_arguments(module)
    np.testing.assert_array_equal(evaluate(parse_text(text).graph, args)[0], evaluate(module.graph, args)[0])


FAULTS = {
    "sort": ('%r = "stablehlo.sort"(%x) ({^bb0(%a: tensor<f32>, %b: tensor<f32>):\n%c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n'
             "stablehlo.return %c : tensor<i1>}) {dimension = 0 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>", "LLVM 22 has no such operation"),
    "annotate": ("%s = shard.sharding @g split_axes = [[], []] partial = sum[0] : !shard.sharding\n%r = shard.shard %x to %s : tensor<4x6xf32>", "partial sums"),
    "reduce_precision": ("%r = stablehlo.reduce_precision %x, format = e5m10 : tensor<4x6xf32>", "no such operation"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_op_without_upstream_form_is_refused_at_its_location(name: str) -> None:
    lines, reason = FAULTS[name]
    with pytest.raises(
        ProgramError, match=f"'{name}' cannot be expressed in upstream's dialects: .*{reason}"
    ) as caught:
        print_upstream(program(lines))
    fault = caught.value.diagnostics[0]
    assert fault.code == "MG0103" and str(fault.loc).startswith("p.mlir:")


def test_all_ops_without_upstream_form_are_reported_together() -> None:
    lines = "%c = stablehlo.complex %x, %x : tensor<4x6xcomplex<f32>>\n%i = stablehlo.imag %c : (tensor<4x6xcomplex<f32>>) -> tensor<4x6xf32>"
    with pytest.raises(ProgramError) as caught:
        print_upstream(program(f"{lines}\n%r = stablehlo.reduce_precision %i, format = e5m10 : tensor<4x6xf32>"))
    assert [fault.message.split("'")[1] for fault in caught.value.diagnostics] == [
        "complex",
        "imag",
        "reduce_precision",
    ]


def test_partial_sums_after_propagation_are_refused() -> None:
    plan = api.plan((DATA / "mlir/b17_partial_sub_scatter.mlir").read_text(), target="cpu")
    with pytest.raises(ProgramError, match=r"'subtract' cannot be expressed .* it takes a partial sum"):
        print_upstream(plan.stages["propagate"])
    assert "shard.reduce_scatter" in print_upstream(plan.stages["partition"])


def test_upstream_text_of_fused_kernels_is_refused() -> None:
    with pytest.raises(ProgramError, match="a program at stage 'fuse' cannot be expressed"):
        print_upstream(api.plan(LAYER, target="cpu").stages["fuse"])
