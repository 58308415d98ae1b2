"""A canonical order of a graph's nodes. It depends on the computation only, not on the order of the program text.

The order is a post-order walk from the outputs that visits operands in order: producers precede users, as a tracer
would emit them. Dead nodes follow, sorted by the digests of their text; nodes with equal digests keep the program
order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, cast

import numpy as np

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.splats import stored_bytes


def canonical_order(graph: Graph) -> list[Node]:
    """Return all nodes of a graph in canonical order. Nodes inside regions are not included."""
    return _ordered(graph, {})


def _ordered(graph: Graph, reads: dict[Node, list[Value]]) -> list[Node]:
    """Implement `canonical_order`. `reads` caches the result of `_reads` for nodes with regions, at all nesting levels."""
    producers = graph.index.producers
    done: dict[Node, None] = {}
    _visit(graph.outputs, producers, done, reads)
    dead = [node for node in graph.nodes if node not in done]
    if dead:
        needed: dict[Node, None] = {}
        _visit([value for node in dead for value in _reads(node, reads)], producers, needed, reads)
        digests = _Digests(graph, needed.keys() | dead)
        for node in sorted(dead, key=digests.of_node):
            _visit(_reads(node, reads), producers, done, reads)
            done[node] = None
    return list(done)


def _reads(node: Node, reads: dict[Node, list[Value]]) -> list[Value]:
    """Return the operands of a node, followed by the values that its regions capture."""
    if not node.regions:
        return node.operands
    if node not in reads:
        reads[node] = [*node.operands, *(value for region in node.regions for value in _captured(region, reads))]
    return reads[node]


def _captured(region: Graph, reads: dict[Node, list[Value]]) -> list[Value]:
    """Return the values that a region captures."""
    local = {*region.inputs, *region.index.producers}
    used = [*(v for node in _ordered(region, reads) for v in _reads(node, reads)), *region.outputs]
    return [value for value in dict.fromkeys(used) if value not in local]


def _visit(values: Iterable[Value], producers: Mapping[Value, Node], done: dict[Node, None], reads: dict[Node, list[Value]]) -> None:  # fmt: skip
    """Append the producers of `values` to `done`, each after the producers of its operands.

    Iterative instead of recursive, because dependency chains are longer than Python's stack.
    """
    stack: list[tuple[Node, bool]] = [(producers[v], False) for v in reversed(list(values)) if v in producers]
    open_nodes: set[Node] = set()
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            done[node] = None
        elif node not in done and node not in open_nodes:
            open_nodes.add(node)
            stack.append((node, True))
            stack += [(producers[v], False) for v in reversed(_reads(node, reads)) if v in producers]


class _Digests:
    """Computes digests of nodes: nodes that compute the same function of the same graph inputs have equal digests.

    With `nodes`, only these nodes are hashed. The set must contain the producers of their operands.
    """

    def __init__(self, graph: Graph, nodes: AbstractSet[Node] | None = None) -> None:
        self._names: dict[Value, str] = {value: f"input {index}" for index, value in enumerate(graph.inputs)}
        self._nodes: dict[Node, str] = {}
        for node in graph.nodes if nodes is None else filter(nodes.__contains__, graph.nodes):
            text = self._text(node, self.of_value)
            self._nodes[node] = hashlib.sha256(text.encode()).hexdigest()
            self._names.update((value, f"{self._nodes[node]} {i}") for i, value in enumerate(node.results))

    def of_node(self, node: Node) -> str:
        return self._nodes[node]

    def of_value(self, value: Value) -> str:
        """Return the digest of a value; captured values are distinguished by their types only."""
        return self._names.get(value, str(value.type))

    def _text(self, node: Node, name: Callable[[Value], str]) -> str:
        bodies = [_Digests(body).of_outputs(body) for body in node.regions]
        types = [str(value.type) for value in node.results]
        annotations = () if node.option is None else (node.option,)
        return repr(
            (node.op, [name(v) for v in node.operands], types, _attr_text(node.attrs.given), bodies, *annotations)
        )

    def of_outputs(self, graph: Graph) -> list[str]:
        return [self.of_value(value) for value in graph.outputs] + sorted(self._nodes.values())


def _attr_text(value: Any) -> Any:
    """Return an attribute as text. An array is represented by a hash of its bytes."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return (array.shape, str(array.dtype), hashlib.sha256(stored_bytes(array)).hexdigest())
    if isinstance(value, Mapping):
        return sorted((str(key), _attr_text(entry)) for key, entry in cast("Mapping[Any, Any]", value).items())
    return repr(value)
