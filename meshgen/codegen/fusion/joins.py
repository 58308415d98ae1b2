"""Concatenations without a copy: their operands are computed in place in the result.

    %3 = concatenate %a, %b      of f32[1,4096] that kernels make: %a at byte 0 and %b at byte 16384 of the bytes of %3

Messages of several small tensors are joins, and the chunks of a value are joined so.
"""

from __future__ import annotations

import math

from meshgen.codegen.fusion.groups import Group, Grouping
from meshgen.ir.graph import Value
from meshgen.ops.classes import JOINING
from meshgen.runtime.plan import ALIGNMENT, MOST_PARTS


def joins(grouping: Grouping) -> set[Group]:
    """The groups of one concatenation that become joins; no value is a part of two."""
    found: set[Group] = set()
    parts: set[Value] = set()
    for group in grouping.groups:
        operands = _join_operands(group, grouping)
        if operands and parts.isdisjoint(operands):
            found.add(group)
            parts.update(operands)
    return found


def _join_operands(group: Group, grouping: Grouping) -> list[Value]:
    """The values that would be made in the result of a group; empty if it is not a join."""
    if len(group.members) != 1 or group.members[0].op not in JOINING or group.extra:
        return []
    (node,) = group.members
    if math.prod(node.result.type.sizes[: node.attrs.dim]) != 1 or len(node.operands) > MOST_PARTS:
        return []
    if any(value.type.nbytes % ALIGNMENT for value in node.operands[:-1]):
        return []
    roots = [grouping.view_root(value) for value in node.operands]
    return roots if len(set(roots)) == len(roots) and all(_is_made(value, group, grouping) for value in roots) else []


def _is_made(value: Value, group: Group, grouping: Grouping) -> bool:
    """Whether a launch makes the value, and it is nothing else than a part."""
    maker, node = grouping.owner.get(value), grouping.producer.get(value)
    is_result = maker not in (None, group) and node is not None and node not in grouping.views
    is_kept = value in map(grouping.view_root, grouping.graph.outputs)
    return is_result and not is_kept and value.type.size > 0
