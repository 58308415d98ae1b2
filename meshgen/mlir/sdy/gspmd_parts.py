"""The parts of a block that GSPMD programs write per device: what is between conversions of shapes.

`custom_call @SPMDFullToShardShape` begins a part, `@SPMDShardToFullShape` ends one. The operations of a part are those on
which its ends depend, up to its starts; they need not be adjacent, and a part may hold conversions of an inner one.
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
    """A part that is written per device: its conversions from whole values and to whole values, and what is between them.

    Attributes:
        foreign: values that it uses though they are not in it, are not converted and are not constants; a fault.
    """

    starts: set[Operation]
    body: set[Operation]
    ends: list[Operation]
    foreign: list[SSAValue]

    def has_work_of(self, other: Part) -> bool:
        """Whether both parts compute a value; constants do not count."""
        return any(operation in other.body and operation.name != _CONSTANT for operation in self.body)


def is_conversion(operation: Operation, target: str) -> bool:
    """Whether an operation is a well-formed conversion of this target."""
    is_call = operation.name == "stablehlo.custom_call" and target_of(operation) == target
    return is_call and len(operation.operands) == len(operation.results) == 1


def parts_of(block: Block) -> list[Part]:
    """The parts of a block, in the order of their first ends.

    Ends are of one part where they share work and everything that the part takes is defined before its first end.
    """
    places = {operation: number for number, operation in enumerate(block.ops)}
    single = [_part_before(end) for end in places if is_conversion(end, END)]
    inner = {operation for part in single for operation in part.body}
    found: list[Part] = []
    for part in single:
        if part.ends[0] in inner:
            continue
        producers = (start.operands[0].owner for start in part.starts)
        last = max((places.get(each, -1) for each in producers if isinstance(each, Operation)), default=-1)
        fitting = (each for each in found if each.has_work_of(part) and last < places[each.ends[0]])
        if (joined := next(fitting, None)) is None:
            found.append(part)
            continue
        joined.starts.update(part.starts)
        joined.body.update(part.body)
        joined.ends.extend(part.ends)
        joined.foreign.extend(part.foreign)
    return found


def _part_before(end: Operation) -> Part:
    """The part that an end closes."""
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
    """The values that an operation and those in its regions use from outside of it."""
    yield from operation.operands
    for inner in operation.walk():
        for value in inner.operands if inner is not operation else ():
            owner = value.owner
            within = owner if isinstance(owner, Operation) else owner.parent_op()
            if within is None or not operation.is_ancestor(within):
                yield value
