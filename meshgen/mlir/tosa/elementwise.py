"""Importers of tosa's element-wise operations, in which dims of size 1 are broadcast, and of `rescale`."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import TensorType, Value, is_float, is_inexact
from meshgen.mlir.arith.builder import Builder, all_computed, computed, mnemonic
from meshgen.mlir.arith.elementwise import apply_operation, scaled
from meshgen.mlir.arith.functions import ignoring_nan
from meshgen.mlir.constants import dense_array
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.tosa.operations import ELEMENTWISE
from meshgen.ops.evaluate.common import integer_range


def broadcast_to_result(b: Builder, value: Value) -> Value:
    """Broadcast `value` to the shape of the operation's result: dims of size 1 are expanded, and leading dims are
    added.
    """
    shape, result = value.type.shape, b.result.shape
    new_dims = len(result) - len(shape)
    if new_dims < 0 or any(size not in (1, wide) for size, wide in zip(shape, result[new_dims:], strict=True)):
        raise Refused("MG0104", f"{value.type} cannot be broadcast to {b.result}")
    if shape == result:
        return value
    kept = [d for d, size in enumerate(shape) if size != 1 or result[new_dims + d] == 1]
    if len(kept) != len(shape):
        value = b.emit("reshape", [value], value.type.with_shape(shape[d] for d in kept))
    return b.broadcast(value, result, [new_dims + d for d in kept])


def ignores_nan(b: Builder) -> bool:
    """Whether the operation has `nan_mode = IGNORE` and operates on floats."""
    return b.word("nan_mode") == "IGNORE" and is_float(b.importer.type(b.source.operands[0]).dtype)


def replace_nan(b: Builder, number: Value, value: Value) -> Value:
    """Return `value` with each NaN replaced by `number`, a 0-d value."""
    return b.select(b.compare("NE", value, value), b.broadcast(number, value.type.shape), value)


def _elementwise(b: Builder, *operands: Value) -> Sequence[Value]:
    values = [broadcast_to_result(b, value) for value in operands]
    if mnemonic(b.source) in ("maximum", "minimum") and ignores_nan(b):
        return [ignoring_nan(b, mnemonic(b.source), *values)]
    results = apply_operation(b, b.source, values)
    assert results is not None, "the table has element-wise operations only"
    return results


def _mul(b: Builder, left: Value, right: Value, *_: Value) -> Value:
    """Emit a product. The third operand, if nonzero, is the amount by which an i32 product is shifted right, with
    rounding.
    """
    values = [broadcast_to_result(b, left), broadcast_to_result(b, right)]
    if has_zero_operands(b, 2) and not b.number("shift"):
        return b.apply("multiply", *(b.convert(x, b.result.dtype) for x in values))
    shift_operands = b.source.operands[2:]
    shift = dense_array(shift_operands[0]) if shift_operands else None
    if shift_operands and (shift is None or shift.size != 1):
        raise Refused("MG0103", "the shift must be a constant")
    amount = int(b.number("shift") or 0 if shift is None else shift.flat[0])
    if not 0 < amount < 64:
        raise Refused("MG0104", f"the shift must be from 1 to 63, got {amount}")
    product = b.apply("multiply", *(b.convert(x, "i64") for x in values))
    rounded = b.apply("add", product, _i64(b, 1 << (amount - 1)))
    return b.convert(b.apply("shift_right_arithmetic", rounded, _i64(b, amount)), b.result.dtype)


def _negate(b: Builder, value: Value, *zeros: Value) -> Value:
    """Emit a negation. The operands in `zeros` are the zero points of operand and result; for floats they must be 0."""
    dtype = b.result.dtype
    if is_inexact(dtype):
        zero_points = [array for zero in b.source.operands[1:] if (array := dense_array(zero)) is not None]
        if any(array.any() for array in zero_points):
            raise Refused("MG0104", f"the zero points of {dtype} must be 0")
        return b.apply("negate", value)
    # The lowest i8 and i16 (-128 and -32768) have no negation in the type: the result saturates.
    has_opposites = dtype not in ("i8", "i16")
    if has_zero_operands(b, 1) and has_opposites:
        return b.apply("negate", value)
    before = _i64(b, 0)
    for zero in zeros:
        before = b.apply("add", before, b.reshape(b.convert(zero, "i64"), ()))
    total = b.apply("subtract", *b.together([before, b.convert(value, "i64")]))
    low, high = (_i64(b, end) for end in integer_range(dtype))
    return b.convert(b.emit("clamp", [low, total, high], total.type), dtype)


def has_zero_operands(b: Builder, first: int, count: int | None = None) -> bool:
    """Whether the operands from index `first` on, at most `count` of them, are constants that are all 0.

    True if the operation lacks such operands.
    """
    operands = b.source.operands[first : None if count is None else first + count]
    return all((array := dense_array(value)) is not None and not array.any() for value in operands)


def subtract_zero_point(b: Builder, number: int, value: Value, dtype: str) -> Value:
    """Subtract the zero point, which is operand `number` if the operation has it, in the type `dtype`.

    If the zero point is missing or 0, `value` is returned unchanged, in its own type.
    """
    if has_zero_operands(b, number, 1):
        return value
    zero = b.reshape(b.convert(b.importer.value(b.source.operands[number]), dtype), ())
    return b.apply("subtract", b.convert(value, dtype), zero)


def _clamp(b: Builder, value: Value) -> Value:
    # Older texts have separate attributes for floats (`min_fp`) and integers (`min_int`).
    kind = "fp" if is_float(value.type.dtype) else "int"
    bounds = [b.number(f"{end}_val" if b.attribute(f"{end}_val") else f"{end}_{kind}") for end in ("min", "max")]
    ends = [bound for bound in bounds if bound is not None]
    if len(ends) < 2:
        raise Refused("MG0104", "needs min_val and max_val")
    low, high = (b.constant(bound, value.type.with_shape(())) for bound in ends)
    if ignores_nan(b):
        value = replace_nan(b, low, value)
    return b.emit("clamp", [low, value, high], value.type)


def _cast(b: Builder, value: Value) -> Value:
    """Emit a cast. From floats to integers it rounds to the nearest integer, and ties to the even one."""
    dtype = b.result.dtype
    if value.type.dtype.startswith(("f", "bf")) and dtype.startswith(("i", "ui")) and dtype != "i1":
        value = b.apply("round_nearest_even", value)
    return b.convert(value, dtype)


def _rescale(b: Builder, *operands: Value) -> Value:
    """Emit `(x - input zero point) * multiplier / 2^shift + output zero point`, rounded and clamped to the result's
    range.
    """
    values = list(operands)
    for index, side in ((0, "input"), (3, "input"), (4, "output")):
        if b.number(f"{side}_unsigned"):
            values[index] = b.bits(values[index], f"u{values[index].type.dtype}")
    value, factor, shift, input_zero, output_zero = (b.convert(x, "i64") for x in values)
    shape = value.type.shape
    factor, shift = (
        b.broadcast(x, shape, (len(shape) - 1,)) if b.number("per_channel") else b.reshape(x, ())
        for x in (factor, shift)
    )
    value = b.apply("subtract", value, b.reshape(input_zero, ()))
    rescaled = b.apply("add", scaled(b, b.source, value, factor, shift), b.reshape(output_zero, ()))
    # The zero point of the output has the type of the result, or its unsigned counterpart.
    dtype = values[4].type.dtype
    low, high = (_i64(b, end) for end in integer_range(dtype))
    return b.bits(b.convert(b.apply("minimum", b.apply("maximum", rescaled, low), high), dtype), b.result.dtype)


def _i64(b: Builder, number: int) -> Value:
    return b.constant(number, TensorType((), "i64"))


PART = Dialect(
    importers={
        **{operation.name: computed(_elementwise) for operation in ELEMENTWISE},
        **all_computed("tosa", {"mul": _mul, "negate": _negate, "clamp": _clamp, "cast": _cast, "rescale": _rescale}),
    }
)
