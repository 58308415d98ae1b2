"""Queries about producers and users of values, for passes that depend on which kernels absorb an access."""

from __future__ import annotations

from meshgen.ir.graph import Graph, Value
from meshgen.ir.regions import captured
from meshgen.ops.classes import LAYOUT, LOOKUPS, LOOPS, POINTWISE, PRODUCTS, REGROUPING

# Ops of kernels that can load their operands and store their results through any index map.
_ANY_MAP = POINTWISE | LOOKUPS | LOOPS | PRODUCTS


class AccessNeighbors:
    """The producers and users of the values of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._producer, self._uses = graph.index.producers, graph.index.uses
        self._values_with_other_users = {
            *graph.outputs,
            *(v for node in graph.nodes if node.regions for v in captured(node)),
        }

    def has_free_layout(self, value: Value) -> bool:
        """Whether a kernel produces `value` for a single user, so that the kernel can write the value in any layout."""
        node, has_index_map = self._producer.get(value), False
        while node is not None and node.op in LAYOUT and self._has_one_reader(value):
            has_index_map |= node.op not in REGROUPING
            value = node.operands[0]
            node = self._producer.get(value)
        return has_index_map or (node is not None and node.op in _ANY_MAP and self._has_one_reader(value))

    def is_read_by(self, value: Value, ops: frozenset[str]) -> bool:
        """Whether all users of the value, directly or through index maps, are kernels of the ops in `ops`."""
        readers = [node for node, _ in self._uses[value]]
        is_fused = all(n.op in ops or (n.op in LAYOUT and self.is_read_by(n.result, ops)) for n in readers)
        return is_fused and bool(readers) and value not in self._values_with_other_users

    def is_read_by_kernels(self, value: Value) -> bool:
        """Whether all users of the value are kernels that can read it in any layout."""
        return self.is_read_by(value, _ANY_MAP)

    def can_be_split_in_buffers(self, value: Value) -> bool:
        """Whether all users of `value` are kernels that can read the value from several buffers.

        GEMMs cannot: they load tiles from one buffer.
        """
        return self.is_read_by(value, _ANY_MAP - PRODUCTS)

    def _has_one_reader(self, value: Value) -> bool:
        return len(self._uses[value]) == 1 and value not in self._values_with_other_users
