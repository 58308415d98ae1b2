"""Replace loops with a known trip count by scans, which have no condition and access one row of a stack per iteration.

    before   %h, %ys = while (%i = 0, %s, %stack) { %i < 24 } {
                 %w = dynamic_slice %weights[%i]; dynamic_update_slice %stack, %y[%i]
             }
    after    %h, %ys = scan 24 (%s, row of %stack, row of %weights) { %w; %y }

The address of each iteration's row is known at compile time, so rows are read and written in place, without copies. All
iterations run the same kernels. The pass removes a loop counter that has no other users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meshgen.codegen.collective_predicates import communicates
from meshgen.codegen.passes.all_graphs import with_graph
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.attributes.control import Scan
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.loops import inductions, trip_count
from meshgen.ir.predicates import is_control, is_loop, is_scan
from meshgen.ir.regions import all_nodes, rewired_graph, used_by, used_values
from meshgen.ops.classes import POINTWISE
from meshgen.ops.constants import constant_of
from meshgen.ops.dead_code import live_nodes
from meshgen.ops.registry import evaluable_ops
from meshgen.runtime.plan import ROW_ALIGNMENT

Numbers = np.ndarray[Any, Any]
_EVALUATED = POINTWISE & evaluable_ops()
Rewrite = Callable[[Node, Mapping[Value, Node], set[Value]], "list[Node] | None"]
# Largest number of nodes in all iterations of an unrolled loop or scan (chosen: each is a node of the CUDA graph).
MOST_NODES = 100_000


@module_pass("loop-to-scan", "partition")
def loop_to_scan(module: Module, context: Compilation) -> Module:
    """Convert loops with a known trip count to scans, also in regions. Returns the module itself if nothing changes."""
    return with_loops(module, _aligned_scan)


def with_loops(module: Module, rewrite: Rewrite) -> Module:
    """Apply `rewrite` to all loops of a module, innermost first. Returns the module itself if no loop changes.

    Args:
        rewrite: called with a loop, the producers of the values that the loop reads, and the values that are read after
            the loop. Returns the nodes that replace the loop, or None to keep the loop.
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
        replacement = rewrite(node, producers, used) if is_loop(node) else None
        nodes += [node] if replacement is None else replacement
    is_same = len(nodes) == len(graph.nodes) and all(a is b for a, b in zip(nodes, graph.nodes, strict=True))
    return graph if is_same else Graph(graph.name, graph.inputs, nodes, graph.outputs)


def as_scan(node: Node, producers: Mapping[Value, Node], used: set[Value], alignment: int) -> list[Node] | None:
    """Convert a loop with a known trip count to a scan.

    Args:
        producers: producers of the values that the loop reads.
        used: values that are read after the loop.
        alignment: required byte alignment of rows. Unaligned rows are sliced and updated in the body instead.
    Returns:
        The scan, and constants for the final values of the loop's counters. None if the loop cannot be converted.
    """
    trips = trip_count(node, producers)
    if not trips or trips > MOST_NODES or communicates(node.regions[0]):
        return None
    return _Loop(node, trips, producers, alignment).scanned(used)


def _aligned_scan(node: Node, producers: Mapping[Value, Node], used: set[Value]) -> list[Node] | None:
    """Convert a loop to a scan, or return None if the scan would have too many launches or contain control flow."""
    body, trips = node.regions[1], trip_count(node, producers) or 0
    if (
        any(is_control(inner) and not is_scan(inner) for inner in all_nodes(body))
        or trips * _launches(body) > MOST_NODES
    ):
        return None
    return as_scan(node, producers, used, ROW_ALIGNMENT)


def _launches(graph: Graph) -> int:
    """Return the number of nodes that one execution of a graph runs. The body of a scan counts once per iteration."""
    return sum(n.attrs.trips * _launches(n.regions[0]) if is_scan(n) else 1 for n in graph.nodes)


@dataclass(frozen=True)
class _Rows:
    """The rows that a loop accesses: in iteration i, `count` rows that start at row `first` + i * `step`."""

    first: int
    step: int
    count: int


