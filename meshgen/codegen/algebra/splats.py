"""A graph that is written node by node, in which it is known which values are one number everywhere ("splats").

A splat is kept as a 0-d constant that is broadcast, so that computing with it never builds a big array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.regions import all_nodes, rewired_graph
from meshgen.ops.classes import IMPURE
from meshgen.ops.constants import splat_of
from meshgen.ops.duplicates import computation_key

Array = np.ndarray[Any, Any]


class Writer:
    """Writes `graph`, each op on the same operands once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._made: dict[Value, Node] = {}
        self._known: dict[Any, Node] = {}
        self._numbers: dict[Value, Array | None] = {}  # of constants, whose elements are compared once

    def number(self, value: Value) -> Array | None:
        """Return the number that a value is everywhere, as `splat_of`."""
        return splat_of(value, self._made.get, self._numbers)

    def emit(self, node: Node, operands: list[Value], now: Mapping[Value, Value]) -> Node:
        """A copy of the node, or an earlier equal one; `now` says what values that its regions use have become."""
        key = computation_key(node, operands) if _is_pure(node) else None
        if key is not None and key in self._known:
            return self._known[key]
        results = [Value(v.type, v.name, v.sharding, v.loc, id=v.id) for v in node.results]
        regions = tuple(rewired_graph(region, now) for region in node.regions)
        copy = replace(node, operands=operands, results=results, regions=regions)
        self.graph.nodes.append(copy)
        self._made.update(dict.fromkeys(results, copy))
        if key is not None:
            self._known[key] = copy
        return copy

    def new(self, op: str, operands: list[Value], kind: TensorType, attrs: dict[str, Any], like: Node) -> Value:
        """The result of a further node, named and placed like the one whose result it becomes."""
        node = Node(op, operands, [Value(kind, like.result.name, loc=like.loc)], attrs, like.loc)
        return self.emit(node, operands, {}).result

    def splat(self, number: Array, kind: TensorType, like: Node) -> Value:
        """A constant of one number, broadcast where it has dims."""
        scalar = self.new("constant", [], TensorType((), kind.dtype), {"value": np.asarray(number).reshape(())}, like)
        if not kind.rank:
            return scalar
        return self.new("broadcast_in_dim", [scalar], kind, {"dims": ()}, like)

    def is_splat(self, value: Value, number: float) -> bool:
        found = self.number(value)
        return found is not None and bool(found == number)

    def source(self, value: Value, op: str) -> Node | None:
        """The node that makes the value, if it is an `op`."""
        node = self._made.get(value)
        return node if node is not None and node.op == op else None


def _is_pure(node: Node) -> bool:
    """Whether an equal node on the same operands has the same results."""
    inside = (inner.op for region in node.regions for inner in all_nodes(region))
    return node.op not in IMPURE and IMPURE.isdisjoint(inside)
