"""Slices of everything, concatenations of one operand, reversals of one row and reshapes there and back fold into their operand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import needed_nodes, rewired


def fold_identities(graph: Graph) -> Graph | None:
    """Before: `%f = reverse %x over a dim of size 1   %y = tanh %f`.   After: `%y = tanh %x`. None where there is none.

    So are slices that take all, what is joined to nothing, and dims of size 1 that come and go. What only these needed is
    left out. Values that leave the graph stay as they are.
    """
    producers, outputs = graph.producers(), {*graph.outputs}
    now: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        source = _same(node, producers) if node.option is None else None
        if source is not None and node.result not in outputs:
            now[node.result] = now.get(source, source)
            continue
        nodes.append(rewired(node, now) if now else node)
    if not now:
        return None
    needed = {value for node in needed_nodes(graph.nodes, outputs, _is_kept) for value in node.results}
    return replace(
        graph, nodes=needed_nodes(nodes, outputs, lambda node: _is_kept(node) or needed.isdisjoint(node.results))
    )


def _is_kept(node: Node) -> bool:
    """Whether a node is there for more than what it computes, or may be: it has an effect, or says something."""
    return node.op not in ("slice", "broadcast_in_dim", "reshape", "reverse", "concatenate")


def _same(node: Node, producers: Mapping[Value, Node]) -> Value | None:
    """The operand that a node only gives on; None for a node that does more."""
    if node.op == "concatenate":
        parts = [value for value in node.operands if value.type.sizes[node.attrs["dim"]]]
        return parts[0] if len(parts) == 1 else None
    if node.op not in ("reverse", "slice", "reshape"):
        return None
    (source,) = node.operands
    if node.op == "reverse":
        return source if all(source.type.sizes[dim] == 1 for dim in node.attrs["dims"]) else None
    if node.op == "reshape" and (made := producers.get(source)) is not None and made.op == "broadcast_in_dim":
        dims, (inner,) = made.attrs["dims"], made.operands
        is_same = tuple(dims) == tuple(sorted(dims)) and math.prod(inner.type.sizes) == math.prod(source.type.sizes)
        source = inner if is_same else source
    return source if source.type == node.result.type else None  # a slice of this type takes all
