"""Sums over devices of which each device reads the rows of its own groups only, between products of groups of rows.

%h = ragged_dot %x, %up, %start, %end          groups over ep: on each device zeros in the rows of other devices' groups
%a = tanh (all_reduce %h)                      row by row
%y = ragged_dot %a, %down, %start, %end        reads on each device the rows of its own groups, which are complete in %h
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from meshgen.ir.graph import Node, Value
from meshgen.ir.matchers import Producer
from meshgen.ops.registry import rule_of
from meshgen.sharding.optimizations.tiled import Loop, loop_of

Rows = tuple[Value, int]  # a value, and its dim of rows

ROWS = 0  # the dim of rows in operands of `ragged_dot`, and in the result of one that keeps rows


@dataclass(frozen=True)
class OwnRows:
    """Answers which rows devices with groups of their own read.

    Attributes:
        producer: returns the node that makes a value.
        uses: returns the uses of a value as (node, operand number).
        kept: values that are read in other ways too: outputs, and values that regions use.
        products: the results of `product_of`.
    """

    producer: Producer
    uses: Callable[[Value], Sequence[tuple[Node, int]]]
    kept: Container[Value] = ()
    products: dict[Rows, Node | None] = field(default_factory=dict["Rows", "Node | None"])

    def product_of(self, value: Value, dim: int = ROWS) -> Node | None:
        """Return the ragged dot of disjoint groups outside of which the rows of a value along the dim are zero, or None."""
        pending = [(value, dim)]
        while pending:
            rows = pending[-1]
            sums = _sums(self.producer(rows[0]), rows[1])
            if unvisited := [term for terms in sums for term in terms if term not in self.products]:
                pending += unvisited
            else:
                self.products[pending.pop()] = self._product(rows, sums)
        return self.products[value, dim]

    def _product(self, rows: Rows, sums: Sequence[Sequence[Rows]]) -> Node | None:
        """Return the product of rows whose terms have theirs in `products`."""
        node = self.producer(rows[0])
        if node is not None and node.op == "ragged_dot":
            return node if rows[1] == ROWS and node.attrs.disjoint and not node.attrs.contracts else None
        for terms in sums:
            first, *rest = (self.products[term] for term in terms)
            if first and all(product and product.operands[2:] == first.operands[2:] for product in rest):
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


def _sums(node: Node | None, dim: int) -> list[list[Rows]]:
    """Return the operands in which a result is linear together, with the dims of its rows; a list for each such set of operands."""
    if node is None or (loop := loop_of(node, dim, 1)) is None:
        return []
    terms = {number: (node.operands[number], d) for number, d in enumerate(loop.operands) if d is not None}
    ways = [way.operands for way in rule_of(node).linear if "sum" in way.kinds]
    return [[terms[number] for number in way] for way in ways if terms.keys() >= {*way}]


def _reads_groups(node: Node, number: int, bounds: Sequence[Value]) -> bool:
    """Whether an op reads its operand of that number only at the rows of groups with these bounds."""
    return node.op == "ragged_dot" and node.operands[2:] == bounds and number <= int(node.attrs.contracts)
