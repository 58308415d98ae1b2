"""The bytes of every value of a fused graph: separate, part of another value's bytes, or a union of other values'
bytes.

view, subview           share the bytes of their operand
optimization_barrier    its results share the bytes of its operands, and are ready once all operands are ready
join                    a concatenation without copies: its operands are computed inside its bytes
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
    """Bytes [start, stop) of a storage, and the index of the launch that writes these bytes."""

    start: int
    stop: int
    number: int


class Storages(NamedTuple):
    """The storage of each value, and the launches that write it.

    Attributes:
        root: the value whose bytes a value shares: itself, unless it is a view or an operand of a join.
        first_byte: the byte offset of a value in its root; 0 if missing.
        made: for each root, the launches that write it and the bytes that each writes. Only joins have several
            launches.
        behind: for each value that passes through an optimization barrier, the barrier's operands.
    """

    root: dict[Value, Value]
    first_byte: dict[Value, int]
    made: dict[Value, tuple[Made, ...]]
    behind: dict[Value, tuple[Value, ...]]

    def needs(self, value: Value) -> set[int]:
        """Return the launches that must precede a read of `value`.

        These are the launches that write `value` and, if `value` passes a barrier, the launches that write the
        barrier's operands.
        """
        waits = reachable([value], lambda current: self.behind.get(current, ()))
        return {launch for current in waits for launch in self.makers(current)}

    def makers(self, value: Value) -> list[int]:
        """Return the launches that write bytes of `value`. Empty for an argument or a constant."""
        start = self.first_byte.get(value, 0)
        stop = start + value.type.nbytes
        writers = self.made.get(self.root[value], ())
        return [m.number for m in writers if len(writers) == 1 or (m.start < stop and start < m.stop)]

    def is_part(self, value: Value) -> bool:
        """Whether the launch that produces `value` writes only part of a storage."""
        return self.root[value].type.nbytes > value.type.nbytes


def storages_of(graph: Graph, launches: Sequence[Node]) -> Storages:
    """Return the storages of a graph whose launches are `launches`."""
    root = {value: value for value in graph.values()}
    first_byte = dict[Value, int]()
    having: dict[Value, list[Value]] = {}  # for each root, the other values that share its bytes
    behind: dict[Value, tuple[Value, ...]] = {}

    def give(value: Value, owner: Value, start: int) -> None:
        for alias in (value, *having.pop(value, ())):
            root[alias] = owner
            first_byte[alias] = first_byte.get(alias, 0) + start
            having.setdefault(owner, []).append(alias)

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
    writers: dict[Value, list[Made]] = {}
    for index, node in enumerate(launches):
        for value in node.results:
            start = first_byte.get(value, 0)
            writers.setdefault(root[value], []).append(Made(start, start + value.type.nbytes, index))
    return {owner: tuple(ranges) for owner, ranges in writers.items()}
