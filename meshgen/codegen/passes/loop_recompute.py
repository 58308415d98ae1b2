"""What a loop or branch reads and everyone can compute from nothing, a mask of positions, it computes itself instead of reading it.

    before   %mask = compare (iota), (iota)                i1[4096, 4096], in memory for the whole loop
             scan(..) { %s = select %mask, %scores, .. }
    after    scan(..) { %mask' = compare (iota), (iota); %s = select %mask', %scores, .. }

Kernels compute such values in registers; before propagation they are parts of the attentions that use them. Left as it is what
something else than an element-wise op of the region reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_constant, is_loop
from meshgen.ir.regions import captured, flow_regions, rewired_graph, used_by
from meshgen.ir.walks import operands_first, reachable
from meshgen.ops.classes import LAYOUT, LEAVING, MADE, POINTWISE
from meshgen.ops.live import without_dead

_MAPS = LAYOUT - LEAVING


@module_pass("loop-recompute", "import", "partition")
def loop_recompute(module: Module, context: Compilation) -> Module:
    """A program whose regions compute what is made from nothing."""
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
        is_map = node.op in MADE or node.op in POINTWISE or node.op in _MAPS
        if is_map and not is_data and all(v in found for v in node.operands):
            found.update(dict.fromkeys(node.results, node))
    return found


def _recomputing(node: Node, makers: Mapping[Value, Node]) -> Node:
    regions = flow_regions(node)
    found = tuple(_with_copies(region, _read_from_registers(node, region, makers), makers) for region in regions)
    return node if all(new is old for new, old in zip(found, regions, strict=True)) else replace(node, regions=found)


def _read_from_registers(node: Node, region: Graph, makers: Mapping[Value, Node]) -> dict[Value, Value]:
    """Return the values that only element-wise ops of the region itself read, through index maps, and what they are outside.

    These are values from outside, and inputs that a loop carries unchanged.
    """
    outside = {value: value for value in captured(replace(node, regions=(region,)))}
    if is_loop(node):
        body = node.regions[1]
        numbers = [n for n, pair in enumerate(zip(body.inputs, body.outputs, strict=True)) if pair[0] is pair[1]]
        outside |= {region.inputs[n]: node.operands[n] for n in numbers}
    users: dict[Value, list[Node]] = {}
    for inner in region.nodes:
        for value in used_by(inner):
            users.setdefault(value, []).append(inner)
    returned = {value for value in region.outputs if value not in region.inputs}

    def mapped(value: Value) -> list[Value]:
        return [result for user in users.get(value, ()) if user.op in _MAPS for result in user.results]

    def in_registers(value: Value) -> bool:
        reached = [*reachable([value], mapped)]
        readers = [user for each in reached for user in users.get(each, ()) if user.op not in _MAPS]
        return bool(readers) and returned.isdisjoint(reached) and all(user.op in POINTWISE for user in readers)

    return {
        value: outer for value, outer in outside.items() if outer in makers and outer.type.rank and in_registers(value)
    }


def _with_copies(region: Graph, values: Mapping[Value, Value], makers: Mapping[Value, Node]) -> Graph:
    """The region with copies of what makes values, first; `values` are those of the region with what they are outside."""
    if not values:
        return region
    needed = operands_first(
        [makers[value] for value in values.values()], lambda node: [makers[v] for v in node.operands]
    )
    now: dict[Value, Value] = {}
    copies = list[Node]()
    for node in needed:
        results = [Value(v.type, v.name, loc=v.loc) for v in node.results]
        copies.append(replace(node, operands=[now[v] for v in node.operands], results=results))
        now.update(zip(node.results, results, strict=True))
    inner = rewired_graph(region, {value: now[outer] for value, outer in values.items()})
    return Graph(region.name, region.inputs, [*copies, *inner.nodes], region.outputs)
