"""Pack the buffers of several collectives into one message, and unpack its result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Node, Value
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import bits
from meshgen.runtime.plan import ALIGNMENT
from meshgen.sharding.optimizations.walk import merged_notes


@dataclass
class MessageBuilder(Builder):
    """Builder for the nodes of one message."""

    mesh: Mesh = field(kw_only=True)

    def message(self, group: Sequence[Node]) -> list[Node]:
        """Return nodes that compute the results of all collectives of the group with one message.

        Buffers with an aligned length come first, so that each buffer is aligned within the message. It can then be
        written and read there, without a copy.

        Args:
            group: collectives of one op with equal axes and kind; none depends on another's result.
        """
        first = group[0]
        self.loc = first.loc
        count = self.mesh.group_size(tuple(first.attrs.axes))
        dtypes = dict.fromkeys(node.result.type.dtype for node in group)
        dtype = next(iter(dtypes)) if len(dtypes) == 1 else f"ui{bits(first.result.type.dtype)}"
        group = sorted(group, key=lambda node: node.operands[0].type.nbytes % ALIGNMENT != 0)
        rows = [_ROWS[first.op](self, node, count, dtype) for node in group]
        joined = self.concatenate(rows, 1)
        height = {"all_gather": count, "reduce_scatter": 1}.get(first.op, joined.type.sizes[0])
        note = f"{len(group)} small {first.op}s in one message: each would otherwise have the latency of the links"
        attrs = first.attrs if first.op == "all_reduce" else {**first.attrs, "dim": 0}
        result = self.emit(first.op, [joined], joined.type.with_shape((height, joined.type.sizes[1])), **attrs)
        notes = merged_notes(group, note)
        self.graph.nodes[-1].notes = notes if notes.why else replace(notes, why=note)
        offsets = itertools.accumulate((row.type.sizes[1] for row in rows), initial=0)
        for node, (start, stop) in zip(group, itertools.pairwise(offsets), strict=True):
            self._unpack(node, self.slice(result, (0, start), (height, stop)), count)
        return self.graph.nodes

    def padded(self, value: Value, dim: int, size: int) -> Value:
        """Return the value, padded with zeros to `size` rows along `dim`."""
        missing = size - value.type.sizes[dim]
        if not missing:
            return value
        rank = value.type.rank
        zero = self.splat(0, value.type.with_shape(()))
        return self.pad(value, zero, (0,) * rank, tuple(missing if d == dim else 0 for d in range(rank)))

    def _unpack(self, node: Node, part: Value, count: int) -> None:
        """Convert `part`, the columns of the message that belong to `node`, to the result of `node`."""
        shape, value = node.result.type.sizes, part
        if node.op == "all_gather":
            dim, tile = node.attrs.dim, node.operands[0].type.sizes
            value = self.reshape(value, (count, *tile))
            value = self.transpose(value, (*range(1, dim + 1), 0, *range(dim + 1, len(tile) + 1)))
            whole = (*tile[:dim], count * tile[dim], *tile[dim + 1 :])
            value = self.slice(self.reshape(value, whole), (0,) * len(whole), shape)
        else:
            value = self.reshape(value, shape)
        self.bits(value, node.result.type.dtype)
        self.make(node.results)


def _one_row(builder: MessageBuilder, node: Node, count: int, dtype: str) -> Value:
    """Flatten the operand to one row: the values to reduce, or the device's contribution to a gather."""
    value = builder.bits(node.operands[0], dtype)
    return builder.reshape(value, (1, math.prod(value.type.sizes)))


def _tiles(builder: MessageBuilder, node: Node, count: int, dtype: str) -> Value:
    """Arrange the operand as one row per device of the group. Each row is the tile that its device will receive."""
    dim, tile = node.attrs.dim, node.result.type.sizes
    value = builder.padded(node.operands[0], dim, count * tile[dim])
    value = builder.reshape(value, (*tile[:dim], count, *tile[dim:]))
    value = builder.transpose(value, (dim, *(d for d in range(len(tile) + 1) if d != dim)))
    return builder.reshape(value, (count, math.prod(tile)))


_ROWS: dict[str, Callable[[MessageBuilder, Node, int, str], Value]] = {
    "all_reduce": _one_row,
    "all_gather": _one_row,
    "reduce_scatter": _tiles,
}
MESSAGES = tuple(_ROWS)
