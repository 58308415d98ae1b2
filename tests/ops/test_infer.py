"""Tests of type inference and node verification: each fault is reported with its numbers and location."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.errors import Location, ProgramError
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.ops.types.inference import infer_types, verify_graph, verify_node
from meshgen.spec import P, fit

LOC = Location("user.mlir", 7, 3)


def t(text: str) -> TensorType:
    """Parse a type such as `f32[2,?]`."""
    dtype, _, shape = text.rstrip("]").partition("[")
    return TensorType(tuple(None if n == "?" else int(n) for n in shape.split(",") if n), dtype)


def node(op: str, operands: list[str], results: list[str], **attrs: Any) -> Node:
    return Node(op, [Value(t(x)) for x in operands], [Value(t(x)) for x in results], attrs, LOC)


DOT = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (1,)}
GOOD = [
    ("add", ["f32[2,3]", "f32[2,3]"], ["f32[2,3]"], {}),
    ("add", ["f32[2,?]", "f32[?,3]"], ["f32[2,3]"], {}),
    ("compare", ["bf16[4]", "bf16[4]"], ["i1[4]"], {"direction": "LT"}),
    ("is_finite", ["f16[]"], ["i1[]"], {}),
    ("select", ["i1[]", "f32[3]", "f32[3]"], ["f32[3]"], {}),
    ("transpose", ["f32[2,3,4]"], ["f32[4,2,3]"], {"perm": (2, 0, 1)}),
    ("slice", ["f32[10]"], ["f32[3]"], {"start": (1,), "limit": (8,), "stride": (3,)}),
    ("concatenate", ["f32[2,3]", "f32[0,3]", "f32[4,3]"], ["f32[6,3]"], {"dim": 0}),
    ("pad", ["f32[3]", "f32[]"], ["f32[6]"], {"low": (-1,), "high": (2,), "interior": (1,)}),
    ("reduce", ["f32[2,3,4]", "f32[]"], ["f32[3]"], {"dims": (0, 2), "kind": "add"}),
    ("dot_general", ["f32[5,2,3]", "f32[5,3,7]"], ["f32[5,2,7]"], DOT),
    ("top_k", ["f32[2,9]"], ["f32[2,4]", "i32[2,4]"], {"k": 4}),
    ("ragged_dot", ["f32[6,4]", "f32[2,4,3]", "i32[2]", "i32[2]"], ["f32[6,3]"], {"contracts": False}),
    ("ragged_dot", ["f32[6,4]", "f32[6,3]", "i32[2]", "i32[2]"], ["f32[2,4,3]"], {"contracts": True}),
    ("dynamic_slice", ["f32[4,5]", "i32[]", "i32[]"], ["f32[2,5]"], {"slice_sizes": (2, 5)}),
    ("process_index", [], ["i32[]"], {"axes": ("x",)}),
]


@pytest.mark.parametrize("op, operands, results, attrs", GOOD)
def test_result_types_are_inferred_and_verified(
    op: str, operands: list[str], results: list[str], attrs: dict[str, Any]
) -> None:
    assert infer_types(op, attrs, [t(x) for x in operands]) == [t(x) for x in results]
    assert verify_node(node(op, operands, results, **attrs)) == []


def test_dot_result_may_be_wider_than_operands() -> None:
    assert verify_node(node("dot_general", ["bf16[5,2,3]", "bf16[5,3,7]"], ["f32[5,2,7]"], **DOT)) == []


NOT_INFERRED = [
    ("reshape", ["f32[6]"], ["f32[2,3]"], {}),
    ("convert", ["f32[6]"], ["bf16[6]"], {}),
    ("broadcast_in_dim", ["f32[1,3]"], ["f32[3,2]"], {"dims": (1, 0)}),
    ("iota", [], ["f32[3,2]"], {"dim": 1}),
    ("bitcast_convert", ["f32[3]"], ["ui8[3,4]"], {}),
    ("all_gather", ["f32[3,2]"], ["f32[10,2]"], {"axes": ("x",), "dim": 0}),
]


@pytest.mark.parametrize("op, operands, results, attrs", NOT_INFERRED)
def test_result_type_that_cannot_be_inferred_is_verified(
    op: str, operands: list[str], results: list[str], attrs: dict[str, Any]
) -> None:
    assert infer_types(op, attrs, [t(x) for x in operands]) is None
    assert verify_node(node(op, operands, results, **attrs)) == []


BAD = [
    ("add", ["f32[2,3]", "f32[3,2]"], ["f32[2,3]"], {}, ["differ in shape: f32[2,3] and f32[3,2]"]),
    ("add", ["f32[2]", "bf16[2]"], ["f32[2]"], {}, ["differ in element type: f32, bf16"]),
    ("add", ["f32[2]"], ["f32[2]"], {}, ["1 operands instead of 2"]),
    ("tanh", ["i32[2]"], ["i32[2]"], {}, ["i32 is not float or complex"]),
    ("add", ["f32[2]", "f32[2]"], ["f32[3]"], {}, ["expected result type f32[2], got f32[3]"]),
    ("compare", ["f32[2]", "f32[2]"], ["i1[2]"], {"direction": "XX"}, ["direction 'XX'"]),
    ("compare", ["f32[2]", "f32[2]"], ["i1[2]"], {}, ["has no attribute 'direction'"]),
    ("select", ["f32[]", "f32[3]", "f32[4]"], ["f32[3]"], {}, ["must have element type i1", "differ in shape: f32[3] and f32[4]"]),
    ("transpose", ["f32[2,3]"], ["f32[2,3]"], {"perm": (0, 0)}, ["perm [0, 0] is not a permutation of 2 dims"]),
    ("transpose", ["f32[2,3]"], ["f32[2,3]"], {"perm": "01"}, ["should be a tuple of integers"]),
    ("slice", ["f32[4]"], ["f32[3]"], {"start": (2,), "limit": (5,), "stride": (0,)}, ["[2, 5) is not inside [0, 4)", "stride 0"]),
    ("reshape", ["f32[6]"], ["f32[5]"], {}, ["6 elements into f32[5] with 5"]),
    ("broadcast_in_dim", ["f32[3]"], ["f32[4]"], {"dims": (0,)}, ["3 is neither 1 nor 4"]),
    ("pad", ["f32[3]", "f32[1]"], ["f32[0]"], {"low": (-9,), "high": (0,), "interior": (-1,)}, ["not a scalar", "interior padding -1", "removes more than its 3"]),
    ("concatenate", ["f32[2,3]", "f32[2,4]"], ["f32[4,3]"], {"dim": 0}, ["other dims differ"]),
    ("reduce", ["f32[2]", "i32[]"], ["f32[]"], {"dims": (1,), "kind": "and"}, ["is not logical", "must be a scalar of type f32, got i32[]", "names dim 1, but the rank is 1"]),
    ("dot_general", ["f32[5,2,3]", "f32[4,6,7]"], ["f32[5,2,7]"], DOT, ["5 against 4", "3 against 6"]),
    ("dot_general", ["f32[5,2,3]", "i32[5,3,7]"], ["f32[5,2,7]"], {**DOT, "lhs_batch": (2,)}, ["differ in element type: f32 and i32", "share dim 2"]),
    ("constant", [], ["f32[2]"], {"value": np.zeros(3)}, ["element type f64", "shape [3]"]),
    ("iota", [], ["f32[2]"], {"dim": 1}, ["dim 1 is out of range"]),
    ("annotate", ["f32[2]"], ["f32[2]"], {"sharding": P("x", None)}, ["sharding has 2 dims"]),
    ("all_reduce", ["f32[2]"], ["f32[2]"], {"axes": ("x",), "kind": "xor"}, ["elements of f32 cannot be reduced with kind 'xor'"]),
    ("top_k", ["c64[4]"], ["c64[2]", "i32[2]"], {"k": 2}, ["element type c64 is not ordered"]),
    ("remainder", ["c64[4]", "c64[4]"], ["c64[4]"], {}, ["element type c64 is not real"]),
    ("all_reduce", ["f32[2]"], ["f32[2]"], {"axes": "x", "kind": "sum"}, ["tuple of axis names"]),
    ("all_gather", ["f32[2,3]"], ["f32[4,4]"], {"axes": ("x",), "dim": 0}, ["another dim changes size"]),
    ("shift", ["f32[2]"], ["f32[2]"], {"axes": ("x",), "shift_axis": "y", "offset": 1}, ["shift_axis 'y'"]),
    ("top_k", ["f32[2]"], ["f32[3]", "i32[3]"], {"k": 3}, ["k is 3"]),
    ("ragged_dot", ["f32[6,4]", "f32[2,5,3]", "i32[2]", "i64[2]"], ["f32[6,3]"], {"contracts": False}, ["does not fit", "i64[2]"]),
    ("ragged_dot", ["f32[6,4]", "f32[6,3]", "i32[2]", "i32[3]"], ["f32[3,4,3]"], {"contracts": True}, ["differ in the number of groups"]),
]  # fmt: skip


@pytest.mark.parametrize("op, operands, results, attrs, parts", BAD)
def test_every_fault_is_reported_with_location_and_numbers(op: str, operands: list[str], results: list[str], attrs: dict[str, Any], parts: list[str]) -> None:  # fmt: skip
    faults = verify_node(node(op, operands, results, **attrs))
    assert len(faults) == len(parts)
    for fault, part in zip(faults, parts, strict=True):
        assert part in fault.message and fault.code == "MG0104" and fault.loc == LOC


def test_unknown_op_and_invalid_operands_are_reported() -> None:
    assert [f.code for f in verify_node(node("frobnicate", [], []))] == ["MG0103"]
    with pytest.raises(ProgramError, match=r"differ in shape: f32\[2\] and f32\[3\]"):
        infer_types("add", {}, [t("f32[2]"), t("f32[3]")], loc=LOC)


def test_gather_and_convolution_shapes_are_inferred_and_checked() -> None:
    gather = {"offset_dims": (2,), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "start_indices_batching_dims": (),
              "start_index_map": (0,), "index_vector_dim": 2, "slice_sizes": (1, 8)}  # fmt: skip
    assert infer_types("gather", gather, [t("f32[100,8]"), t("i32[4,6,1]")]) == [t("f32[4,6,8]")]
    wrong = {**gather, "slice_sizes": (2, 9)}
    messages = [f.message for f in verify_node(node("gather", ["f32[100,8]", "i32[4,6,1]"], ["f32[4,6,8]"], **wrong))]
    assert len(messages) == 2 and "9 is not inside 8" in messages[0] and "slice size 2" in messages[1]
    conv = {"window_strides": (2,), "low": (1,), "high": (1,), "lhs_dilation": (1,), "rhs_dilation": (2,), "window_reversal": (False,),
            "input_batch": 0, "input_feature": 1, "input_spatial": (2,), "kernel_output_feature": 0, "kernel_input_feature": 1,
            "kernel_spatial": (2,), "output_batch": 0, "output_feature": 1, "output_spatial": (2,), "feature_group_count": 1,
            "batch_group_count": 1}  # fmt: skip
    assert infer_types("convolution", conv, [t("f32[2,3,9]"), t("f32[4,3,3]")]) == [t("f32[2,4,4]")]
    assert (
        "6 input features"
        in verify_node(node("convolution", ["f32[2,6,9]", "f32[4,3,3]"], ["f32[2,4,4]"], **conv))[0].message
    )


def test_nodes_inside_regions_are_verified() -> None:
    body = Graph("body", [Value(t("f32[]"))])
    body.outputs = [body.add("add", [body.inputs[0], Value(t("f32[2]"))], [t("f32[]")]).result]
    loop = node("while", ["f32[]"], ["f32[]"])
    loop.regions = (body, body)
    messages = [f.message for f in verify_node(loop)]
    assert "region 0 returns (f32[]) instead of (i1[])" in messages[0]
    assert any("differ in shape: f32[] and f32[2]" in m for m in messages[1:])


def test_verify_graph_reports_undefined_values() -> None:
    graph = Graph("main", [Value(t("f32[2]"))])
    later = Value(t("f32[2]"))
    graph.add("add", [graph.inputs[0], later], [t("f32[2]")])
    graph.outputs = [later]
    assert [f.message for f in verify_graph(graph)] == [
        "'add' reads a value of type f32[2] (operand 1), which is not defined before it",
        "output 0 of 'main' is a value of type f32[2], which has no definition",
    ]


TILES = [
    ("all_gather", "f32[3]", "f32[10]", True), ("all_gather", "f32[3]", "f32[12]", True), ("all_gather", "f32[3]", "f32[13]", False),
    ("all_gather", "f32[1]", "f32[2]", True), ("all_gather", "f32[3]", "f32[9]", True), ("all_gather", "f32[4]", "f32[9]", False),
    ("all_slice", "f32[10]", "f32[3]", True), ("all_slice", "f32[10]", "f32[2]", False), ("reduce_scatter", "f32[10]", "f32[4]", False),
]  # fmt: skip


@pytest.mark.parametrize("op, operand, result, sound", TILES)
def test_collective_tile_sizes_are_checked_on_mesh(op: str, operand: str, result: str, sound: bool) -> None:
    collective = node(
        op, [operand], [result], axes=("x",), dim=0, **({"kind": "sum"} if op == "reduce_scatter" else {})
    )
    assert verify_node(collective) == []
    assert (verify_node(collective, make_mesh({"x": 4})) == []) == sound


def test_unknown_mesh_axes_are_reported() -> None:
    gather = node("all_gather", ["f32[2]"], ["f32[4]"], axes=("q",), dim=0)
    assert [f.code for f in verify_node(gather, make_mesh({"x": 2}))] == ["MG0202"]
    assert verify_node(node("annotate", ["f32[2]"], ["f32[2]"], sharding=fit(P("q"), 1))) == []
