"""Replace a collective of a concatenation by a group call, which sends each tensor without packing it.

    before   %1 = concatenate %a, %b {dim = 1}     f32[1,96], f32[1,32] -> f32[1,128]      a kernel that only copies
             %2 = all_gather %1 {dim = 0}          f32[1,128] -> f32[4,128]
             %3 = slice %2 [0:4, 0:96]             %4 = slice %2 [0:4, 96:128]
    after    %3, %4 = all_gather %a, %b {dim = 0}

NCCL launches the calls of a group together. The pass leaves alone concatenations that need no copy
(`concatenate_in_place.py`) and concatenations that a kernel computes together with other ops. It also leaves alone a
concatenation with several operands that would each need a copy kernel, because one kernel packs all of them.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from meshgen.codegen.fusion.group_call_adaptation import adopt_group_calls
from meshgen.codegen.fusion.group_growth import Grouping
from meshgen.codegen.fusion.grouping import grouped
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.group_calls import VARIADIC
from meshgen.ops.classes import REGROUPING

# Largest number of operands that may need a copy kernel before a group call. chosen: with one copy, the group call has
# as many kernels as the packed message.
_MAX_COPIED_OPERANDS = 1


@module_pass("concatenate-to-group-call", "partition")
def concatenate_to_group_call(module: Module, context: Compilation) -> Module:
    """Turn collectives of packed messages (concatenations that exist only to be sent) into group calls."""
    return on_graphs(module, lambda graph: _with_group_calls(graph, context))


def _with_group_calls(graph: Graph, context: Compilation) -> Graph:
    parts = _packed_messages(graph)
    if not parts:
        return graph
    grouping = context.latest(grouped, graph)
    parts = {node: rows for node, (packed, rows) in parts.items() if _is_only_packed(packed, grouping)}
    if not parts:
        return graph
    after, calls = _with_calls_of_parts(graph, grouping, parts)
    if grouping.graph is graph:
        adopt_group_calls(grouping, after, calls)
        context.keep_latest(grouped, grouping.graph, grouping)
    return after


def _packed_messages(graph: Graph) -> dict[Node, tuple[Node, list[_Part]]]:
    """Map each collective of a packed message to the concatenation that it sends and to the parts of the message."""
    producer, uses = graph.index.producers, graph.index.uses
    messages: dict[Node, tuple[Node, list[_Part]]] = {}
    for node in graph.nodes:
        packed = producer.get(node.operands[0]) if node.op in VARIADIC and len(node.operands) == 1 else None
        if packed is None or packed.op != "concatenate" or len(uses[packed.result]) > 1:
            continue
        if parts := _message_parts(node, packed, [reader for reader, _ in uses[node.result]], graph):
            messages[node] = packed, parts
    return messages


class _Part:
    """One operand of a packed message: the operand (`row`), the slices of the collective's result that extract the
    operand's part, and the value of this part (`result`).
    """

    def __init__(self, row: Value, slices: list[Node], result: Value) -> None:
        self.row, self.slices, self.result = row, slices, result


def _is_only_packed(node: Node, grouping: Grouping) -> bool:
    """Whether a kernel does nothing but concatenate tensors, of which at most `_MAX_COPIED_OPERANDS` are not in memory
    yet.
    """
    group = grouping.owner.get(node.result)
    if group is None or group.members != [node]:
        return False
    copied = [value for value in node.operands if _aliased_root(value, grouping) not in group.reads]
    is_joined = len(node.operands) > 1 and all(v.type.size for v in node.operands)
    return is_joined and len(copied) <= _MAX_COPIED_OPERANDS


def _aliased_root(value: Value, grouping: Grouping) -> Value:
    """Return the value with the same bytes as `value`, found through reshapes and broadcasts that only add dims of size
    1.
    """
    while (node := grouping.producer.get(value)) is not None:
        is_broadcast = node.op == "broadcast_in_dim" and node.operands[0].type.size == value.type.size
        if not (node.op in REGROUPING or (is_broadcast and list(node.attrs.dims) == sorted(node.attrs.dims))):
            break
        value = node.operands[0]
    return value


def _message_parts(node: Node, packed: Node, readers: list[Node], graph: Graph) -> list[_Part]:
    """Return the parts of a message, one per operand of the concatenation `packed`.

    Returns an empty list if the collective's result has users other than slices that extract exactly one part.
    """
    dim = packed.attrs.dim
    if node.attrs.get("dim") == dim or node.result in graph.outputs:
        return []
    ends = itertools.accumulate((row.type.sizes[dim] for row in packed.operands), initial=0)
    parts: list[_Part] = []
    for row, (start, stop) in zip(packed.operands, itertools.pairwise(ends), strict=True):
        sizes = tuple(stop - start if d == dim else n for d, n in enumerate(node.result.type.sizes))
        slices = [reader for reader in readers if _is_slice_of(reader, dim, start, stop, sizes)]
        result = slices[0].result if slices else Value(node.result.type.with_shape(sizes))
        parts.append(_Part(row, slices, result))
    return parts if sum(len(part.slices) for part in parts) == len(readers) else []


def _is_slice_of(node: Node, dim: int, start: int, stop: int, sizes: tuple[int, ...]) -> bool:
    """Whether a node is a slice of exactly the range [start, stop) of `dim`."""
    if node.op not in ("slice", "subview") or node.result.type.sizes != sizes:
        return False
    return (node.attrs.start[dim], node.attrs.limit[dim]) == (start, stop)


def _with_calls_of_parts(
    graph: Graph, grouping: Grouping, parts: dict[Node, list[_Part]]
) -> tuple[Graph, dict[Node, Node]]:
    """Replace the collectives in `parts` by group calls on the concatenated operands.

    The first slice of each part becomes a result of the group call. Further slices of the same part become reshapes of
    that result.

    Returns:
        The rewritten graph, and the group call that replaces each collective.
    """
    packed = {node.operands[0] for node in parts}
    concatenations = {node for node in graph.nodes if not packed.isdisjoint(node.results)}
    first = {part.slices[0] for message in parts.values() for part in message if part.slices}
    duplicates = {
        duplicate: part.result for message in parts.values() for part in message for duplicate in part.slices[1:]
    }
    nodes: list[Node] = []
    calls: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in parts:
            rows = [_in_place(part.row, grouping, nodes) for part in parts[node]]
            calls[node] = replace(node, operands=rows, results=[part.result for part in parts[node]])
            nodes.append(calls[node])
        elif node in duplicates:
            nodes.append(Node("reshape", [duplicates[node]], node.results, {}, node.loc))
        elif node not in concatenations and node not in first:
            nodes.append(node)
    return Graph(graph.name, list(graph.inputs), nodes, list(graph.outputs)), calls


def _in_place(row: Value, grouping: Grouping, nodes: list[Node]) -> Value:
    """Return a value with the type of `row` that is a view of the value with the same bytes (`_aliased_root`)."""
    root = _aliased_root(row, grouping)
    if root.type == row.type:
        return root
    nodes.append(Node("reshape", [root], [Value(row.type)], {}, root.loc))
    return nodes[-1].result
