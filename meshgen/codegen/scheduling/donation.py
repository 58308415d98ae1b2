"""Results that overwrite donated inputs: all reads of the input come before the write.

%y = kernel @use(%w, %x)        reads w
%v = kernel @update(%w, %g)     v is written where w is: after @use, and element by element
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from meshgen.codegen.communicating import is_message
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
    """The reuse of donated inputs.

    Attributes:
        pairs: inputs with the output that is the next value of each, by number.
        over: results (the roots of views) with the input that each is written over.
        unused: inputs, by number, whose memory is not reused, with the reason.
    """

    pairs: Mapping[int, int]
    over: Mapping[Value, Value]
    unused: Mapping[int, str]


def donated(module: Module) -> Donated:
    """The donated inputs that a fused module overwrites: in its order every read comes before the write."""
    if not module.donations:
        return Donated({}, {}, {})
    graph, roots = module.graph, storage_roots(module.graph)
    makers = graph.index.producers
    place = {node: number for number, node in enumerate(graph.nodes)}
    readers = _readers(graph, roots)
    found = settled(module)
    outputs = {roots[value] for value in graph.outputs}
    over: dict[Value, Value] = {}
    unused = dict(found.unused)
    for number, output in found.pairs.items():
        own, result = graph.inputs[number], roots[graph.outputs[output]]
        maker = makers.get(result)
        if result is own:
            continue  # it is returned unchanged
        if maker is None or maker.op in UNLAUNCHED or result in over or result.type.nbytes != own.type.nbytes:
            unused[number] = f"result {output} shares its value with another result"
        elif own in outputs:
            unused[number] = "it is a result as well"
        elif late := [node for node in readers.get(own, ()) if place[node] > place[maker]]:
            unused[number] = f"'{late[0].op}' reads it after result {output} is computed"
        elif maker in readers.get(own, ()) and not may_overwrite(maker, own, result, roots, module.kernels):
            unused[number] = f"'{maker.op}', which computes result {output}, reads it at other indices than it writes"
        else:
            over[result] = own
    return Donated(found.pairs, over, unused)


def readers_first(module: Module) -> Module:
    """The module with reads of donated inputs moved before their overwriting write, where dependencies allow it; bodies of scans too."""
    nodes = [_with_readers_first(node, module) for node in module.graph.nodes]
    if any(after is not before for after, before in zip(nodes, module.graph.nodes, strict=True)):
        module = replace(module, graph=replace(module.graph, nodes=nodes))
    if not module.donations:
        return module
    graph, roots = module.graph, storage_roots(module.graph)
    makers, readers = graph.index.producers, _readers(graph, roots)
    place = {node: number for number, node in enumerate(graph.nodes)}
    before = {node: [makers[v] for v in (*node.operands, *captured(node)) if v in makers] for node in graph.nodes}
    for first, second in pairwise(node for node in graph.nodes if is_message(node)):  # matched first in, first out
        before[second].append(first)
    is_moved = False
    for number, output in settled(module).pairs.items():
        maker = makers.get(roots[graph.outputs[output]])
        own = [node for node in readers.get(graph.inputs[number], ()) if node is not maker]
        late = [node for node in own if maker is not None and place[node] > place[maker]]
        if maker is None or not own or maker in reachable(own if is_moved else late, before.__getitem__):
            continue
        before[maker] = [*before[maker], *own]
        is_moved |= bool(late)
    if not is_moved:
        return module
    ordered = Graph(graph.name, graph.inputs, stable_order(graph.nodes, before), graph.outputs)
    return replace(module, graph=ordered)


def _with_readers_first(node: Node, module: Module) -> Node:
    outside, regions = captured(node), list[Graph]()
    for region in flow_regions(node):
        inside = region_module(module, node, region, outside)
        after = readers_first(inside)
        regions.append(region if after is inside else replace(region, nodes=after.graph.nodes))
    is_same = all(after is before for after, before in zip(regions, node.regions, strict=False))
    return node if is_same else replace(node, regions=tuple(regions))


def storage_roots(graph: Graph) -> dict[Value, Value]:
    """The value whose bytes each value shares."""
    found = {value: value for value in graph.values()}
    for node in graph.nodes:
        if node.op in VIEWS:
            found.update((result, found[value]) for value, result in zip(node.operands, node.results, strict=True))
    return found


def _readers(graph: Graph, roots: Mapping[Value, Value]) -> dict[Value, list[Node]]:
    """The launches that read each storage."""
    found: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(roots[v] for v in reads(node)):
            found.setdefault(value, []).append(node)
    return found


def reads(node: Node) -> Sequence[Value]:
    """What a launch reads; a view is none."""
    return () if node.op in VIEWS else [*node.operands, *captured(node)]


def may_overwrite(
    node: Node, own: Value, result: Value, roots: Mapping[Value, Value], kernels: Mapping[str, Graph]
) -> bool:
    """Whether a launch may write its result over an operand; `kernels` are the bodies by name."""
    places = [number for number, value in enumerate(reads(node)) if roots[value] is own]
    number = node.results.index(result)
    if is_kernel(node):
        pairs = overwrites(kernels[node.attrs.kernel])
        return all(number in pairs.get(place, ()) for place in places)
    return (node.op in REPEATED or node.op in OVERWRITING) and places == [number]


def stable_order(nodes: Sequence[Node], before: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """The nodes in a stable topological order."""
    place = {node: number for number, node in enumerate(nodes)}
    missing = {node: len({*before[node]}) for node in nodes}
    after: dict[Node, list[Node]] = {}
    for node in nodes:
        for each in {*before[node]}:
            after.setdefault(each, []).append(node)
    ready = [place[node] for node in nodes if not missing[node]]
    heapq.heapify(ready)
    found: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        found.append(node)
        for each in after.get(node, ()):
            missing[each] -= 1
            if not missing[each]:
                heapq.heappush(ready, place[each])
    return found
