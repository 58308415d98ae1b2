"""Walks through a program with its regions: nodes, uses, captured values, replacement of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.op_names import WITH_PROGRAMS
from meshgen.ir.predicates import is_control


def flow_regions(node: Node) -> tuple[Graph, ...]:
    """The regions of a loop or of branches; other nodes have none of this kind."""
    return node.regions if is_control(node) else ()


def program_regions(node: Node) -> tuple[Graph, ...]:
    """The regions that are parts of the program: those of loops, branches and manual computations. Others work on scalars."""
    return node.regions if node.op in WITH_PROGRAMS else ()


def program_nodes(graph: Graph) -> Iterator[Node]:
    """Nodes in program order; those of loops, branches and manual computations after their op."""
    for node in graph.nodes:
        yield node
        for region in program_regions(node):
            yield from program_nodes(region)


def all_nodes(graph: Graph) -> Iterator[Node]:
    """Nodes in program order; those of regions after their op."""
    for node in graph.nodes:
        yield node
        for region in node.regions:
            yield from all_nodes(region)


def flow_graphs(graph: Graph) -> Iterator[Graph]:
    """A graph and the regions of its loops and branches, to any depth."""
    yield graph
    for node in graph.nodes:
        for region in flow_regions(node):
            yield from flow_graphs(region)


def all_values(graph: Graph) -> Iterator[Value]:
    """The values of a graph and of all its regions."""
    yield from graph.values()
    for node in all_nodes(graph):
        for region in node.regions:
            yield from region.values()


def nodes_with_depth(graph: Graph) -> Iterator[tuple[Node, int]]:
    """All nodes with the nesting depth of each; regions may be nested to any depth."""
    stack = [(graph, 0)]
    while stack:
        inner, depth = stack.pop()
        for node in inner.nodes:
            yield node, depth
            stack += [(region, depth + 1) for region in node.regions]


def used_values(graph: Graph) -> Iterator[Value]:
    """Every use of a value, those in regions and as an output included."""
    for node in graph.nodes:
        yield from used_by(node)
    yield from graph.outputs


def used_by(node: Node) -> Iterator[Value]:
    """Operands, and every use in the node's regions, of their own values as well."""
    yield from node.operands
    for region in node.regions:
        yield from used_values(region)


def captured(node: Node) -> list[Value]:
    """Values from outside that the node's regions use, each once."""
    found: dict[Value, None] = {}
    for region in node.regions:
        own = set(region.values())
        for inner in region.nodes:
            found.update((v, None) for v in (*inner.operands, *captured(inner)) if v not in own)
        found.update((v, None) for v in region.outputs if v not in own)
    return list(found)


def rewired(node: Node, now: Mapping[Value, Value]) -> Node:
    """The node with replaced values, in its regions too."""
    operands = [now.get(v, v) for v in node.operands]
    return replace(node, operands=operands, regions=tuple(rewired_graph(region, now) for region in node.regions))


def rewired_graph(graph: Graph, now: Mapping[Value, Value]) -> Graph:
    """The graph with replaced values, outputs and regions included."""
    nodes = [rewired(node, now) for node in graph.nodes]
    return Graph(graph.name, list(graph.inputs), nodes, [now.get(v, v) for v in graph.outputs])


def needed_nodes(nodes: Sequence[Node], outputs: Iterable[Value], stays: Callable[[Node], bool]) -> list[Node]:
    """The live ones of `nodes`, in order: those with side effects, and all that they and the outputs need."""
    used = set(outputs)
    kept: list[Node] = []
    for node in reversed(nodes):
        if stays(node) or not used.isdisjoint(node.results):
            kept.append(node)
            used.update(used_by(node))
    return kept[::-1]
