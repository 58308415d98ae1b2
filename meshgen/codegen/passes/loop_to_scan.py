"""Loops of a known number of trips become scans: without a condition, and with rows of stacks in place of slices at the trip's number.

    before   %h, %ys = while (%i = 0, %s, %stack) { %i < 24 } { %w = dynamic_slice %weights[%i]; dynamic_update_slice %stack, %y[%i] }
    after    %h, %ys = scan 24 (%s, row of %stack, row of %weights) { %w; %y }

The address of a row is known for every trip, so rows are read and written in place: nothing copies them, and the kernels of all
trips are the same. A counter that nothing else needs goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meshgen.codegen.communicating import communicates
from meshgen.codegen.passes.graphs import with_graph
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.attributes.control import Scan
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.loops import inductions, trip_count
from meshgen.ir.predicates import is_control, is_loop, is_scan
from meshgen.ir.regions import all_nodes, rewired_graph, used_by, used_values
from meshgen.ops.classes import POINTWISE
from meshgen.ops.constants import constant_of
from meshgen.ops.live import live_nodes
from meshgen.ops.registry import with_meaning
from meshgen.runtime.plan import ROW_ALIGNMENT

Numbers = np.ndarray[Any, Any]
_EVALUATED = POINTWISE & with_meaning()
Rewrite = Callable[[Node, Mapping[Value, Node], set[Value]], "list[Node] | None"]
MOST_NODES = (
    100_000  # of all trips of a loop that is unrolled or a scan: each launch has its place in the graph of a step
)


@module_pass("loop-to-scan", "partition")
def loop_to_scan(module: Module, context: Compilation) -> Module:
    """A local program with such loops as scans, those in regions too; itself if there is none."""
    return with_loops(module, _aligned_scan)


def with_loops(module: Module, rewrite: Rewrite) -> Module:
    """The module with what `rewrite` makes of its loops, inner ones first; itself where all stay.

    Args:
        rewrite: the nodes in place of a loop, from it, the producers of what it reads, and the values that are read after it; None: it stays.
    """
    if not any(is_loop(node) for node in all_nodes(module.graph)):
        return module
    return with_graph(module, _with_loops_rewritten(module.graph, {}, rewrite))


def _with_loops_rewritten(graph: Graph, outside: Mapping[Value, Node], rewrite: Rewrite) -> Graph:
    producers = {**outside, **graph.index.producers}
    used = set(used_values(graph))
    nodes: list[Node] = []
    for node in graph.nodes:
        if is_control(node):
            regions = tuple(_with_loops_rewritten(region, producers, rewrite) for region in node.regions)
            is_same = all(a is b for a, b in zip(regions, node.regions, strict=True))
            node = node if is_same else replace(node, regions=regions)
        found = rewrite(node, producers, used) if is_loop(node) else None
        nodes += [node] if found is None else found
    is_same = len(nodes) == len(graph.nodes) and all(a is b for a, b in zip(nodes, graph.nodes, strict=True))
    return graph if is_same else Graph(graph.name, graph.inputs, nodes, graph.outputs)


def as_scan(node: Node, producers: Mapping[Value, Node], used: set[Value], alignment: int) -> list[Node] | None:
    """A loop of a known number of trips as a scan, and the constants that its counters end at; None for other loops.

    Args:
        producers: of what the loop reads; used: values that are read after it.
        alignment: of the bytes at which rows of stacks begin; others are sliced and written in the body.
    """
    trips = trip_count(node, producers)
    if not trips or trips > MOST_NODES or communicates(node.regions[0]):
        return None
    return _Loop(node, trips, producers, alignment).scanned(used)


def _aligned_scan(node: Node, producers: Mapping[Value, Node], used: set[Value]) -> list[Node] | None:
    """The scan of a loop whose trips launch kernels: not too many."""
    body, trips = node.regions[1], trip_count(node, producers) or 0
    if (
        any(is_control(inner) and not is_scan(inner) for inner in all_nodes(body))
        or trips * _launches(body) > MOST_NODES
    ):
        return None
    return as_scan(node, producers, used, ROW_ALIGNMENT)


def _launches(graph: Graph) -> int:
    """The nodes of a graph, those of scans in it as often as they run."""
    return sum(n.attrs.trips * _launches(n.regions[0]) if is_scan(n) else 1 for n in graph.nodes)


@dataclass(frozen=True)
class _Rows:
    """`count` rows of a stack at each trip: the first of them at the first trip, and how many further the next ones are."""

    first: int
    step: int
    count: int


class _Loop:
    """A loop that becomes a scan."""

    def __init__(self, node: Node, trips: int, producers: Mapping[Value, Node], alignment: int) -> None:
        self._node, self._trips, self._alignment = node, trips, alignment
        self._body = node.regions[1]
        self._own = set(self._body.values())
        self._uses = Counter(used_values(self._body))
        self._producers = {**producers, **self._body.index.producers}
        self._counters = inductions(node, producers)
        self._numbers: dict[Value, Numbers] = {}  # scalars that depend on the trip only, at every trip
        for number, (start, step) in self._counters.items():
            value = self._body.inputs[number]
            self._numbers[value] = (start + step * np.arange(trips)).astype(value.type.numpy_dtype)

    def scanned(self, used: set[Value]) -> list[Node]:
        """The scan, and the constants that its counters end at. `used`: values that the graph around it uses."""
        body, rows = self._body, dict[int, _Rows]()
        inputs, outputs, operands = list(body.inputs), list(body.outputs), list(self._node.operands)
        now: dict[Value, Value] = {}
        for number, (write, found) in self._writes().items():
            rows[number], outputs[number] = found, write.operands[1]
            inputs[number] = _like(write.operands[1], body.inputs[number])
            now |= {read.result: inputs[number] for read in self._slices(body.inputs[number])}
        for node in body.nodes:
            if node.op == "dynamic_slice" and node.operands[0] not in self._own and (found := self._rows(node)):
                rows[len(inputs)], now[node.result] = found, _like(node.result, node.result)
                inputs.append(now[node.result])
                operands.append(node.operands[0])
        nodes = [node for node in body.nodes if now.keys().isdisjoint(node.results)]
        return self._live(rewired_graph(Graph(body.name, inputs, nodes, outputs), now), operands, rows, used)

    def _live(self, body: Graph, operands: Sequence[Value], rows: Mapping[int, _Rows], used: set[Value]) -> list[Node]:
        """The scan with what is needed, and the constants that its counters end at."""
        results = self._node.results
        ends = [n for n in self._counters if results[n] in used]
        kept = {n for n, value in enumerate(results) if value in used} - {*ends}
        while True:
            needed = live_nodes(replace(body, outputs=[body.outputs[n] for n in sorted(kept)]))
            inside = {v for node in needed for v in used_by(node)} | {body.outputs[n] for n in kept}
            more = kept | {n for n in range(len(results)) if body.inputs[n] in inside}
            if more == kept:
                break
            kept = more
        numbers = [n for n, value in enumerate(body.inputs) if n in kept or (n >= len(results) and value in inside)]
        places = [place for place, n in enumerate(numbers) if n in rows]
        spec = [rows[numbers[place]] for place in places]
        attrs = Scan(
            trips=self._trips,
            sliced=tuple(places),
            offsets=tuple(each.first for each in spec),
            strides=tuple(each.step for each in spec),
        )
        outputs = [n for n in numbers if n < len(results)]
        graph = Graph(body.name, [body.inputs[n] for n in numbers], needed, [body.outputs[n] for n in outputs])
        scan = replace(
            self._node, op="scan", operands=[operands[n] for n in numbers], results=[results[n] for n in outputs], attrs=attrs, regions=(graph,)
        )  # fmt: skip
        return [*([scan] if needed or outputs else []), *(self._end(n) for n in ends if n not in kept)]

    def _end(self, number: int) -> Node:
        """The last value of a counter."""
        result, (start, step) = self._node.results[number], self._counters[number]
        value = np.array(start + step * self._trips).astype(result.type.numpy_dtype)
        return Node("constant", [], [result], {"value": value}, result.loc)

    def _writes(self) -> dict[int, tuple[Node, _Rows]]:
        """By carried stack, the node that writes some of its rows, all else of which nothing in the body reads."""
        found: dict[int, tuple[Node, _Rows]] = {}
        for number, (before, after) in enumerate(zip(self._body.inputs, self._body.outputs, strict=True)):
            write = self._producers.get(after)
            if write is None or write.op != "dynamic_update_slice" or write.operands[0] is not before:
                continue
            rows, slices = self._rows(write), self._slices(before)
            if rows is None or (self._trips > 1 and abs(rows.step) < rows.count):
                continue
            same = all(self._rows(each) == rows for each in slices)
            if same and self._uses[before] == 1 + len(slices) and self._uses[after] == 1:
                found[number] = write, rows
        return found

    def _slices(self, stack: Value) -> list[Node]:
        return [node for node in self._body.nodes if node.op == "dynamic_slice" and node.operands[0] is stack]

    def _rows(self, node: Node) -> _Rows | None:
        """The rows that a slice or update is about; None where they are not known, or not aligned."""
        is_slice = node.op == "dynamic_slice"
        part, places = (node.result, node.operands[1:]) if is_slice else (node.operands[1], node.operands[2:])
        whole = node.operands[0].type
        if not whole.rank or not part.type.size or part.type.sizes[1:] != whole.sizes[1:]:
            return None
        if (numbers := self._at(places[0])) is None:
            return None
        starts = np.clip(numbers.astype(np.int64), 0, whole.sizes[0] - part.type.sizes[0])
        step = int(starts[1] - starts[0]) if self._trips > 1 else 0
        pitch = whole.nbytes // whole.sizes[0]
        first = int(starts[0]) * pitch
        if (np.diff(starts) != step).any() or first % self._alignment or step * pitch % self._alignment:
            return None
        return _Rows(int(starts[0]), step, part.type.sizes[0])

    def _at(self, value: Value) -> Numbers | None:
        """A scalar at every trip, where it depends on nothing else."""
        number = constant_of(value, self._producers.get, _EVALUATED, 1, self._numbers)
        return None if number is None else np.broadcast_to(number, self._trips)


def _like(kind: Value, name: Value) -> Value:
    return Value(kind.type, name.name, loc=name.loc, id=kind.id)
