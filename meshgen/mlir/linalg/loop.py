"""Reductions whose order cannot be changed for all we know: a loop over the reduced elements, one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.conversion import Importer
from meshgen.mlir.counted_loops import counting_condition, nested_numbers
from meshgen.mlir.linalg.body import Body, Structure
from meshgen.mlir.linalg.maps import read
from meshgen.mlir.spread import Loops, Spread, over

INDEX = TensorType((), "i64")


def looped(structure: Structure, places: Sequence[Loops]) -> list[Value] | None:
    """The outputs at the end of a `while` over the loops that no output has; None where the body cannot be computed.

    All other loops are done at once: outputs are carried over them.
    """
    builder, sizes = structure.builder, structure.sizes
    kept = tuple(sorted(places[0]))
    if None in sizes or any(tuple(sorted(place)) != kept for place in places):
        return None
    folded = tuple(loop for loop in range(len(sizes)) if loop not in kept)
    used = [n for n, argument in enumerate(structure.block.args[: structure.inputs]) if argument.first_use]
    elements = [read(builder, structure.values[n], structure.maps[n].results, sizes) for n in used]
    elements = [_folded_first(builder, element, folded, sizes) for element in elements]
    before = structure.values[structure.inputs :]
    shapes = [before[n].type.with_shape(sizes[loop] for loop in place) for n, place in enumerate(places)]
    carried = [builder.reshape(value, kind.shape) for value, kind in zip(before, shapes, strict=True)]
    operands = [builder.constant(0, INDEX), *carried, *(element.value for element in elements)]
    body, captured = _folding_loop_body(structure, places, folded, used, elements, operands)
    if body is None:
        return None
    operands += captured
    trips = math.prod(sizes[loop] or 0 for loop in folded)
    condition = counting_condition(builder.importer, structure.op, operands, trips)
    types = [value.type for value in operands]
    results = builder.importer.emit("while", operands, types, {}, structure.op, (condition, body))
    return [builder.reshape(found, old.type.shape) for found, old in zip(results[1:], before, strict=False)]


def _folded_first(builder: Builder, element: Spread, folded: Loops, sizes: Sequence[int | None]) -> Spread:
    """An operand with the loops that are walked in front."""
    loops = sorted(element.loops, key=lambda loop: (loop not in folded, loop))
    return Spread(over(builder, element, loops, sizes), tuple(loops))


def _folding_loop_body(structure: Structure, places: Sequence[Loops], folded: Loops, used: Sequence[int],
                       elements: Sequence[Spread], operands: Sequence[Value]) -> tuple[Graph | None, list[Value]]:  # fmt: skip
    """One step over (number, outputs, operands, what else is used), and the values of the latter outside."""
    outer = structure.builder.importer
    inner = Importer(outer.reading, Graph(""), outer)
    builder = Builder(inner, structure.op)
    inner.graph.inputs = [Value(value.type, value.name) for value in operands]
    number, *rest = inner.graph.inputs
    carried, whole = rest[: len(places)], rest[len(places) :]
    digits = nested_numbers(builder, number, [structure.sizes[loop] or 0 for loop in folded])
    body = Body(builder, structure.block, structure.sizes, structure)
    body.indices = {loop: Spread(digit, ()) for loop, digit in zip(folded, digits, strict=True)}
    for position, element, value in zip(used, elements, whole, strict=True):
        body.known[structure.block.args[position]] = _at(builder, Spread(value, element.loops), body.indices)
    for argument, value, place in zip(structure.block.args[structure.inputs :], carried, places, strict=True):
        body.known[argument] = Spread(value, place)
    found = [body.full(root, place) for root, place in zip(structure.terminator.operands, places, strict=True)]
    outputs = [value for value in found if value is not None]
    if len(outputs) != len(found):
        return None, []
    inside = [inner.taken(ssa) for ssa in inner.captures]
    inner.graph.inputs += inside
    following = builder.apply("add", number, builder.constant(1, INDEX))
    inner.graph.outputs = [following, *outputs, *whole, *inside]
    return inner.graph, [outer.value(ssa) for ssa in inner.captures]


def _at(builder: Builder, element: Spread, indices: dict[int, Spread]) -> Spread:
    """An operand at the present numbers of the loops that are walked."""
    value, walked = element.value, [loop for loop in element.loops if loop in indices]
    if not walked:
        return element
    sizes = value.type.sizes
    rest = sizes[len(walked) :]
    zero = builder.constant(0, INDEX)
    places = [*(indices[loop].value for loop in walked), *([zero] * len(rest))]
    ones = (*([1] * len(walked)), *rest)
    found = builder.emit("dynamic_slice", [value, *places], value.type.with_shape(ones), slice_sizes=ones)
    return Spread(builder.reshape(found, rest), element.loops[len(walked) :])
