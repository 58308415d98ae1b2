"""A small example program for each operation that has generated kernels. `docs/generate.py` reports for which of them
kernels can be generated.

An element-wise operation is tried for every dtype. Other operations are tried for one dtype, because they move or
create elements of any dtype alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.codegen.triton_source import kernel_source
from meshgen.errors import CodegenError, Location
from meshgen.ir.graph import DTYPES, Graph, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text
from meshgen.ops.registry import OPS, with_kernel
from meshgen.ops.triton.registers import TRITON_TYPES
from meshgen.ops.types.inference import verify_node
from meshgen.pipeline import Options, Timing, run_stages

MESH = make_mesh({"x": 2})
_ARITY = {name: OPS[name].operands for name in with_kernel("expression")}
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "compare": {"direction": "LT", "compare_type": ""},
    "reduce_precision": {"exponent_bits": 5, "mantissa_bits": 3},
    "to_partial": {"axes": ("x",), "kind": "sum"},
}
_CUT = {"start": (1,), "limit": (4,), "stride": (1,)}
_ROWS = {"offset_dims": (1,), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "start_indices_batching_dims": (),
         "start_index_map": (0,), "index_vector_dim": 1, "slice_sizes": (1, 6)}  # fmt: skip
_PRODUCT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ()}
_LAYER = {
    "window_strides": (1,), "lhs_dilation": (1,), "rhs_dilation": (1,), "window_reversal": (False,), "low": (1,), "high": (1,),
    "input_batch": 0, "input_spatial": (1,), "input_feature": 2, "kernel_spatial": (0,), "kernel_input_feature": 1,
    "kernel_output_feature": 2, "output_batch": 0, "output_spatial": (1,), "output_feature": 2, "feature_group_count": 1,
    "batch_group_count": 1, "precision": (),
}  # fmt: skip

# Each entry is an operation with its operand shapes ("i" marks an i32 operand, all others are f32), its result shape,
# and its attributes.
_OTHERS: dict[str, tuple[Sequence[str], str, dict[str, Any]]] = {
    "broadcast_in_dim": (["6"], "4,6", {"dims": (1,)}),
    "reshape": (["4,6"], "3,8", {}),
    "transpose": (["4,6"], "6,4", {"perm": (1, 0)}),
    "reverse": (["6"], "6", {"dims": (0,)}),
    "slice": (["6"], "3", _CUT),
    "pad": (["6", ""], "9", {"low": (1,), "high": (2,), "interior": (0,)}),
    "mask_padding": (["6"], "6", {"axes": ("x",), "dim": 0, "size": 11, "fill": 0}),
    "all_slice": (["6"], "3", {"axes": ("x",), "dim": 0}),
    "iota": ([], "6", {"dim": 0}),
    "process_index": ([], "i", {"axes": ("x",)}),
    "concatenate": (["4", "2"], "6", {"dim": 0}),
    "gather": (["4,6", "i3,1"], "3,6", _ROWS),
    "dynamic_slice": (["6", "i"], "3", {"slice_sizes": (3,)}),
    "dynamic_update_slice": (["6", "3", "i"], "6", {}),
    "update_in_place": (["6", "3", "i"], "6", {}),
    "reduce": (["4,6", ""], "4", {"dims": (1,), "kind": "add"}),
    "dot_general": (["4,6", "6,4"], "4,4", _PRODUCT),
    "ragged_dot": (["6,4", "2,4,6", "i2", "i2"], "6,6", {"contracts": False}),
    "convolution": (["2,6,3", "3,3,4"], "2,6,4", _LAYER),
    "windows": (["6"], "4,3", {"dims": (0,), "sizes": (3,), "strides": (1,), "dilations": (1,)}),
}

_REGION = "    %r = stablehlo.tanh %x : tensor<4xf32>\n    stablehlo.return %r : tensor<4xf32>\n"
_SPECTRUM = """func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %z = stablehlo.complex %a, %b : tensor<4xcomplex<f32>>
  %y = stablehlo.fft %z, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %r = stablehlo.real %y : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %i = stablehlo.imag %y : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %r, %i : tensor<4xf32>, tensor<4xf32>
}
"""
_ADD = """({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  })"""
_AT_LEAST = """({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  })"""
_SAME = """{
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }"""
_CHANGE = """{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }"""
_QUERIES, _KEYS = "tensor<4x8xf32>", "tensor<6x8xf32>"
_GRADIENT_ARGS = f"%q: {_QUERIES}, %k: {_KEYS}, %v: {_KEYS}, %l: tensor<4xf32>, %d: tensor<4xf32>, %o: {_QUERIES}"
_GRADIENT_TYPES = f"({_QUERIES}, {_KEYS}, {_KEYS}, tensor<4xf32>, tensor<4xf32>, {_QUERIES})"
# Programs for operations that do not occur among the element-wise ops of a kernel: earlier passes expand them, or each
# has a kernel of its own.
PROGRAMS = {
    **dict.fromkeys(("complex", "fft", "imag", "real"), _SPECTRUM),
    "attention": f"""func.func @main(%q: {_QUERIES}, %k: {_KEYS}, %v: {_KEYS}) -> {_QUERIES} {{
  %y:2 = "sched.attention"(%q, %k, %v) <{{factors = "t d, s d, s e -> t e, t", zero_empty = false}}> ({_SAME}, {_SAME}) : ({_QUERIES}, {_KEYS}, {_KEYS}) -> ({_QUERIES}, tensor<4xf32>)
  return %y#0 : {_QUERIES}
}}
""",
    "attention_gradient_queries": f"""func.func @main({_GRADIENT_ARGS}) -> {_QUERIES} {{
  %y = "sched.attention_gradient_queries"(%q, %k, %v, %l, %d, %o) <{{factors = "t d, s d, s e, t, t, t e -> t d", zero_empty = false}}> ({_SAME}, {_SAME}, {_CHANGE}) : {_GRADIENT_TYPES} -> {_QUERIES}
  return %y : {_QUERIES}
}}
""",
    "attention_gradient_keys": f"""func.func @main({_GRADIENT_ARGS}) -> {_KEYS} {{
  %y:2 = "sched.attention_gradient_keys"(%q, %k, %v, %l, %d, %o) <{{factors = "t d, s d, s e, t, t, t e -> s d, s e", zero_empty = false}}> ({_SAME}, {_SAME}, {_CHANGE}) : {_GRADIENT_TYPES} -> ({_KEYS}, {_KEYS})
  %r = stablehlo.add %y#0, %y#1 : {_KEYS}
  return %r : {_KEYS}
}}
""",
    "cholesky": """func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = stablehlo.cholesky %x, lower = true : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
