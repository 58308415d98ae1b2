"""Joining the buffers of several collectives into one message, and cutting the result apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.errors import Location
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import bits
from meshgen.sharding.optimizations.rewrite import merged_notes


class Writer:
    """Writes the nodes of one message; `nodes` are those written."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.nodes: list[Node] = []
        self._loc: Location | None = None

    def message(self, group: Sequence[Node]) -> list[Node]:
        """The nodes that do what the group's collectives did; they make the same values.

        Args:
            group: collectives of one op, the same axes and kind, none of which needs another's result.
        """
        first = group[0]
        self._loc = first.loc
        count = self.mesh.group_size(tuple(first.attrs.axes))
        dtypes = dict.fromkeys(node.result.type.dtype for node in group)
        word = next(iter(dtypes)) if len(dtypes) == 1 else f"ui{bits(first.result.type.dtype)}"
        rows = [_ROWS[first.op](self, node, count, word) for node in group]
        joined = self.emit("concatenate", rows, (rows[0].type.sizes[0], sum(r.type.sizes[1] for r in rows)), dim=1)
        height = {"all_gather": count, "reduce_scatter": 1}.get(first.op, joined.type.sizes[0])
        note = f"{len(group)} small {first.op}s in one message: each alone would pay the latency of the links"
        attrs = first.attrs if first.op == "all_reduce" else {**first.attrs, "dim": 0}
        result = self.emit(first.op, [joined], (height, joined.type.sizes[1]), **attrs)
        notes = merged_notes(group, note)
        self.nodes[-1].notes = notes if notes.why else replace(notes, why=note)
        ends = itertools.accumulate((row.type.sizes[1] for row in rows), initial=0)
        for node, (start, stop) in zip(group, itertools.pairwise(ends), strict=True):
            self._take_apart(node, self._cut(result, (0, start), (height, stop)), count)
        return self.nodes

    def emit(self, op: str, operands: Sequence[Value], shape: Sequence[int], **attrs: Any) -> Value:
        """Append a node; its result has the dtype of its first operand."""
        return self._node(op, operands, operands[0].type.with_shape(shape), attrs)

    def _node(self, op: str, operands: Sequence[Value], kind: TensorType, attrs: dict[str, Any]) -> Value:
        result = Value(kind, loc=self._loc)
        self.nodes.append(Node(op, list(operands), [result], attrs, self._loc))
        return result

    def as_word(self, value: Value, word: str) -> Value:
        """The same bits as another type."""
        if value.type.dtype == word:
            return value
        return self._node("bitcast_convert", [value], TensorType(value.type.shape, word), {})

    def _cut(self, value: Value, start: Sequence[int], limit: Sequence[int]) -> Value:
        shape = [stop - begin for begin, stop in zip(start, limit, strict=True)]
        attrs = {"start": tuple(start), "limit": tuple(limit), "stride": (1,) * len(shape)}
        return self.emit("slice", [value], shape, **attrs)

    def padded(self, value: Value, dim: int, size: int) -> Value:
        """The value with zeros up to `size` rows along a dim."""
        missing = size - value.type.sizes[dim]
        if not missing:
            return value
        zero = self._node("constant", [], value.type.with_shape(()), {"value": np.zeros((), value.type.numpy_dtype)})
        shape = [*value.type.sizes]
        shape[dim] = size
        high = tuple(missing if d == dim else 0 for d in range(len(shape)))
        return self.emit("pad", [value, zero], shape, low=(0,) * len(shape), high=high, interior=(0,) * len(shape))

    def _take_apart(self, node: Node, part: Value, count: int) -> None:
        """From a member's columns of the message to its result, which the last node written here makes."""
        shape, value = node.result.type.sizes, part
        if node.op == "all_gather":
            dim, tile = node.attrs.dim, node.operands[0].type.sizes
            value = self.emit("reshape", [value], (count, *tile))
            perm = (*range(1, dim + 1), 0, *range(dim + 1, len(tile) + 1))
            value = self.emit("transpose", [value], [value.type.sizes[d] for d in perm], perm=perm)
            whole = (*tile[:dim], count * tile[dim], *tile[dim + 1 :])
            value = self._cut(self.emit("reshape", [value], whole), (0,) * len(whole), shape)
        else:
            value = self.emit("reshape", [value], shape)
        self.as_word(value, node.result.type.dtype)
        self.nodes[-1].results[:] = node.results


def _flat(writer: Writer, node: Node, count: int, word: str) -> Value:
    """One row: a reduction of all devices, or this device's row of a gather."""
    value = writer.as_word(node.operands[0], word)
    return writer.emit("reshape", [value], (1, math.prod(value.type.sizes)))


def _tiles(writer: Writer, node: Node, count: int, word: str) -> Value:
    """A row for each device of the group: the tile that it will get."""
    dim, tile = node.attrs.dim, node.result.type.sizes
    value = writer.padded(node.operands[0], dim, count * tile[dim])
    value = writer.emit("reshape", [value], (*tile[:dim], count, *tile[dim:]))
    perm = (dim, *(d for d in range(len(tile) + 1) if d != dim))
    value = writer.emit("transpose", [value], [value.type.sizes[d] for d in perm], perm=perm)
    return writer.emit("reshape", [value], (count, math.prod(tile)))


_ROWS: dict[str, Callable[[Writer, Node, int, str], Value]] = {
    "all_reduce": _flat,
    "all_gather": _flat,
    "reduce_scatter": _tiles,
}
MESSAGES = tuple(_ROWS)
