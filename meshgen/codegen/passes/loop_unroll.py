"""Unroll short loops and loops with collectives that cannot be scans; turn branches with collectives into selects.

    before   %1 = while (%i = 0, %x) { %i < 3 } { all_reduce %x }
    after    %1 = all_reduce (all_reduce (all_reduce %x))

    before   %1 = if %p { all_reduce %x } else { %x }
    after    %1 = select %p, (all_reduce %x), %x

A static schedule can overlap only nodes that are separate. Copies of a body use the same kernels, so each kernel is
generated and compiled once. Loops without collectives are left alone unless they are short and element-wise, such as
the rounds of a random generator. When unrolled, these fuse with the surrounding ops and keep their carried values in
registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from meshgen.codegen.collective_predicates import communicates
from meshgen.codegen.passes.loop_to_recurrence import recurrence_of
from meshgen.codegen.passes.loop_to_scan import MOST_NODES
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.loops import has_bounded_loops, trip_count
from meshgen.ir.predicates import is_branching, is_loop, is_transfer
from meshgen.ir.regions import all_nodes
from meshgen.ops.classes import LAYOUT, MADE, POINTWISE

Wanted = Callable[[Node], bool]
_ELEMENTWISE = POINTWISE | LAYOUT | MADE


@module_pass("loop-unroll", "partition")
def loop_unroll(module: Module, context: Compilation) -> Module:
    """Unroll short loops, and unroll or select control flow with collectives.

    Returns the module itself if nothing changes.
    """
    producers = module.graph.index.producers
    return unrolled(module, lambda node: _is_unrollable_communication(node, producers) or _is_short(node, producers))


def unrolled(module: Module, predicate: Wanted) -> Module:
    """Unroll the loops for which `predicate` is true, and replace the branches for which it is true by selects.

    Returns the module itself if there are none.
    """
    producers = module.graph.index.producers
    if not any(_is_unrolled(node, producers, predicate) for node in module.graph.nodes):
        return module
    graph = Graph(module.graph.name, list(module.graph.inputs))
    env = {value: value for value in graph.inputs}
    for node in module.graph.nodes:
        _emit(node, env, graph, producers, predicate)
    graph.outputs = [env[value] for value in module.graph.outputs]
    return replace(module, graph=graph)


def _is_unrollable_communication(node: Node, producers: Mapping[Value, Node]) -> bool:
    """Whether a loop or branch communicates, and either has few nodes or cannot become a scan (`loop_to_scan.py`)."""
    if not any(map(communicates, node.regions)):
        return False
    trip_count_ = trip_count(node, producers) if is_loop(node) else None
    inner = [inner_node for region in node.regions for inner_node in all_nodes(region)]
    if trip_count_ is None or trip_count_ * len(inner) <= DEFAULT.fusion.unrolled_messages:
        return True
    return any(is_transfer(inner_node) or is_branching(inner_node) for inner_node in inner) or not has_bounded_loops(
        node.regions[1], producers
    )


def _is_short(node: Node, producers: Mapping[Value, Node]) -> bool:
    """Whether a node is a short loop of element-wise ops with a known trip count."""
    trips = trip_count(node, producers) if is_loop(node) else None
    if trips is None or any(inner.op not in _ELEMENTWISE for region in node.regions for inner in region.nodes):
        return False
    if trips * len(node.regions[1].nodes) > DEFAULT.fusion.unrolled_nodes:
        return False
    writes_rows = any(inner.op == "dynamic_update_slice" for inner in node.regions[1].nodes)
    return not writes_rows or recurrence_of(node, producers, {*node.results}) is None


def _is_unrolled(node: Node, producers: Mapping[Value, Node], predicate: Wanted) -> bool:
    return _trips(node, producers, predicate) is not None or _is_selected(node, producers, predicate)


def _is_selected(node: Node, producers: Mapping[Value, Node], predicate: Wanted) -> bool:
    """Whether a node is a branch whose regions are all executed, with the results selected afterwards."""
    return (
        is_branching(node) and predicate(node) and all(_is_speculatable(region, producers) for region in node.regions)
    )


def _trips(node: Node, producers: Mapping[Value, Node], predicate: Wanted) -> int | None:
    """Return the number of copies of a loop's body, or None if the loop is not unrolled."""
    if not is_loop(node) or not predicate(node) or communicates(node.regions[0]):
        return None
    trips = trip_count(node, producers)
    return trips if trips is not None and trips * len(node.regions[1].nodes) <= MOST_NODES else None


