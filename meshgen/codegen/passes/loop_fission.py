"""What a scan's body computes but does not carry is taken out of the loop where the rest of it is then a recurrence.

    dh = scan 1024 { dh = a * dh + g;  db = sum over channels of dh * u;  da += sum over rows of dh * h }
    ->
    dhs = scan 1024 { dh = a * dh + g;  dh }        dbs = sum over channels of dhs * us        da += sum over trips and rows of dhs * hs

Reductions over lanes (channels, rows) would need all programs of the kernel at each trip. Of all trips together they are kernels of their own, which
read a stack of what is carried. A sum over the trips is taken of the stack of its terms. Stacks and terms take no more memory than the rows that the loop has anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from meshgen.codegen.emit.lanes import carried, dependent, lanes_of
from meshgen.codegen.passes.batched_trips import BATCHED, for_all_trips
from meshgen.ir.attributes.control import Scan
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.regions import used_by, used_values
from meshgen.ops.live import live_nodes


def split_recurrence(node: Node) -> list[Node]:
    """A recurrence that no kernel can run as one that can, with the nodes that compute the rest; nothing if that cannot be."""
    rows = [n for n in node.attrs.sliced if n < len(node.results)]
    if any(node.regions[0].inputs[n].type.sizes[0] != 1 for n in node.attrs.sliced):
        return []
    return _Fission(node, rows).split()


class _Fission:
    """A recurrence that is taken apart; `rows` are the numbers of its results of which each trip writes a row."""

    def __init__(self, node: Node, rows: Sequence[int]) -> None:
        self._node, (self._body,), self._rows = node, node.regions, rows
        self._producer = self._body.index.producers
        self._sums = dict(self._summed())
        self._kept = [n for n in carried(node) if n not in self._sums]
        self._depends = dependent(self._body, (self._body.inputs[n] for n in self._kept))
        self._inside: list[int] = []  # results of rows that the loop still writes
        self._stacks: dict[Value, Value] = {}  # what the loop stores at each trip for the nodes after it

    def split(self) -> list[Node]:
        if not self._kept or lanes_of(self._loop()) is None:
            return []
        for n in self._rows:
            if self._body.outputs[n] in self._depends:
                self._inside.append(n)
                if lanes_of(self._loop()) is None:
                    self._inside.pop()
        outside = [n for n in self._rows if n not in self._inside]
        if not all(self._are_adjacent(n) for n in outside):
            return []
        wanted = [*(self._body.outputs[n] for n in outside), *self._sums.values()]
        if not all(map(self._cut, wanted)) or self._more_bytes() > self._bytes_of_rows():
            return []
        before, after, trips = Graph("before"), Graph("after"), self._node.attrs.trips
        found = for_all_trips(after, self._body, trips, self._known(after), wanted)
        if found is None:
            return []
        for n, value in zip((*outside, *self._sums), found, strict=True):
            (self._put_sum if n in self._sums else self._put_rows)(after, n, value)
        after.outputs = [self._node.results[n] for n in (*outside, *self._sums)]
        loop = self._loop(before)
        return [*before.nodes, loop, *live_nodes(after)]

    def _summed(self) -> Iterator[tuple[int, Value]]:
        """What is carried only to add something to it, and that."""
        uses = Counter(used_values(self._body))
        for n in carried(self._node):
            given, node = self._body.inputs[n], self._producer.get(self._body.outputs[n])
            if node is not None and node.op == "add" and given in node.operands:
                (term,) = [v for v in node.operands if v is not given] or [given]
                if uses[given] == 1 and uses[node.result] == 1:
                    yield n, term

    def _cut(self, wanted: Value) -> bool:
        """Find what the loop has to store for a value to be computed after it; whether that can be."""
        waiting = [wanted]
        while waiting:
            value = waiting.pop()
            if value not in self._depends or value in self._stacks:
                continue
            node = self._producer.get(value)
            needed = [] if node is None else [v for v in node.operands if v in self._depends]
            can_follow = node is not None and node.op in BATCHED
            is_of_one = can_follow and len(needed) == 1 and needed[0] in self._producer
            if not is_of_one and self._stores(value):
                continue
            if not can_follow:
                return False
            waiting += needed
        return True

    def _stores(self, value: Value) -> bool:
        """Let the loop store a value at each trip, if it is a recurrence then."""
        trips = self._node.attrs.trips
        self._stacks[value] = Value(value.type.with_shape((trips, *value.type.shape)), value.name)
        if lanes_of(self._loop()) is not None:
            return True
        del self._stacks[value]
        return False

    def _more_bytes(self) -> int:
        """What is in memory for all trips at once, and was not: stacks for what comes after the loop, and terms of sums."""
        terms = sum(value.type.nbytes for value in self._sums.values()) * self._node.attrs.trips
        return terms + sum(stack.type.nbytes for stack in self._stacks.values())

    def _bytes_of_rows(self) -> int:
        """What the loop reads and writes row by row."""
        return sum(self._node.operands[n].type.nbytes for n in self._node.attrs.sliced)

    def _loop(self, before: Graph | None = None) -> Node:
        """The loop with what it still does; `before` gets the nodes that make its new operands."""
        node, body, steps = self._node, self._body, self._node.attrs.steps
        inner = Graph(body.name, [], list(body.nodes))
        ports = [_Port(node.operands[n], body.inputs[n], steps.get(n), body.outputs[n], node.results[n])
                 for n in (*self._kept, *self._inside)]  # fmt: skip
        for value, stack in self._stacks.items():
            row = Builder(inner, value.loc).reshape(value, (1, *value.type.shape))
            ports.append(_Port(_zeros(before or Graph(""), stack.type), Value(row.type), (0, 1), row, stack))
        given = range(len(node.results), len(node.operands))
        inner.outputs = [port.output for port in ports if port.output is not None]
        nodes = live_nodes(inner)
        read = {value for each in nodes for value in used_by(each)}
        ports += [_Port(node.operands[n], body.inputs[n], steps.get(n)) for n in given if body.inputs[n] in read]
        spec = [(place, *port.step) for place, port in enumerate(ports) if port.step is not None]
        sliced, offsets, strides = zip(*spec, strict=True) if spec else ((), (), ())
        return replace(
            node,
            operands=[port.operand for port in ports],
            results=[port.result for port in ports if port.result is not None],
            attrs=Scan(trips=node.attrs.trips, sliced=sliced, offsets=offsets, strides=strides),
            regions=(Graph(body.name, [port.given for port in ports], nodes, inner.outputs),),
        )

    def _known(self, after: Graph) -> dict[Value, Value]:
        """Of what is stored, and of the rows of operands, all trips after one another."""
        found, trips = dict(self._stacks), self._node.attrs.trips
        for n, (first, step) in self._node.attrs.steps.items():
            if n < len(self._node.results) or (not step and trips > 1):
                continue
            builder, whole, given = Builder(after, self._node.loc), self._node.operands[n], self._body.inputs[n]
            last = first + step * (trips - 1)
            low, high = min(first, last), max(first, last) + 1
            rest = whole.type.sizes[1:]
            if (low, high, abs(step)) != (0, whole.type.sizes[0], 1):
                kind = whole.type.with_shape((trips, *rest))
                ends = {
                    "start": (low, *(0 for _ in rest)),
                    "limit": (high, *rest),
                    "stride": (abs(step) or 1, *(1 for _ in rest)),
                }
                whole = builder.emit("slice", [whole], kind, **ends)
            found[given] = builder.reshape(_in_order(builder, whole, step), (trips, *given.type.shape))
        return found

    def _are_adjacent(self, number: int) -> bool:
        """Whether the rows that all trips write are next to each other, in either order."""
        return self._node.attrs.trips == 1 or abs(self._node.attrs.steps[number][1]) == 1

    def _put_rows(self, after: Graph, number: int, value: Value) -> None:
        """Rows of all trips in a result of the loop, whose other rows stay."""
        builder, result, trips = Builder(after, value.loc), self._node.results[number], self._node.attrs.trips
        first, step = self._node.attrs.steps[number]
        flat = builder.reshape(value, (trips, *result.type.sizes[1:]))
        ordered = _in_order(builder, flat, step)
        if flat.type != result.type:
            place = TensorType((), "i32")
            starts = [builder.splat(min(first, first + step * (trips - 1)), place)]
            starts += [builder.splat(0, place) for _ in result.type.sizes[1:]]
            builder.emit("dynamic_update_slice", [self._node.operands[number], ordered, *starts], result.type)
        builder.make([result])

    def _put_sum(self, after: Graph, number: int, terms: Value) -> None:
        """The sum of what is added at each trip to what is carried."""
        builder, result = Builder(after, terms.loc), self._node.results[number]
        zero = builder.splat(0, TensorType((), result.type.dtype))
        total = builder.emit("reduce", [terms, zero], result.type, dims=(0,), kind="add")
        builder.elementwise("add", self._node.operands[number], total)
        builder.make([result])


class _Port(NamedTuple):
    """An operand of the loop: what the body gets of it, by which steps if rows, and what it gives for it, if anything."""

    operand: Value
    given: Value
    step: tuple[int, int] | None = None
    output: Value | None = None
    result: Value | None = None


def _in_order(builder: Builder, rows: Value, step: int) -> Value:
    """Rows in the order of trips, or rows of trips in their order in memory."""
    return rows if step >= 0 else builder.emit("reverse", [rows], rows.type, dims=(0,))


def _zeros(graph: Graph, kind: TensorType) -> Value:
    return Builder(graph).broadcast_scalar(0, kind)
