"""Trip counts and induction variables of loops, derived from their conditions and bodies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_loop
from meshgen.ir.regions import rewired_graph


def trip_count(node: Node, producers: Mapping[Value, Node]) -> int | None:
    """Return the trip count of a `while` that increments a carried integer by a constant up to a constant bound.

    Args:
        producers: the producers of the graph that contains the loop.
    Returns:
        The trip count, or None if the start, step or bound is unknown.
    """
    counter = _counted(node, producers)
    start = None if counter is None else _constant(node.operands[counter.number], node, producers)
    if counter is None or start is None:
        return None
    return max(0, math.ceil((counter.stop - start) / counter.step))


class _Counted(NamedTuple):
    """The condition of a counted loop: the carried value at index `number` increases by `step` while it is less than
    `stop`.
    """

    number: int
    step: int
    stop: int


def _counted(node: Node, producers: Mapping[Value, Node]) -> _Counted | None:
    condition, body = node.regions
    test = condition.index.producers.get(condition.outputs[0])
    if test is None or test.op != "compare" or test.attrs.direction not in ("LT", "LE"):
        return None
    counter, bound = test.operands
    if counter not in condition.inputs:
        return None
    index = condition.inputs.index(counter)
    stop = _constant(bound, node, {**producers, **condition.index.producers})
    step = _counter_step(index, node, {**producers, **body.index.producers})
    if stop is None or not step or step < 0:
        return None
    return _Counted(index, step, stop + (test.attrs.direction == "LE"))


def inductions(node: Node, producers: Mapping[Value, Node]) -> dict[int, tuple[int, int]]:
    """Return the induction variables of a loop as {index of the carried value: (start, step)}, all scalar constants.

    Args:
        producers: the producers of the graph that contains the loop.
    """
    all_producers = {**producers, **node.regions[1].index.producers}
    variables: dict[int, tuple[int, int]] = {}
    for index, value in enumerate(node.operands):
        if value.type.rank or not value.type.dtype.startswith(("i", "ui")) or value.type.dtype == "i1":
            continue
        start, step = _constant(value, node, producers), _counter_step(index, node, all_producers)
        if start is not None and step is not None:
            variables[index] = start, step
    return variables


def capture_loop_invariants(loop: Node) -> tuple[Node, dict[Value, Value]]:
    """Rewrite a `while` so that its regions capture loop-invariant values, which the loop then need not carry.

    Returns the new loop, and {result of the old loop: invariant value} for each result that the new loop lacks. If the
    loop carries only invariant values, returns the loop unchanged.
    """
    body = loop.regions[1]
    changed = [
        n for n, (before, after) in enumerate(zip(body.inputs, body.outputs, strict=True)) if before is not after
    ]
    if len(changed) in (0, len(body.inputs)):
        return loop, {}
    invariant = [n for n in range(len(body.inputs)) if n not in changed]
    condition, body = (
        capture_arguments(region, {region.inputs[n]: loop.operands[n] for n in invariant}) for region in loop.regions
    )
    body = replace(body, outputs=[body.outputs[n] for n in changed])
    operands, results = ([side[n] for n in changed] for side in (loop.operands, loop.results))
    slim = replace(loop, operands=operands, results=results, regions=(condition, body))
    return slim, {loop.results[n]: loop.operands[n] for n in invariant}


def capture_arguments(region: Graph, captured: Mapping[Value, Value]) -> Graph:
    """Replace arguments of a region by captured values: `captured` maps region inputs to values from outside the
    region.
    """
    rewritten = rewired_graph(region, captured)
    return replace(rewritten, inputs=[value for value in region.inputs if value not in captured])


def has_bounded_loops(graph: Graph, producers: Mapping[Value, Node] | None = None) -> bool:
    """Whether every `while` terminates, in the graph and all regions: it counts up by a constant to a constant bound.

    The start of the counter may be unknown.
    """
    all_producers = {**(producers or {}), **graph.index.producers}
    return all(
        (not is_loop(node) or _counted(node, all_producers))
        and all(has_bounded_loops(body, all_producers) for body in node.regions)
        for node in graph.nodes
    )


def _counter_step(index: int, node: Node, producers: Mapping[Value, Node]) -> int | None:
    region = node.regions[1]
    increment = producers.get(region.outputs[index])
    if increment is None or increment.op != "add" or region.inputs[index] not in increment.operands:
        return None
    step = increment.operands[1 if increment.operands[0] is region.inputs[index] else 0]
    return _constant(step, node, producers)


def _constant(value: Value, node: Node, producers: Mapping[Value, Node]) -> int | None:
    """Return the value of an integer constant, or None for other values.

    A loop may carry the constant, provided that the loop's body returns it unchanged.
    """
    for graph in node.regions:
        if value in graph.inputs:
            index = graph.inputs.index(value)
            if node.regions[1].outputs[index] is not node.regions[1].inputs[index]:
                return None
            value = node.operands[index]
            break
    producer = producers.get(value)
    if producer is None or producer.op not in ("constant", "convert"):
        return None
    if producer.op == "convert":
        return _constant(producer.operands[0], node, producers)
    return int(producer.attrs.value.flat[0]) if producer.attrs.value.size else None
