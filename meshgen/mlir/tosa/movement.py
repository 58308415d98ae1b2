"""Importers of tosa's constants, reductions, matmul and data movement."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder, all_computed, computed, mnemonic
from meshgen.mlir.attributes import integers
from meshgen.mlir.constants import dense_array
from meshgen.mlir.conversion import Refused, import_nothing
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.tosa.elementwise import ignores_nan, replace_nan, subtract_zero_point
from meshgen.ops.evaluate.common import neutral

REDUCTIONS = {
    "reduce_sum": "add", "reduce_max": "maximum", "reduce_min": "minimum", "reduce_product": "multiply", "reduce_prod": "multiply",
    "reduce_any": "or", "reduce_all": "and",
}  # fmt: skip


def require_ranks(b: Builder, *ranks: int) -> None:
    """Raise Refused unless the first operands have the ranks `ranks`, and the result has the rank of the first operand."""
    kinds = [b.importer.type(value) for value in (*b.source.operands[: len(ranks)], *b.source.results)]
    if [kind.rank for kind in kinds] != [*ranks, ranks[0]]:
        signature = f"({', '.join(map(str, kinds[:-1]))}) -> {kinds[-1]}"
        raise Refused("MG0104", f"{signature} must have ranks {list(ranks)} -> {ranks[0]}")


def axis_of(b: Builder, value: Value) -> int:
    """Return the dim in the attribute `axis`. Raises Refused if `value` lacks such a dim."""
    axis = int(b.number("axis") or 0)
    if not 0 <= axis < value.type.rank:
        raise Refused("MG0104", f"axis {axis} is out of range for {value.type}")
    return axis


def shape_of(b: Builder, number: int, name: str) -> tuple[int, ...] | None:
    """Return the values of operand `number`, a `tosa.const_shape` or constant, or None if it is not constant.

    Older texts have an attribute `name` in place of the operand.
    """
    if (attribute := b.attribute(name)) is not None:
        return integers(attribute)
    array = dense_array(b.source.operands[number]) if len(b.source.operands) > number else None
    return None if array is None else tuple(int(n) for n in array.flat)


def _dense_constant(b: Builder) -> Value:
    array = dense_array(b.source.results[0])
    if array is None:
        raise Refused("MG0103", "only dense constants are supported", "write the data into the text")
    return b.emit("constant", [], b.result, value=array)


def _reduce(b: Builder, value: Value) -> Value:
    """Emit a reduction. The reduced dim remains, with size 1."""
    kind, axis = REDUCTIONS[mnemonic(b.source)], axis_of(b, value)
    init = b.constant(neutral(kind, value.type.dtype).item(), value.type.with_shape(()))
    shape = value.type.with_shape(size for d, size in enumerate(value.type.shape) if d != axis)
    ignores = ignores_nan(b)
    operand = replace_nan(b, init, value) if ignores else value
    reduced = b.emit("reduce", [operand, init], shape, dims=(axis,), kind=kind)
    if ignores:  # If NaN is ignored, the result is NaN only if all reduced elements are NaN.
        is_nan, yes = b.compare("NE", value, value), b.constant(True, TensorType((), "i1"))
        is_all_nan = b.emit("reduce", [is_nan, yes], TensorType(shape.shape, "i1"), dims=(axis,), kind="and")
        reduced = b.select(is_all_nan, b.broadcast(b.constant(np.nan, shape.with_shape(())), shape.shape), reduced)
    return b.emit("reshape", [reduced], b.result)


def _matmul(b: Builder, left: Value, right: Value, *_: Value) -> Value:
    """Emit a batched matmul. The third and fourth operand are the zero points of `left` and `right`."""
    require_ranks(b, 3, 3)
    left, right = (
        subtract_zero_point(b, 2 + index, value, b.result.dtype) for index, value in enumerate((left, right))
    )
    return b.dot(left, right, b.result, contract=((2,), (1,)), batch=((0,), (0,)))


def _slice(b: Builder, value: Value, *_: Value) -> Value:
    start, size = shape_of(b, 1, "start"), shape_of(b, 2, "size")
    if start is None or size is None:
        raise Refused("MG0103", "needs start and size from tosa.const_shape")
    limit = tuple(first + count for first, count in zip(start, size, strict=False))
    return b.emit("slice", [value], b.result, start=start, limit=limit, stride=(1,) * len(start))


def _pad(b: Builder, value: Value, *_: Value) -> Value:
    """Emit a padding. The second operand lists the amounts before and after each dim; the third is the padding value,
    or 0.
    """
    amounts, fills = shape_of(b, 1, "padding"), b.source.operands[2:]
    if amounts is None or len(amounts) != 2 * value.type.rank:
        raise Refused("MG0103", "needs two paddings per dim from tosa.const_shape")
    fill = b.reshape(b.importer.value(fills[0]), ()) if fills else b.constant(0, value.type.with_shape(()))
    interior = (0,) * b.result.rank
    return b.emit("pad", [value, fill], b.result, low=amounts[::2], high=amounts[1::2], interior=interior)


def _tile(b: Builder, value: Value, *_: Value) -> Value:
    """Repeat `value` along each dim: broadcast it along a new dim in front of that dim, and merge the two dims."""
    multiples = shape_of(b, 1, "multiples")
    if multiples is None or len(multiples) != value.type.rank:
        raise Refused("MG0103", "needs multiples from tosa.const_shape")
    parts = [[n, size] if n != 1 else [size] for n, size in zip(multiples, value.type.sizes, strict=True)]
    ends = np.cumsum([len(part) for part in parts])
    broadcast = b.broadcast(value, [size for part in parts for size in part], [int(end) - 1 for end in ends])
    return b.reshape(broadcast, b.result.shape)


PART = Dialect(
    importers={
        "tosa.const_shape": import_nothing,
        **{f"tosa.{word}": computed(_reduce) for word in REDUCTIONS},
        **all_computed("tosa", {
            "const": _dense_constant,
            "matmul": _matmul,
            "transpose": lambda b, x: b.emit("transpose", [x], b.result, perm=b.integers("perms")),
            # The second operand is the shape of the result, which its type already states.
            "reshape": lambda b, x, *_: b.emit("reshape", [x], b.result),
            "concat": lambda b, *xs: b.emit("concatenate", xs, b.result, dim=axis_of(b, xs[0])),
            "reverse": lambda b, x: b.emit("reverse", [x], x.type, dims=(axis_of(b, x),)),
            "slice": _slice,
            "pad": _pad,
            "tile": _tile,
        }),
    }
)  # fmt: skip
