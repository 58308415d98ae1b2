"""Tests of dot dims and of the GEMM extents of dots and convolutions."""

from __future__ import annotations

import pytest

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ops.dot_dims import DotDims, gemm_extents, is_depthwise


def dot(left: tuple[int, ...], right: tuple[int, ...], batch: tuple[tuple[int, ...], ...], contract: tuple[tuple[int, ...], ...]) -> Node:  # fmt: skip
    attrs = {f"{side}_{name}": dims[i] for name, dims in (("batch", batch), ("contract", contract)) for i, side in enumerate(("lhs", "rhs"))}  # fmt: skip
    return Node("dot_general", [Value(TensorType(shape, "f32")) for shape in (left, right)], [], attrs)


def test_free_dims_are_neither_batch_nor_contracted() -> None:
    dims = DotDims.of(dot((3, 5, 7, 2), (5, 11, 2, 3), ((3,), (2,)), ((1, 0), (0, 3))))
    assert (dims.batch, dims.contract, dims.free) == (((3,), (2,)), ((1, 0), (0, 3)), ((2,), (1,)))


@pytest.mark.parametrize(("contracts", "right", "extents"), [(False, (3, 4, 5), (3, 4, 5, 4)), (True, (10, 5), (3, 4, 5, 4))])  # fmt: skip
def test_ragged_dot_extents_assume_equal_groups(contracts: bool, right: tuple[int, ...], extents: tuple[int, ...]) -> None:  # fmt: skip
    values = [Value(TensorType(shape, "f32")) for shape in ((10, 4), right)]
    bounds = [Value(TensorType((3,), "i32")) for _ in range(2)]
    assert gemm_extents(Node("ragged_dot", [*values, *bounds], [], {"contracts": contracts})) == extents


@pytest.mark.parametrize(
    ("left", "right", "extents"),
    [
        ((2, 3, 5), (2, 7, 5), (2, 3, 7, 5)),
        ((2, 3, 0), (2, 7, 0), (2, 0, 0, 0)),  # an empty contraction needs no multiplication
    ],
)
def test_dot_extents_end_with_the_contraction_depth(
    left: tuple[int, ...], right: tuple[int, ...], extents: tuple[int, ...]
) -> None:
    node = dot(left, right, ((0,), (0,)), ((2,), (2,)))
    lhs, rhs = (value.type for value in node.operands)
    assert DotDims.of(node).extents(lhs, rhs) == extents
    assert DotDims.of(node).depth(lhs) == extents[-1]


@pytest.mark.parametrize(
    "groups, batches, features, extents, depthwise",
    [(1, 1, 8, (1, 32, 8, 36), False), (2, 1, 8, (2, 32, 4, 18), False), (4, 1, 4, (4, 32, 1, 9), True),
     (1, 2, 8, (2, 16, 4, 36), False), (1, 2, 2, (2, 16, 1, 36), True)],
)  # fmt: skip
def test_convolution_has_gemm_extents(
    groups: int, batches: int, features: int, extents: tuple[int, ...], depthwise: bool
) -> None:
    image, kernel = TensorType((2, 4, 4, 4), "f32"), TensorType((3, 3, 4 // groups, features), "f32")
    graph = Graph("main", [Value(image), Value(kernel)])
    attrs = {
        "window_strides": (1, 1), "lhs_dilation": (1, 1), "rhs_dilation": (1, 1), "window_reversal": (False, False),
        "low": (1, 1), "high": (1, 1), "input_batch": 0, "input_spatial": (1, 2), "input_feature": 3,
        "kernel_spatial": (0, 1), "kernel_input_feature": 2, "kernel_output_feature": 3, "output_batch": 0,
        "output_spatial": (1, 2), "output_feature": 3, "feature_group_count": groups, "batch_group_count": batches,
    }  # fmt: skip
    result = TensorType((2 // batches, 4, 4, features), "f32")
    node = graph.add("convolution", graph.inputs, [result], attrs)
    assert gemm_extents(node) == extents and is_depthwise(node) == depthwise
