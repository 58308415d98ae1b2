"""Tests of StableHLO text: import and printing of every op in both forms, with names and locations."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.ir.encode import graph_to_json
from meshgen.ir.graph import DTYPES, Graph, Module, TensorType
from meshgen.mesh import Mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate


def body(*lines: str, args: str = "", result: str = "", returns: str = "") -> str:
    text = "\n".join(f"  {line}" for line in lines)
    return f"func.func @main({args}) -> ({result}) {{\n{text}\n  return {returns} : {result}\n}}\n"


F, N, B = "tensor<4x6xf32>", "tensor<4x6xi32>", "tensor<4x6xi1>"
REGION = "^bb0(%p: tensor<f32>, %q: tensor<f32>):\n %s = stablehlo.add %p, %q : tensor<f32>\n stablehlo.return %s : tensor<f32>"
# By name: lines over %x, %y : 4x6xf32, %i : 4x6xi32, %b : 4x6xi1, %z : f32, %n : i32; result type; op and attributes of
# the node that defines %r.
OPS: dict[str, tuple[list[str], str, str, dict[str, object]]] = {
    "unary": ([f"%r = stablehlo.tanh %x : {F}"], F, "tanh", {}),
    "binary": ([f"%r = stablehlo.add %x, %y : {F}"], F, "add", {}),
    "chlo": ([f"%r = chlo.erf %x : {F} -> {F}"], F, "erf", {}),
    "square": ([f"%r = chlo.square %x : {F} -> {F}"], F, "multiply", {}),
    "mhlo": ([f"%r = mhlo.maximum %x, %y : {F}"], F, "maximum", {}),
    "convert": ([f"%r = stablehlo.convert %x : ({F}) -> {N}"], N, "convert", {}),
    "is_finite": ([f"%r = stablehlo.is_finite %x : ({F}) -> {B}"], B, "is_finite", {}),
    "compare": ([f"%r = stablehlo.compare GE, %x, %y, FLOAT : ({F}, {F}) -> {B}"], B, "compare",
                {"direction": "GE", "compare_type": "FLOAT"}),
    "compare_plain": ([f"%r = stablehlo.compare NE, %x, %y : ({F}, {F}) -> {B}"], B, "compare",
                      {"direction": "NE", "compare_type": ""}),
    "select": ([f"%r = stablehlo.select %b, %x, %y : {B}, {F}"], F, "select", {}),
    "clamp": ([f"%r = stablehlo.clamp %z, %x, %z : (tensor<f32>, {F}, tensor<f32>) -> {F}"], F, "clamp", {}),
    "iota": ([f"%r = stablehlo.iota dim = 1 : {N}"], N, "iota", {"dim": 1}),
    "broadcast": (["%r = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<4x6xf32>) -> tensor<4x5x6xf32>"],
                  "tensor<4x5x6xf32>", "broadcast_in_dim", {"dims": (0, 2)}),
    "broadcast_scalar": ([f"%r = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> {F}"], F,
                         "broadcast_in_dim", {"dims": ()}),
    "transpose": (["%r = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>"],
                  "tensor<6x4xf32>", "transpose", {"perm": (1, 0)}),
    "reshape": ([f"%r = stablehlo.reshape %x : ({F}) -> tensor<24xf32>"], "tensor<24xf32>", "reshape", {}),
    "reverse": ([f"%r = stablehlo.reverse %x, dims = [1] : {F}"], F, "reverse", {"dims": (1,)}),
    "slice": ([f"%r = stablehlo.slice %x [0:4, 1:6:2] : ({F}) -> tensor<4x3xf32>"], "tensor<4x3xf32>", "slice",
              {"start": (0, 1), "limit": (4, 6), "stride": (1, 2)}),
    "concatenate": ([f"%r = stablehlo.concatenate %x, %y, dim = 0 : ({F}, {F}) -> tensor<8x6xf32>"],
                    "tensor<8x6xf32>", "concatenate", {"dim": 0}),
    "pad": ([f"%r = stablehlo.pad %x, %z, low = [1, -1], high = [0, 2], interior = [0, 1] : ({F}, tensor<f32>) -> tensor<5x12xf32>"],
            "tensor<5x12xf32>", "pad", {"low": (1, -1), "high": (0, 2), "interior": (0, 1)}),
    "reduce": ([f"%r = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1] : ({F}, tensor<f32>) -> tensor<4xf32>"],
               "tensor<4xf32>", "reduce", {"dims": (1,), "kind": "maximum"}),
    "reduce_generic": ([f'%r = "stablehlo.reduce"(%x, %z) <{{dimensions = array<i64: 0>}}> ({{\n{REGION}\n}}) : ({F}, tensor<f32>) -> tensor<6xf32>'],
                       "tensor<6xf32>", "reduce", {"dims": (0,), "kind": "add"}),
    "dot": (["%t = stablehlo.transpose %y, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>",
             "%r = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0], precision = [HIGH, DEFAULT] : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>"],
            "tensor<4x4xf32>", "dot_general",
            {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ("HIGH", "DEFAULT")}),
    "dot_batch": (["%r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4xf32>"],
                  "tensor<4xf32>", "dot_general",
                  {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (1,), "rhs_contract": (1,), "precision": ()}),
    "gather": (['%w = stablehlo.constant dense<[[2], [0], [3]]> : tensor<3x1xi32>',
                '%r = "stablehlo.gather"(%x, %w) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<3x1xi32>) -> tensor<3x6xf32>'],
               "tensor<3x6xf32>", "gather", {"offset_dims": (1,), "collapsed_slice_dims": (0,), "index_vector_dim": 1, "slice_sizes": (1, 6)}),
    "dynamic_slice": ([f"%r = stablehlo.dynamic_slice %x, %n, %n, sizes = [2, 3] : ({F}, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>"],
                      "tensor<2x3xf32>", "dynamic_slice", {"slice_sizes": (2, 3)}),
    "dynamic_update_slice": ([f"%u = stablehlo.slice %y [0:2, 0:3] : ({F}) -> tensor<2x3xf32>",
                              f"%r = stablehlo.dynamic_update_slice %x, %u, %n, %n : ({F}, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> {F}"],
                             F, "dynamic_update_slice", {}),
    "reduce_window": ([f'%r = "stablehlo.reduce_window"(%x, %z) <{{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>}}> ({{\n{REGION}\n}}) : ({F}, tensor<f32>) -> {F}'],
                      F, "reduce_window", {"window_dimensions": (1, 2), "window_strides": (1, 1), "low": (0, 1), "high": (0, 0)}),
    "scatter": (['%w = stablehlo.constant dense<[[2], [0], [3]]> : tensor<3x1xi32>',
                 f'%u = stablehlo.slice %y [0:3, 0:6] : ({F}) -> tensor<3x6xf32>',
                 f'%r = "stablehlo.scatter"(%x, %w, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{\n{REGION}\n}}) : ({F}, tensor<3x1xi32>, tensor<3x6xf32>) -> {F}'],
                F, "scatter", {"inserted_window_dims": (0,), "index_vector_dim": 1, "unique_indices": False}),
    "rng": (["%s = stablehlo.constant dense<7> : tensor<2xui64>",
             "%t, %r = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x6xui32>)"],
            "tensor<4x6xui32>", "rng_bit_generator", {"algorithm": "THREE_FRY"}),
    "top_k": (["%r, %t = chlo.top_k(%x, k = 2) : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)"],
              "tensor<4x2xf32>", "top_k", {"k": 2}),
}  # fmt: skip
ARGS = f"%x: {F}, %y: {F}, %i: {N}, %b: {B}, %z: tensor<f32>, %n: tensor<i32>"


@pytest.mark.parametrize("case", OPS, ids=str)
def test_op_is_imported_with_attributes_and_round_trips(case: str) -> None:
    lines, result, op, attrs = OPS[case]
    module = parse_text(body(*lines, args=ARGS, result=result, returns="%r"))
    node = next(node for node in module.graph.nodes if module.graph.outputs[0] in node.results)
    assert node.op == op
    assert {name: getattr(node.attrs, name) for name in attrs} == attrs
    assert module.graph.outputs[0].name == "r"
    printed = print_text(module)
    reparsed = parse_text(printed)
    assert print_text(reparsed) == printed
    assert _without_locations(reparsed.graph) == _without_locations(module.graph)
    is_pretty = not any("mhlo" in line or '"' in line or "square" in line for line in lines)
    assert not is_pretty or all(line in printed for line in lines)


def _without_locations(graph: object) -> object:
    """Return the JSON of a graph without source locations."""

    def strip(item: object) -> object:
        if isinstance(item, dict):
            return {name: strip(value) for name, value in item.items() if name != "loc"}
        return [strip(entry) for entry in item] if isinstance(item, list | tuple) else item

    return strip(graph_to_json(graph))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "literal, dtype, expected",
    [
        ("1.500000e+00", "f32", 1.5),
        ("0xFF800000", "f32", -np.inf),
        ("0xFF80", "bf16", -np.inf),
        ("-3", "i32", -3),
        ("true", "i1", True),
        ("4294967295", "ui32", 2**32 - 1),
        ("3.535160e-01", "bf16", 0.353515625),
    ],
)
def test_splat_constants_keep_their_bits(literal: str, dtype: str, expected: float) -> None:
    text = body(
        f"%c = stablehlo.constant dense<{literal}> : tensor<2x3x{dtype}>", result=f"tensor<2x3x{dtype}>", returns="%c"
    )
    module = parse_text(text)
    value = module.graph.nodes[0].attrs.value
    assert value.shape == (2, 3) and np.all(value == np.asarray(expected).astype(value.dtype))
    reparsed = parse_text(print_text(module)).graph.nodes[0].attrs.value
    assert reparsed.tobytes() == value.tobytes() and reparsed.dtype == value.dtype


def test_large_splat_costs_one_element() -> None:
    text = body(
        "%c = stablehlo.constant dense<0.0> : tensor<65536x65536xf32>", result="tensor<65536x65536xf32>", returns="%c"
    )
    module = parse_text(text)
    assert module.graph.nodes[0].attrs.value.strides == (0, 0)
    assert "dense<0.000000e+00> : tensor<65536x65536xf32>" in print_text(module)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64", "i8", "ui16", "i64", "f8E4M3FN", "i1"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0, 2), (11, 13), (2, 1, 4)], ids=str)
def test_dense_constants_round_trip_bit_for_bit(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    array = rng.standard_normal(shape).astype(DTYPES[dtype]) if dtype != "i1" else rng.random(shape) > 0.5
    graph = Graph("main")
    graph.outputs = graph.add("constant", [], [TensorType(shape, dtype)], {"value": np.asarray(array)}).results
    reparsed = parse_text(print_text(Module(Mesh(()), graph))).graph.nodes[0].attrs.value
    assert reparsed.dtype == DTYPES[dtype] and reparsed.shape == shape
    assert np.ascontiguousarray(reparsed).tobytes() == np.asarray(array).tobytes()


def test_values_keep_names_and_nodes_keep_locations() -> None:
    text = body(
        f"%h = stablehlo.add %x, %x : {F}", f"%0 = stablehlo.tanh %h : {F}", args=f"%x: {F}", result=F, returns="%0"
    )
    graph = parse_text(text, "model.mlir").graph
    assert [value.name for value in graph.values()] == ["x", "h", "0"]
    assert str(graph.nodes[1].loc) == "model.mlir:3" and graph.nodes[1].loc.column == 3  # pyright: ignore[reportOptionalMemberAccess]
    assert str(graph.inputs[0].loc) == "model.mlir:1"


def test_explicit_locations_and_aliases_override_line_numbers() -> None:
    lines = [
        f'%0 = stablehlo.tanh %x : {F} loc("jit(f)/tanh"(#loc3))',
        f"%1 = stablehlo.tanh %0 : {F} loc(#loc2)",
        f'%2 = stablehlo.tanh %1 : {F} loc(callsite("a.py":9:1 at "b.py":1:1))',
        f"%3 = stablehlo.tanh %2 : {F} loc(unknown)",
    ]
    text = body(*lines, args=f"%x: {F} loc(unknown)", result=F, returns="%3")
    text = "#loc = loc(unknown)\n" + text + '#loc2 = loc("model.py":7:12)\n#loc3 = loc(fused[#loc2, "o.py":1:1])\n'
    locations = [str(node.loc) for node in parse_text(text, "m.mlir").graph.nodes]
    assert locations == ["model.py:7", "model.py:7", "a.py:9", "m.mlir:6"]


def test_duplicate_names_get_suffixes_or_free_numbers() -> None:
    graph = parse_text(body(f"%0 = stablehlo.tanh %x : {F}", args=f"%x: {F}", result=F, returns="%0"))
    for name in ("x", "0", "bad name", "h_1", "h_1"):
        node = graph.graph.add("tanh", [graph.graph.outputs[0]], [graph.graph.outputs[0].type], name=name)
        graph.graph.outputs = node.results
    names = [value.name for value in parse_text(print_text(graph)).graph.values()]
    assert names == ["x", "0", "x_0", "1", "2", "h_1", "h_0"]


def test_generic_form_of_a_module_is_imported() -> None:
    text = """"builtin.module"() <{sym_name = "jit_f"}> ({
  "func.func"() <{arg_attrs = [{jax.x = 1 : i32}], function_type = (tensor<3xf32>) -> tensor<3xf32>, res_attrs = [{}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3xf32>):
    %0 = "stablehlo.add"(%arg0, %arg0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "func.return"(%0) : (tensor<3xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 8 : i32} : () -> ()
"""
    module = parse_text(text)
    assert module.name == "jit_f" and [node.op for node in module.graph.nodes] == ["add"]


@pytest.mark.parametrize(
    "literal, kind, elements",
    [
        ("[255, -128, 0xFF]", "3xi8", [-1, -128, -1]),
        ("4294967295", "i32", -1),
        ("[1, // one\n 2]", "2xi32", [1, 2]),
        ('"0x0D"', "4xi1", [True, False, True, True]),
    ],
)
def test_integer_literals_are_read_as_by_upstream(literal: str, kind: str, elements: object) -> None:
    """A signless integer may have any signed or unsigned value of its width, and comments may stand between elements."""
    text = body(f"%c = stablehlo.constant dense<{literal}> : tensor<{kind}>", result=f"tensor<{kind}>", returns="%c")
    (node,) = parse_text(text).graph.nodes
    assert node.attrs.value.tolist() == elements


@pytest.mark.parametrize("literal, kind", [("256", "i8"), ("-129", "i8"), ("-1", "ui8")])
def test_literal_out_of_range_is_refused(literal: str, kind: str) -> None:
    text = body(f"%c = stablehlo.constant dense<{literal}> : tensor<{kind}>", result=f"tensor<{kind}>", returns="%c")
    with pytest.raises(ProgramError, match="is out of range"):
        parse_text(text)


def test_boolean_resource_has_one_byte_per_element() -> None:
    text = body("%c = stablehlo.constant dense_resource<b> : tensor<8xi1>", result="tensor<8xi1>", returns="%c")
    text += '{-#\n  dialect_resources: {\n    builtin: {\n      b: "0x010000000100000101000000"\n    }\n  }\n#-}\n'
    (node,) = parse_text(text).graph.nodes
    assert node.attrs.value.tolist() == [True, False, False, True, True, False, False, False]


@pytest.mark.parametrize("source, target", [("i1", "i32"), ("i8", "f32"), ("i1", "f32")])
def test_dot_of_integers_converts_operands_to_result_dtype(source: str, target: str) -> None:
    """Booleans are added as integers if the result is not boolean. For a float result, integers are first converted."""
    types = f"(tensor<2x3x{source}>, tensor<3x2x{source}>) -> tensor<2x2x{target}>"
    text = body(
        f"%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : {types}",
        args=f"%x: tensor<2x3x{source}>, %y: tensor<3x2x{source}>", result=f"tensor<2x2x{target}>", returns="%r",
    )  # fmt: skip
    x = np.array([[1, 1, 0], [1, 1, 1]]).astype(DTYPES[source])
    (result,) = evaluate(parse_text(text).graph, [x, x.T])
    assert result.dtype == DTYPES[target] and result.tolist() == [[2, 2], [2, 3]]


def test_uncalled_function_declaration_is_ignored() -> None:
    text = "func.func private @other(tensor<f32>) -> tensor<f32>\n" + body(args=f"%x: {F}", result=F, returns="%x")
    assert len(parse_text(text).graph.inputs) == 1
