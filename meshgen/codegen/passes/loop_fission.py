"""Move ops that need no carried state from a scan's body to after the loop, if a kernel can run the remaining loop.

    before   dh = scan 1024 { dh = a * dh + g;  db = sum over channels of dh * u;  da += sum over rows of dh * h }
    after    dhs = scan 1024 { dh = a * dh + g;  dh }
             dbs = sum over channels of dhs * us
             da += sum over iterations and rows of dhs * hs

In one kernel, a reduction over lanes (channels, rows) would synchronize all thread blocks in each iteration. Computed
for all iterations at once, it is a kernel of its own, which reads a stack of the carried values. A sum over iterations
becomes a reduction of the stack of its terms. The pass gives up if stacks and terms need more memory than the rows that
the loop reads and writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from meshgen.codegen.emit.recurrence_space import carried, dependent, lanes_of
from meshgen.codegen.passes.scan_vectorization import BATCHED, vectorize_over_iterations
from meshgen.ir.attributes.control import Scan
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.regions import used_by, used_values
from meshgen.ops.dead_code import live_nodes


def split_recurrence(node: Node) -> list[Node]:
    """Split a recurrence that no kernel can run into a recurrence that a kernel can run, and nodes that compute the
    rest.

    Returns an empty list if the split is not possible.
    """
    rows = [n for n in node.attrs.sliced if n < len(node.results)]
    if any(node.regions[0].inputs[n].type.sizes[0] != 1 for n in node.attrs.sliced):
        return []
    return _Fission(node, rows).split()


class _Fission:
    """The split of one recurrence. `rows` are the indices of the results to which each iteration writes one row."""

    def __init__(self, node: Node, rows: Sequence[int]) -> None:
        self._node, (self._body,), self._rows = node, node.regions, rows
        self._producer = self._body.index.producers
        self._sums = dict(self._summed())
        self._kept = [n for n in carried(node) if n not in self._sums]
        self._depends = dependent(self._body, (self._body.inputs[n] for n in self._kept))
        self._inside: list[int] = []  # indices in `_rows` of the results that the remaining loop still writes
        # Values that the loop stores in each iteration for nodes after the loop, mapped to the stacks of all
        # iterations.
        self._stacks: dict[Value, Value] = {}

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
        stacked_outputs = [*(self._body.outputs[n] for n in outside), *self._sums.values()]
        if not all(map(self._cut, stacked_outputs)) or self._more_bytes() > self._bytes_of_rows():
            return []
        before, after, trips = Graph("before"), Graph("after"), self._node.attrs.trips
        stacked = vectorize_over_iterations(after, self._body, trips, self._known(after), stacked_outputs)
        if stacked is None:
            return []
        for n, value in zip((*outside, *self._sums), stacked, strict=True):
            (self._put_sum if n in self._sums else self._put_rows)(after, n, value)
        after.outputs = [self._node.results[n] for n in (*outside, *self._sums)]
        loop = self._loop(before)
        return [*before.nodes, loop, *live_nodes(after)]

    def _summed(self) -> Iterator[tuple[int, Value]]:
        """Yield (index, term) for each carried value that the body uses only to add `term` to it."""
        uses = Counter(used_values(self._body))
        for n in carried(self._node):
            carried_in, node = self._body.inputs[n], self._producer.get(self._body.outputs[n])
            if node is not None and node.op == "add" and carried_in in node.operands:
                (term,) = [v for v in node.operands if v is not carried_in] or [carried_in]
                if uses[carried_in] == 1 and uses[node.result] == 1:
                    yield n, term

    def _cut(self, output: Value) -> bool:
        """Choose the values that the loop has to store so that `output` can be computed after it.

        Returns False if that is impossible.
        """
        waiting = [output]
        while waiting:
            value = waiting.pop()
            if value not in self._depends or value in self._stacks:
                continue
            node = self._producer.get(value)
            needed = [] if node is None else [v for v in node.operands if v in self._depends]
            can_follow = node is not None and node.op in BATCHED
            has_single_source = can_follow and len(needed) == 1 and needed[0] in self._producer
            if not has_single_source and self._stores(value):
                continue
            if not can_follow:
                return False
            waiting += needed
        return True

    def _stores(self, value: Value) -> bool:
        """Make the loop store `value` in each iteration, if a kernel can still run the loop. Returns whether it can."""
        trips = self._node.attrs.trips
        self._stacks[value] = Value(value.type.with_shape((trips, *value.type.shape)), value.name)
        if lanes_of(self._loop()) is not None:
            return True
        del self._stacks[value]
        return False

    def _more_bytes(self) -> int:
        """Return the additional memory for values of all iterations: stacks for later nodes, and terms of sums."""
        terms = sum(value.type.nbytes for value in self._sums.values()) * self._node.attrs.trips
        return terms + sum(stack.type.nbytes for stack in self._stacks.values())

    def _bytes_of_rows(self) -> int:
        """Return the bytes of the stacks that the loop reads and writes row by row."""
        return sum(self._node.operands[n].type.nbytes for n in self._node.attrs.sliced)

    def _loop(self, before: Graph | None = None) -> Node:
        """Build the remaining loop. The nodes that produce additional operands of this loop are appended to `before`."""
        node, body, steps = self._node, self._body, self._node.attrs.steps
        inner = Graph(body.name, [], list(body.nodes))
        ports = [_Port(node.operands[n], body.inputs[n], steps.get(n), body.outputs[n], node.results[n])
                 for n in (*self._kept, *self._inside)]  # fmt: skip
        for value, stack in self._stacks.items():
            row = Builder(inner, value.loc).reshape(value, (1, *value.type.shape))
            ports.append(_Port(_zeros(before or Graph(""), stack.type), Value(row.type), (0, 1), row, stack))
        read_only = range(len(node.results), len(node.operands))
        inner.outputs = [port.output for port in ports if port.output is not None]
        nodes = live_nodes(inner)
        read = {value for inner_node in nodes for value in used_by(inner_node)}
        ports += [_Port(node.operands[n], body.inputs[n], steps.get(n)) for n in read_only if body.inputs[n] in read]
        spec = [(position, *port.step) for position, port in enumerate(ports) if port.step is not None]
        sliced, offsets, strides = zip(*spec, strict=True) if spec else ((), (), ())
        return replace(
            node,
            operands=[port.operand for port in ports],
            results=[port.result for port in ports if port.result is not None],
            attrs=Scan(trips=node.attrs.trips, sliced=sliced, offsets=offsets, strides=strides),
            regions=(Graph(body.name, [port.given for port in ports], nodes, inner.outputs),),
        )

    def _known(self, after: Graph) -> dict[Value, Value]:
        """Map each body value that is available for all iterations to its stack, in iteration order.

        These are the stored values, and the rows of each sliced operand.
        """
        stacked, trips = dict(self._stacks), self._node.attrs.trips
        for n, (first, step) in self._node.attrs.steps.items():
            if n < len(self._node.results) or (not step and trips > 1):
                continue
            builder, rows, body_input = Builder(after, self._node.loc), self._node.operands[n], self._body.inputs[n]
            last = first + step * (trips - 1)
            low, high = min(first, last), max(first, last) + 1
            rest = rows.type.sizes[1:]
            if (low, high, abs(step)) != (0, rows.type.sizes[0], 1):
                kind = rows.type.with_shape((trips, *rest))
                ends = {
                    "start": (low, *(0 for _ in rest)),
                    "limit": (high, *rest),
                    "stride": (abs(step) or 1, *(1 for _ in rest)),
                }
                rows = builder.emit("slice", [rows], kind, **ends)
            stacked[body_input] = builder.reshape(_in_order(builder, rows, step), (trips, *body_input.type.shape))
        return stacked

    def _are_adjacent(self, index: int) -> bool:
        """Whether all iterations together write contiguous rows of result `index`, in ascending or descending order."""
        return self._node.attrs.trips == 1 or abs(self._node.attrs.steps[index][1]) == 1

    def _put_rows(self, after: Graph, index: int, value: Value) -> None:
        """Write the rows of all iterations into result `index` of the loop. Other rows of the result keep their
        contents.
        """
        builder, result, trips = Builder(after, value.loc), self._node.results[index], self._node.attrs.trips
        first, step = self._node.attrs.steps[index]
        flat = builder.reshape(value, (trips, *result.type.sizes[1:]))
        ordered = _in_order(builder, flat, step)
        if flat.type != result.type:
            index_type = TensorType((), "i32")
            starts = [builder.splat(min(first, first + step * (trips - 1)), index_type)]
            starts += [builder.splat(0, index_type) for _ in result.type.sizes[1:]]
            builder.emit("dynamic_update_slice", [self._node.operands[index], ordered, *starts], result.type)
        builder.make([result])

    def _put_sum(self, after: Graph, index: int, terms: Value) -> None:
        """Add the sum of `terms` over all iterations to the initial value of carried value `index`."""
        builder, result = Builder(after, terms.loc), self._node.results[index]
        zero = builder.splat(0, TensorType((), result.type.dtype))
        total = builder.emit("reduce", [terms, zero], result.type, dims=(0,), kind="add")
        builder.elementwise("add", self._node.operands[index], total)
        builder.make([result])


class _Port(NamedTuple):
    """One operand of the loop and the values of the loop that correspond to the operand.

    Attributes:
        given: the input of the body.
        step: (first row, rows per iteration) if the operand is sliced.
        output, result: the output of the body and the result of the loop if the operand is carried.
    """

    operand: Value
    given: Value
    step: tuple[int, int] | None = None
    output: Value | None = None
    result: Value | None = None


def _in_order(builder: Builder, rows: Value, step: int) -> Value:
    """Reverse `rows` if the loop visits them in descending order (`step` < 0).

    This converts iteration order to memory order, and back.
    """
    return rows if step >= 0 else builder.emit("reverse", [rows], rows.type, dims=(0,))


def _zeros(graph: Graph, kind: TensorType) -> Value:
    return Builder(graph).broadcast_scalar(0, kind)
