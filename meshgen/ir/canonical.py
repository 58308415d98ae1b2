"""An order of a graph's nodes that depends on the computation only, not on the order of the text.

Walked from the outputs, operands first and in their order: producers before users, as a tracer would emit them.
Ops that no output needs follow, ordered by their texts; ties keep the program's order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, cast

import numpy as np

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.spread import stored_bytes


def canonical_order(graph: Graph) -> list[Node]:
    """All nodes of a graph (not those of regions), producers before users."""
    return _ordered(graph, {})


def _ordered(graph: Graph, known: dict[Node, list[Value]]) -> list[Node]:
    """As `canonical_order`; `known` caches the values that nodes read, needed at every enclosing level."""
    makers = graph.index.producers
    done: dict[Node, None] = {}
    _visit(graph.outputs, makers, done, known)
    left = [node for node in graph.nodes if node not in done]
    if left:
        needed: dict[Node, None] = {}
        _visit([value for node in left for value in _reads(node, known)], makers, needed, known)
        digests = _Digests(graph, needed.keys() | left)
        for node in sorted(left, key=digests.of_node):
            _visit(_reads(node, known), makers, done, known)
            done[node] = None
    return list(done)


def _reads(node: Node, known: dict[Node, list[Value]]) -> list[Value]:
    """Operands, then the values that the node's regions capture."""
    if not node.regions:
        return node.operands
    if node not in known:
        known[node] = [*node.operands, *(value for region in node.regions for value in _captured(region, known))]
    return known[node]


def _captured(region: Graph, known: dict[Node, list[Value]]) -> list[Value]:
    """The values that a region captures."""
    own = {*region.inputs, *region.index.producers}
    inner = [*(v for each in _ordered(region, known) for v in _reads(each, known)), *region.outputs]
    return [value for value in dict.fromkeys(inner) if value not in own]


def _visit(values: Iterable[Value], makers: Mapping[Value, Node], done: dict[Node, None], known: dict[Node, list[Value]]) -> None:  # fmt: skip
    """Add the producers of values, after those of their operands. Not recursive, because programs are deep."""
    stack: list[tuple[Node, bool]] = [(makers[v], False) for v in reversed(list(values)) if v in makers]
    open_nodes: set[Node] = set()
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            done[node] = None
        elif node not in done and node not in open_nodes:
            open_nodes.add(node)
            stack.append((node, True))
            stack += [(makers[v], False) for v in reversed(_reads(node, known)) if v in makers]


class _Digests:
    """Digests that are equal for nodes that compute the same from the same inputs: of all nodes, or of these and what they need."""

    def __init__(self, graph: Graph, nodes: AbstractSet[Node] | None = None) -> None:
        self._known: dict[Value, str] = {value: f"input {number}" for number, value in enumerate(graph.inputs)}
        self._nodes: dict[Node, str] = {}
        for node in graph.nodes if nodes is None else filter(nodes.__contains__, graph.nodes):
            text = self._text(node, self.of_value)
            self._nodes[node] = hashlib.sha256(text.encode()).hexdigest()
            self._known.update((value, f"{self._nodes[node]} {i}") for i, value in enumerate(node.results))

    def of_node(self, node: Node) -> str:
        return self._nodes[node]

    def of_value(self, value: Value) -> str:
        """The digest of a value; captured values are distinguished by their types only."""
        return self._known.get(value, str(value.type))

    def _text(self, node: Node, name: Callable[[Value], str]) -> str:
        bodies = [_Digests(body).of_outputs(body) for body in node.regions]
        types = [str(value.type) for value in node.results]
        asked = () if node.option is None else (node.option,)
        return repr((node.op, [name(v) for v in node.operands], types, _attr_text(node.attrs.given), bodies, *asked))

    def of_outputs(self, graph: Graph) -> list[str]:
        return [self.of_value(value) for value in graph.outputs] + sorted(self._nodes.values())


def _attr_text(value: Any) -> Any:
    """The text of an attribute, arrays in full."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return (array.shape, str(array.dtype), hashlib.sha256(stored_bytes(array)).hexdigest())
    if isinstance(value, Mapping):
        return sorted((str(key), _attr_text(each)) for key, each in cast("Mapping[Any, Any]", value).items())
    return repr(value)
