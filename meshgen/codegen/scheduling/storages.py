"""The bytes of every value of a fused graph: its own, a part of another value's, or a union of other values'.

view, subview           have bytes of their operand
optimization_barrier    its results have the bytes of its operands, and are there once all operands are
join                    a concatenation that nothing copies: what makes its operands writes them into its bytes
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from meshgen.codegen.passes.slice_to_subview import byte_range
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_optimization_barrier
from meshgen.ir.walks import reachable
from meshgen.ops.classes import VIEWS


class Made(NamedTuple):
    """Bytes [start, stop) of a storage, and the number of the launch that writes them."""

    start: int
    stop: int
    number: int


class Storages(NamedTuple):
    """Which bytes values have.

    Attributes:
        root: the value whose bytes a value's are: itself unless it is a view or a part of a join.
        first_byte: from which of them on; 0 where it is missing.
        made: for each root that launches write, who writes what; one launch but of joins.
        behind: for each value that is seen through an optimization barrier, the operands of that.
    """

    root: dict[Value, Value]
    first_byte: dict[Value, int]
    made: dict[Value, tuple[Made, ...]]
    behind: dict[Value, tuple[Value, ...]]

    def needs(self, value: Value) -> set[int]:
        """The launches that come before one that reads a value: its makers, and those of all that a barrier before it waits for."""
        waits = reachable([value], lambda current: self.behind.get(current, ()))
        return {number for current in waits for number in self.makers(current)}

    def makers(self, value: Value) -> list[int]:
        """The launches that write bytes of a value; none of an argument or a constant."""
        start = self.first_byte.get(value, 0)
        stop = start + value.type.nbytes
        made = self.made.get(self.root[value], ())
        return [m.number for m in made if len(made) == 1 or (m.start < stop and start < m.stop)]

    def is_part(self, value: Value) -> bool:
        """Whether a launch writes only some bytes of a storage when it makes the value."""
        return self.root[value].type.nbytes > value.type.nbytes


def storages_of(graph: Graph, launches: Sequence[Node]) -> Storages:
    """The storages of a graph whose launched nodes are `launches`."""
    root = {value: value for value in graph.values()}
    first_byte = dict[Value, int]()
    having: dict[Value, list[Value]] = {}  # by root, what else has its bytes
    behind: dict[Value, tuple[Value, ...]] = {}

    def give(value: Value, owner: Value, start: int) -> None:
        for each in (value, *having.pop(value, ())):
            root[each] = owner
            first_byte[each] = first_byte.get(each, 0) + start
            having.setdefault(owner, []).append(each)

    for node in graph.nodes:
        if node.op in VIEWS:
            start, _ = byte_range(node) or (0, 0) if node.op == "subview" else (0, 0)
            for operand, result in zip(node.operands, node.results, strict=True):
                give(result, root[operand], first_byte.get(operand, 0) + start)
                waits = node.operands if is_optimization_barrier(node) else behind.get(operand, ())
                behind.update({result: tuple(waits)} if waits else {})
        elif node.op == "join":
            starts = itertools.accumulate((v.type.nbytes for v in node.operands), initial=0)
            for operand, start in zip(node.operands, starts, strict=False):
                give(root[operand], node.result, start)
    return Storages(root, first_byte, _writers_of(launches, root, first_byte), behind)


def _writers_of(
    launches: Sequence[Node], root: dict[Value, Value], first_byte: dict[Value, int]
) -> dict[Value, tuple[Made, ...]]:
    found: dict[Value, list[Made]] = {}
    for number, node in enumerate(launches):
        for value in node.results:
            start = first_byte.get(value, 0)
            found.setdefault(root[value], []).append(Made(start, start + value.type.nbytes, number))
    return {owner: tuple(made) for owner, made in found.items()}