class _Loop:
    """Converts one loop to a scan."""

    def __init__(self, node: Node, trips: int, producers: Mapping[Value, Node], alignment: int) -> None:
        self._node, self._trips, self._alignment = node, trips, alignment
        self._body = node.regions[1]
        self._own = set(self._body.values())
        self._uses = Counter(used_values(self._body))
        self._producers = {**producers, **self._body.index.producers}
        self._counters = inductions(node, producers)
        # Scalars that depend only on the iteration, mapped to an array of their values in all iterations.
        self._numbers: dict[Value, Numbers] = {}
        for index, (start, step) in self._counters.items():
            value = self._body.inputs[index]
            self._numbers[value] = (start + step * np.arange(trips)).astype(value.type.numpy_dtype)

    def scanned(self, used: set[Value]) -> list[Node]:
        """Return the scan, and constants for the final values of the loop's counters.

        `used` are the values that the enclosing graph reads.
        """
        body, rows = self._body, dict[int, _Rows]()
        inputs, outputs, operands = list(body.inputs), list(body.outputs), list(self._node.operands)
        replacements: dict[Value, Value] = {}
        for index, (write, window) in self._writes().items():
            rows[index], outputs[index] = window, write.operands[1]
            inputs[index] = _like(write.operands[1], body.inputs[index])
            replacements |= {read.result: inputs[index] for read in self._slices(body.inputs[index])}
        for node in body.nodes:
            if node.op == "dynamic_slice" and node.operands[0] not in self._own and (window := self._rows(node)):
                rows[len(inputs)], replacements[node.result] = window, _like(node.result, node.result)
                inputs.append(replacements[node.result])
                operands.append(node.operands[0])
        nodes = [node for node in body.nodes if replacements.keys().isdisjoint(node.results)]
        return self._live(rewired_graph(Graph(body.name, inputs, nodes, outputs), replacements), operands, rows, used)

    def _live(self, body: Graph, operands: Sequence[Value], rows: Mapping[int, _Rows], used: set[Value]) -> list[Node]:
        """Return the scan without dead carried values, and constants for the final values of the loop's counters."""
        results = self._node.results
        used_counters = [n for n in self._counters if results[n] in used]
        kept = {n for n, value in enumerate(results) if value in used} - {*used_counters}
        while True:
            needed = live_nodes(replace(body, outputs=[body.outputs[n] for n in sorted(kept)]))
            inside = {v for node in needed for v in used_by(node)} | {body.outputs[n] for n in kept}
            more = kept | {n for n in range(len(results)) if body.inputs[n] in inside}
            if more == kept:
                break
            kept = more
        kept_inputs = [n for n, value in enumerate(body.inputs) if n in kept or (n >= len(results) and value in inside)]
        sliced = [position for position, n in enumerate(kept_inputs) if n in rows]
        windows = [rows[kept_inputs[position]] for position in sliced]
        attrs = Scan(
            trips=self._trips,
            sliced=tuple(sliced),
            offsets=tuple(window.first for window in windows),
            strides=tuple(window.step for window in windows),
        )
        outputs = [n for n in kept_inputs if n < len(results)]
        graph = Graph(body.name, [body.inputs[n] for n in kept_inputs], needed, [body.outputs[n] for n in outputs])
        scan = replace(
            self._node, op="scan", operands=[operands[n] for n in kept_inputs], results=[results[n] for n in outputs], attrs=attrs, regions=(graph,)
        )  # fmt: skip
        return [
            *([scan] if needed or outputs else []),
            *(self._final_counter(n) for n in used_counters if n not in kept),
        ]

    def _final_counter(self, index: int) -> Node:
        """Return a constant with the final value of counter `index`."""
        result, (start, step) = self._node.results[index], self._counters[index]
        value = np.array(start + step * self._trips).astype(result.type.numpy_dtype)
        return Node("constant", [], [result], {"value": value}, result.loc)

    def _writes(self) -> dict[int, tuple[Node, _Rows]]:
        """Map the index of each carried stack to the node that updates rows of this stack, and to these rows.

        A stack is included only if the body reads no other rows of this stack.
        """
        writes: dict[int, tuple[Node, _Rows]] = {}
        for index, (before, after) in enumerate(zip(self._body.inputs, self._body.outputs, strict=True)):
            write = self._producers.get(after)
            if write is None or write.op != "dynamic_update_slice" or write.operands[0] is not before:
                continue
            rows, slices = self._rows(write), self._slices(before)
            if rows is None or (self._trips > 1 and abs(rows.step) < rows.count):
                continue
            same = all(self._rows(read) == rows for read in slices)
            if same and self._uses[before] == 1 + len(slices) and self._uses[after] == 1:
                writes[index] = write, rows
        return writes

    def _slices(self, stack: Value) -> list[Node]:
        return [node for node in self._body.nodes if node.op == "dynamic_slice" and node.operands[0] is stack]

    def _rows(self, node: Node) -> _Rows | None:
        """Return the rows that a dynamic_slice or dynamic_update_slice accesses.

        Returns None if the rows are unknown or unaligned.
        """
        is_slice = node.op == "dynamic_slice"
        part, starts_at = (node.result, node.operands[1:]) if is_slice else (node.operands[1], node.operands[2:])
        stack = node.operands[0].type
        if not stack.rank or not part.type.size or part.type.sizes[1:] != stack.sizes[1:]:
            return None
        if (indices := self._at(starts_at[0])) is None:
            return None
        starts = np.clip(indices.astype(np.int64), 0, stack.sizes[0] - part.type.sizes[0])
        step = int(starts[1] - starts[0]) if self._trips > 1 else 0
        pitch = stack.nbytes // stack.sizes[0]
        first_byte = int(starts[0]) * pitch
        if (np.diff(starts) != step).any() or first_byte % self._alignment or step * pitch % self._alignment:
            return None
        return _Rows(int(starts[0]), step, part.type.sizes[0])

    def _at(self, value: Value) -> Numbers | None:
        """Return an array of a scalar's values in all iterations, or None if the scalar depends on more than the
        iteration.
        """
        evaluated = constant_of(value, self._producers.get, _EVALUATED, 1, self._numbers)
        return None if evaluated is None else np.broadcast_to(evaluated, self._trips)


def _like(kind: Value, name: Value) -> Value:
    return Value(kind.type, name.name, loc=name.loc, id=kind.id)
