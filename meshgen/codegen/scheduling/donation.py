"""Results that overwrite donated inputs. All reads of the input must come before the write.

%y = kernel @use(%w, %x)        reads %w
%v = kernel @update(%w, %g)     overwrites %w: runs after @use, and reads %w only at the index that it writes
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from meshgen.codegen.collective_predicates import is_message
from meshgen.codegen.scheduling.region_modules import region_module
from meshgen.ir.donation import settled
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.op_names import REPEATED
from meshgen.ir.predicates import is_kernel
from meshgen.ir.regions import captured, flow_regions
from meshgen.ir.walks import reachable
from meshgen.ops.classes import OVERWRITING, UNLAUNCHED, VIEWS
from meshgen.runtime.in_place import overwrites


class Donated(NamedTuple):
    """The decisions which donated inputs are overwritten.

    Attributes:
        pairs: index of a donated input -> index of the output that is the input's next value.
        over: result (the root of its views) -> the input that it overwrites.
        unused: index of each input whose memory is not reused -> the reason.
    """

    pairs: Mapping[int, int]
    over: Mapping[Value, Value]
    unused: Mapping[int, str]


def donated(module: Module) -> Donated:
    """Return the donated inputs that a fused module can overwrite, because every read precedes the write in program
    order.
    """
    if not module.donations:
        return Donated({}, {}, {})
    graph, roots = module.graph, storage_roots(module.graph)
    producers = graph.index.producers
    position = {node: index for index, node in enumerate(graph.nodes)}
    readers = _readers(graph, roots)
    settled_donations = settled(module)
    outputs = {roots[value] for value in graph.outputs}
    over: dict[Value, Value] = {}
    unused = dict(settled_donations.unused)
    for index, output in settled_donations.pairs.items():
        donated_input, result = graph.inputs[index], roots[graph.outputs[output]]
        producer = producers.get(result)
        if result is donated_input:
            continue  # The program returns the input unchanged.
        if (
            producer is None
            or producer.op in UNLAUNCHED
            or result in over
            or result.type.nbytes != donated_input.type.nbytes
        ):
            unused[index] = f"result {output} shares its value with another result"
        elif donated_input in outputs:
            unused[index] = "it is a result as well"
        elif late := [node for node in readers.get(donated_input, ()) if position[node] > position[producer]]:
            unused[index] = f"'{late[0].op}' reads it after result {output} is computed"
        elif producer in readers.get(donated_input, ()) and not may_overwrite(
            producer, donated_input, result, roots, module.kernels
        ):
            unused[index] = f"'{producer.op}', which computes result {output}, reads it at other indices than it writes"
        else:
            over[result] = donated_input
    return Donated(settled_donations.pairs, over, unused)


def hoist_donated_reads(module: Module) -> Module:
    """Move reads of donated inputs before the write that overwrites them, where dependences allow it.

    Bodies of scans are included.
    """
    nodes = [_with_readers_first(node, module) for node in module.graph.nodes]
    if any(after is not before for after, before in zip(nodes, module.graph.nodes, strict=True)):
        module = replace(module, graph=replace(module.graph, nodes=nodes))
    if not module.donations:
        return module
    graph, roots = module.graph, storage_roots(module.graph)
    producers, readers = graph.index.producers, _readers(graph, roots)
    position = {node: index for index, node in enumerate(graph.nodes)}
    before = {node: [producers[v] for v in (*node.operands, *captured(node)) if v in producers] for node in graph.nodes}
    # Sends and receives match first in, first out, so they must keep their order.
    for first, second in pairwise(node for node in graph.nodes if is_message(node)):
        before[second].append(first)
    is_moved = False
    for index, output in settled(module).pairs.items():
        producer = producers.get(roots[graph.outputs[output]])
        other_readers = [node for node in readers.get(graph.inputs[index], ()) if node is not producer]
        late = [node for node in other_readers if producer is not None and position[node] > position[producer]]
        if (
            producer is None
            or not other_readers
            or producer in reachable(other_readers if is_moved else late, before.__getitem__)
        ):
            continue
        before[producer] = [*before[producer], *other_readers]
        is_moved |= bool(late)
    if not is_moved:
        return module
    ordered = Graph(graph.name, graph.inputs, stable_order(graph.nodes, before), graph.outputs)
    return replace(module, graph=ordered)


def _with_readers_first(node: Node, module: Module) -> Node:
    outside, regions = captured(node), list[Graph]()
    for region in flow_regions(node):
        inside = region_module(module, node, region, outside)
        after = hoist_donated_reads(inside)
        regions.append(region if after is inside else replace(region, nodes=after.graph.nodes))
    is_same = all(after is before for after, before in zip(regions, node.regions, strict=False))
    return node if is_same else replace(node, regions=tuple(regions))


def storage_roots(graph: Graph) -> dict[Value, Value]:
    """Map each value to the value whose bytes it shares (itself unless it is a view)."""
    roots = {value: value for value in graph.values()}
    for node in graph.nodes:
        if node.op in VIEWS:
            roots.update((result, roots[value]) for value, result in zip(node.operands, node.results, strict=True))
    return roots


def _readers(graph: Graph, roots: Mapping[Value, Value]) -> dict[Value, list[Node]]:
    """Return a map from each storage to the launches that read it."""
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(roots[v] for v in reads(node)):
            readers.setdefault(value, []).append(node)
    return readers


def reads(node: Node) -> Sequence[Value]:
    """Return the values that a launch reads. A view reads none."""
    return () if node.op in VIEWS else [*node.operands, *captured(node)]


def may_overwrite(
    node: Node, operand: Value, result: Value, roots: Mapping[Value, Value], kernels: Mapping[str, Graph]
) -> bool:
    """Whether the launch `node` may write `result` over `operand`.

    `kernels` maps kernel names to bodies.
    """
    positions = [index for index, value in enumerate(reads(node)) if roots[value] is operand]
    index = node.results.index(result)
    if is_kernel(node):
        pairs = overwrites(kernels[node.attrs.kernel])
        return all(index in pairs.get(position, ()) for position in positions)
    return (node.op in REPEATED or node.op in OVERWRITING) and positions == [index]


def stable_order(nodes: Sequence[Node], before: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """Return the nodes in a topological order of the dependences `before` that moves as few nodes as possible."""
    position = {node: number for number, node in enumerate(nodes)}
    pending = {node: len({*before[node]}) for node in nodes}
    after: dict[Node, list[Node]] = {}
    for node in nodes:
        for neighbor in {*before[node]}:
            after.setdefault(neighbor, []).append(node)
    ready = [position[node] for node in nodes if not pending[node]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for neighbor in after.get(node, ()):
            pending[neighbor] -= 1
            if not pending[neighbor]:
                heapq.heappush(ready, position[neighbor])
    return order
