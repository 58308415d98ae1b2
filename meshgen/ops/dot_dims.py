"""Which dims of its operands a dot contracts, goes along, and keeps; dots and convolutions as products of matrices."""

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
    """The dims of the left and of the right operand of a dot.

    Attributes:
        batch, contract: dims that go together, in the same order on both sides.
        free: the others, ascending. The result has the batch dims, the free ones of the left operand, then of the right one.
    """

    batch: tuple[Dims, Dims]
    contract: tuple[Dims, Dims]
    free: tuple[Dims, Dims]

    @staticmethod
    def of(node: Node) -> DotDims:
        """Those of a `dot_general` or `ragged_dot`. Groups are a batch dim of the right operand alone, or, where rows are contracted, of neither."""
        attrs, (left, right, *_) = node.attrs, node.operands
        if isinstance(attrs, Ragged):
            if attrs.contracts:
                return DotDims(((), ()), ((0,), (0,)), ((1,), (1,)))
            return DotDims(((), (0,)), ((1,), (1,)), ((0,), (2,)))
        batch = tuple(attrs.lhs_batch), tuple(attrs.rhs_batch)
        contract = tuple(attrs.lhs_contract), tuple(attrs.rhs_contract)
        return _dims_of(batch, contract, (left.type.rank, right.type.rank))

    def depth(self, lhs: TensorType) -> int:
        """How many products are added up for one element."""
        return math.prod(lhs.sizes[d] for d in self.contract[0])

    def extents(self, lhs: TensorType, rhs: TensorType) -> tuple[int, int, int, int]:
        """The dot as `batch` products of m x k and k x n: batch, m, n and k."""
        batch, k = math.prod(lhs.sizes[d] for d in self.batch[0]), self.depth(lhs)
        size = max(1, batch * k)
        return batch, lhs.size // size, rhs.size // size, k


@lru_cache(1 << 10)
def _dims_of(batch: tuple[Dims, Dims], contract: tuple[Dims, Dims], ranks: tuple[int, int]) -> DotDims:
    left, right = (
        tuple(d for d in range(rank) if d not in (*batch[side], *contract[side])) for side, rank in enumerate(ranks)
    )
    return DotDims(batch, contract, (left, right))


def product_extents(node: Node, type_of: TypeOf = lambda value: value.type) -> tuple[int, int, int, int]:
    """A dot or convolution as `batch` products of m x k and k x n: batch, m, n and k. Groups are batches; those of rows are taken to be equal.

    `type_of` gives the types of values, where these are tiles.
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
    each = -(-rows // max(groups, min(rows, ragged_groups(node))))
    return (groups, width, columns, each) if node.attrs.contracts else (groups, each, columns, width)


def ragged_groups(node: Node) -> int:
    """The number of groups among which the rows of a `ragged_dot` are divided, of which it may have a part."""
    return max(node.attrs.total_groups, node.operands[2].type.size)


def is_depthwise(node: Node) -> bool:
    """Whether a convolution has one feature per group in its result: it has no product of matrices."""
    attrs = node.attrs
    return isinstance(attrs, Convolution) and 1 < _groups(attrs) == node.result.type.sizes[attrs.output_feature]


def _groups(attrs: Convolution) -> int:
    return attrs.feature_group_count * attrs.batch_group_count
