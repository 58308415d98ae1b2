"""Adaptation of a grouping when packed messages become group calls: the packing kernels disappear, all others stay.

before   kernel %1 = concatenate %a, %b      %2 = all_gather %1      a kernel reads slices of %2
after    %3, %4 = all_gather %a, %b                                  the kernel reads %3 and %4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.codegen.fusion.group import Group
from meshgen.codegen.fusion.group_growth import Grouping
from meshgen.codegen.fusion.rematerialized import FreeNodes
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import transitive_operands
from meshgen.ops.classes import REGROUPING


def adopt_group_calls(grouping: Grouping, graph: Graph, calls: Mapping[Node, Node]) -> None:
    """Update a grouping to `graph`, in which group calls replace packed messages.

    The grouping stays unchanged if the group calls could change any kernel other than the packing kernels.

    Args:
        calls: maps each message (a collective) to its group call. A kernel packs the operand of the message and does
            nothing else. The call has the packed values as operands, and its results are the slices of the message's
            result.
    """
    removed_nodes = dict.fromkeys(grouping.graph.nodes)
    for node in graph.nodes:
        removed_nodes.pop(node, None)
    packing = [grouping.owner[node.operands[0]] for node in calls]
    reads = [_roots(call, graph) for call in calls.values()]
    has_packed_values = all(
        value in group.reads for values, group in zip(reads, packing, strict=True) for value in values
    )
    packed = {node for group in packing for node in group.members}
    slice_of_result = {value: node.result for node, call in calls.items() for value in call.results}
    slices = [node for node in removed_nodes if node not in calls and node not in packed]
    if not has_packed_values or not all(
        n.result in slice_of_result and (grouping.free.has(n) or n in grouping.views) for n in slices
    ):
        return
    readers = {
        group: _parts_read(grouping, group, slice_of_result)
        for group in grouping.groups
        if not _reads_no_message(group, calls)
    }
    if any(len(group.reads) + len(values) > DEFAULT.fusion.inputs for group, values in readers.items()):
        return  # A kernel would read too many values, so the grouping stays unchanged.
    for node, group, values in zip(calls, packing, reads, strict=True):
        _take_call(grouping, node, calls[node], group, values)
    _take_graph(grouping, graph, removed_nodes)
    for group, values in readers.items():
        for value in values:
            group.reads.pop(slice_of_result[value], None)
        group.reads.update(dict.fromkeys(values))
    grouping.groups = [group for group in grouping.groups if group.members]


def _roots(call: Node, graph: Graph) -> list[Value]:
    """Return the values whose bytes a group call sends: its operands, followed back through reshapes."""
    reshapes = {node.result: node for node in graph.nodes if node.op in REGROUPING}
    roots = list(call.operands)
    for i, value in enumerate(roots):
        while (node := reshapes.get(value)) is not None:
            value = roots[i] = node.operands[0]
    return roots


def _reads_no_message(group: Group, calls: Mapping[Node, Node]) -> bool:
    """Whether the kernel `group` reads no result of a message in `calls`."""
    return all(node.result not in group.reads for node in calls)


def _parts_read(grouping: Grouping, group: Group, parts: Mapping[Value, Value]) -> dict[Value, None]:
    """Return the slices of message results that a kernel reads, directly or through nodes that it recomputes."""
    read = [v for node in (*group.members, *group.extra) for v in node.operands]
    # `copied` is not None for free nodes, and for nodes of groups that were dissolved into their readers.
    return {value: None for value in transitive_operands(read, grouping.copied, parts.__contains__) if value in parts}


def _take_call(grouping: Grouping, message: Node, call: Node, packing: Group, reads: Sequence[Value]) -> None:
    """Replace the message by the group call, and remove the group that packed the message."""
    group = grouping.owner[message.result]
    group.members[:] = [call]
    group.reads = dict.fromkeys(reads)
    grouping.has_removed = True
    for earlier in packing.before:
        earlier.after.pop(packing, None)
        grouping.order(earlier, group)
    for later in packing.after:
        later.before.pop(packing, None)
    packing.members.clear()
    for value in (message.result, message.operands[0]):
        grouping.owner.pop(value, None)
        grouping.must.pop(value, None)
    grouping.owner.update(dict.fromkeys(call.results, group))
    grouping.must.update(dict.fromkeys(reads))


def _take_graph(grouping: Grouping, graph: Graph, removed_nodes: Mapping[Node, None]) -> None:
    """Replace the graph of the grouping, and every table derived from it. `removed_nodes` are the nodes that the new graph
    lacks.
    """
    grouping.graph, grouping.producer = graph, graph.index.producers
    grouping.position = {node: i for i, node in enumerate(graph.nodes)}
    grouping.views -= removed_nodes.keys()
    grouping.free = FreeNodes(graph, grouping.must, grouping.views, grouping.free.absorbed - removed_nodes.keys())