""",
    "triangular_solve": """func.func @main(%a: tensor<4x4xf32>, %b: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %y = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}
""",
    "optimization_barrier": """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = stablehlo.sine %x : tensor<8xf32>
  %z = stablehlo.optimization_barrier %y : tensor<8xf32>
  %r = stablehlo.cosine %z : tensor<8xf32>
  return %r : tensor<8xf32>
}
""",
    "rng_bit_generator": """func.func @main(%s: tensor<2xui64>) -> tensor<8xui32> {
  %t, %r = "stablehlo.rng_bit_generator"(%s) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
  return %r : tensor<8xui32>
}
""",
    "reduce_region": """func.func @main(%x: tensor<4x6xf32>, %z: tensor<f32>) -> tensor<4xf32> {
  %y:2 = "stablehlo.reduce"(%x, %x, %z, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    %e = stablehlo.add %a, %c : tensor<f32>
    %f = stablehlo.maximum %b, %d : tensor<f32>
    stablehlo.return %e, %f : tensor<f32>, tensor<f32>
  }) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %r = stablehlo.add %y#0, %y#1 : tensor<4xf32>
  return %r : tensor<4xf32>
}
""",
    "reduce_window": f"""func.func @main(%x: tensor<60xf32>, %z: tensor<f32>) -> tensor<20xf32> {{
  %y = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: 41>}}> {_ADD} : (tensor<60xf32>, tensor<f32>) -> tensor<20xf32>
  return %y : tensor<20xf32>
}}
""",
    "select_and_scatter": f"""func.func @main(%x: tensor<6xf32>, %g: tensor<3xf32>, %z: tensor<f32>) -> tensor<6xf32> {{
  %y = "stablehlo.select_and_scatter"(%x, %g, %z) <{{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}> {_AT_LEAST[:-1]}, {_ADD[1:]} : (tensor<6xf32>, tensor<3xf32>, tensor<f32>) -> tensor<6xf32>
  return %y : tensor<6xf32>
}}
""",
    "scatter": f"""func.func @main(%x: tensor<6x4xf32>, %i: tensor<3x1xi32>, %u: tensor<3x4xf32>) -> tensor<6x4xf32> {{
  %y = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {_ADD} : (tensor<6x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}}
""",
    "sort": f"""func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {{
  %y = "stablehlo.sort"(%x) <{{dimension = 0 : i64}}> {_AT_LEAST.replace("GE", "GT")} : (tensor<6xf32>) -> tensor<6xf32>
  return %y : tensor<6xf32>
}}
""",
    "top_k": """func.func @main(%x: tensor<6xf32>) -> tensor<2xf32> {
  %y, %i = chlo.top_k(%x, k = 2) : tensor<6xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %y : tensor<2xf32>
}
""",
    "recurrence": """func.func @main(%x: tensor<64x6xf32>) -> tensor<6xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<6xf32>
  %r:2 = stablehlo.while(%k = %zero, %h = %none) : tensor<i32>, tensor<6xf32>
    cond {
      %n = stablehlo.constant dense<64> : tensor<i32>
      %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %k, %one : tensor<i32>
      %slice = stablehlo.dynamic_slice %x, %k, %zero, sizes = [1, 6] : (tensor<64x6xf32>, tensor<i32>, tensor<i32>) -> tensor<1x6xf32>
      %row = stablehlo.reshape %slice : (tensor<1x6xf32>) -> tensor<6xf32>
      %s = stablehlo.multiply %h, %row : tensor<6xf32>
      %t = stablehlo.add %s, %row : tensor<6xf32>
      stablehlo.return %next, %t : tensor<i32>, tensor<6xf32>
    }
  return %r#1 : tensor<6xf32>
}
""",
    "if": f"""func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {{
  %y = "stablehlo.if"(%p) ({{
{_REGION}  }}, {{
    stablehlo.return %x : tensor<4xf32>
  }}) : (tensor<i1>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}}
""",
    "case": f"""func.func @main(%p: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {{
  %y = "stablehlo.case"(%p) ({{
{_REGION}  }}, {{
    stablehlo.return %x : tensor<4xf32>
  }}) : (tensor<i32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}}
""",
    "while": """func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %end = stablehlo.constant dense<9.0> : tensor<f32>
  %y = "stablehlo.while"(%x) ({
  ^bb0(%a: tensor<f32>):
    %p = stablehlo.compare LT, %a, %end : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>):
    %b = stablehlo.add %a, %a : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
""",
}


def kernels_of(name: str) -> str:
    """Return the table entry for the kernels of operation `name`: "yes", "not of" and the dtypes without kernels, or ""
    if there are none.
    """
    if name in PROGRAMS:
        return "yes" if _program_generates(PROGRAMS[name]) else ""
    if name in _ARITY:
        bodies = {dtype: body for dtype in TRITON_TYPES if _is_valid(body := _elementwise(name, dtype))}
        missing = [dtype for dtype, body in bodies.items() if not _generates(body)]
        if len(missing) == len(bodies):
            return ""
        return f"not of {', '.join(missing)}" if missing else "yes"
    if name == "constant":
        return "yes" if _generates(_constant()) else ""
    return "yes" if name in _OTHERS and _generates(_other(name, *_OTHERS[name])) else ""


def names() -> frozenset[str]:
    """Return the names of the operations that have an example program."""
    return frozenset({*_ARITY, *_OTHERS, *PROGRAMS, "constant"})


def _elementwise(name: str, dtype: str) -> Graph:
    shape, result = (6,), dtype
    types = [dtype] * _ARITY[name]
    if name in ("compare", "is_finite"):
        result = "i1"
    if name == "convert":
        result = "i32" if dtype == "f32" else "f32"
    if name == "bitcast_convert" and dtype != "i1":
        result = {1: "ui8", 2: "i16", 4: "i32", 8: "i64"}[DTYPES[dtype].itemsize]
    if name == "select":
        types[0] = "i1"
    return _body(name, [TensorType(shape, t) for t in types], TensorType(shape, result), _ATTRIBUTES.get(name, {}))


def _other(name: str, operands: Sequence[str], result: str, attrs: dict[str, Any]) -> Graph:
    return _body(name, [_type(text) for text in operands], _type(result), attrs)


def _type(text: str) -> TensorType:
    dims = text.removeprefix("i")
    return TensorType(tuple(int(d) for d in dims.split(",") if d), "i32" if text.startswith("i") else "f32")


def _body(name: str, operands: Sequence[TensorType], result: TensorType, attrs: dict[str, Any]) -> Graph:
    graph = Graph(name, [Value(t, f"x{n}") for n, t in enumerate(operands)])
    graph.outputs = [graph.add(name, graph.inputs, [result], attrs, loc=Location("example", 1)).result]
    return graph


def _constant() -> Graph:
    graph = Graph("constant")
    scalar = TensorType((), "f32")
    graph.outputs = [graph.add("constant", [], [scalar], {"value": np.zeros((), np.float32)}).result]
    return graph


def _is_valid(body: Graph) -> bool:
    return not any(verify_node(node) for node in body.nodes)


def _generates(body: Graph) -> bool:
    try:
        kernel_source(body.name, body, MESH)
    except CodegenError:
        return False
    return True


def _program_generates(text: str) -> bool:
    """Whether kernels can be generated for an entire program."""
    fused = run_stages(parse_text(text, meshes=[MESH]), Options("cuda:sm_90"), Timing(), "fuse")["fuse"]
    return all(_generates(body) for body in fused.kernels.values())
