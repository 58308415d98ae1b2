"""Tests that the verifier refuses wrong regions, result counts and attributes, which only a forged file can contain."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from meshgen.ir.graph import Graph, Node, Value
from meshgen.mesh import make_mesh
from meshgen.ops.types.inference import verify_node
from meshgen.spec import P
from tests.ops.test_infer import node, t

MESH = make_mesh({"x": 2, "y": 3})
WINDOW = dict.fromkeys(("window_dimensions", "window_strides", "base_dilations", "window_dilations"), (1,)) | {"low": (0,), "high": (0,)}  # fmt: skip
SCATTER = {"update_window_dims": (), "inserted_window_dims": (0,), "input_batching_dims": (), "scatter_indices_batching_dims": (),
           "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}  # fmt: skip
GATHER = {"offset_dims": (), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "start_indices_batching_dims": (),
          "start_index_map": (0,), "index_vector_dim": 1, "slice_sizes": (1,)}  # fmt: skip


def region(inputs: list[str], outputs: list[str]) -> Graph:
    """Return a region whose outputs are inputs of the same type, or undefined values if no input has the type."""
    graph = Graph("region", [Value(t(kind)) for kind in inputs])
    graph.outputs = [next((v for v in graph.inputs if v.type == t(kind)), Value(t(kind))) for kind in outputs]
    return graph


def with_regions(op: str, operands: list[str], results: list[str], regions: list[Graph], **attrs: Any) -> Node:
    forged = node(op, operands, results, **attrs)
    forged.regions = tuple(regions)
    return forged


FOLD = region(["f32[]", "f32[]"], ["f32[]"])
REGIONS = [
    ("reduce_region", ["f32[4]", "f32[]"], ["f32[]"], [region(["f32[]", "f32[]"], [])], {"dims": (0,)}, r"region 0 returns \(\)"),
    ("reduce_region", ["f32[4]", "f32[]"], ["f32[]"], [region(["f32[]", "f32[]", "f32[]"], ["f32[]"])], {"dims": (0,)}, "region 0 takes"),
    ("reduce_region", ["f32[4]", "f32[]"], ["f32[]"], [region(["f32[2]", "f32[2]"], ["f32[2]"])], {"dims": (0,)}, "region 0 takes"),
    ("reduce_window", ["f32[4]", "f32[]"], ["f32[4]"], [region(["f32[]", "f32[]"], ["f32[]", "f32[]"])], WINDOW, "region 0 returns"),
    ("reduce_window", ["f32[4]", "i32[]"], ["f32[4]"], [FOLD], WINDOW, "must be a scalar of type f32, got i32"),
    ("reduce_window", ["f32[4]", "f32[5]", "f32[]", "f32[]"], ["f32[4]", "f32[4]"],
     [region(["f32[]"] * 4, ["f32[]"] * 2)], WINDOW, "differ in shape"),
    ("select_and_scatter", ["f32[4]", "f32[4]", "f32[]"], ["f32[4]"], [FOLD, FOLD],
     {"window_dimensions": (1,), "window_strides": (1,), "low": (0,), "high": (0,)}, "region 0 returns"),
    ("sort", ["f32[4]"], ["f32[4]"], [FOLD], {"dim": 0}, "region 0 returns"),
    ("scatter", ["f32[4]", "i32[2,1]", "f32[2]"], ["f32[4]"], [region(["f32[]"], ["f32[]"])], SCATTER, "region 0 takes"),
    ("while", ["f32[]"], ["f32[]"], [region(["f32[]"], ["f32[]"]), region(["f32[]"], ["f32[]"])], {}, "region 0 returns"),
    ("if", ["i1[]", "f32[]"], ["f32[]"], [region(["f32[]"], ["f32[]"]), region(["f32[]"], [])], {}, "region 1 returns"),
    ("case", ["i32[]", "f32[]"], ["f32[]"], [region(["f32[]"], ["f32[]"]), region([], ["f32[]"])], {}, "region 1 takes"),
    ("add", ["f32[]", "f32[]"], ["f32[]"], [FOLD], {}, "has 1 regions instead of none"),
]  # fmt: skip


@pytest.mark.parametrize("op, operands, results, regions, attrs, message", REGIONS)
def test_region_with_wrong_signature_is_refused(op: str, operands: list[str], results: list[str], regions: list[Graph], attrs: dict[str, Any], message: str) -> None:  # fmt: skip
    faults = verify_node(with_regions(op, operands, results, regions, **attrs))
    assert any(re.search(message, fault.message) for fault in faults), faults


FORGED = [
    ("broadcast_in_dim", ["f32[3]"], ["f32[3]", "f32[3]"], {"dims": (0,)}, "2 results instead of 1"),
    ("constant", [], [], {"value": np.zeros(3, np.float32)}, "0 results instead of 1"),
    ("all_gather", ["f32[2]"], ["f32[4]", "f32[4]"], {"axes": ("x",), "dim": 0}, "2 results instead of 1"),
    ("iota", [], ["f32[3]"], {"dim": 1 << 70}, "an integer of 64 bits"),
    ("compare", ["f32[2]", "f32[2]"], ["i1[2]"], {"direction": "LT", "compare_type": ["FLOAT"]}, "'compare_type' is"),
    ("rng_bit_generator", ["ui64[2]"], ["ui64[2]", "ui32[2]"], {"algorithm": 5}, "'algorithm' is 5"),
    ("reduce_precision", ["f32[2]"], ["f32[2]"], {"exponent_bits": 0, "mantissa_bits": 3}, "exponent_bits is 0"),
    ("cholesky", ["f32[2,2]"], ["f32[2,2]"], {"lower": np.zeros(2)}, "true or false"),
    ("fft", ["c64[0]"], ["c64[0]"], {"kind": "FFT", "length": (0,)}, "an entry below 1"),
    ("gather", ["f32[4]", "i32[2,1]"], ["f32[2]"], {**GATHER, "slice_sizes": (0,)}, "has slice size 0"),
    ("gather", ["f32[4]", "i32[4,1]"], ["f32[4]"], {**GATHER, "collapsed_slice_dims": (), "operand_batching_dims": (0,), "start_indices_batching_dims": (1,)}, "has index_vector_dim 1"),
    ("gather", ["f32[4,5,6]", "i32[2,1]"], ["f32[2,1,5,6]"], {**GATHER, "offset_dims": (2, 1, 3), "collapsed_slice_dims": (), "slice_sizes": (1, 5, 6)}, "is not sorted"),
    ("convolution", ["f32[1,4,2]", "c64[3,2,2]"], ["f32[1,2,2]"],
     {**dict.fromkeys(("window_strides", "lhs_dilation", "rhs_dilation"), (1,)), "low": (0,), "high": (0,), "window_reversal": (0,), "input_batch": 0,
      "input_feature": 2, "input_spatial": (1,), "kernel_input_feature": 1, "kernel_output_feature": 2, "kernel_spatial": (0,), "output_batch": 0,
      "output_feature": 2, "output_spatial": (1,), "feature_group_count": 1, "batch_group_count": 1}, "f32 and c64"),
    ("mask_padding", ["f32[4]"], ["f32[4]"], {"dim": 0, "axes": ("x",), "size": 4, "fill": "x"}, "'fill' is 'x'"),
    ("mask_padding", ["f32[4]"], ["f32[4]"], {"dim": 0, "axes": ("x",), "size": -1, "fill": 0.0}, "size -1 is negative"),
    ("mask_padding", ["f32[4]"], ["f32[4]"], {"dim": 0, "axes": ("x",), "size": 4, "fill": 1j}, "is not of type f32"),
    ("all_reduce", ["i32[4]"], ["f32[4]"], {"axes": ("x",), "kind": "and"}, "elements of f32 cannot be reduced"),
    ("all_reduce", ["i32[4]"], ["i32[4]"], {"axes": ("x:(0)2",), "kind": "sum"}, "'axes' is"),
    ("permute", ["f32[4]"], ["f32[4]"], {"source": 1, "target": P("x"), "shape": (8,)}, "it should be a sharding"),
]  # fmt: skip


@pytest.mark.parametrize("op, operands, results, attrs, message", FORGED)
def test_forged_attributes_and_results_are_refused(op: str, operands: list[str], results: list[str], attrs: dict[str, Any], message: str) -> None:  # fmt: skip
    faults = verify_node(node(op, operands, results, **attrs))
    assert any(message in fault.message for fault in faults), faults


FETCH = {"axes": ("x",), "dim": 0, "base": 0, "step": 4, "limit": 8}
ON_MESH = [
    ("process_index", [], ["i32[]"], {"axes": ("z",)}, "'z' is not in"),
    ("all_reduce", ["f32[4]"], ["f32[4]"], {"axes": ("x", "x"), "kind": "sum"}, "listed more than once"),
    ("all_reduce", ["f32[4]"], ["f32[4]"], {"axes": ("y:(1)2",), "kind": "sum"}, "is not a sub-axis"),
    ("broadcast", ["f32[4]"], ["f32[4]"], {"axes": ("x",), "root": 2}, "root 2 is outside a group of 2"),
    ("broadcast", ["f32[4]"], ["f32[4]"], {"axes": ("x",), "root": (1, 1)}, "2 coordinates"),
    ("recv", ["f32[4]"], ["f32[4]"], {"axes": ("x",), "source": 9}, "source 9 is outside"),
    ("broadcast", ["f32[4]"], ["f32[8]"], {"axes": ("x",), "root": 0}, "another dim changes size"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "limit": 9}, "limit 9 is not one of 0 to 8"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "limit": -1}, "limit -1"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "wrap": True, "limit": 0}, "limit 0"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "wrap": True, "step": 1 << 40}, "longer than tiles"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "divisor": 0}, "divisor 0"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "base": 10**6}, "base 1000000 is farther than 2 steps"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "base": -(1 << 62)}, "base -4611686018427387904 is farther"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "base": 10**6, "wrap": True}, "base 1000000 is farther"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "step": 10**6}, "step 1000000 is longer than the 8 rows"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "parts": (0, 2, 10**6, 4, 4, 4)}, "base 1000000 is farther"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "parts": (0, 2, 0, 4, 4, 5)}, "limit 5 is not one of 0 to 4"),
    ("fetch_rows", ["f32[4]"], ["f32[4]"], {**FETCH, "parts": 5}, "'parts' is 5"),
]  # fmt: skip


@pytest.mark.parametrize("op, operands, results, attrs, message", ON_MESH)
def test_collective_outside_its_group_or_rows_is_refused(op: str, operands: list[str], results: list[str], attrs: dict[str, Any], message: str) -> None:  # fmt: skip
    faults = verify_node(node(op, operands, results, **attrs), MESH)
    assert any(message in fault.message for fault in faults), faults


def test_fetch_rows_may_reach_past_the_tensor() -> None:
    """Rows out of range are padding. The partitioner emits such fetches for padded dims."""
    for attrs in (FETCH, {**FETCH, "base": -8, "limit": 0}, {**FETCH, "parts": (0, 4, -3, 4, 4, 8)}):
        assert verify_node(node("fetch_rows", ["f32[4]"], ["f32[4]"], **attrs), MESH) == []
