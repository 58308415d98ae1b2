"""The batch, contracting and free dims of a dot, and the GEMM extents of dots and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from meshgen.ir.attributes.contraction import Convolution, Ragged
from meshgen.ir.graph import Node, TensorType, Value

Dims = tuple[int, ...]
TypeOf = Callable[[Value], TensorType]


class DotDims(NamedTuple):
    """The batch, contracting and free dims of a dot.

    Attributes:
        batch, contract: (dims of the left operand, dims of the right operand), paired in order.
        free: the remaining dims of each operand, ascending.

    The result has the batch dims, then the free dims of the left operand, then those of the right operand.
    """

    batch: tuple[Dims, Dims]
    contract: tuple[Dims, Dims]
    free: tuple[Dims, Dims]

    @staticmethod
    def of(node: Node) -> DotDims:
        """Return the dims of a `dot_general` or `ragged_dot`.

        The groups of a `ragged_dot` are a batch dim of the right operand alone, or of neither operand if rows are
        contracted.
        """
        attrs, (left, right, *_) = node.attrs, node.operands
        if isinstance(attrs, Ragged):
            if attrs.contracts:
                return DotDims(((), ()), ((0,), (0,)), ((1,), (1,)))
            return DotDims(((), (0,)), ((1,), (1,)), ((0,), (2,)))
        batch = tuple(attrs.lhs_batch), tuple(attrs.rhs_batch)
        contract = tuple(attrs.lhs_contract), tuple(attrs.rhs_contract)
        return _dims_of(batch, contract, (left.type.rank, right.type.rank))

    def depth(self, lhs: TensorType) -> int:
        """Return the GEMM extent K: the number of products that one result element sums up."""
        return math.prod(lhs.sizes[d] for d in self.contract[0])

    def extents(self, lhs: TensorType, rhs: TensorType) -> tuple[int, int, int, int]:
        """Return (batch, m, n, k) of the dot as a batched GEMM of m x k and k x n matrices."""
        batch, k = math.prod(lhs.sizes[d] for d in self.batch[0]), self.depth(lhs)
        size = max(1, batch * k)
        return batch, lhs.size // size, rhs.size // size, k


@lru_cache(1 << 10)
def _dims_of(batch: tuple[Dims, Dims], contract: tuple[Dims, Dims], ranks: tuple[int, int]) -> DotDims:
    left, right = (
        tuple(d for d in range(rank) if d not in (*batch[side], *contract[side])) for side, rank in enumerate(ranks)
    )
    return DotDims(batch, contract, (left, right))


def gemm_extents(node: Node, type_of: TypeOf = lambda value: value.type) -> tuple[int, int, int, int]:
    """Return (batch, m, n, k) of a dot or convolution as a batched GEMM.

    Feature groups are batches, and groups of rows count as equally large.

    Args:
        type_of: returns the type of a value, which may be that of a tile.
    """
    if isinstance(node.attrs, Ragged):
        return _ragged_extents(node, type_of)
    lhs, rhs = map(type_of, node.operands)
    if not isinstance(node.attrs, Convolution):
        return DotDims.of(node).extents(lhs, rhs)
    groups, features = _groups(node.attrs), rhs.sizes[node.attrs.kernel_output_feature]
    return groups, node.result.type.size // max(1, features), features // groups, rhs.size // max(1, features)


def _ragged_extents(node: Node, type_of: TypeOf) -> tuple[int, int, int, int]:
    (rows, width), columns = type_of(node.operands[0]).sizes, type_of(node.operands[1]).sizes[-1]
    groups = max(1, min(rows, type_of(node.operands[2]).size))
    group_rows = -(-rows // max(groups, min(rows, ragged_groups(node))))
    return (groups, width, columns, group_rows) if node.attrs.contracts else (groups, group_rows, columns, width)


def ragged_groups(node: Node) -> int:
    """Return the number of groups that share the rows of a `ragged_dot` on all devices."""
    return max(node.attrs.total_groups, node.operands[2].type.size)


def is_depthwise(node: Node) -> bool:
    """Whether each feature group of a convolution has one output feature, so that it is not a GEMM."""
    attrs = node.attrs
    return isinstance(attrs, Convolution) and 1 < _groups(attrs) == node.result.type.sizes[attrs.output_feature]


def _groups(attrs: Convolution) -> int:
    return attrs.feature_group_count * attrs.batch_group_count
