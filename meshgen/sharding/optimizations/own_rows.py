"""Sums over devices of which each device reads the rows of its own groups only, between products of groups of rows.

%h = ragged_dot %x, %up, %start, %end          groups over ep: on each device zeros in the rows of other devices' groups
%a = tanh (all_reduce %h)                      row by row
%y = ragged_dot %a, %down, %start, %end        reads on each device the rows of its own groups, which are complete in %h
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from meshgen.ir.graph import Node, Value
from meshgen.ir.matchers import Producer
from meshgen.ops.registry import rule_of
from meshgen.sharding.optimizations.tiled import Loop, loop_of

ROWS = 0  # the dim of rows in operands of `ragged_dot`, and in the result of one that keeps rows
_STEPS = 16  # of a chain of linear operations that is followed (chosen)


@dataclass(frozen=True)
class OwnRows:
    """Answers which rows devices with groups of their own read.

    Attributes:
        producer: returns the node that makes a value.
        uses: returns the uses of a value as (node, operand number).
        kept: values that are read in other ways too: outputs, and values that regions use.
    """

    producer: Producer
    uses: Callable[[Value], Sequence[tuple[Node, int]]]
    kept: Container[Value] = ()

    def product_of(self, value: Value, dim: int = ROWS, steps: int = _STEPS) -> Node | None:
        """Return the ragged dot of disjoint groups outside of which the rows of a value along the dim are zero, or None."""
        node = self.producer(value)
        if node is None or not steps:
            return None
        if node.op == "ragged_dot":
            return node if dim == ROWS and node.attrs.disjoint and not node.attrs.contracts else None
        if (loop := loop_of(node, dim, 1)) is None:
            return None
        for way in rule_of(node).linear:
            dims = [(node.operands[number], loop.operands[number]) for number in way.operands if "sum" in way.kinds]
            products = [None if d is None else self.product_of(each, d, steps - 1) for each, d in dims]
            first = products[0] if products else None
            if first and all(each and each.operands[2:] == first.operands[2:] for each in products):
                return first
        return None

    def are_read_alone(self, value: Value, product: Node, through: Container[Node] = ()) -> bool:
        """Whether all that reads a value, row by row, are products of the groups of this one; sums in `through` are row by row too."""
        pending, seen = [(value, ROWS)], set[tuple[Value, int]]()
        while pending:
            value, dim = pending.pop()
            if (value, dim) in seen:
                continue
            seen.add((value, dim))
            if value in self.kept or value.granted:  # an annotated value is whole
                return False
            for user, number in self.uses(value):
                if dim == ROWS and _reads_groups(user, number, product.operands[2:]):
                    continue
                loop = Loop((dim,), dim) if user in through else loop_of(user, dim, 1, operand=number)
                if loop is None:
                    return False
                pending.append((user.result, loop.result))
        return True


def _reads_groups(node: Node, number: int, bounds: Sequence[Value]) -> bool:
    """Whether an op reads its operand of that number only at the rows of groups with these bounds."""
    return node.op == "ragged_dot" and node.operands[2:] == bounds and number <= int(node.attrs.contracts)
