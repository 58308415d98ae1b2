"""Which dims of its operands a dot contracts, goes along, and keeps; dots and convolutions as products of matrices."""

from __future__ import annotations

import math

from meshgen.ir.attributes.contraction import Convolution, Ragged
from meshgen.ir.graph import Node, TensorType
from meshgen.records import dataclass

Dims = tuple[int, ...]


@dataclass(frozen=True)
class DotDims:
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
        if isinstance(node.attrs, Ragged):
            if node.attrs.contracts:
                return DotDims(((), ()), ((0,), (0,)), ((1,), (1,)))
            return DotDims(((), (0,)), ((1,), (1,)), ((0,), (2,)))
        batch, contract = (
            (tuple(getattr(node.attrs, f"lhs_{name}")), tuple(getattr(node.attrs, f"rhs_{name}")))
            for name in ("batch", "contract")
        )
        left, right = (
            tuple(d for d in range(value.type.rank) if d not in (*batch[side], *contract[side]))
            for side, value in enumerate(node.operands)
        )
        return DotDims(batch, contract, (left, right))

    def depth(self, lhs: TensorType) -> int:
        """How many products are added up for one element."""
        return math.prod(lhs.sizes[d] for d in self.contract[0])

    def extents(self, lhs: TensorType, rhs: TensorType) -> tuple[int, int, int, int]:
        """The dot as `batch` products of m x k and k x n: batch, m, n and k."""
        batch, k = math.prod(lhs.sizes[d] for d in self.batch[0]), self.depth(lhs)
        size = max(1, batch * k)
        return batch, lhs.size // size, rhs.size // size, k


def product_extents(node: Node) -> tuple[int, int, int, int]:
    """A dot or convolution as `batch` products of m x k and k x n: batch, m, n and k. Groups are batches; those of rows are taken to be equal."""
    if isinstance(node.attrs, Ragged):
        return _ragged_extents(node)
    lhs, rhs = (value.type for value in node.operands)
    if not isinstance(node.attrs, Convolution):
        return DotDims.of(node).extents(lhs, rhs)
    groups, features = _groups(node.attrs), rhs.sizes[node.attrs.kernel_output_feature]
    return groups, node.result.type.size // max(1, features), features // groups, rhs.size // max(1, features)


def _ragged_extents(node: Node) -> tuple[int, int, int, int]:
    (rows, width), columns = node.operands[0].type.sizes, node.operands[1].type.sizes[-1]
    groups = max(1, min(rows, node.operands[2].type.size))
    each = -(-rows // groups)
    return (groups, width, columns, each) if node.attrs.contracts else (groups, each, columns, width)


def is_depthwise(node: Node) -> bool:
    """Whether a convolution has one feature per group in its result: it has no product of matrices."""
    attrs = node.attrs
    return isinstance(attrs, Convolution) and 1 < _groups(attrs) == node.result.type.sizes[attrs.output_feature]


def _groups(attrs: Convolution) -> int:
    return attrs.feature_group_count * attrs.batch_group_count
