"""Fold a slice of a padded tensor into a pad with other amounts, which may be negative.

    before   %1 = pad %x low = 1 high = 1   %2 = slice %1 [2:]
    after    %2 = pad %x low = -1 high = 1

A stencil written as shifted slices of a padded tensor then reads the tensor itself, and each shift is a halo of a few
rows. The padded tensor, which is a little larger, would have other tiles than the values computed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import needed_nodes
from meshgen.sharding.rewrites.graph_passes import graph_pass


@graph_pass("slice-into-pad", applies="if cheaper")
def slice_into_pad(graph: Graph) -> Graph | None:
    """Return the rewritten graph, or None if no padded tensor is sliced."""
    producers = graph.index.producers
    folded = {node: amounts for node in graph.nodes if (amounts := _amounts(node, producers))}
    if not folded:
        return None
    nodes = [_pad(node, producers, folded[node]) if node in folded else node for node in graph.nodes]
    return replace(graph, nodes=needed_nodes(nodes, graph.outputs, lambda node: node.op != "pad"))


def _pad(node: Node, producers: Mapping[Value, Node], amounts: dict[str, tuple[int, ...]]) -> Node:
    pad = producers[node.operands[0]]
    attrs: dict[str, Any] = pad.attrs | amounts
    return Node("pad", list(pad.operands), list(node.results), attrs, node.loc)


def _amounts(node: Node, producers: Mapping[Value, Node]) -> dict[str, tuple[int, ...]] | None:
    """Return the attributes of a pad that computes the slice directly from the operand of the sliced pad.

    Returns None if the node is not a slice of a pad.
    """
    pad = producers.get(node.operands[0]) if node.op == "slice" else None
    options = node.option is not None or (pad is not None and pad.option is not None)
    if pad is None or pad.op != "pad" or options or any(pad.attrs.interior) or set(node.attrs.stride) != {1}:
        return None
    sizes = pad.operands[0].type.sizes
    low = tuple(before - start for before, start in zip(pad.attrs.low, node.attrs.start, strict=True))
    ends = zip(pad.attrs.low, sizes, node.attrs.limit, strict=True)
    high = tuple(limit - before - size for before, size, limit in ends)
    is_left = all(a + size > 0 and b + size > 0 for a, b, size in zip(low, high, sizes, strict=True))
    return {"low": low, "high": high} if is_left else None
