"""Common subexpression elimination: when two nodes are equal, and the removal of duplicates from a graph.

before   %a = reduce %x
         %b = reduce %x
         return %a, %b
after    %a = reduce %x
         return %a, %a
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import captured
from meshgen.ir.splats import stored_bytes

Grouping: TypeAlias = Callable[[Node], Hashable]
"""Returns the group within which a node may be merged, or None to keep the node."""


def merged_duplicates(
    graph: Graph, group_of: Grouping, *, keeps_constants: bool = False, first: dict[Value, Value] | None = None
) -> Graph:
    """Merge each node with the first equal node of its graph, also in regions. Returns `graph` itself if no nodes are
    equal.

    Args:
        group_of: only nodes of the same group are merged. Nodes of group None are kept.
        keeps_constants: keep duplicates of constants, and of nodes that depend on constants only. For the comparison
            of their users, equal constants still count as the same operand.
        first: maps results of removed nodes to the results that replace them. The function adds to it.
    """
    first = {} if first is None else first
    results: dict[Hashable, list[Value]] = {}
    constants: dict[Value, Value] = {}  # constant -> the first equal constant
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.regions or not first.keys().isdisjoint(node.operands):
            regions = [
                merged_duplicates(region, group_of, keeps_constants=keeps_constants, first=first)
                for region in node.regions
            ]
            node = _with_first(node, first, regions)
        operands = [constants.get(value, value) for value in node.operands] if constants else node.operands
        key = None if (group := group_of(node)) is None else computation_key(node, operands)
        earlier = node.results if key is None else results.setdefault((group, key), node.results)
        if keeps_constants and key is not None and constants.keys() >= set(node.operands):
            constants.update(zip(node.results, earlier, strict=True))
        elif earlier is not node.results:
            first.update(zip(node.results, earlier, strict=True))
            for value, survivor in zip(node.results, earlier, strict=True):
                survivor.inherit_annotations(value)
            continue
        nodes.append(node)
    outputs = [first.get(value, value) for value in graph.outputs]
    is_unchanged = (nodes, outputs) == (graph.nodes, graph.outputs)  # Nodes and values compare by identity.
    return graph if is_unchanged else Graph(graph.name, graph.inputs, nodes, outputs)


def _with_first(node: Node, first: Mapping[Value, Value], regions: list[Graph]) -> Node:
    operands = [first.get(value, value) for value in node.operands]
    is_unchanged = operands == node.operands and regions == list(node.regions)
    return node if is_unchanged else replace(node, operands=operands, regions=tuple(regions))


def computation_key(node: Node, operands: Sequence[Value]) -> Hashable:
    """Return a key that is equal for nodes that compute equal results.

    Returns None for a node whose regions capture values. `operands` replaces the operands of `node` in the key.
    """
    if node.regions and captured(node):
        return None
    result_types = tuple([(value.type, value.sharding) for value in node.results])
    return node.op, tuple(operands), attribute_key(node.attrs.given), result_types, tuple(map(structure, node.regions))


def structure(body: Graph, outer: Mapping[Value, Any] | None = None) -> Any:
    """Return a key that is equal for graphs that differ only in names and locations.

    `outer` has an id for each value around the graph, for graphs that capture values.
    """
    depth = 0 if outer is None else 1 + max((level for level, _ in outer.values()), default=0)
    ids: dict[Value, Any] = {**(outer or {}), **{value: (depth, index) for index, value in enumerate(body.values())}}
    nodes = tuple(
        (index.op, tuple(ids[v] for v in index.operands), tuple(v.type for v in index.results), attribute_key(index.attrs.given),
         tuple(structure(region, ids) for region in index.regions))
        for index in body.nodes
    )  # fmt: skip
    return tuple(v.type for v in body.inputs), nodes, tuple(ids[v] for v in body.outputs)


def attribute_key(value: Any) -> Any:
    """Return a hashable key of attributes that is equal only for equal bits: 0.0 differs from -0.0, and 1 from True."""
    if type(value) in (int, str):
        return value
    if isinstance(value, dict):
        return tuple([(k, attribute_key(v)) for k, v in sorted(value.items())])
    if isinstance(value, (list, tuple)):
        return tuple([attribute_key(v) for v in value])
    if isinstance(value, (np.ndarray, np.generic)):
        return value.shape, str(value.dtype), stored_bytes(np.asarray(value))
    return type(value).__name__, repr(value) if isinstance(value, (float, complex)) else value
