"""Fallback for reductions whose body is not known to be associative: a sequential loop over the reduced elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.conversion import Importer
from meshgen.mlir.counted_loops import counting_condition, delinearized_indices
from meshgen.mlir.linalg.body import Body, Structure
from meshgen.mlir.linalg.maps import read
from meshgen.mlir.loop_values import Loops, Spread, over

INDEX = TensorType((), "i64")


def sequential_loop(structure: Structure, out_loops: Sequence[Loops]) -> list[Value] | None:
    """Compute the outputs with a `while` over the reduced loops, which are those that index no output.

    The loops in `out_loops` are vectorized: the `while` carries each output as a tensor. Returns None if the body is
    unsupported.
    """
    builder, sizes = structure.builder, structure.sizes
    kept = tuple(sorted(out_loops[0]))
    if None in sizes or any(tuple(sorted(loops_of_output)) != kept for loops_of_output in out_loops):
        return None
    folded = tuple(loop for loop in range(len(sizes)) if loop not in kept)
    if any(sizes[loop] == 0 for loop in folded):
        return structure.values[structure.inputs :]
    used = [n for n, argument in enumerate(structure.block.args[: structure.inputs]) if argument.first_use]
    elements = [read(builder, structure.values[n], structure.maps[n].results, sizes) for n in used]
    elements = [_sequential_loops_first(builder, element, folded, sizes) for element in elements]
    before = structure.values[structure.inputs :]
    shapes = [
        before[n].type.with_shape(sizes[loop] for loop in loops_of_output)
        for n, loops_of_output in enumerate(out_loops)
    ]
    carried = [builder.reshape(value, kind.shape) for value, kind in zip(before, shapes, strict=True)]
    operands = [builder.constant(0, INDEX), *carried, *(element.value for element in elements)]
    body, captured = _folding_loop_body(structure, out_loops, folded, used, elements, operands)
    if body is None:
        return None
    operands += captured
    trips = math.prod(sizes[loop] or 0 for loop in folded)
    condition = counting_condition(builder.importer, structure.op, operands, trips)
    types = [value.type for value in operands]
    results = builder.importer.emit("while", operands, types, {}, structure.op, (condition, body))
    return [builder.reshape(result, old.type.shape) for result, old in zip(results[1:], before, strict=False)]


def _sequential_loops_first(builder: Builder, element: Spread, folded: Loops, sizes: Sequence[int | None]) -> Spread:
    """Transpose an operand so that the dims of the sequential loops (`folded`) come first."""
    loops = sorted(element.loops, key=lambda loop: (loop not in folded, loop))
    return Spread(over(builder, element, loops, sizes), tuple(loops))


def _folding_loop_body(structure: Structure, out_loops: Sequence[Loops], folded: Loops, used: Sequence[int],
                       elements: Sequence[Spread], operands: Sequence[Value]) -> tuple[Graph | None, list[Value]]:  # fmt: skip
    """Build one iteration, which takes the iteration index, the outputs, the operands, and the captured values.

    Returns the body, or None if it is unsupported, and the captured values as values of the enclosing graph.
    """
    outer = structure.builder.importer
    inner = Importer(outer.reading, Graph(""), outer)
    builder = Builder(inner, structure.op)
    inner.graph.inputs = [Value(value.type, value.name) for value in operands]
    iteration, *rest = inner.graph.inputs
    carried, operand_inputs = rest[: len(out_loops)], rest[len(out_loops) :]
    loop_indices = delinearized_indices(builder, iteration, [structure.sizes[loop] or 0 for loop in folded])
    body = Body(builder, structure.block, structure.sizes, structure)
    body.indices = {loop: Spread(loop_index, ()) for loop, loop_index in zip(folded, loop_indices, strict=True)}
    for operand_index, element, value in zip(used, elements, operand_inputs, strict=True):
        body.computed[structure.block.args[operand_index]] = _slice_at(
            builder, Spread(value, element.loops), body.indices
        )
    for argument, value, loops_of_output in zip(
        structure.block.args[structure.inputs :], carried, out_loops, strict=True
    ):
        body.computed[argument] = Spread(value, loops_of_output)
    yielded = [
        body.full(root, loops_of_output)
        for root, loops_of_output in zip(structure.terminator.operands, out_loops, strict=True)
    ]
    outputs = [value for value in yielded if value is not None]
    if len(outputs) != len(yielded):
        return None, []
    captures = [inner.captured_input(ssa) for ssa in inner.captures]
    inner.graph.inputs += captures
    next_iteration = builder.apply("add", iteration, builder.constant(1, INDEX))
    inner.graph.outputs = [next_iteration, *outputs, *operand_inputs, *captures]
    return inner.graph, [outer.value(ssa) for ssa in inner.captures]


def _slice_at(builder: Builder, element: Spread, indices: dict[int, Spread]) -> Spread:
    """Return the slice of an operand at the current `indices` of the sequential loops."""
    value, sequential = element.value, [loop for loop in element.loops if loop in indices]
    if not sequential:
        return element
    sizes = value.type.sizes
    rest = sizes[len(sequential) :]
    zero = builder.constant(0, INDEX)
    starts = [*(indices[loop].value for loop in sequential), *([zero] * len(rest))]
    ones = (*([1] * len(sequential)), *rest)
    element_slice = builder.emit("dynamic_slice", [value, *starts], value.type.with_shape(ones), slice_sizes=ones)
    return Spread(builder.reshape(element_slice, rest), element.loops[len(sequential) :])
