"""A graph writer that tracks splats: values with the same number in every element.

A splat is written as a 0-d constant and a broadcast, so that folding never builds a large array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.regions import all_nodes, rewired_graph
from meshgen.ops.classes import IMPURE
from meshgen.ops.common_subexpressions import computation_key
from meshgen.ops.constants import splat_of

Array = np.ndarray[Any, Any]


class Writer:
    """Appends nodes to `graph`, and reuses an earlier node for the same op on the same operands."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._made: dict[Value, Node] = {}
        self._known: dict[Any, Node] = {}
        # cache of the number that all elements of a constant equal, because comparing all elements is slow
        self._numbers: dict[Value, Array | None] = {}

    def number(self, value: Value) -> Array | None:
        """Return the number that every element of `value` equals, or None if the elements differ or are unknown
        (`splat_of`).
        """
        return splat_of(value, self._made.get, self._numbers)

    def emit(self, node: Node, operands: list[Value], now: Mapping[Value, Value]) -> Node:
        """Return a copy of the node on `operands`, or an earlier equal node. `now` maps values that the node's regions
        capture to copies of these values.
        """
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
        """Append a node and return its result. The result replaces the result of the node `like`, and gets its name and
        location.
        """
        node = Node(op, operands, [Value(kind, like.result.name, loc=like.loc)], attrs, like.loc)
        return self.emit(node, operands, {}).result

    def splat(self, number: Array, kind: TensorType, like: Node) -> Value:
        """Return a constant with one number in every element. If it has dims, it is a broadcast."""
        scalar = self.new("constant", [], TensorType((), kind.dtype), {"value": np.asarray(number).reshape(())}, like)
        if not kind.rank:
            return scalar
        return self.new("broadcast_in_dim", [scalar], kind, {"dims": ()}, like)

    def is_splat(self, value: Value, number: float) -> bool:
        """Whether every element of a value equals `number`."""
        splat_number = self.number(value)
        return splat_number is not None and bool(splat_number == number)

    def source(self, value: Value, op: str) -> Node | None:
        """Return the node that produces `value` if its op is `op`, or None otherwise."""
        node = self._made.get(value)
        return node if node is not None and node.op == op else None


def _is_pure(node: Node) -> bool:
    """Whether equal nodes on the same operands have equal results."""
    inside = (inner.op for region in node.regions for inner in all_nodes(region))
    return node.op not in IMPURE and IMPURE.isdisjoint(inside)
