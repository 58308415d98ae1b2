"""Importers of scf.forall and scf.parallel, which become a sequential loop over the flattened iteration space."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import I64, DenseArrayBase
from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.conversion import Importer, Refused, import_nothing
from meshgen.mlir.counted_loops import counting_condition, delinearized_indices
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.integer_folding import constant, entries
from meshgen.mlir.scf.control import while_loop
from meshgen.mlir.scf.parallel_ops import ForallOp, InParallelOp, ParallelInsertSliceOp, ParallelOp, ReduceOp
from meshgen.mlir.tensor.slices import inserted

INDEX = TensorType((), "i64")
Range = tuple[int, int, int]  # start, stop and step of a loop
# Function that emits the end of an iteration: takes the carried values before the iteration and returns those after it
Ends = Callable[[Importer, list[Value]], list[Value]]


def import_forall(importer: Importer, op: Operation) -> None:
    """Convert an scf.forall to a loop. It carries the shared outputs, into which each iteration writes."""
    assert isinstance(op, ForallOp)
    if not op.results:  # A loop without results has no effect.
        return
    lists = [
        _static_entries(static, dynamic)
        for static, dynamic in (
            (op.staticLowerBound, op.dynamicLowerBound), (op.staticUpperBound, op.dynamicUpperBound),
            (op.staticStep, op.dynamicStep),
        )
    ]  # fmt: skip
    shared = op.body.block.args[len(lists[0]) :]

    def ends(inner: Importer, carried: list[Value]) -> list[Value]:
        last, state = op.body.block.last_op, dict[SSAValue, Value](zip(shared, carried, strict=True))
        assert isinstance(last, InParallelOp)
        for write in last.body.block.ops:
            if not isinstance(write, ParallelInsertSliceOp) or write.dest not in state:
                importer.fault("MG0104", f"{write.name} does not write into a shared output of scf.forall", write)
                continue
            try:
                state[write.dest] = inserted(Builder(inner, write), inner.value(write.source), state[write.dest])
            except Refused as error:
                importer.report(error, write)
        return list(state.values())

    if not isinstance(op.body.block.last_op, InParallelOp):
        raise Refused("MG0104", "the body must end with scf.forall.in_parallel")
    _loop(importer, op, lists, list(op.outputs), ends)


def import_parallel(importer: Importer, op: Operation) -> None:
    """Convert an scf.parallel to a loop. It carries the values that `scf.reduce` has accumulated so far."""
    assert isinstance(op, ParallelOp)
    if not op.results:
        return
    last = op.region.block.last_op
    if not isinstance(last, ReduceOp):
        raise Refused("MG0104", "the body must end with scf.reduce")

    def ends(inner: Importer, carried: list[Value]) -> list[Value]:
        results: list[Value] = []
        for accumulator, ssa, region in zip(carried, last.args, last.reductions, strict=True):
            for argument, value in zip(region.block.args, (accumulator, inner.value(ssa)), strict=True):
                inner.bind(argument, value)
            results += inner.values(inner.operations(region.block))
        return results

    bounds = [_constants_or_none(values) for values in (op.lowerBound, op.upperBound, op.step)]
    _loop(importer, op, bounds, list(op.initVals), ends)


def _static_entries(static: DenseArrayBase[I64], dynamic: Sequence[SSAValue]) -> list[int | None]:
    return [entry if isinstance(entry, int) else None for entry in entries(static, dynamic)]


def _constants_or_none(values: Sequence[SSAValue]) -> list[int | None]:
    return [constant(value) for value in values]


def _loop(importer: Importer, op: Operation, lists: Sequence[Sequence[int | None]], inits: Sequence[SSAValue], ends: Ends
          ) -> None:  # fmt: skip
    """Emit `while (n < iterations) { body; n += 1 }`, which carries n, the values `inits`, and the captured values.

    `lists` are the lower bounds, upper bounds and steps of the loops; `ends` emits the end of an iteration.
    """
    ranges = [
        (low, high, step)
        for low, high, step in zip(*lists, strict=True)
        if low is not None and high is not None and step is not None and step > 0
    ]
    if len(ranges) < len(lists[0]):
        hint = "use constants, and steps of at least 1; or scf.for"
        raise Refused("MG0103", "its trip count is not known at compile time", hint)
    counts = [len(range(*bounds)) for bounds in ranges]
    body, captured = _parallel_body(importer, op, ranges, counts, inits, ends)
    operands = [Builder(importer, op).constant(0, INDEX), *importer.values(inits), *importer.values(captured)]
    condition = counting_condition(importer, op, operands, math.prod(counts))
    results = while_loop(importer, op, operands, (condition, body))
    importer.bind_results(op, results[1:])


def _parallel_body(importer: Importer, op: Operation, ranges: Sequence[Range], counts: Sequence[int],
                   inits: Sequence[SSAValue], ends: Ends) -> tuple[Graph, list[SSAValue]]:  # fmt: skip
    """Build one iteration, which takes the iteration index, the carried values, and the captured values.

    Returns the body and the captured values.
    """
    inner = Importer(importer.reading, Graph(""), importer)
    builder, block = Builder(inner, op), op.regions[0].block
    iteration = Value(INDEX)
    carried = [Value(importer.type(init), importer.reading.source.name(init)) for init in inits]
    inner.graph.inputs = [iteration, *carried]
    for argument, (low, _, step), loop_index in zip(
        block.args, ranges, delinearized_indices(builder, iteration, counts), strict=False
    ):
        position = builder.apply("multiply", loop_index, builder.constant(step, INDEX)) if step != 1 else loop_index
        position = builder.apply("add", position, builder.constant(low, INDEX)) if low else position
        inner.bind(argument, position)
    for argument, value in zip(block.args[len(ranges) :], carried, strict=False):
        inner.bind(argument, value)
    inner.operations(block)
    outputs = ends(inner, carried)
    inner.graph.outputs = [builder.apply("add", iteration, builder.constant(1, INDEX)), *outputs]
    inner.graph.inputs += [inner.captured_input(ssa) for ssa in inner.captures]
    return inner.graph, inner.captures


PART = Dialect(
    importers={
        "scf.forall": import_forall,
        "scf.parallel": import_parallel,
        "scf.forall.in_parallel": import_nothing,
        "tensor.parallel_insert_slice": import_nothing,
        "scf.reduce": import_nothing,
        "scf.reduce.return": import_nothing,
    }
)
