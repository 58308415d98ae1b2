"""Loops of a known trip count, whose first carried value is the number of the iteration."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation

from meshgen.ir.graph import Graph, Value
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.conversion import Importer


def counting_condition(importer: Importer, op: Operation, carried: Sequence[Value], trips: int) -> Graph:
    """Return the region of a `while` that runs until the first of these carried values is `trips`."""
    region = Graph("", [Value(value.type, value.name) for value in carried])
    builder, number = Builder(Importer(importer.reading, region, importer), op), region.inputs[0]
    region.outputs = [builder.compare("LT", number, builder.constant(trips, number.type))]
    return region


def nested_numbers(builder: Builder, number: Value, trips: Sequence[int]) -> list[Value]:
    """Return the numbers of nested loops from the number of iterations of all of them together."""
    found: list[Value] = []
    for position, count in enumerate(trips):
        below = max(1, math.prod(trips[position + 1 :]))
        digit = builder.apply("divide", number, builder.constant(below, number.type)) if below != 1 else number
        found.append(builder.apply("remainder", digit, builder.constant(max(1, count), number.type)) if position else digit)  # fmt: skip
    return found
