"""What a loop or branch reads and everyone can compute from nothing, a mask of positions, it computes itself instead of reading it.

    before   %mask = compare (iota), (iota)                i1[4096, 4096], in memory for the whole loop
             scan(..) { %s = select %mask, %scores, .. }
    after    scan(..) { %mask' = compare (iota), (iota); %s = select %mask', %scores, .. }

Kernels compute such values in registers. Left as it is what something else than an element-wise operation of the region reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.regions import captured, flow_regions, rewired_graph, used_by
from meshgen.ir.walks import operands_first
from meshgen.ops.classes import LAYOUT, LEAVING, MADE, POINTWISE
from meshgen.ops.live import without_dead


@module_pass("loop-recompute", "partition")
def loop_recompute(module: Module, context: Compilation) -> Module:
    """A local program whose regions compute what is made from nothing."""
    return on_graphs(module, _with_generated_values)


def _with_generated_values(graph: Graph) -> Graph:
    if not any(flow_regions(node) for node in graph.nodes):
        return graph
    makers = _from_nothing(graph)
    nodes = [_recomputing(node, makers) for node in graph.nodes]
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return graph
    return without_dead(Graph(graph.name, graph.inputs, nodes, graph.outputs))


def _from_nothing(graph: Graph) -> dict[Value, Node]:
    """What makes the values that need nothing in memory."""
    found: dict[Value, Node] = {}
    for node in graph.nodes:
        is_data = is_constant(node) and node.attrs.value.ndim > 0
        is_map = node.op in MADE or node.op in POINTWISE or node.op in LAYOUT - LEAVING
        if is_map and not is_data and all(v in found for v in node.operands):
            found.update(dict.fromkeys(node.results, node))
    return found


def _recomputing(node: Node, makers: Mapping[Value, Node]) -> Node:
    regions = flow_regions(node)
    found = tuple(_with_copies(region, _read_from_registers(node, region, makers), makers) for region in regions)
    return node if all(new is old for new, old in zip(found, regions, strict=True)) else replace(node, regions=found)


def _read_from_registers(node: Node, region: Graph, makers: Mapping[Value, Node]) -> list[Value]:
    """The values from outside that only element-wise operations of the region itself read."""
    own = set(region.values())
    outside = [v for v in captured(replace(node, regions=(region,))) if v in makers and v.type.rank]
    users = {v: [n for n in region.nodes if v in used_by(n)] for v in outside}
    return [
        v for v in outside
        if v not in own and v not in region.outputs and all(n.op in POINTWISE for n in users[v])
    ]  # fmt: skip


def _with_copies(region: Graph, values: list[Value], makers: Mapping[Value, Node]) -> Graph:
    """The region with copies of what makes values, first."""
    if not values:
        return region
    needed = operands_first([makers[value] for value in values], lambda node: [makers[v] for v in node.operands])
    now: dict[Value, Value] = {}
    copies = list[Node]()
    for node in needed:
        results = [Value(v.type, v.name, loc=v.loc) for v in node.results]
        copies.append(replace(node, operands=[now[v] for v in node.operands], results=results))
        now.update(zip(node.results, results, strict=True))
    inner = rewired_graph(region, {value: now[value] for value in values})
    return Graph(region.name, region.inputs, [*copies, *inner.nodes], inner.outputs)
