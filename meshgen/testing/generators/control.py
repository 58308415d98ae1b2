"""Sorting, random bits, barriers, branches and loops."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import DTYPES, Graph, TensorType, Value
from meshgen.testing.generators.bodies import DEEPEST, depth_of, grown
from meshgen.testing.generators.writer import Writer, binary_body, floats

_SCALAR = TensorType((), "i32")
_LESS = {"direction": "LT", "compare_type": ""}


def sort(writer: Writer) -> None:
    """Append a stable ascending sort along one dim, optionally with an index operand."""
    if value := writer.pick(writer.numbers(rank=1), exact=True, empty=True):
        dim, operands = writer.integer(0, value.type.rank), [value]
        body = binary_body("compare", value.type.dtype, _LESS)
        if writer.chance(0.4):
            operands.append(writer.add("iota", [], TensorType(value.type.shape, "i32"), {"dim": dim}))
            body.inputs += [Value(_SCALAR, "i"), Value(_SCALAR, "j")]
        writer.add("sort", operands, None, {"dim": dim, "is_stable": True}, regions=(body,))


def top_k(writer: Writer) -> None:
    if value := writer.pick(writer.numbers(rank=1), exact=True):
        writer.add("top_k", [value], None, {"k": writer.integer(1, value.type.sizes[-1] + 1)})


def random_bits(writer: Writer) -> None:
    state = writer.new_input(TensorType((2,), "ui64"))
    kinds = [state.type, TensorType(writer.shape(writer.integer(0, 3)), "ui32")]
    node = writer.graph.add(
        "rng_bit_generator", [state], kinds, {"algorithm": "THREE_FRY"}, name=f"v{len(writer.graph.nodes)}"
    )
    writer.exact += node.results
    few = writer.add("constant", [], kinds[1], {"value": np.full(kinds[1].sizes, 24, np.uint32)})
    high = writer.add("shift_right_logical", [node.results[1], few])
    writer.add("convert", [high], TensorType(kinds[1].shape, "f32"))


def _center(body: Graph, x: Value) -> Value:
    """Return `tanh(x - max(x))` with the maximum over the last dim, which communicates if that is sharded, or `tanh(x)`
    for a scalar.
    """
    if x.type.rank:
        lowest = body.add(
            "constant", [], [TensorType((), x.type.dtype)], {"value": np.array(-9, DTYPES[x.type.dtype])}
        ).result
        dim = x.type.rank - 1
        maximum = body.add(
            "reduce", [x, lowest], [x.type.with_shape(x.type.sizes[:-1])], {"dims": (dim,), "kind": "maximum"}
        )
        broadcast = body.add("broadcast_in_dim", maximum.results, [x.type], {"dims": tuple(range(dim))}).result
        x = body.add("subtract", [x, broadcast], [x.type]).result
    return body.add("tanh", [x], [x.type]).result


def branch(writer: Writer) -> None:
    """Append a branch with one to three regions, which change a value that is captured or passed as an operand."""
    if depth_of(writer) < DEEPEST and (value := writer.pick(writer.sums(), empty=True)):
        other, is_if = writer.partner(value), writer.chance(0.5)
        choice = writer.new_input(TensorType((), "i1" if is_if else "i32"))
        is_operand = writer.chance(0.5)
        bodies: list[Graph] = []
        for index in range(2 if is_if else writer.integer(1, 4)):
            body = Graph(f"branch{index}", [Value(value.type, "x")] if is_operand else [])
            x = body.inputs[0] if is_operand else value
            if writer.chance(0.4):
                x, _ = grown(writer, body, x, [value, other])
            elif index == 0 and floats(x):
                x = _center(body, x)
            elif index == 1:
                x = body.add("add", [x, other], [x.type]).result
            body.outputs = [x]
            bodies.append(body)
        writer.append(
            "if" if is_if else "case", [choice, value] if is_operand else [choice], [value.type], tuple(bodies)
        )


def loop(writer: Writer) -> None:
    """Append a loop with 0 to 4 iterations of `x = tanh(x) * y`, `tanh(x - max(x)) * y` or random ops. The body
    captures y.
    """
    if depth_of(writer) < DEEPEST and (value := writer.pick(writer.reals(), empty=True)):
        other, counter = writer.partner(value), writer.scalar(0, "i32")
        condition, body = (Graph(name, [Value(_SCALAR, "i"), Value(value.type, "x")]) for name in ("while", "do"))
        trip_count = _constant(condition, writer.integer(0, 5))
        if writer.chance(0.4):
            trip_count = _data_dependent_count(
                condition, writer.new_input(TensorType((writer.integer(1, 6),), "i32")), trip_count
            )
        less = condition.add("compare", [condition.inputs[0], trip_count], [TensorType((), "i1")], _LESS)
        condition.outputs = [less.result]
        following = body.add("add", [body.inputs[0], _constant(body, 1)], [_SCALAR]).result
        x = body.inputs[1]
        activated = _center(body, x) if writer.chance(0.4) else body.add("tanh", [x], [x.type]).result
        if writer.chance(0.3):
            activated, _ = grown(writer, body, activated, [other])
        body.outputs = [following, body.add("multiply", [activated, other], [value.type]).result]
        writer.append("while", [counter, value], [_SCALAR, value.type], (condition, body))


def _data_dependent_count(condition: Graph, numbers: Value, most: Value) -> Value:
    """Return a trip count of at most `most` that is known only at run time: the maximum of some data."""
    largest = condition.add(
        "reduce", [numbers, _constant(condition, 0)], [_SCALAR], {"dims": (0,), "kind": "maximum"}
    ).result
    return condition.add("minimum", [largest, most], [_SCALAR]).result


def scan(writer: Writer) -> None:
    """Append a loop over the rows of dim 0 that computes their running sum and writes it into a copy of the value."""
    if depth_of(writer) < DEEPEST and (value := writer.pick(writer.sums(rank=1, most=3))):
        type_, row = value.type, value.type.with_shape(value.type.sizes[1:])
        counter, total = writer.scalar(0, "i32"), writer.new_input(row)
        names = [("i", _SCALAR), ("total", row), ("rows", type_)]
        condition, body = (Graph(name, [Value(k, n) for n, k in names]) for name in ("while", "do"))
        trip_count = _constant(condition, type_.sizes[0])
        condition.outputs = [
            condition.add("compare", [condition.inputs[0], trip_count], [TensorType((), "i1")], _LESS).result
        ]
        i, so_far, rows = body.inputs
        starts, window = [i, *(_constant(body, 0) for _ in row.shape)], (1, *row.sizes)
        window_rows = body.add(
            "dynamic_slice", [value, *starts], [type_.with_shape(window)], {"slice_sizes": window}
        ).result
        row_value = body.add("reshape", [window_rows], [row]).result
        summed = body.add("add", [so_far, row_value], [row]).result
        window_value = body.add("reshape", [summed], [type_.with_shape(window)]).result
        written = body.add("dynamic_update_slice", [rows, window_value, *starts], [type_]).result
        body.outputs = [body.add("add", [i, _constant(body, 1)], [_SCALAR]).result, summed, written]
        types = [_SCALAR, row, type_]
        writer.append("while", [counter, total, value], types, (condition, body))


def barrier(writer: Writer) -> None:
    """Append an optimization barrier over one or two values. The program continues with its last result."""
    if value := writer.pick(empty=True):
        operands = [value, writer.partner(value)] if writer.chance(0.5) else [value]
        writer.append("optimization_barrier", operands, [v.type for v in operands], ())


def _constant(body: Graph, number: int) -> Value:
    return body.add("constant", [], [_SCALAR], {"value": np.array(number, np.int32)}).result


OPS = (sort, top_k, random_bits, branch, loop, scan)
