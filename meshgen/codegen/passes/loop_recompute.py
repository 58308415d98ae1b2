"""Rematerialize values that depend on no data (such as a mask of positions) inside the loop or branch that reads them.

    before   %mask = compare (iota), (iota)                i1[4096, 4096], in memory for the entire loop
             scan(..) { %s = select %mask, %scores, .. }
    after    scan(..) { %mask' = compare (iota), (iota); %s = select %mask', %scores, .. }

Kernels compute such values in registers. If the pass runs before propagation, the values become part of the attention
ops that use them. The pass leaves a value alone if the region has a user of it that is not element-wise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_constant, is_loop
from meshgen.ir.regions import captured, flow_regions, rewired_graph, used_by
from meshgen.ir.walks import operands_first, reachable
from meshgen.ops.classes import LAYOUT, LEAVING, MADE, POINTWISE
from meshgen.ops.dead_code import without_dead

_MAPS = LAYOUT - LEAVING


@module_pass("loop-recompute", "import", "partition")
def loop_recompute(module: Module, context: Compilation) -> Module:
    """Rematerialize operands that depend on no data inside the regions that read them."""
    return on_graphs(module, _with_generated_values)


def _with_generated_values(graph: Graph) -> Graph:
    if not any(flow_regions(node) for node in graph.nodes):
        return graph
    generated = _generated_values(graph)
    nodes = [_recomputing(node, generated) for node in graph.nodes]
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return graph
    return without_dead(Graph(graph.name, graph.inputs, nodes, graph.outputs))


def _generated_values(graph: Graph) -> dict[Value, Node]:
    """Map each value that can be computed without reading memory to its producer."""
    generated: dict[Value, Node] = {}
    for node in graph.nodes:
        is_data = is_constant(node) and node.attrs.value.ndim > 0
        is_map = node.op in MADE or node.op in POINTWISE or node.op in _MAPS
        if is_map and not is_data and all(v in generated for v in node.operands):
            generated.update(dict.fromkeys(node.results, node))
    return generated


def _recomputing(node: Node, generated: Mapping[Value, Node]) -> Node:
    regions = flow_regions(node)
    rewritten_regions = tuple(
        _with_copies(region, _rematerializable(node, region, generated), generated) for region in regions
    )
    return (
        node
        if all(new is old for new, old in zip(rewritten_regions, regions, strict=True))
        else replace(node, regions=rewritten_regions)
    )


def _rematerializable(node: Node, region: Graph, generated: Mapping[Value, Node]) -> dict[Value, Value]:
    """Map each value of `region` that can be recomputed inside the region to the equal value outside of it.

    Candidates are captured values, and inputs that a loop carries unchanged. Their only users in the region, through
    index maps, must be element-wise ops of the region itself.
    """
    outside = {value: value for value in captured(replace(node, regions=(region,)))}
    if is_loop(node):
        body = node.regions[1]
        unchanged = [n for n, pair in enumerate(zip(body.inputs, body.outputs, strict=True)) if pair[0] is pair[1]]
        outside |= {region.inputs[n]: node.operands[n] for n in unchanged}
    users: dict[Value, list[Node]] = {}
    for inner in region.nodes:
        for value in used_by(inner):
            users.setdefault(value, []).append(inner)
    returned = {value for value in region.outputs if value not in region.inputs}

    def mapped(value: Value) -> list[Value]:
        return [result for user in users.get(value, ()) if user.op in _MAPS for result in user.results]

    def in_registers(value: Value) -> bool:
        reached = [*reachable([value], mapped)]
        readers = [user for alias in reached for user in users.get(alias, ()) if user.op not in _MAPS]
        return bool(readers) and returned.isdisjoint(reached) and all(user.op in POINTWISE for user in readers)

    return {
        value: outer
        for value, outer in outside.items()
        if outer in generated and outer.type.rank and in_registers(value)
    }


def _with_copies(region: Graph, values: Mapping[Value, Value], generated: Mapping[Value, Node]) -> Graph:
    """Return the region with copies of the nodes that compute `values`, placed at the region's start.

    `values` maps values of the region to the equal outer values.
    """
    if not values:
        return region
    needed = operands_first(
        [generated[value] for value in values.values()], lambda node: [generated[v] for v in node.operands]
    )
    copied: dict[Value, Value] = {}
    copies = list[Node]()
    for node in needed:
        results = [Value(v.type, v.name, loc=v.loc) for v in node.results]
        copies.append(replace(node, operands=[copied[v] for v in node.operands], results=results))
        copied.update(zip(node.results, results, strict=True))
    inner = rewired_graph(region, {value: copied[outer] for value, outer in values.items()})
    return Graph(region.name, region.inputs, [*copies, *inner.nodes], region.outputs)
