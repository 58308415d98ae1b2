"""Slices of everything, concatenations of one operand, reversals of one row, reshapes there and back, and barriers that separate nothing fold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import needed_nodes, rewired
from meshgen.ops.unchanged import unchanged_operand
from meshgen.sharding.rewrites.entry_barriers import entry_barriers
from meshgen.sharding.rewrites.graph_passes import graph_pass


@graph_pass("fold-identities")
def fold_identities(graph: Graph) -> Graph | None:
    """Before: `%f = reverse %x over a dim of size 1   %y = tanh %f`.   After: `%y = tanh %x`. None if there is none.

    Also slices of all rows, concatenations of one operand, dims of size 1 that are added and removed, and optimization barriers
    before which nothing is computed. Nodes that only these used are dropped. Outputs of the graph stay as they are.
    """
    producers, outputs, barriers = graph.index.producers, {*graph.outputs}, entry_barriers(graph)
    now: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node in barriers and outputs.isdisjoint(node.results):
            now.update((result, now.get(v, v)) for v, result in zip(node.operands, node.results, strict=True))
            continue
        source = _unchanged_operand(node, producers) if node.option is None else None
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
    """Whether a node may do more than compute its results: it has an effect, or annotates."""
    return node.op not in ("slice", "broadcast_in_dim", "reshape", "reverse", "concatenate")


def _unchanged_operand(node: Node, producers: Mapping[Value, Node]) -> Value | None:
    """The operand that a node returns unchanged; None if it changes it."""
    operands = node.operands
    if node.op == "reshape" and (made := producers.get(operands[0])) is not None and made.op == "broadcast_in_dim":
        dims, (inner,) = made.attrs.dims, made.operands
        if list(dims) == sorted(dims) and math.prod(inner.type.sizes) == math.prod(operands[0].type.sizes):
            operands = made.operands
    return unchanged_operand(node, operands) if not _is_kept(node) else None
