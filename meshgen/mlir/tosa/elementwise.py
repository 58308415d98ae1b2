"""Element-wise operations of tosa, which stretch dims of size 1 to the result's size; and rescale."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import TensorType, Value, is_float, is_inexact
from meshgen.mlir.arith.elementwise import apply_operation, scaled
from meshgen.mlir.arith.functions import ignoring_nan
from meshgen.mlir.arith.payload import Builder, all_computed, computed, mnemonic
from meshgen.mlir.constants import dense_array
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.tosa.operations import ELEMENTWISE
from meshgen.ops.evaluate.common import integer_range


def stretched(b: Builder, value: Value) -> Value:
    """The value in the result's shape: its dims of size 1 are stretched, and missing major dims added."""
    shape, result = value.type.shape, b.result.shape
    ahead = len(result) - len(shape)
    if ahead < 0 or any(size not in (1, wide) for size, wide in zip(shape, result[ahead:], strict=True)):
        raise Refused("MG0104", f"{value.type} cannot be broadcast to {b.result}")
    if shape == result:
        return value
    kept = [d for d, size in enumerate(shape) if size != 1 or result[ahead + d] == 1]
    if len(kept) != len(shape):
        value = b.emit("reshape", [value], value.type.with_shape(shape[d] for d in kept))
    return b.broadcast(value, result, [ahead + d for d in kept])


def ignores_nan(b: Builder) -> bool:
    """Whether the operation ignores NaNs; False for types that are not floats."""
    return b.word("nan_mode") == "IGNORE" and is_float(b.importer.type(b.source.operands[0]).dtype)


def not_a_number_as(b: Builder, number: Value, value: Value) -> Value:
    """The value with a number in the place of each NaN."""
    return b.select(b.compare("NE", value, value), b.broadcast(number, value.type.shape), value)


def _elementwise(b: Builder, *operands: Value) -> Sequence[Value]:
    values = [stretched(b, value) for value in operands]
    if mnemonic(b.source) in ("maximum", "minimum") and ignores_nan(b):
        return [ignoring_nan(b, mnemonic(b.source), *values)]
    found = apply_operation(b, b.source, values)
    assert found is not None, "the table has element-wise operations only"
    return found


def _mul(b: Builder, left: Value, right: Value, *_: Value) -> Value:
    """The third operand is how far an i32 product is shifted right, with rounding."""
    values = [stretched(b, left), stretched(b, right)]
    if has_zeros(b, 2) and not b.number("shift"):
        return b.apply("multiply", *(b.convert(x, b.result.dtype) for x in values))
    given = b.source.operands[2:]
    shift = dense_array(given[0]) if given else None
    if given and (shift is None or shift.size != 1):
        raise Refused("MG0103", "the shift must be a constant")
    amount = int(b.number("shift") or 0 if shift is None else shift.flat[0])
    if not 0 < amount < 64:
        raise Refused("MG0104", f"the shift must be from 1 to 63, got {amount}")
    product = b.apply("multiply", *(b.convert(x, "i64") for x in values))
    rounded = b.apply("add", product, _i64(b, 1 << (amount - 1)))
    return b.convert(b.apply("shift_right_arithmetic", rounded, _i64(b, amount)), b.result.dtype)


def _negate(b: Builder, value: Value, *zeros: Value) -> Value:
    """Further operands are zero points: those of the operand and of the result. Only integers have other ones than 0."""
    dtype = b.result.dtype
    if is_inexact(dtype):
        known = [array for zero in b.source.operands[1:] if (array := dense_array(zero)) is not None]
        if any(array.any() for array in known):
            raise Refused("MG0104", f"the zero points of {dtype} must be 0")
        return b.apply("negate", value)
    has_opposites = dtype not in ("i8", "i16")  # the least i8 and i16 have none: the greatest stands for it
    if has_zeros(b, 1) and has_opposites:
        return b.apply("negate", value)
    before = _i64(b, 0)
    for zero in zeros:
        before = b.apply("add", before, b.reshape(b.convert(zero, "i64"), ()))
    total = b.apply("subtract", *b.together([before, b.convert(value, "i64")]))
    low, high = (_i64(b, end) for end in integer_range(dtype))
    return b.convert(b.emit("clamp", [low, total, high], total.type), dtype)


def has_zeros(b: Builder, first: int, count: int | None = None) -> bool:
    """Whether `count` operands of the operation from number `first` on are constants of zeros; also where there are none."""
    given = b.source.operands[first : None if count is None else first + count]
    return all((array := dense_array(value)) is not None and not array.any() for value in given)


def without_zero(b: Builder, number: int, value: Value, dtype: str) -> Value:
    """An operand less its zero point, which is operand `number` where it is given; in type `dtype` unless that is 0."""
    if has_zeros(b, number, 1):
        return value
    zero = b.reshape(b.convert(b.importer.value(b.source.operands[number]), dtype), ())
    return b.apply("subtract", b.convert(value, dtype), zero)


def _clamp(b: Builder, value: Value) -> Value:
    kind = "fp" if is_float(value.type.dtype) else "int"  # older text has a pair of attributes for each kind
    found = [b.number(f"{end}_val" if b.attribute(f"{end}_val") else f"{end}_{kind}") for end in ("min", "max")]
    ends = [number for number in found if number is not None]
    if len(ends) < 2:
        raise Refused("MG0104", "needs min_val and max_val")
    low, high = (b.constant(number, value.type.with_shape(())) for number in ends)
    if ignores_nan(b):
        value = not_a_number_as(b, low, value)
    return b.emit("clamp", [low, value, high], value.type)


def _cast(b: Builder, value: Value) -> Value:
    """Floats become integers by rounding to the nearest even."""
    dtype = b.result.dtype
    if value.type.dtype.startswith(("f", "bf")) and dtype.startswith(("i", "ui")) and dtype != "i1":
        value = b.apply("round_nearest_even", value)
    return b.convert(value, dtype)


def _rescale(b: Builder, *operands: Value) -> Value:
    """(x - zero) * multiplier / 2^shift, rounded, plus the other zero, within the result's range."""
    values = list(operands)
    for number, side in ((0, "input"), (3, "input"), (4, "output")):
        if b.number(f"{side}_unsigned"):
            values[number] = b.bits(values[number], f"u{values[number].type.dtype}")
    value, factor, shift, before, behind = (b.convert(x, "i64") for x in values)
    shape = value.type.shape
    factor, shift = (
        b.broadcast(x, shape, (len(shape) - 1,)) if b.number("per_channel") else b.reshape(x, ())
        for x in (factor, shift)
    )
    value = b.apply("subtract", value, b.reshape(before, ()))
    found = b.apply("add", scaled(b, b.source, value, factor, shift), b.reshape(behind, ()))
    dtype = values[4].type.dtype  # that of the zero point which is added: the result's, or unsigned of its width
    low, high = (_i64(b, end) for end in integer_range(dtype))
    return b.bits(b.convert(b.apply("minimum", b.apply("maximum", found, low), high), dtype), b.result.dtype)


def _i64(b: Builder, number: int) -> Value:
    return b.constant(number, TensorType((), "i64"))


PART = Dialect(
    importers={
        **{each.name: computed(_elementwise) for each in ELEMENTWISE},
        **all_computed("tosa", {"mul": _mul, "negate": _negate, "clamp": _clamp, "cast": _cast, "rescale": _rescale}),
    }
)
