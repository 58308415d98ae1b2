"""Tests of upstream ops with invalid numbers of operands, results or region arguments: refused at their location."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text

FORMS = {
    "two results": '''"func.func"() <{sym_name = "f", function_type = (f32, tensor<2xf32>) -> tensor<2xf32>}> ({
  ^bb0(%v: f32, %o: tensor<2xf32>):
    %r, %s = "linalg.fill"(%v, %o) <{operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb1(%a: f32, %b: f32):
      "linalg.yield"(%a) : (f32) -> ()
    }) : (f32, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    "func.return"(%r) : (tensor<2xf32>) -> ()
  }) : () -> ()''',
    "a table without entries": '''"func.func"() <{sym_name = "f", function_type = (tensor<2xi8>) -> tensor<2xi8>}> ({
  ^bb0(%v: tensor<2xi8>):
    %r = "tosa.table"(%v) : (tensor<2xi8>) -> tensor<2xi8>
    "func.return"(%r) : (tensor<2xi8>) -> ()
  }) : () -> ()''',
    "an element at too many places": '''"func.func"() <{sym_name = "f", function_type = (tensor<6x8xf32>) -> tensor<8x6xf32>}> ({
  ^bb0(%x: tensor<6x8xf32>):
    %r = "tensor.generate"() ({
    ^bb1(%i: index, %j: index):
      %v = "tensor.extract"(%x, %j, %j, %i) : (tensor<6x8xf32>, index, index, index) -> f32
      "tensor.yield"(%v) : (f32) -> ()
    }) : () -> tensor<8x6xf32>
    "func.return"(%r) : (tensor<8x6xf32>) -> ()
  }) : () -> ()''',
    "a root that is nowhere": '''"shard.grid"() <{sym_name = "g", shape = array<i64: 2>}> : () -> ()
  "func.func"() <{sym_name = "f", function_type = (tensor<2xf32>) -> tensor<2xf32>}> ({
  ^bb0(%x: tensor<2xf32>):
    %r = "shard.broadcast"(%x) <{grid = @g, grid_axes = array<i16: 0>, root = array<i64: -9223372036854775808>}> : (tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%r) : (tensor<2xf32>) -> ()
  }) : () -> ()''',
    "a loop that hands on less than its body takes": '''"func.func"() <{sym_name = "f", function_type = (tensor<2xf32>, i1) -> tensor<2xf32>}> ({
  ^bb0(%x: tensor<2xf32>, %p: i1):
    %r = "scf.while"(%x) ({
    ^bb1(%a: tensor<2xf32>):
      "scf.condition"(%p, %a) : (i1, tensor<2xf32>) -> ()
    }, {
    ^bb2(%a: tensor<2xf32>, %b: f32):
      "scf.yield"(%a) : (tensor<2xf32>) -> ()
    }) : (tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%r) : (tensor<2xf32>) -> ()
  }) : () -> ()''',
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_wrong_operand_or_result_count_is_refused(name: str) -> None:
    with pytest.raises(ProgramError, match=r"MG010[34]") as caught:
        parse_text(f'"builtin.module"() ({{\n  {FORMS[name]}\n}}) : () -> ()')
    assert all(fault.loc is not None for fault in caught.value.diagnostics)


POOL = """"func.func"() <{sym_name = "f", function_type = (tensor<IN>) -> tensor<OUT>}> ({
  ^bb0(%x: tensor<IN>):
    %r = "tosa.max_pool2d"(%x) <{kernel = array<i64: 2, 2>, stride = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>}> : (tensor<IN>) -> tensor<OUT>
    "func.return"(%r) : (tensor<OUT>) -> ()
  }) : () -> ()"""
MAP = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %k = arith.constant 1 : index
  %l = affine.apply affine_map<(d0) -> (d0 + 1180591620717411303424)>(%k)
  return %x : tensor<4xf32>
}"""
DECONVOLVED = """func.func @main(%x: tensor<1x4x4x2xf32>, %k: tensor<?x3x2x2xf32>, %b: tensor<3xf32>) -> tensor<1x6x5x3xf32> {
  %r = tosa.transpose_conv2d %x, %k, %b {out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<?x3x2x2xf32>, tensor<3xf32>) -> tensor<1x6x5x3xf32>
  return %r : tensor<1x6x5x3xf32>
}"""
NOTHING = """"func.func"() <{sym_name = "f", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32>):
    %r = "linalg.map"(%x) <{combiner = "arith.addf", operandSegmentSizes = array<i32: 0, 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%r) : (tensor<4xf32>) -> ()
  }) : () -> ()"""
OTHERS = {
    "a function of nothing": (NOTHING, "MG0104", "linalg.map: arith.addf needs at least one operand"),
    "a result of another rank": (POOL.replace("IN", "1x4x4x2xf32").replace("OUT", "f32"), "MG0104", "-> f32[] must have ranks [4] -> 4"),
    "a number that no integer holds": (MAP, "MG0104", "1180591620717411303424 does not fit into 64 bits"),
    "a size that is asked for and open": (DECONVOLVED, "MG0208", "f32[?,3,2,2] has sizes that are unknown until load"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_invalid_values_with_valid_counts_are_refused(name: str) -> None:
    text, code, message = OTHERS[name]
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    assert any(fault.code == code and message in fault.message and fault.loc for fault in caught.value.diagnostics)
