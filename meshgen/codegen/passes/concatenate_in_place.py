"""Compute the operands of a concatenation directly in the memory of its result, instead of copying them.

    before   %3 = concatenate %a, %b {dim = 0}     where kernels produce %a, %b : f32[1,4096]
    after    %3 = join %a, %b {dim = 0}            %a at byte 0 and %b at byte 16384 of the bytes of %3

This serves all-reduces of several small tensors, and the chunks of a value. Not rewritten:
- a concatenation that is fused into a kernel with other ops;
- regions of loops and branches, which have no joins;
- operands of an all_gather: each tensor's rows would be apart in the gathered result, so `concatenate_to_group_call.py`
  gathers the tensors one by one in one group call.
"""

from __future__ import annotations

import math

from meshgen.codegen.fusion.group import Group
from meshgen.codegen.fusion.group_growth import Grouping
from meshgen.codegen.fusion.grouping import grouped, with_concatenations_as_joins
from meshgen.codegen.passes.all_graphs import with_graph
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.runtime.plan import ALIGNMENT, MOST_PARTS


@module_pass("concatenate-in-place", "partition")
def concatenate_in_place(module: Module, context: Compilation) -> Module:
    """Turn concatenations whose operands can be computed in place into joins. All `Value` objects remain the same."""
    if not any(map(_is_contiguous, module.graph.nodes)):
        return module
    grouping = context.latest(grouped, module.graph)
    joined = {node.result for node in _joins(grouping)}
    if not joined:
        return module
    rewritten = with_concatenations_as_joins(grouping, module.graph, joined)
    context.keep_latest(grouped, grouping.graph, grouping)
    return with_graph(module, rewritten)


def _joins(grouping: Grouping) -> set[Node]:
    """Return the concatenations that become joins. No value is an operand of two joins."""
    gathered = {value for node in grouping.graph.nodes if node.op == "all_gather" for value in node.operands}
    joins: set[Node] = set()
    parts: set[Value] = set()
    for group in grouping.groups:
        operands = _join_operands(group, grouping)
        if operands and parts.isdisjoint(operands) and gathered.isdisjoint(group.members[0].results):
            joins.update(group.members)
            parts.update(operands)
    return joins


def _is_contiguous(node: Node) -> bool:
    """Whether a node is a concatenation whose operands are aligned byte ranges of its result."""
    if node.op != "concatenate" or len(node.operands) > MOST_PARTS:
        return False
    is_outermost = math.prod(node.result.type.sizes[: node.attrs.dim]) == 1
    return is_outermost and not any(value.type.nbytes % ALIGNMENT for value in node.operands[:-1])


def _join_operands(group: Group, grouping: Grouping) -> list[Value]:
    """Return the values to compute inside the result of `group`, or an empty list if `group` cannot become a join."""
    (node, *other_members) = group.members
    if other_members or group.extra or not _is_contiguous(node):
        return []
    roots = [grouping.view_root(value) for value in node.operands]
    return (
        roots if len(set(roots)) == len(roots) and all(_is_temporary(value, group, grouping) for value in roots) else []
    )


def _is_temporary(value: Value, group: Group, grouping: Grouping) -> bool:
    """Whether a launch other than `group` produces the value and the program does not return it."""
    producer_group, node = grouping.owner.get(value), grouping.producer.get(value)
    is_result = producer_group not in (None, group) and node is not None and node not in grouping.views
    is_returned = value in map(grouping.view_root, grouping.graph.outputs)
    return is_result and not is_returned and value.type.size > 0
