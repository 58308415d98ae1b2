"""Fold ops that return their operand unchanged, and optimization barriers that separate nothing.

before   %f = reverse %x over a dim of size 1   %y = tanh %f
after    %y = tanh %x
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import needed_nodes, rewired
from meshgen.ops.identity_ops import identity_operand
from meshgen.sharding.rewrites.entry_barriers import entry_barriers
from meshgen.sharding.rewrites.graph_passes import graph_pass


@graph_pass("fold-identities")
def fold_identities(graph: Graph) -> Graph | None:
    """Return the graph without ops that return their operand, or None if it has none.

    These are slices of all rows, concatenations of one operand, reversals of one row, reshapes that add dims of size 1
    and remove them again, and optimization barriers before which nothing is computed. Nodes that only these ops used
    are dropped. Outputs of the graph stay as they are.
    """
    producers, outputs, barriers = graph.index.producers, {*graph.outputs}, entry_barriers(graph)
    replacements: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node in barriers and outputs.isdisjoint(node.results):
            replacements.update(
                (result, replacements.get(v, v)) for v, result in zip(node.operands, node.results, strict=True)
            )
            continue
        source = _unchanged_operand(node, producers) if node.option is None else None
        if source is not None and node.result not in outputs:
            replacements[node.result] = replacements.get(source, source)
            continue
        nodes.append(rewired(node, replacements) if replacements else node)
    if not replacements:
        return None
    needed = {value for node in needed_nodes(graph.nodes, outputs, _is_kept) for value in node.results}
    return replace(
        graph, nodes=needed_nodes(nodes, outputs, lambda node: _is_kept(node) or needed.isdisjoint(node.results))
    )


def _is_kept(node: Node) -> bool:
    """Whether a node must stay even if its results are unused, since it may have an effect or be an annotation."""
    return node.op not in ("slice", "broadcast_in_dim", "reshape", "reverse", "concatenate")


def _unchanged_operand(node: Node, producers: Mapping[Value, Node]) -> Value | None:
    """Return the operand that a node returns unchanged, or None if there is none."""
    operands = node.operands
    if (
        node.op == "reshape"
        and (broadcast := producers.get(operands[0])) is not None
        and broadcast.op == "broadcast_in_dim"
    ):
        dims, (inner,) = broadcast.attrs.dims, broadcast.operands
        if list(dims) == sorted(dims) and math.prod(inner.type.sizes) == math.prod(operands[0].type.sizes):
            operands = broadcast.operands
    return identity_operand(node, operands) if not _is_kept(node) else None
