"""How often a loop runs, read off its condition."""

from __future__ import annotations

import math
from collections.abc import Mapping

from meshgen.ir.graph import Node, Value


def trip_count(node: Node, producers: Mapping[Value, Node]) -> int | None:
    """Trips of a `while` that counts a carried integer by a constant step up to a constant; None if it does not.

    Args:
        producers: of the graph that holds the loop.
    """
    condition, body = node.regions
    test = condition.producers().get(condition.outputs[0])
    if test is None or test.op != "compare" or test.attrs["direction"] not in ("LT", "LE"):
        return None
    counter, bound = test.operands
    if counter not in condition.inputs:
        return None
    number = condition.inputs.index(counter)
    inner = {**producers, **body.producers()}
    stop = _constant(bound, node, {**producers, **condition.producers()})
    start = _constant(node.operands[number], node, producers)
    step = _step(number, node, inner)
    if stop is None or start is None or not step or step < 0:
        return None
    return max(0, math.ceil((stop + (test.attrs["direction"] == "LE") - start) / step))


def _step(number: int, node: Node, producers: Mapping[Value, Node]) -> int | None:
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
    return int(made.attrs["value"].flat[0]) if made.attrs["value"].size else None
