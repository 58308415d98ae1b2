"""Reductions and contractions."""

from __future__ import annotations

import math

import numpy as np

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.testing.generators.writer import MAX_ELEMENTS, NUMBERS, Writer, floats, has_type, lowest, rounded

_REDUCTIONS = {
    "f32": ("add", "add", "maximum", "minimum", "multiply"),
    "bf16": ("maximum", "minimum", "add"),
    "i32": ("add", "maximum", "minimum", "multiply", "and", "or", "xor"),
    "i1": ("and", "or", "xor"),
    **dict.fromkeys(("f16", "f64"), ("maximum", "minimum", "add")),
    **dict.fromkeys(("i64", "i8", "ui8", "ui32"), ("add", "maximum", "minimum", "xor")),
}


def reduce(writer: Writer) -> None:
    if value := writer.pick(has_type(*_REDUCTIONS, *writer.variety.more), empty=True):
        dims = tuple(d for d in range(value.type.rank) if writer.chance(0.5))
        kind = writer.one_of(_REDUCTIONS.get(value.type.dtype, ("add",)))
        init = writer.constant(TensorType((), value.type.dtype))
        rounds = rounded(value) and kind in ("add", "multiply")
        writer.add("reduce", [value, init], None, {"dims": dims, "kind": kind}, rounds=rounds)


def normalize(writer: Writer) -> None:
    """Append `x / sum(|x|)` along one dim."""
    if value := writer.pick(writer.reals(rank=1), empty=True):
        dim, init = writer.integer(0, value.type.rank), writer.scalar(1, value.type.dtype)
        total = writer.add(
            "reduce", [writer.add("abs", [value]), init], None, {"dims": (dim,), "kind": "add"}, rounds=True
        )
        dims = tuple(d for d in range(value.type.rank) if d != dim)
        writer.add("divide", [value, writer.add("broadcast_in_dim", [total], value.type, {"dims": dims})])


def argmax(writer: Writer) -> None:
    """Append an argmax along one dim: the maximum and its index, which is the first index if several elements are
    maximal.
    """
    if value := writer.pick(writer.numbers(rank=1), exact=True, empty=True):
        dim = writer.integer(0, value.type.rank)
        indices = writer.add("iota", [], TensorType(value.type.shape, "i32"), {"dim": dim})
        inits = [writer.scalar(lowest(value.type.dtype), value.type.dtype), writer.scalar(1000, "i32")]
        body = _argmax_body(value.type.dtype)
        writer.add("reduce_region", [value, indices, *inits], None, {"dims": (dim,)}, regions=(body,))


def _argmax_body(dtype: str) -> Graph:
    kinds = [TensorType((), dtype), TensorType((), "i32")] * 2
    body = Graph("greatest", [Value(kind, name) for kind, name in zip(kinds, "aibj", strict=True)])
    a, i, b, j = body.inputs
    mask = TensorType((), "i1")

    def compared(left: Value, right: Value, direction: str) -> Value:
        return body.add("compare", [left, right], [mask], {"direction": direction, "compare_type": ""}).result

    tie = body.add("and", [compared(a, b, "EQ"), compared(i, j, "LT")], [mask]).result
    first = body.add("or", [compared(a, b, "GT"), tie], [mask]).result
    body.outputs = [body.add("select", [first, *pair], [pair[0].type]).result for pair in ((a, b), (i, j))]
    return body


