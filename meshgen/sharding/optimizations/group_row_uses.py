"""Find sums over devices of which each device reads only the rows of its own groups, between ragged dots.

%h = ragged_dot %x, %up, %start, %end       groups over ep: rows of other devices' groups are zero
%a = tanh (all_reduce %h)                   row by row
%y = ragged_dot %a, %down, %start, %end     reads only rows of the device's own groups, which %h has completely
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from meshgen.ir.graph import Node, Value
from meshgen.ir.matchers import Producer
from meshgen.ops.registry import rule_of
from meshgen.sharding.optimizations.loops_on_tiles import Loop, loop_of

Rows = tuple[Value, int]  # a value, and the dim of its rows

ROWS = 0  # the dim of rows in operands of a `ragged_dot`, and in its result if it keeps rows


@dataclass(frozen=True)
class GroupRowUses:
    """Analysis of the rows that devices with their own groups read.

    Attributes:
        producer: returns the node that defines a value.
        uses: returns the uses of a value as (node, operand index).
        kept: values with users outside of the graph's nodes: outputs, and values that regions use.
        products: cache of `product_of`.
    """

    producer: Producer
    uses: Callable[[Value], Sequence[tuple[Node, int]]]
    kept: Container[Value] = ()
    products: dict[Rows, Node | None] = field(default_factory=dict["Rows", "Node | None"])

    def product_of(self, value: Value, dim: int = ROWS) -> Node | None:
        """Return the ragged dot whose groups contain all nonzero rows of `value` along `dim`, or None if there is none.

        The groups must be disjoint.
        """
        pending = [(value, dim)]
        while pending:
            rows = pending[-1]
            sums = _linear_operand_sets(self.producer(rows[0]), rows[1])
            if unvisited := [term for terms in sums for term in terms if term not in self.products]:
                pending += unvisited
            else:
                self.products[pending.pop()] = self._product(rows, sums)
        return self.products[value, dim]

    def _product(self, rows: Rows, sums: Sequence[Sequence[Rows]]) -> Node | None:
        """Return `product_of` for `rows`, given the entries of `products` for all summands in `sums`."""
        node = self.producer(rows[0])
        if node is not None and node.op == "ragged_dot":
            return node if rows[1] == ROWS and node.attrs.disjoint and not node.attrs.contracts else None
        for terms in sums:
            first, *rest = (self.products[term] for term in terms)
            if first and all(product and product.operands[2:] == first.operands[2:] for product in rest):
                return first
        return None

    def has_only_group_users(self, value: Value, product: Node, through: Container[Node] = ()) -> bool:
        """Whether a value's only users, through row-wise ops, are ragged dots over the groups of `product`.

        Sums in `through` count as row-wise ops.
        """
        pending, seen = [(value, ROWS)], set[tuple[Value, int]]()
        while pending:
            value, dim = pending.pop()
            if (value, dim) in seen:
                continue
            seen.add((value, dim))
            if value in self.kept or value.granted:  # a user of meshgen sees an annotated value with all rows
                return False
            for user, number in self.uses(value):
                if dim == ROWS and _reads_groups(user, number, product.operands[2:]):
                    continue
                loop = Loop((dim,), dim) if user in through else loop_of(user, dim, 1, operand=number)
                if loop is None:
                    return False
                pending.append((user.result, loop.result))
        return True


def _linear_operand_sets(node: Node | None, dim: int) -> list[list[Rows]]:
    """Return the sets of operands in which the result of `node` is jointly linear.

    Each operand comes with the dim that corresponds to dim `dim` of the result.
    """
    if node is None or (loop := loop_of(node, dim, 1)) is None:
        return []
    terms = {index: (node.operands[index], d) for index, d in enumerate(loop.operands) if d is not None}
    operand_sets = [operand_set.operands for operand_set in rule_of(node).linear if "sum" in operand_set.kinds]
    return [[terms[index] for index in operand_set] for operand_set in operand_sets if terms.keys() >= {*operand_set}]


def _reads_groups(node: Node, number: int, bounds: Sequence[Value]) -> bool:
    """Whether an op reads operand `number` only at the rows of groups with these bounds."""
    return node.op == "ragged_dot" and node.operands[2:] == bounds and number <= int(node.attrs.contracts)