def _emit(node: Node, env: dict[Value, Value], into: Graph, producers: Mapping[Value, Node], predicate: Wanted) -> None:
    """Append a copy of `node` to `into`, or one copy of its body per iteration. `env` maps old values to new ones."""
    trips = _trips(node, producers, predicate)
    if trips is not None:
        state = [env[value] for value in node.operands]
        for _ in range(trips):
            state = _emit_body(node.regions[1], state, env, into, producers, predicate)
        env.update(zip(node.results, state, strict=True))
    elif _is_selected(node, producers, predicate):
        choice, *arguments = (env[value] for value in node.operands)
        branch_results = [_emit_body(region, arguments, env, into, producers, predicate) for region in node.regions]
        env.update(zip(node.results, _selected(choice, branch_results, into), strict=True))
    else:
        into.nodes.append(_copy(node, env))


def _emit_body(body: Graph, inputs: list[Value], env: Mapping[Value, Value], into: Graph,
               producers: Mapping[Value, Node], predicate: Wanted) -> list[Value]:  # fmt: skip
    """Append a copy of the nodes of region `body` to `into`, with arguments `inputs`, and return the copies of its
    outputs.
    """
    inner, inner_producers = (
        {**env, **dict(zip(body.inputs, inputs, strict=True))},
        {**producers, **body.index.producers},
    )
    for child in body.nodes:
        _emit(child, inner, into, inner_producers, predicate)
    return [inner[value] for value in body.outputs]


def _is_speculatable(body: Graph, producers: Mapping[Value, Node]) -> bool:
    """Whether the region can be executed speculatively: a loop of unknown trip count might not terminate."""
    all_producers = {**producers, **body.index.producers}
    loops_end = all(not is_loop(node) or trip_count(node, all_producers) is not None for node in body.nodes)
    return loops_end and all(_is_speculatable(region, all_producers) for node in body.nodes for region in node.regions)


def _selected(choice: Value, branch_results: list[list[Value]], into: Graph) -> list[Value]:
    """Emit selects among the results of all branches, which are listed in `branch_results`.

    `choice` is a predicate (true: the first branch) or an integer (out of range: the last branch).
    """
    selected = branch_results[-1]
    for branch in range(len(branch_results) - 2, -1, -1):
        is_chosen = choice
        if choice.type.dtype != "i1":
            index = into.add("constant", [], [choice.type], {"value": np.array(branch, choice.type.numpy_dtype)}).result
            attrs = {"direction": "EQ", "compare_type": "SIGNED"}
            is_chosen = into.add("compare", [choice, index], [TensorType((), "i1")], attrs).result
        pairs = zip(branch_results[branch], selected, strict=True)
        selected = [into.add("select", [is_chosen, value, other], [value.type]).result for value, other in pairs]
    return selected


def _copy(node: Node, env: dict[Value, Value]) -> Node:
    results = [replace(value) for value in node.results]
    regions = tuple(_copy_region(region, env) for region in node.regions)
    env.update(zip(node.results, results, strict=True))
    operands = [env[value] for value in node.operands]
    return replace(node, operands=operands, results=results, regions=regions)


def _copy_region(region: Graph, outer: Mapping[Value, Value]) -> Graph:
    env = {**outer, **{value: replace(value) for value in region.inputs}}
    copy = Graph(region.name, [env[value] for value in region.inputs])
    copy.nodes = [_copy(node, env) for node in region.nodes]
    copy.outputs = [env[value] for value in region.outputs]
    return copy
