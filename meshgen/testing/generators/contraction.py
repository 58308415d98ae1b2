"""Reductions and products."""

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
    """`x / sum(|x|)` along one dim."""
    if value := writer.pick(writer.reals(rank=1), empty=True):
        dim, init = writer.integer(0, value.type.rank), writer.scalar(1, value.type.dtype)
        total = writer.add(
            "reduce", [writer.add("abs", [value]), init], None, {"dims": (dim,), "kind": "add"}, rounds=True
        )
        dims = tuple(d for d in range(value.type.rank) if d != dim)
        writer.add("divide", [value, writer.add("broadcast_in_dim", [total], value.type, {"dims": dims})])


def greatest(writer: Writer) -> None:
    """argmax along one dim: the value and its index, the first of equal ones."""
    if value := writer.pick(writer.numbers(rank=1), exact=True, empty=True):
        dim = writer.integer(0, value.type.rank)
        places = writer.add("iota", [], TensorType(value.type.shape, "i32"), {"dim": dim})
        inits = [writer.scalar(lowest(value.type.dtype), value.type.dtype), writer.scalar(1000, "i32")]
        body = _first_of_greatest(value.type.dtype)
        writer.add("reduce_region", [value, places, *inits], None, {"dims": (dim,)}, regions=(body,))


def _first_of_greatest(dtype: str) -> Graph:
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
    """Contracts one or two dims with a new operand that has up to one batch dim and a free dim, in any order."""
    if value := writer.pick(has_type(*NUMBERS, *writer.variety.more, rank=1), empty=True):
        sizes = value.type.sizes
        dims = writer.order(len(sizes))
        depth = 2 if len(dims) > 1 and writer.chance(0.2) else 1
        contracted, batch = dims[:depth], dims[depth : depth + 1] if writer.chance(0.4) else []
        columns = writer.shape(1) if writer.chance(0.8) else ()
        tied = [*batch, *contracted]
        shape = [*(sizes[d] for d in tied), *columns]
        order = writer.order(len(shape))
        free = [sizes[d] for d in range(len(sizes)) if d not in tied]
        if math.prod([*(sizes[d] for d in batch), *free, *columns]) > MAX_ELEMENTS or math.prod(shape) > MAX_ELEMENTS:
            return
        other = writer.new_input(value.type.with_shape(shape[d] for d in order))
        places = tuple(order.index(number) for number in range(len(tied)))
        attrs = {
            "lhs_batch": tuple(batch), "rhs_batch": places[: len(batch)], "lhs_contract": tuple(contracted),
            "rhs_contract": places[len(batch) :], "precision": ("DEFAULT", "DEFAULT"),
        }  # fmt: skip
        if writer.chance(0.7):
            writer.add("dot_general", [value, other], None, attrs, rounds=rounded(value))
            return
        turned = {
            key.replace("lhs", "other").replace("rhs", "lhs").replace("other", "rhs"): v for key, v in attrs.items()
        }
        writer.add("dot_general", [other, value], None, turned, rounds=rounded(value))


def square(writer: Writer) -> None:
    """A matrix times itself: one value, used in two ways."""
    if value := writer.pick(lambda v: v.type.dtype in ("f32", "i32") and v.type.rank == 2):
        dim = writer.integer(0, 2)
        attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (dim,), "rhs_contract": (dim,),
                 "precision": ("DEFAULT", "DEFAULT")}  # fmt: skip
        writer.add("dot_general", [value, value], None, attrs, rounds=floats(value))


def ragged(writer: Writer) -> None:
    """Groups of rows at positions that are data, contracted or by the matrices of their groups; or a product of these with others."""
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
    """Where groups start and end, each after the one before; some end after the last row."""
    kind, square = TensorType((groups,), "i32"), TensorType((groups, groups), "i32")
    sizes = writer.new_input(kind)
    upper = writer.add("constant", [], square, {"value": np.triu(np.ones((groups, groups), np.int32))})
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (0,), "rhs_contract": (0,), "precision": ()}
    ends = writer.add("dot_general", [sizes, upper], kind, attrs)
    return [writer.add("subtract", [ends, sizes]), ends]


def _anywhere(writer: Writer, groups: int) -> list[Value]:
    """Bounds of groups of which some are empty, some have rows in common, and some begin before the first row or end after the last."""
    kind = TensorType((groups,), "i32")
    starts = writer.add("subtract", [writer.new_input(kind), writer.constant(kind)])
    return [starts, writer.add("add", [starts, writer.new_input(kind)])]


OPS = (reduce, reduce, reduce, normalize, greatest, dot, dot, dot, square)
