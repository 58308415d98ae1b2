"""Loops with a constant trip count whose first carried value is the iteration index."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation

from meshgen.ir.graph import Graph, Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.conversion import Importer


def counting_condition(importer: Importer, op: Operation, carried: Sequence[Value], trips: int) -> Graph:
    """Return the condition region of a `while`: it runs `trips` iterations, counted by the first carried value."""
    region = Graph("", [Value(value.type, value.name) for value in carried])
    builder, iteration = Builder(Importer(importer.reading, region, importer), op), region.inputs[0]
    region.outputs = [builder.compare("LT", iteration, builder.constant(trips, iteration.type))]
    return region


def delinearized_indices(builder: Builder, flat_index: Value, trips: Sequence[int]) -> list[Value]:
    """Return one index per loop of a flattened loop nest, given the index into all its iterations.

    `trips` are the trip counts, from the outermost to the innermost loop.
    """
    indices: list[Value] = []
    for level, count in enumerate(trips):
        inner_trips = max(1, math.prod(trips[level + 1 :]))
        index = (
            builder.apply("divide", flat_index, builder.constant(inner_trips, flat_index.type))
            if inner_trips != 1
            else flat_index
        )
        indices.append(builder.apply("remainder", index, builder.constant(max(1, count), flat_index.type)) if level else index)  # fmt: skip
    return indices
