"""Sorting, random bits, barriers, branches and loops."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import DTYPES, Graph, TensorType, Value
from meshgen.testing.generators.bodies import DEEPEST, depth_of, grown
from meshgen.testing.generators.writer import Writer, binary_body, floats

_SCALAR = TensorType((), "i32")
_LESS = {"direction": "LT", "compare_type": ""}


def sort(writer: Writer) -> None:
    """Ascending along one dim, sometimes with places that go along: equal ones may not change places."""
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


def _centre(body: Graph, x: Value) -> Value:
    """`tanh(x - max(x))` over the last dim, whose devices must talk; a scalar is bent only."""
    if x.type.rank:
        low = body.add(
            "constant", [], [TensorType((), x.type.dtype)], {"value": np.array(-9, DTYPES[x.type.dtype])}
        ).result
        dim = x.type.rank - 1
        top = body.add("reduce", [x, low], [x.type.with_shape(x.type.sizes[:-1])], {"dims": (dim,), "kind": "maximum"})
        wide = body.add("broadcast_in_dim", top.results, [x.type], {"dims": tuple(range(dim))}).result
        x = body.add("subtract", [x, wide], [x.type]).result
    return body.add("tanh", [x], [x.type]).result


def branch(writer: Writer) -> None:
    """One of two or three ways to change a value, from around the branch or handed in."""
    if depth_of(writer) < DEEPEST and (value := writer.pick(writer.sums(), empty=True)):
        other, is_if = writer.partner(value), writer.chance(0.5)
        choice = writer.new_input(TensorType((), "i1" if is_if else "i32"))
        handed = writer.chance(0.5)
        bodies: list[Graph] = []
        for number in range(2 if is_if else writer.integer(1, 4)):
            body = Graph(f"branch{number}", [Value(value.type, "x")] if handed else [])
            x = body.inputs[0] if handed else value
            if writer.chance(0.4):
                x, _ = grown(writer, body, x, [value, other])
            elif number == 0 and floats(x):
                x = _centre(body, x)
            elif number == 1:
                x = body.add("add", [x, other], [x.type]).result
            body.outputs = [x]
            bodies.append(body)
        writer.append("if" if is_if else "case", [choice, value] if handed else [choice], [value.type], tuple(bodies))


def loop(writer: Writer) -> None:
    """Some times `x = tanh(x) * y`, `tanh(x - max(x)) * y` or some ops on x and y, with y from around the loop."""
    if depth_of(writer) < DEEPEST and (value := writer.pick(writer.reals(), empty=True)):
        other, counter = writer.partner(value), writer.scalar(0, "i32")
        condition, body = (Graph(name, [Value(_SCALAR, "i"), Value(value.type, "x")]) for name in ("while", "do"))
        trips = _constant(condition, writer.integer(0, 5))
        if writer.chance(0.4):
            trips = _asked(condition, writer.new_input(TensorType((writer.integer(1, 6),), "i32")), trips)
        less = condition.add("compare", [condition.inputs[0], trips], [TensorType((), "i1")], _LESS)
        condition.outputs = [less.result]
        following = body.add("add", [body.inputs[0], _constant(body, 1)], [_SCALAR]).result
        x = body.inputs[1]
        bent = _centre(body, x) if writer.chance(0.4) else body.add("tanh", [x], [x.type]).result
        if writer.chance(0.3):
            bent, _ = grown(writer, body, bent, [other])
        body.outputs = [following, body.add("multiply", [bent, other], [value.type]).result]
        writer.append("while", [counter, value], [_SCALAR, value.type], (condition, body))


def _asked(condition: Graph, numbers: Value, most: Value) -> Value:
    """The largest of some numbers, up to `most`: how often the loop runs is known when it runs."""
    largest = condition.add(
        "reduce", [numbers, _constant(condition, 0)], [_SCALAR], {"dims": (0,), "kind": "maximum"}
    ).result
    return condition.add("minimum", [largest, most], [_SCALAR]).result


def scan(writer: Writer) -> None:
    """For each row of dim 0 of a value: add it up, and write the sum so far into a copy."""
    if depth_of(writer) < DEEPEST and (value := writer.pick(writer.sums(rank=1, most=3))):
        kind, row = value.type, value.type.with_shape(value.type.sizes[1:])
        counter, total = writer.scalar(0, "i32"), writer.new_input(row)
        names = [("i", _SCALAR), ("total", row), ("rows", kind)]
        condition, body = (Graph(name, [Value(k, n) for n, k in names]) for name in ("while", "do"))
        trips = _constant(condition, kind.sizes[0])
        condition.outputs = [
            condition.add("compare", [condition.inputs[0], trips], [TensorType((), "i1")], _LESS).result
        ]
        i, so_far, rows = body.inputs
        starts, window = [i, *(_constant(body, 0) for _ in row.shape)], (1, *row.sizes)
        taken = body.add("dynamic_slice", [value, *starts], [kind.with_shape(window)], {"slice_sizes": window}).result
        flat = body.add("reshape", [taken], [row]).result
        summed = body.add("add", [so_far, flat], [row]).result
        wide = body.add("reshape", [summed], [kind.with_shape(window)]).result
        written = body.add("dynamic_update_slice", [rows, wide, *starts], [kind]).result
        body.outputs = [body.add("add", [i, _constant(body, 1)], [_SCALAR]).result, summed, written]
        types = [_SCALAR, row, kind]
        writer.append("while", [counter, total, value], types, (condition, body))


def barrier(writer: Writer) -> None:
    """An optimization barrier over one or two values; the program continues with the last one."""
    if value := writer.pick(empty=True):
        operands = [value, writer.partner(value)] if writer.chance(0.5) else [value]
        writer.append("optimization_barrier", operands, [v.type for v in operands], ())


def _constant(body: Graph, number: int) -> Value:
    return body.add("constant", [], [_SCALAR], {"value": np.array(number, np.int32)}).result


OPS = (sort, top_k, random_bits, branch, loop, scan)
