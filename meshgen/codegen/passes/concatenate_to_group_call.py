"""A collective of a concatenation that a kernel would only pack becomes a group call: each tensor is sent without copying it.

    before   %1 = concatenate %a, %b {dim = 1}     f32[1,96], f32[1,32] -> f32[1,128]      a kernel that only copies
             %2 = all_gather %1 {dim = 0}          f32[1,128] -> f32[4,128]
             %3 = slice %2 [0:4, 0:96]             %4 = slice %2 [0:4, 96:128]
    after    %3, %4 = all_gather %a, %b {dim = 0}

NCCL launches the calls of a group together. A concatenation that nothing copies (`concatenate_in_place.py`) stays one call, and so does one that a kernel makes beside other work. Rows of which
more than one would need a kernel of its own are packed by one.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from meshgen.codegen.fusion.group_calls import take_calls
from meshgen.codegen.fusion.grouped import grouped
from meshgen.codegen.fusion.groups import Grouping
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.group_calls import VARIADIC
from meshgen.ops.classes import REGROUPING

# Parts of a message that are copied before a group call: with one there are as many kernels as for a message.
_COPIED_ROWS = 1


@module_pass("concatenate-to-group-call", "partition")
def concatenate_to_group_call(module: Module, context: Compilation) -> Module:
    """A local program with such messages as group calls."""
    return on_graphs(module, lambda graph: _with_group_calls(graph, context))


def _with_group_calls(graph: Graph, context: Compilation) -> Graph:
    parts = _packed_messages(graph)
    if not parts:
        return graph
    grouping = context.latest(grouped, graph)
    parts = {node: rows for node, (packed, rows) in parts.items() if _is_only_packed(packed, grouping)}
    if not parts:
        return graph
    after, calls = _with_calls_of_rows(graph, grouping, parts)
    if grouping.graph is graph:
        take_calls(grouping, after, calls)
        context.keep_latest(grouped, grouping.graph, grouping)
    return after


def _packed_messages(graph: Graph) -> dict[Node, tuple[Node, list[_Part]]]:
    """By collective, the concatenation that it sends and the parts of it."""
    producer, uses = graph.index.producers, graph.index.uses
    found: dict[Node, tuple[Node, list[_Part]]] = {}
    for node in graph.nodes:
        packed = producer.get(node.operands[0]) if node.op in VARIADIC and len(node.operands) == 1 else None
        if packed is None or packed.op != "concatenate" or len(uses[packed.result]) > 1:
            continue
        if parts := _message_rows(node, packed, [reader for reader, _ in uses[node.result]], graph):
            found[node] = packed, parts
    return found


class _Part:
    """A row of a message, and the slices that extract its result."""

    def __init__(self, row: Value, slices: list[Node], result: Value) -> None:
        self.row, self.slices, self.result = row, slices, result


def _is_only_packed(node: Node, grouping: Grouping) -> bool:
    """Whether a kernel only concatenates tensors that are in memory."""
    group = grouping.owner.get(node.result)
    if group is None or group.members != [node]:
        return False
    copied = [value for value in node.operands if _lies_in(value, grouping) not in group.reads]
    is_joined = len(node.operands) > 1 and all(v.type.size for v in node.operands)
    return is_joined and len(copied) <= _COPIED_ROWS


def _lies_in(value: Value, grouping: Grouping) -> Value:
    """The value whose bytes a value shares: the operand of a reshape, or of a broadcast that repeats nothing."""
    while (node := grouping.producer.get(value)) is not None:
        is_broadcast = node.op == "broadcast_in_dim" and node.operands[0].type.size == value.type.size
        if not (node.op in REGROUPING or (is_broadcast and list(node.attrs.dims) == sorted(node.attrs.dims))):
            break
        value = node.operands[0]
    return value


def _message_rows(node: Node, packed: Node, readers: list[Node], graph: Graph) -> list[_Part]:
    """The rows with their slices; none where the result is not just cut apart again."""
    dim = packed.attrs.dim
    if node.attrs.get("dim") == dim or node.result in graph.outputs:
        return []
    ends = itertools.accumulate((row.type.sizes[dim] for row in packed.operands), initial=0)
    found: list[_Part] = []
    for row, (start, stop) in zip(packed.operands, itertools.pairwise(ends), strict=True):
        sizes = tuple(stop - start if d == dim else n for d, n in enumerate(node.result.type.sizes))
        slices = [reader for reader in readers if _is_cut(reader, dim, start, stop, sizes)]
        result = slices[0].result if slices else Value(node.result.type.with_shape(sizes))
        found.append(_Part(row, slices, result))
    return found if sum(len(part.slices) for part in found) == len(readers) else []


def _is_cut(node: Node, dim: int, start: int, stop: int, sizes: tuple[int, ...]) -> bool:
    """Whether a node takes just these rows of a dim."""
    if node.op not in ("slice", "subview") or node.result.type.sizes != sizes:
        return False
    return (node.attrs.start[dim], node.attrs.limit[dim]) == (start, stop)


def _with_calls_of_rows(
    graph: Graph, grouping: Grouping, parts: dict[Node, list[_Part]]
) -> tuple[Graph, dict[Node, Node]]:
    """The collectives take the rows and make what the first slice of each made; further ones are that value again. Also the call of each."""
    packed = {node.operands[0] for node in parts}
    gone = {node for node in graph.nodes if not packed.isdisjoint(node.results)}
    first = {part.slices[0] for found in parts.values() for part in found if part.slices}
    again = {other: part.result for found in parts.values() for part in found for other in part.slices[1:]}
    nodes: list[Node] = []
    calls: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in parts:
            rows = [_in_place(part.row, grouping, nodes) for part in parts[node]]
            calls[node] = replace(node, operands=rows, results=[part.result for part in parts[node]])
            nodes.append(calls[node])
        elif node in again:
            nodes.append(Node("reshape", [again[node]], node.results, {}, node.loc))
        elif node not in gone and node not in first:
            nodes.append(node)
    return Graph(graph.name, list(graph.inputs), nodes, list(graph.outputs)), calls


def _in_place(row: Value, grouping: Grouping, nodes: list[Node]) -> Value:
    """The row as a view of the value whose bytes it has."""
    root = _lies_in(row, grouping)
    if root.type == row.type:
        return root
    nodes.append(Node("reshape", [root], [Value(row.type)], {}, root.loc))
    return nodes[-1].result
