"""Walks over graphs and their regions, and the replacement of values in both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.op_names import WITH_PROGRAMS
from meshgen.ir.predicates import is_control


def flow_regions(node: Node) -> tuple[Graph, ...]:
    """Return the regions of a loop or branch, or () for any other node."""
    return node.regions if is_control(node) else ()


def program_regions(node: Node) -> tuple[Graph, ...]:
    """Return the regions of a loop, branch or manual computation, or () for any other node.

    The regions of other nodes, such as the reducer of a `reduce_region`, work on scalars and contain no program ops.
    """
    return node.regions if node.op in WITH_PROGRAMS else ()


def program_nodes(graph: Graph) -> Iterator[Node]:
    """Yield all nodes in program order, each followed by the nodes in its `program_regions`."""
    for node in graph.nodes:
        yield node
        for region in program_regions(node):
            yield from program_nodes(region)


def all_nodes(graph: Graph) -> Iterator[Node]:
    """Yield all nodes in program order, each followed by the nodes in its regions."""
    for node in graph.nodes:
        yield node
        for region in node.regions:
            yield from all_nodes(region)


def flow_graphs(graph: Graph) -> Iterator[Graph]:
    """Yield a graph and the regions of its loops and branches, at any depth."""
    yield graph
    for node in graph.nodes:
        for region in flow_regions(node):
            yield from flow_graphs(region)


def all_values(graph: Graph) -> Iterator[Value]:
    """Yield the values of a graph and of all its regions."""
    yield from graph.values()
    for node in all_nodes(graph):
        for region in node.regions:
            yield from region.values()


def nodes_with_depth(graph: Graph) -> Iterator[tuple[Node, int]]:
    """Yield all nodes with their nesting depth. Iterative, so regions may be nested to any depth."""
    stack = [(graph, 0)]
    while stack:
        inner, depth = stack.pop()
        for node in inner.nodes:
            yield node, depth
            stack += [(region, depth + 1) for region in node.regions]


def used_values(graph: Graph) -> Iterator[Value]:
    """Yield the value of each use in a graph: operands of nodes, also in regions, and graph outputs."""
    for node in graph.nodes:
        yield from used_by(node)
    yield from graph.outputs


def used_by(node: Node) -> Iterator[Value]:
    """Yield a node's operands, then the value of each use in its regions. Values defined in the regions are included."""
    yield from node.operands
    for region in node.regions:
        yield from used_values(region)


def captured(node: Node) -> list[Value]:
    """Return the values that a node's regions use but do not define, without duplicates."""
    values: dict[Value, None] = {}
    for region in node.regions:
        local = set(region.values())
        for inner in region.nodes:
            values.update((v, None) for v in (*inner.operands, *captured(inner)) if v not in local)
        values.update((v, None) for v in region.outputs if v not in local)
    return list(values)


def rewired(node: Node, replacements: Mapping[Value, Value]) -> Node:
    """Return the node with its operands, and the values used in its regions, replaced by `replacements`."""
    operands = [replacements.get(value, value) for value in node.operands]
    return replace(
        node, operands=operands, regions=tuple(rewired_graph(region, replacements) for region in node.regions)
    )


def rewired_graph(graph: Graph, replacements: Mapping[Value, Value]) -> Graph:
    """Return the graph with the values that its nodes, regions and outputs use replaced by `replacements`."""
    nodes = [rewired(node, replacements) for node in graph.nodes]
    return Graph(graph.name, list(graph.inputs), nodes, [replacements.get(value, value) for value in graph.outputs])


def needed_nodes(nodes: Sequence[Node], outputs: Iterable[Value], stays: Callable[[Node], bool]) -> list[Node]:
    """Return the live nodes in program order.

    A node is live if `stays(node)`, or if one of its results is in `outputs` or used by a live node.
    """
    used = set(outputs)
    live: list[Node] = []
    for node in reversed(nodes):
        if stays(node) or not used.isdisjoint(node.results):
            live.append(node)
            used.update(used_by(node))
    return live[::-1]