def dot(writer: Writer) -> None:
    """Append a contraction of one or two dims with a new operand, which may have a batch dim and a free dim."""
    if value := writer.pick(has_type(*NUMBERS, *writer.variety.more, rank=1), empty=True):
        sizes = value.type.sizes
        dims = writer.order(len(sizes))
        depth = 2 if len(dims) > 1 and writer.chance(0.2) else 1
        contracted, batch = dims[:depth], dims[depth : depth + 1] if writer.chance(0.4) else []
        columns = writer.shape(1) if writer.chance(0.8) else ()
        shared_dims = [*batch, *contracted]
        shape = [*(sizes[d] for d in shared_dims), *columns]
        order = writer.order(len(shape))
        free = [sizes[d] for d in range(len(sizes)) if d not in shared_dims]
        if math.prod([*(sizes[d] for d in batch), *free, *columns]) > MAX_ELEMENTS or math.prod(shape) > MAX_ELEMENTS:
            return
        right = writer.new_input(value.type.with_shape(shape[d] for d in order))
        positions = tuple(order.index(index) for index in range(len(shared_dims)))
        attrs = {
            "lhs_batch": tuple(batch), "rhs_batch": positions[: len(batch)], "lhs_contract": tuple(contracted),
            "rhs_contract": positions[len(batch) :], "precision": ("DEFAULT", "DEFAULT"),
        }  # fmt: skip
        if writer.chance(0.7):
            writer.add("dot_general", [value, right], None, attrs, rounds=rounded(value))
            return
        swapped = {
            key.replace("lhs", "other").replace("rhs", "lhs").replace("other", "rhs"): v for key, v in attrs.items()
        }
        writer.add("dot_general", [right, value], None, swapped, rounds=rounded(value))


def square(writer: Writer) -> None:
    """Append a product of a matrix with itself, so that one value has two different uses."""
    if value := writer.pick(lambda v: v.type.dtype in ("f32", "i32") and v.type.rank == 2):
        dim = writer.integer(0, 2)
        attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (dim,), "rhs_contract": (dim,),
                 "precision": ("DEFAULT", "DEFAULT")}  # fmt: skip
        writer.add("dot_general", [value, value], None, attrs, rounds=floats(value))


def ragged(writer: Writer) -> None:
    """Append a ragged dot: the positions where groups of rows begin are run-time data.

    Either each group is contracted over its rows, or each group is multiplied by another matrix. A second ragged dot
    may follow.
    """
    if value := writer.pick(has_type(*NUMBERS, rank=2, most=2), empty=True):
        (rows, width), (groups, columns) = value.type.sizes, writer.shape(2)
        if groups * max(width, rows) * columns > MAX_ELEMENTS:
            return
        contracts, disjoint = writer.chance(0.4), writer.chance(0.5)
        bounds = _consecutive(writer, groups) if disjoint else _anywhere(writer, groups)
        attrs = {"contracts": contracts, "precision": ("DEFAULT", "DEFAULT"), "disjoint": disjoint}
        shape = (rows, columns) if contracts else (groups, width, columns)
        right = writer.new_input(value.type.with_shape(shape))
        product = writer.add("ragged_dot", [value, right, *bounds], None, attrs, rounds=rounded(value))
        if not contracts and writer.chance(0.5):
            back = writer.new_input(value.type.with_shape((groups, columns, width)))
            hidden = writer.add("negate", [writer.add("maximum", [product, writer.partner(product)])])
            writer.add("ragged_dot", [hidden, back, *bounds], None, attrs, rounds=rounded(value))


def _consecutive(writer: Writer, groups: int) -> list[Value]:
    """Return random start and end rows of consecutive groups. Some groups end after the last row."""
    bounds_type, square = TensorType((groups,), "i32"), TensorType((groups, groups), "i32")
    sizes = writer.new_input(bounds_type)
    upper = writer.add("constant", [], square, {"value": np.triu(np.ones((groups, groups), np.int32))})
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (0,), "rhs_contract": (0,), "precision": ()}
    ends = writer.add("dot_general", [sizes, upper], bounds_type, attrs)
    return [writer.add("subtract", [ends, sizes]), ends]


def _anywhere(writer: Writer, groups: int) -> list[Value]:
    """Return random start and end rows of groups. Some groups are empty, overlap, or reach beyond the first or last
    row.
    """
    bounds_type = TensorType((groups,), "i32")
    starts = writer.add("subtract", [writer.new_input(bounds_type), writer.constant(bounds_type)])
    return [starts, writer.add("add", [starts, writer.new_input(bounds_type)])]


OPS = (reduce, reduce, reduce, normalize, argmax, dot, dot, dot, square)
