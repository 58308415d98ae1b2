"""Find the per-device parts in a block of a GSPMD program.

`custom_call @SPMDFullToShardShape` begins a part, and `@SPMDShardToFullShape` ends it. A part consists of the
operations on which its ends depend, back to its starts. They need not be adjacent, and a part may contain the
conversions of an inner part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from meshgen.mlir.stablehlo.calls import target_of

START, END = "SPMDFullToShardShape", "SPMDShardToFullShape"
_CONSTANT = "stablehlo.constant"


@dataclass(frozen=True)
class Part:
    """A part of a block that computes on the local tiles of a device: its conversions, and the operations between them.

    Attributes:
        starts: conversions from global to local values.
        body: operations between starts and ends.
        ends: conversions from local to global values.
        foreign: values, except constants, that the part uses without a conversion. A valid part has none.
    """

    starts: set[Operation]
    body: set[Operation]
    ends: list[Operation]
    foreign: list[SSAValue]

    def has_common_operation(self, other: Part) -> bool:
        """Whether the two parts have an operation in common, other than a constant."""
        return any(operation in other.body and operation.name != _CONSTANT for operation in self.body)


def is_conversion(operation: Operation, target: str) -> bool:
    """Whether `operation` is a custom call with the target `target`, one operand and one result."""
    is_call = operation.name == "stablehlo.custom_call" and target_of(operation) == target
    return is_call and len(operation.operands) == len(operation.results) == 1


def parts_of(block: Block) -> list[Part]:
    """Return the per-device parts of `block`, ordered by the first end of each.

    Two ends belong to one part if they depend on a common operation, and if all inputs of the part are defined before
    its first end.
    """
    positions = {operation: position for position, operation in enumerate(block.ops)}
    single = [_part_before(end) for end in positions if is_conversion(end, END)]
    inner = {operation for part in single for operation in part.body}
    parts: list[Part] = []
    for part in single:
        if part.ends[0] in inner:
            continue
        producers = (start.operands[0].owner for start in part.starts)
        last = max(
            (positions.get(candidate, -1) for candidate in producers if isinstance(candidate, Operation)), default=-1
        )
        fitting = (
            candidate
            for candidate in parts
            if candidate.has_common_operation(part) and last < positions[candidate.ends[0]]
        )
        if (matching := next(fitting, None)) is None:
            parts.append(part)
            continue
        matching.starts.update(part.starts)
        matching.body.update(part.body)
        matching.ends.extend(part.ends)
        matching.foreign.extend(part.foreign)
    return parts


def _part_before(end: Operation) -> Part:
    """Return the part that the single conversion `end` closes: the operations on which `end` depends, back to the
    starts.
    """
    block, part = end.parent_block(), Part(set(), set(), [end], [])
    remaining = [(end.operands[0], 0)]
    while remaining:
        value, depth = remaining.pop()
        operation = value.owner
        if not isinstance(operation, Operation) or operation.parent_block() is not block:
            if not isinstance(operation, Operation) or operation.name != _CONSTANT:
                part.foreign.append(value)
        elif depth == 0 and is_conversion(operation, START):
            part.starts.add(operation)
        elif operation not in part.body:
            part.body.add(operation)
            depth += is_conversion(operation, END) - is_conversion(operation, START)
            remaining += [(used, depth) for used in used_by(operation)]
    return part


def used_by(operation: Operation) -> Iterator[SSAValue]:
    """Yield the operands of `operation`, and the values from outside that operations in its regions use."""
    yield from operation.operands
    for inner in operation.walk():
        for value in inner.operands if inner is not operation else ():
            owner = value.owner
            within = owner if isinstance(owner, Operation) else owner.parent_op()
            if within is None or not operation.is_ancestor(within):
                yield value
