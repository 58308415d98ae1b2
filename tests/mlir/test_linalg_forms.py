"""Tests of linalg, tensor and scf in the forms that mlir-opt of LLVM 22 prints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.ir.graph import Module, Node
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate


def program(arguments: str, result: str, lines: str) -> Module:
    return parse_text(f"func.func @main({arguments}) -> {result} {{\n{lines}\n  return %r : {result}\n}}")


def node(module: Module, op: str) -> Node:
    return next(candidate for candidate in module.graph.nodes if candidate.op == op)


def first_result(module: Module, *args: Any) -> Any:
    return evaluate(module.graph, args)[0]


@pytest.mark.parametrize("predicate, expected", [(2, [False, True]), (4, [True, False])])
def test_short_map_reads_attributes_of_its_operation(predicate: int, expected: list[bool]) -> None:
    module = program(
        "%a: tensor<2xf32>, %b: tensor<2xf32>",
        "tensor<2xi1>",
        f"""
      %e = tensor.empty() : tensor<2xi1>
      %r = linalg.map {{ arith.cmpf {{predicate = {predicate} : i64}} }} ins(%a, %b : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xi1>)""",
    )
    np.testing.assert_array_equal(first_result(module, np.float32([1, 3]), np.float32([2, 1])), expected)


def test_short_map_converts_to_the_element_type_of_its_output() -> None:
    module = program(
        "%a: tensor<2xbf16>",
        "tensor<2xf64>",
        """
      %e = tensor.empty() : tensor<2xf64>
      %r = linalg.map { arith.extf } ins(%a : tensor<2xbf16>) outs(%e : tensor<2xf64>)""",
    )
    assert module.graph.nodes[-1].op == "convert" and module.graph.outputs[0].type.dtype == "f64"


MATMUL = """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul {{precision = [{0}]}} ins(%a, %b : tensor<4x6xf32>, tensor<6x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>"""
FACTORS = "%a: tensor<4x6xf32>, %b: tensor<6x8xf32>"


def test_matmul_precision_is_imported() -> None:
    module = program(FACTORS, "tensor<4x8xf32>", MATMUL.format('"DEFAULT", "HIGH"'))
    assert node(module, "dot_general").attrs.precision == ("DEFAULT", "HIGH")


@pytest.mark.parametrize("words", ['"DEFAULT"', '"DEFAULT", "EXACT"'])
def test_unknown_matmul_precision_is_refused(words: str) -> None:
    with pytest.raises(
        ProgramError, match="MG0104: dot_general: the precision must be one of DEFAULT, HIGH, HIGHEST per operand"
    ):
        program(FACTORS, "tensor<4x8xf32>", MATMUL.format(words))


def test_expand_shape_of_scalar_tensor_adds_dims() -> None:
    module = program(
        "%a: tensor<f32>",
        "tensor<1x1xf32>",
        "%r = tensor.expand_shape %a [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>",
    )
    assert first_result(module, np.float32(3)).tolist() == [[3.0]]


POOL = """
  %z = arith.constant {fill} : f32
  %p = tensor.pad %x low[2] high[1] {{
  ^bb0(%i: index):
    tensor.yield %z : f32
  }} : tensor<6xf32> to tensor<9xf32>
  %w = tensor.empty() : tensor<{window}xf32>
  %e = tensor.empty() : tensor<{size}xf32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<{size}xf32>) -> tensor<{size}xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0 + d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}} ins(%p, %w : tensor<9xf32>, tensor<{window}xf32>) outs(%f : tensor<{size}xf32>) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.maximumf %o, %a : f32
    linalg.yield %m : f32
  }} -> tensor<{size}xf32>"""
LOW = "%s = arith.constant 0xFF800000 : f32"
X = np.float32([1, -2, 3, -4, 5, -6])


def test_neutral_padding_folds_into_reduce_window() -> None:
    module = program("%x: tensor<6xf32>", "tensor<7xf32>", LOW + POOL.format(fill="0xFF800000", window=3, size=7))
    window = node(module, "reduce_window")
    assert (window.attrs.low, window.attrs.high) == ((2,), (1,)) and window.operands[0] is module.graph.inputs[0]
    assert first_result(module, X).tolist() == [1, 1, 3, 3, 5, 5, 5]


def test_other_padding_does_not_fold_into_reduce_window() -> None:
    module = program("%x: tensor<6xf32>", "tensor<7xf32>", LOW + POOL.format(fill="2.0", window=3, size=7))
    assert node(module, "reduce_window").attrs.low == (0,)
    assert first_result(module, X).tolist() == [2, 2, 3, 3, 5, 5, 5]


def test_single_window_reads_part_of_longer_operand() -> None:
    module = program("%x: tensor<6xf32>", "tensor<1xf32>", LOW + POOL.format(fill="2.0", window=4, size=1))
    assert first_result(module, X).tolist() == [2]


def test_zero_padding_folds_into_convolution() -> None:
    module = program(
        "%x: tensor<1x4x4x2xf32>, %k: tensor<3x3x2x5xf32>",
        "tensor<1x4x4x5xf32>",
        """
      %z = arith.constant 0.0 : f32
      %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
      ^bb0(%a: index, %b: index, %c: index, %d: index):
        tensor.yield %z : f32
      } : tensor<1x4x4x2xf32> to tensor<1x6x6x2xf32>
      %e = tensor.empty() : tensor<1x4x4x5xf32>
      %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x4x4x5xf32>) -> tensor<1x4x4x5xf32>
      %r = linalg.conv_2d_nhwc_hwcf ins(%p, %k : tensor<1x6x6x2xf32>, tensor<3x3x2x5xf32>) outs(%f : tensor<1x4x4x5xf32>) -> tensor<1x4x4x5xf32>""",
    )
    convolution = node(module, "convolution")
    assert (convolution.attrs.low, convolution.attrs.high) == ((1, 1), (1, 1))
    assert convolution.operands[0] is module.graph.inputs[0]


def test_cast_loop_index_becomes_iota_of_its_dtype() -> None:
    module = program(
        "",
        "tensor<3x4xi32>",
        """
      %r = tensor.generate {
      ^bb0(%i: index, %j: index):
        %n = arith.index_cast %j : index to i32
        tensor.yield %n : i32
      } : tensor<3x4xi32>""",
    )
    assert [inner.op for inner in module.graph.nodes] == ["iota", "broadcast_in_dim"]
    assert first_result(module).tolist() == [[0, 1, 2, 3]] * 3


@pytest.mark.parametrize("kind, has_case", [("i32", True), ("i64", False)])
def test_index_switch_over_i32_becomes_case(kind: str, has_case: bool) -> None:
    module = program(
        f"%i: tensor<{kind}>",
        "i32",
        f"""
      %n = tensor.extract %i[] : tensor<{kind}>
      %x = arith.index_cast %n : {kind} to index
      %r, %s = scf.index_switch %x -> i32, i32
      case 0 {{
        scf.yield %c7, %c7 : i32, i32
      }}
      default {{
        scf.yield %c9, %c9 : i32, i32
      }}""".replace(
            "      %n =", "      %c7 = arith.constant 7 : i32\n      %c9 = arith.constant 9 : i32\n      %n =", 1
        ),
    )
    assert (node(module, "case").operands[0] is module.graph.inputs[0]) == has_case
    dtype = np.int32 if kind == "i32" else np.int64
    assert [int(first_result(module, dtype(i))) for i in (-1, 0, 1, 5)] == [9, 7, 9, 9]


def test_joint_reduction_of_no_elements_returns_initial_value() -> None:
    module = program(
        "%x: tensor<0xf32>, %n: tensor<0xi32>, %s: tensor<f32>, %i: tensor<i32>",
        "tensor<i32>",
        """
      %m, %r = linalg.reduce ins(%x, %n : tensor<0xf32>, tensor<0xi32>) outs(%s, %i : tensor<f32>, tensor<i32>) dimensions = [0]
        (%a: f32, %b: i32, %c: f32, %d: i32) {
          %t = arith.addf %a, %c : f32
          %p = arith.cmpf ogt, %t, %c : f32
          %k = arith.select %p, %b, %d : i32
          linalg.yield %t, %k : f32, i32
        }""",
    )
    assert int(first_result(module, np.zeros(0, np.float32), np.zeros(0, np.int32), np.float32(1), np.int32(7))) == 7


@pytest.mark.parametrize("attributes, op", [("{any_order} ", "reduce_region"), ("", "while")])
def test_any_order_reduction_region_avoids_a_loop(attributes: str, op: str) -> None:
    module = program(
        "%x: tensor<4xf32>, %n: tensor<4xi32>",
        "tensor<i32>",
        f"""
      %z = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<f32>
      %s = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
      %o = arith.constant 0 : i32
      %f = tensor.empty() : tensor<i32>
      %i = linalg.fill ins(%o : i32) outs(%f : tensor<i32>) -> tensor<i32>
      %m, %r = linalg.reduce ins(%x, %n : tensor<4xf32>, tensor<4xi32>) outs(%s, %i : tensor<f32>, tensor<i32>) dimensions = [0] {attributes}
        (%a: f32, %b: i32, %c: f32, %d: i32) {{
          %t = arith.addf %a, %c : f32
          %k = arith.maxsi %b, %d : i32
          %j = arith.xori %k, %k : i32
          %l = arith.addi %k, %j : i32
          linalg.yield %t, %l : f32, i32
        }}""",
    )
    assert op in [inner.op for inner in module.graph.nodes]
    assert int(first_result(module, np.float32([1, 2, 3, 4]), np.int32([5, 9, 2, 7]))) == 9
