"""The trip count of a loop, from its condition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_loop
from meshgen.ir.regions import rewired_graph


def trip_count(node: Node, producers: Mapping[Value, Node]) -> int | None:
    """Trips of a `while` that counts a carried integer by a constant step up to a constant; None if it does not.

    Args:
        producers: of the graph that holds the loop.
    """
    counted = _counted(node, producers)
    start = None if counted is None else _constant(node.operands[counted.number], node, producers)
    if counted is None or start is None:
        return None
    return max(0, math.ceil((counted.stop - start) / counted.step))


class _Counted(NamedTuple):
    """The number of the carried value that counts up by `step` while it is below `stop`."""

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
    number = condition.inputs.index(counter)
    stop = _constant(bound, node, {**producers, **condition.index.producers})
    step = _counter_step(number, node, {**producers, **body.index.producers})
    if stop is None or not step or step < 0:
        return None
    return _Counted(number, step, stop + (test.attrs.direction == "LE"))


def inductions(node: Node, producers: Mapping[Value, Node]) -> dict[int, tuple[int, int]]:
    """The scalar integers that a loop carries from a constant on in constant steps, by number: start and step.

    Args:
        producers: of the graph that holds the loop.
    """
    known = {**producers, **node.regions[1].index.producers}
    found: dict[int, tuple[int, int]] = {}
    for number, value in enumerate(node.operands):
        if value.type.rank or not value.type.dtype.startswith(("i", "ui")) or value.type.dtype == "i1":
            continue
        start, step = _constant(value, node, producers), _counter_step(number, node, known)
        if start is not None and step is not None:
            found[number] = start, step
    return found


def without_unchanged(loop: Node) -> tuple[Node, dict[Value, Value]]:
    """A `while` that captures the values that it would carry unchanged, and the replacements of its dropped results.

    A loop that carries nothing else stays as it is.
    """
    body = loop.regions[1]
    changed = [
        n for n, (before, after) in enumerate(zip(body.inputs, body.outputs, strict=True)) if before is not after
    ]
    if len(changed) in (0, len(body.inputs)):
        return loop, {}
    same = [n for n in range(len(body.inputs)) if n not in changed]
    condition, body = (
        with_outside(region, {region.inputs[n]: loop.operands[n] for n in same}) for region in loop.regions
    )
    body = replace(body, outputs=[body.outputs[n] for n in changed])
    operands, results = ([side[n] for n in changed] for side in (loop.operands, loop.results))
    slim = replace(loop, operands=operands, results=results, regions=(condition, body))
    return slim, {loop.results[n]: loop.operands[n] for n in same}


def with_outside(region: Graph, outside: Mapping[Value, Value]) -> Graph:
    """A region that captures values in place of some of its arguments."""
    found = rewired_graph(region, outside)
    return replace(found, inputs=[value for value in region.inputs if value not in outside])


def always_ends(graph: Graph, producers: Mapping[Value, Node] | None = None) -> bool:
    """Whether every `while` of a graph counts a carried integer up by a constant to a constant (its start may be any)."""
    known = {**(producers or {}), **graph.index.producers}
    return all(
        (not is_loop(node) or _counted(node, known)) and all(always_ends(body, known) for body in node.regions)
        for node in graph.nodes
    )


def _counter_step(number: int, node: Node, producers: Mapping[Value, Node]) -> int | None:
    region = node.regions[1]
    made = producers.get(region.outputs[number])
    if made is None or made.op != "add" or region.inputs[number] not in made.operands:
        return None
    other = made.operands[1 if made.operands[0] is region.inputs[number] else 0]
    return _constant(other, node, producers)


def _constant(value: Value, node: Node, producers: Mapping[Value, Node]) -> int | None:
    """The value of a constant, also of one that the loop carries unchanged."""
    for graph in node.regions:
        if value in graph.inputs:
            number = graph.inputs.index(value)
            if node.regions[1].outputs[number] is not node.regions[1].inputs[number]:
                return None
            value = node.operands[number]
            break
    made = producers.get(value)
    if made is None or made.op not in ("constant", "convert"):
        return None
    if made.op == "convert":
        return _constant(made.operands[0], node, producers)
    return int(made.attrs.value.flat[0]) if made.attrs.value.size else None
