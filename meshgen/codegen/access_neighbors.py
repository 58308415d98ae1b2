"""Producers and readers of values, for passes before fusion that depend on which kernels absorb an access."""

from __future__ import annotations

from meshgen.ir.graph import Graph, Value
from meshgen.ir.regions import captured
from meshgen.ops.classes import LAYOUT, LOOKUPS, LOOPS, POINTWISE, PRODUCTS, REGROUPING

_ANY_MAP = POINTWISE | LOOKUPS | LOOPS | PRODUCTS  # ops of kernels whose loads and stores follow any index map


class Neighbours:
    """Producers and readers of the values of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._producer, self._uses = graph.index.producers, graph.index.uses
        self._kept = {*graph.outputs, *(v for node in graph.nodes if node.regions for v in captured(node))}

    def is_written_for(self, value: Value) -> bool:
        """Whether a kernel makes the value for its one reader, so that it may write it in any layout."""
        node, is_moved = self._producer.get(value), False
        while node is not None and node.op in LAYOUT and self._has_one_reader(value):
            is_moved |= node.op not in REGROUPING
            value = node.operands[0]
            node = self._producer.get(value)
        return is_moved or (node is not None and node.op in _ANY_MAP and self._has_one_reader(value))

    def is_read_by(self, value: Value, ops: frozenset[str]) -> bool:
        """Whether only kernels of these ops read the value, directly or by index maps."""
        readers = [node for node, _ in self._uses[value]]
        inside = all(n.op in ops or (n.op in LAYOUT and self.is_read_by(n.result, ops)) for n in readers)
        return inside and bool(readers) and value not in self._kept

    def is_read_by_kernels(self, value: Value) -> bool:
        """Whether only kernels read the value, wherever its elements lie."""
        return self.is_read_by(value, _ANY_MAP)

    def is_read_in_parts(self, value: Value) -> bool:
        """The same where elements may be in several buffers, too: the tiles of a product are loaded from one."""
        return self.is_read_by(value, _ANY_MAP - PRODUCTS)

    def _has_one_reader(self, value: Value) -> bool:
        return len(self._uses[value]) == 1 and value not in self._kept
