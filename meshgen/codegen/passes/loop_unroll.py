"""Loops of a known number of trips that are short are unrolled, and those that communicate and cannot be scans; of branches that communicate all are computed, and one is selected.

    before   %1 = while (%i = 0, %x) { %i < 3 } { all_reduce %x }
    after    %1 = all_reduce (all_reduce (all_reduce %x))

A static schedule overlaps only what it has separately. Copies of a body are the same kernels, so they are generated and compiled once.
What holds no collectives stays as it is, but for short loops of element-wise work (the rounds of a random generator): unrolled, they fuse
with the surrounding operations, and their carried values stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from meshgen.codegen.communicating import communicates
from meshgen.codegen.passes.loop_to_recurrence import recurrence_of
from meshgen.codegen.passes.loop_to_scan import MOST_NODES
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.loops import always_ends, trip_count
from meshgen.ir.predicates import is_branching, is_loop, is_transfer
from meshgen.ir.regions import all_nodes
from meshgen.ops.classes import LAYOUT, MADE, POINTWISE

Wanted = Callable[[Node], bool]
_ELEMENTWISE = POINTWISE | LAYOUT | MADE


@module_pass("loop-unroll", "partition")
def loop_unroll(module: Module, context: Compilation) -> Module:
    """A local program with control flow unrolled that communicates or is short; itself if there is none."""
    producers = module.graph.index.producers
    return unrolled(module, lambda node: _is_few(node, producers) or _is_short(node, producers))


def unrolled(module: Module, wanted: Wanted) -> Module:
    """The module with control flow unrolled that is `wanted`; itself if there is none."""
    producers = module.graph.index.producers
    if not any(_is_unrolled(node, producers, wanted) for node in module.graph.nodes):
        return module
    graph = Graph(module.graph.name, list(module.graph.inputs))
    env = {value: value for value in graph.inputs}
    for node in module.graph.nodes:
        _emit(node, env, graph, producers, wanted)
    graph.outputs = [env[value] for value in module.graph.outputs]
    return replace(module, graph=graph)


def _is_few(node: Node, producers: Mapping[Value, Node]) -> bool:
    """Whether control flow communicates, and is little, or cannot be a scan (`loop_to_scan.py`)."""
    if not any(map(communicates, node.regions)):
        return False
    trips = trip_count(node, producers) if is_loop(node) else None
    inner = [each for region in node.regions for each in all_nodes(region)]
    if trips is None or trips * len(inner) <= DEFAULT.fusion.unrolled_messages:
        return True
    return any(is_transfer(each) or is_branching(each) for each in inner) or not always_ends(node.regions[1], producers)


def _is_short(node: Node, producers: Mapping[Value, Node]) -> bool:
    """Whether a node is a loop of a known number of trips whose work is element-wise and little."""
    trips = trip_count(node, producers) if is_loop(node) else None
    if trips is None or any(inner.op not in _ELEMENTWISE for region in node.regions for inner in region.nodes):
        return False
    if trips * len(node.regions[1].nodes) > DEFAULT.fusion.unrolled_nodes:
        return False
    writes_rows = any(inner.op == "dynamic_update_slice" for inner in node.regions[1].nodes)
    return not writes_rows or recurrence_of(node, producers, {*node.results}) is None


def _is_unrolled(node: Node, producers: Mapping[Value, Node], wanted: Wanted) -> bool:
    return _trips(node, producers, wanted) is not None or _is_selected(node, producers, wanted)


def _is_selected(node: Node, producers: Mapping[Value, Node], wanted: Wanted) -> bool:
    """Whether all branches of a node are computed."""
    return is_branching(node) and wanted(node) and all(_ends(region, producers) for region in node.regions)


def _trips(node: Node, producers: Mapping[Value, Node], wanted: Wanted) -> int | None:
    """The number of copies of an unrolled loop's body; None: the loop stays."""
    if not is_loop(node) or not wanted(node) or communicates(node.regions[0]):
        return None
    trips = trip_count(node, producers)
    return trips if trips is not None and trips * len(node.regions[1].nodes) <= MOST_NODES else None


def _emit(node: Node, env: dict[Value, Value], into: Graph, producers: Mapping[Value, Node], wanted: Wanted) -> None:
    """Add a copy of the node, or of its body once per trip; `env` maps old values to new ones."""
    trips = _trips(node, producers, wanted)
    if trips is not None:
        state = [env[value] for value in node.operands]
        for _ in range(trips):
            state = _emit_body(node.regions[1], state, env, into, producers, wanted)
        env.update(zip(node.results, state, strict=True))
    elif _is_selected(node, producers, wanted):
        choice, *handed = (env[value] for value in node.operands)
        ways = [_emit_body(region, handed, env, into, producers, wanted) for region in node.regions]
        env.update(zip(node.results, _selected(choice, ways, into), strict=True))
    else:
        into.nodes.append(_copy(node, env))


def _emit_body(body: Graph, inputs: list[Value], env: Mapping[Value, Value], into: Graph,
               producers: Mapping[Value, Node], wanted: Wanted) -> list[Value]:  # fmt: skip
    """Add a copy of a region; returns what it gives."""
    inner, inner_producers = (
        {**env, **dict(zip(body.inputs, inputs, strict=True))},
        {**producers, **body.index.producers},
    )
    for child in body.nodes:
        _emit(child, inner, into, inner_producers, wanted)
    return [inner[value] for value in body.outputs]


def _ends(body: Graph, producers: Mapping[Value, Node]) -> bool:
    """Whether a branch may be computed where it is not taken: a loop in it might not end."""
    known = {**producers, **body.index.producers}
    loops_end = all(not is_loop(node) or trip_count(node, known) is not None for node in body.nodes)
    return loops_end and all(_ends(region, known) for node in body.nodes for region in node.regions)


def _selected(choice: Value, ways: list[list[Value]], into: Graph) -> list[Value]:
    """The results of the way that is chosen: by a predicate (true: the first) or a number (out of range: the last)."""
    found = ways[-1]
    for number in range(len(ways) - 2, -1, -1):
        taken = choice
        if choice.type.dtype != "i1":
            wanted = into.add(
                "constant", [], [choice.type], {"value": np.array(number, choice.type.numpy_dtype)}
            ).result
            attrs = {"direction": "EQ", "compare_type": "SIGNED"}
            taken = into.add("compare", [choice, wanted], [TensorType((), "i1")], attrs).result
        pairs = zip(ways[number], found, strict=True)
        found = [into.add("select", [taken, this, other], [this.type]).result for this, other in pairs]
    return found


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
