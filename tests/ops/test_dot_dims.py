"""Dims of a dot, and the products of matrices that it is."""

from __future__ import annotations

import pytest

from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.dot_dims import DotDims


def dot(left: tuple[int, ...], right: tuple[int, ...], batch: tuple[tuple[int, ...], ...], contract: tuple[tuple[int, ...], ...]) -> Node:  # fmt: skip
    attrs = {f"{side}_{name}": dims[i] for name, dims in (("batch", batch), ("contract", contract)) for i, side in enumerate(("lhs", "rhs"))}  # fmt: skip
    return Node("dot_general", [Value(TensorType(shape, "f32")) for shape in (left, right)], [], attrs)


def test_free_dims_are_what_is_left_of_each_operand() -> None:
    dims = DotDims.of(dot((3, 5, 7, 2), (5, 11, 2, 3), ((3,), (2,)), ((1, 0), (0, 3))))
    assert (dims.batch, dims.contract, dims.free) == (((3,), (2,)), ((1, 0), (0, 3)), ((2,), (1,)))


@pytest.mark.parametrize(
    ("left", "right", "extents"),
    [
        ((2, 3, 5), (2, 7, 5), (2, 3, 7, 5)),
        ((2, 3, 0), (2, 7, 0), (2, 0, 0, 0)),  # nothing is added up: no products
    ],
)
def test_extents(left: tuple[int, ...], right: tuple[int, ...], extents: tuple[int, ...]) -> None:
    node = dot(left, right, ((0,), (0,)), ((2,), (2,)))
    lhs, rhs = (value.type for value in node.operands)
    assert DotDims.of(node).extents(lhs, rhs) == extents
    assert DotDims.of(node).depth(lhs) == extents[-1]
