"""The operands of a concatenation that kernels and collectives make are computed in place in its result, instead of copied.

    before   %3 = concatenate %a, %b {dim = 0}     of f32[1,4096] that kernels make
    after    %3 = join %a, %b {dim = 0}            %a at byte 0 and %b at byte 16384 of the bytes of %3

Reductions of several small tensors are joins, and the chunks of a value are joined so. Left as they are: a concatenation that is part of a kernel
with other work, regions of loops and branches, which have no joins, and what is gathered: each tensor's rows would be apart in the
result, so `concatenate_to_group_call.py` gathers them one by one in one call.
"""

from __future__ import annotations

import math

from meshgen.codegen.fusion.group import Group
from meshgen.codegen.fusion.grouped import grouped, with_joins
from meshgen.codegen.fusion.groups import Grouping
from meshgen.codegen.passes.graphs import with_graph
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.runtime.plan import ALIGNMENT, MOST_PARTS


@module_pass("concatenate-in-place", "partition")
def concatenate_in_place(module: Module, context: Compilation) -> Module:
    """A local program with such concatenations as joins; values keep their identity."""
    if not any(map(_is_contiguous, module.graph.nodes)):
        return module
    grouping = context.latest(grouped, module.graph)
    found = {node.result for node in _joins(grouping)}
    if not found:
        return module
    after = with_joins(grouping, module.graph, found)
    context.keep_latest(grouped, grouping.graph, grouping)
    return with_graph(module, after)


def _joins(grouping: Grouping) -> set[Node]:
    """The concatenations that become joins; no value is a part of two."""
    gathered = {value for node in grouping.graph.nodes if node.op == "all_gather" for value in node.operands}
    found: set[Node] = set()
    parts: set[Value] = set()
    for group in grouping.groups:
        operands = _join_operands(group, grouping)
        if operands and parts.isdisjoint(operands) and gathered.isdisjoint(group.members[0].results):
            found.update(group.members)
            parts.update(operands)
    return found


def _is_contiguous(node: Node) -> bool:
    """Whether a node is a concatenation whose operands are aligned ranges of the result's bytes."""
    if node.op != "concatenate" or len(node.operands) > MOST_PARTS:
        return False
    is_outermost = math.prod(node.result.type.sizes[: node.attrs.dim]) == 1
    return is_outermost and not any(value.type.nbytes % ALIGNMENT for value in node.operands[:-1])


def _join_operands(group: Group, grouping: Grouping) -> list[Value]:
    """The values that would be made in the result of a group; empty if it is not a join."""
    (node, *others) = group.members
    if others or group.extra or not _is_contiguous(node):
        return []
    roots = [grouping.view_root(value) for value in node.operands]
    return roots if len(set(roots)) == len(roots) and all(_is_made(value, group, grouping) for value in roots) else []


def _is_made(value: Value, group: Group, grouping: Grouping) -> bool:
    """Whether a launch makes the value, and it is nothing else than a part."""
    maker, node = grouping.owner.get(value), grouping.producer.get(value)
    is_result = maker not in (None, group) and node is not None and node not in grouping.views
    is_kept = value in map(grouping.view_root, grouping.graph.outputs)
    return is_result and not is_kept and value.type.size > 0
