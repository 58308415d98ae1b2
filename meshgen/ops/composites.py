"""Composites: ops whose semantics is a decomposition into a graph of other ops. The op's record builds this graph.

    %o, %l = attention %q, %k, %v        is        %s = dot_general %q, %k
                                                   %m = reduce maximum %s
                                                   ...
                                                   %o = dot_general %p, %v

An early pass recognizes a composite in the program. The composite has its own sharding rule and types in all later
stages. It is expanded into its decomposition only if no kernel template implements it.
"""

from __future__ import annotations

from collections.abc import Callable

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import rewired
from meshgen.ops.decompositions.writer import FactorWriter
from meshgen.ops.registry import OPS


def is_composite(node: Node) -> bool:
    """Whether the node's op has a decomposition."""
    return node.op in OPS and OPS[node.op].decompose is not None


def decomposed(node: Node) -> Graph:
    """Return the decomposition of a composite node: a graph from the node's operands to its results.

    The graph has one input per operand, even if two operands are the same value.
    """
    inputs = [Value(value.type, loc=value.loc) for value in node.operands]
    graph = Graph(node.op, inputs)
    inner = Node(node.op, list(inputs), node.results, node.attrs, node.loc, regions=node.regions)
    graph.outputs = _appended(inner, graph)
    return graph


def expanded(graph: Graph, is_chosen: Callable[[Node], bool] = is_composite) -> Graph:
    """Replace the chosen composites of a graph by their decompositions. Returns the same graph if none is chosen.

    Results keep their names and identities for reports. Regions of other operations are not visited.
    """
    if not any(map(is_chosen, graph.nodes)):
        return graph
    replacements: dict[Value, Value] = {}
    result = Graph(graph.name, list(graph.inputs))
    for node in graph.nodes:
        node = rewired(node, replacements) if replacements else node
        if not is_chosen(node):
            result.nodes.append(node)
            continue
        for result_value, replacement in zip(node.results, _appended(node, result), strict=True):
            replacements[result_value] = replacement
            if replacement not in node.operands:
                replacement.name, replacement.id, replacement.sharding = (
                    result_value.name,
                    result_value.id,
                    result_value.sharding,
                )
                replacement.inherit_annotations(result_value)
    result.outputs = [replacements.get(value, value) for value in graph.outputs]
    return result


def _appended(node: Node, graph: Graph) -> list[Value]:
    decompose = OPS[node.op].decompose
    assert decompose is not None, node.op
    return list(decompose(FactorWriter(node, Builder(graph, node.loc))))
