"""A graph that is written node by node, in which it is known which values are one number everywhere ("splats").

A splat is kept as a 0-d constant that is broadcast, so that computing with it never builds a big array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from meshgen.codegen.structural_keys import attribute_key, structure
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.regions import all_nodes, captured, rewired_graph
from meshgen.ir.spread import spread_element
from meshgen.ops.classes import IMPURE
from meshgen.records import replace

Array = np.ndarray[Any, Any]
_FOLDED_ELEMENTS = 4096  # constants of more elements are not computed with


class Writer:
    """Writes `graph`, each op on the same operands once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._made: dict[Value, Node] = {}
        self._known: dict[Any, Node] = {}
        self._splats: dict[Value, Array] = {}

    def number(self, value: Value) -> Array | None:
        """The number that a value is everywhere, as a 0-d array; None where it is not known to be one."""
        return self._splats.get(value)

    def emit(self, node: Node, operands: list[Value], now: Mapping[Value, Value]) -> Node:
        """A copy of the node, or an earlier equal one; `now` says what values that its regions use have become."""
        key = None
        if _is_pure(node):
            types, inside = tuple(v.type for v in node.results), tuple(map(structure, node.regions))
            key = node.op, tuple(operands), attribute_key(node.attrs.given), types, inside
        if key is not None and key in self._known:
            return self._known[key]
        results = [Value(v.type, v.name, v.sharding, v.loc, id=v.id) for v in node.results]
        regions = tuple(rewired_graph(region, now) for region in node.regions)
        copy = replace(node, operands=operands, results=results, regions=regions)
        self.graph.nodes.append(copy)
        self._made.update(dict.fromkeys(results, copy))
        if key is not None:
            self._known[key] = copy
        if is_constant(node) and (number := splat_of(node.attrs.value)) is not None:
            self._splats[copy.result] = number
        if node.op == "broadcast_in_dim" and operands[0] in self._splats:
            self._splats[copy.result] = self._splats[operands[0]]
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
    """Whether an equal node on the same operands has the same results: its regions read nothing else."""
    inside = (inner.op for region in node.regions for inner in all_nodes(region))
    return node.op not in IMPURE and IMPURE.isdisjoint(inside) and not (node.regions and captured(node))


def splat_of(array: Array) -> Array | None:
    """The one number that an array consists of, as a 0-d array; None if it has several or is too big to look."""
    if array.ndim == 0:
        return array
    if array.size == 0:
        return np.zeros((), array.dtype)
    if (element := spread_element(array)) is not None:
        array = element.reshape(1)
    first = array.flat[0]
    same = array.size <= _FOLDED_ELEMENTS or array.flat[-1] == first
    if not same:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    parts = (np.real(flat), np.imag(flat)) if np.iscomplexobj(flat) else (flat,)
    is_same = bool((flat == first).all()) and not any(_has_both_zeros(part) for part in parts)
    return flat[0:1].reshape(()) if is_same else None


def _has_both_zeros(array: Any) -> bool:
    """Whether equal numbers are zeros of both signs."""
    if array[0] != 0:
        return False
    signs = np.signbit(array.astype(np.float64))
    return bool((signs != signs[0]).any())
