"""The kernels of a graph whose packed messages became group calls: those that it had, without the packing.

before   kernel %1 = concatenate %a, %b      %2 = all_gather %1      a kernel reads slices of %2
after    %3, %4 = all_gather %a, %b                                  it reads %3 and %4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.codegen.fusion.group import Group
from meshgen.codegen.fusion.groups import Grouping
from meshgen.codegen.fusion.rematerialized import FreeNodes
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import values_behind
from meshgen.ops.classes import REGROUPING


def take_calls(grouping: Grouping, graph: Graph, calls: Mapping[Node, Node]) -> None:
    """Make a grouping that of a graph with a call for each of some messages; where kernels may become others it stays as it is.

    Args:
        calls: by message, whose operand a kernel packs and does nothing else, the call with what it packs; their results are its slices.
    """
    gone = dict.fromkeys(grouping.graph.nodes)
    for node in graph.nodes:
        gone.pop(node, None)
    packing = [grouping.owner[node.operands[0]] for node in calls]
    reads = [_roots(call, graph) for call in calls.values()]
    is_there = all(value in group.reads for own, group in zip(reads, packing, strict=True) for value in own)
    packed = {node for group in packing for node in group.members}
    parts = {value: node.result for node, call in calls.items() for value in call.results}
    slices = [node for node in gone if node not in calls and node not in packed]
    if not is_there or not all(n.result in parts and (grouping.free.has(n) or n in grouping.views) for n in slices):
        return
    readers = {group: _parts_read(grouping, group, parts) for group in grouping.groups if not _is_apart(group, calls)}
    if any(len(group.reads) + len(own) > DEFAULT.fusion.inputs for group, own in readers.items()):
        return  # too many values for one kernel
    for node, group, own in zip(calls, packing, reads, strict=True):
        _take_call(grouping, node, calls[node], group, own)
    _take_graph(grouping, graph, gone)
    for group, own in readers.items():
        for value in own:
            group.reads.pop(parts[value], None)
        group.reads.update(dict.fromkeys(own))
    grouping.groups = [group for group in grouping.groups if group.members]


def _roots(call: Node, graph: Graph) -> list[Value]:
    """The values whose bytes a call is given: its operands, seen through the reshapes before it."""
    makers = {node.result: node for node in graph.nodes if node.op in REGROUPING}
    found = list(call.operands)
    for number, value in enumerate(found):
        while (node := makers.get(value)) is not None:
            value = found[number] = node.operands[0]
    return found


def _is_apart(group: Group, calls: Mapping[Node, Node]) -> bool:
    """Whether a kernel reads nothing of what the messages bring."""
    return all(node.result not in group.reads for node in calls)


def _parts_read(grouping: Grouping, group: Group, parts: Mapping[Value, Value]) -> dict[Value, None]:
    """The parts of messages that a kernel reads, through what it computes itself; each part is of a message's result."""
    read = [v for node in (*group.members, *group.extra) for v in node.operands]
    # `copied` is free, or of a group that was dissolved into its readers.
    return {value: None for value in values_behind(read, grouping.copied, parts.__contains__) if value in parts}


def _take_call(grouping: Grouping, message: Node, call: Node, packing: Group, reads: Sequence[Value]) -> None:
    """The call in place of the message, without the kernel that packs."""
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


def _take_graph(grouping: Grouping, graph: Graph, gone: Mapping[Node, None]) -> None:
    """What the grouping knows of its graph, of the new one."""
    grouping.graph, grouping.producer = graph, graph.index.producers
    grouping.position = {node: place for place, node in enumerate(graph.nodes)}
    grouping.views -= gone.keys()
    grouping.free = FreeNodes(graph, grouping.must, grouping.views, grouping.free.absorbed - gone.keys())
