"""Equal computations, which are done once: when two nodes are equal, and the removal of duplicates from a graph.

before   %a = reduce %x   %b = reduce %x   return %a, %b
after    %a = reduce %x                    return %a, %a
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import captured
from meshgen.ir.spread import stored_bytes

Grouping: TypeAlias = Callable[[Node], Hashable]
"""The group of a node, inside which nodes are merged; None for a node that stays."""


def merged_duplicates(
    graph: Graph, group_of: Grouping, *, keeps_constants: bool = False, first: dict[Value, Value] | None = None
) -> Graph:
    """Replace the results of each node that equals an earlier node of its graph, in regions as well. Returns the graph itself if no node does.

    Args:
        keeps_constants: whether nodes without operands stay, and nodes that read such constants alone. The results of
            equal ones count as one operand.
        first: maps results of replaced nodes to the earlier results; the function adds to it.
    """
    first = {} if first is None else first
    results: dict[Hashable, list[Value]] = {}
    constants: dict[Value, Value] = {}  # the first equal constant of each
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.regions or not first.keys().isdisjoint(node.operands):
            regions = [
                merged_duplicates(r, group_of, keeps_constants=keeps_constants, first=first) for r in node.regions
            ]
            node = _with_first(node, first, regions)
        operands = [constants.get(value, value) for value in node.operands] if constants else node.operands
        key = None if (group := group_of(node)) is None else computation_key(node, operands)
        earlier = node.results if key is None else results.setdefault((group, key), node.results)
        if keeps_constants and key is not None and constants.keys() >= set(node.operands):
            constants.update(zip(node.results, earlier, strict=True))
        elif earlier is not node.results:
            first.update(zip(node.results, earlier, strict=True))
            for value, kept in zip(node.results, earlier, strict=True):
                kept.stands_for(value)
            continue
        nodes.append(node)
    outputs = [first.get(value, value) for value in graph.outputs]
    is_old = (nodes, outputs) == (graph.nodes, graph.outputs)  # nodes and values compare by identity
    return graph if is_old else Graph(graph.name, graph.inputs, nodes, outputs)


def _with_first(node: Node, first: Mapping[Value, Value], regions: list[Graph]) -> Node:
    operands = [first.get(value, value) for value in node.operands]
    is_old = operands == node.operands and regions == list(node.regions)
    return node if is_old else replace(node, operands=operands, regions=tuple(regions))


def computation_key(node: Node, operands: Sequence[Value]) -> Hashable:
    """Return a key that nodes share whose results on equal operands are equal; None if a region reads values from around it."""
    if node.regions and captured(node):
        return None
    kinds = tuple([(value.type, value.sharding) for value in node.results])
    return node.op, tuple(operands), attribute_key(node.attrs.given), kinds, tuple(map(structure, node.regions))


def structure(body: Graph, outer: Mapping[Value, Any] | None = None) -> Any:
    """A key that is equal for bodies that differ in names and locations only; `outer` numbers captured values."""
    depth = 0 if outer is None else 1 + max((level for level, _ in outer.values()), default=0)
    number: dict[Value, Any] = {**(outer or {}), **{value: (depth, n) for n, value in enumerate(body.values())}}
    nodes = tuple(
        (n.op, tuple(number[v] for v in n.operands), tuple(v.type for v in n.results), attribute_key(n.attrs.given),
         tuple(structure(region, number) for region in n.regions))
        for n in body.nodes
    )  # fmt: skip
    return tuple(v.type for v in body.inputs), nodes, tuple(number[v] for v in body.outputs)


def attribute_key(value: Any) -> Any:
    """Attributes in a form that compares by value; numbers by their bits: 0.0 is not -0.0, nor 1 True."""
    if type(value) in (int, str):
        return value
    if isinstance(value, dict):
        return tuple([(k, attribute_key(v)) for k, v in sorted(value.items())])
    if isinstance(value, (list, tuple)):
        return tuple([attribute_key(v) for v in value])
    if isinstance(value, (np.ndarray, np.generic)):
        return value.shape, str(value.dtype), stored_bytes(np.asarray(value))
    return type(value).__name__, repr(value) if isinstance(value, (float, complex)) else value
