"""Reader of tosa's element-wise operations, which stretch dims of size 1 to the result's size, and of its products and movements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import TensorType, Value, is_float, is_inexact
from meshgen.mlir.arith.elementwise import BINARY, TOSA_COMPARE, UNARY, apply_operation
from meshgen.mlir.arith.functions import ignoring_nan
from meshgen.mlir.arith.payload import Builder, finish, mnemonic, scalar_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.structured import refuse
from meshgen.mlir.operation_signature import attribute_of
from meshgen.mlir.stablehlo.attributes import integers
from meshgen.mlir.tosa.operations import OPERATIONS
from meshgen.ops.evaluate.common import integer_range, neutral
from meshgen.ops.precision import EXACT

REDUCTIONS = {
    "reduce_sum": "add", "reduce_max": "maximum", "reduce_min": "minimum", "reduce_product": "multiply", "reduce_prod": "multiply",
    "reduce_any": "or", "reduce_all": "and",
}  # fmt: skip
ELEMENTWISE = [
    *(word for word in (*UNARY, *BINARY, *TOSA_COMPARE, "select", "reciprocal", "arithmetic_right_shift", "apply_scale")
      if f"tosa.{word}" in {operation.name for operation in OPERATIONS} and word not in ("mul", "negate")),
]  # fmt: skip


def stretched(builder: Builder, value: Value, kind: TensorType) -> Value:
    """The value in the result's shape; its dims of size 1 are stretched, missing major dims added."""
    if value.type.shape == kind.shape:
        return value
    shape = value.type.shape
    ahead = kind.rank - len(shape)
    kept = [d for d, size in enumerate(shape) if size != 1 or kind.shape[ahead + d] == 1]
    if len(kept) != len(shape):
        value = builder.emit("reshape", [value], value.type.with_shape(shape[d] for d in kept))
    return builder.broadcast(value, kind.shape, [ahead + d for d in kept])


def _stretchable(value: Value, kind: TensorType) -> bool:
    shape = value.type.shape
    tail = kind.shape[kind.rank - len(shape) :]
    return len(shape) <= kind.rank and all(a in (1, b) for a, b in zip(shape, tail, strict=True))


def _shaped(importer: Importer, op: Operation, operands: Sequence[SSAValue]) -> list[Value] | None:
    """The operands in the result's shape; a fault where they do not fit."""
    kind, values = importer.type(op.results[0]), importer.values(operands)
    if wrong := [value.type for value in values if not _stretchable(value, kind)]:
        importer.fault("MG0104", f"{op.name}: {wrong[0]} cannot be broadcast to {kind}", op)
        refuse(importer, op)
        return None
    builder = Builder(importer, op)
    return [stretched(builder, value, kind) for value in values]


def ignores_nan(importer: Importer, op: Operation) -> bool:
    """Whether NaNs are ignored; False for types that are not floats."""
    mode = attribute_of(op, "nan_mode")
    ignores_nan = isinstance(mode, StringAttr) and mode.data == "IGNORE"
    return ignores_nan and is_float(importer.type(op.operands[0]).dtype)


def not_a_number_as(builder: Builder, number: Value, value: Value) -> Value:
    """The value with a number in the place of each NaN."""
    return builder.select(builder.compare("NE", value, value), builder.broadcast(number, value.type.shape), value)


def import_elementwise(importer: Importer, op: Operation) -> None:
    values = _shaped(importer, op, op.operands)
    if values is not None and mnemonic(op) in ("maximum", "minimum") and ignores_nan(importer, op):
        finish(importer, op, ignoring_nan(Builder(importer, op), mnemonic(op), *values))
    elif values is not None:
        found = apply_operation(Builder(importer, op), op, values)
        assert found is not None, "the table has element-wise operations only"
        finish(importer, op, found[0])


def import_mul(importer: Importer, op: Operation) -> None:
    """The third operand is how far an i32 product is shifted right, with rounding."""
    values = _shaped(importer, op, op.operands[:2])
    if values is None:
        return
    builder = Builder(importer, op)
    if is_zero(op.operands[2:]) and not scalar_of(attribute_of(op, "shift")):
        finish(importer, op, builder.apply("multiply", *(builder.convert(x, importer.type(op.results[0]).dtype) for x in values)))  # fmt: skip
        return
    shift = _array(op.operands[2]) if len(op.operands) > 2 else np.asarray(scalar_of(attribute_of(op, "shift")))
    if shift is None or shift.size != 1:
        importer.fault("MG0103", "tosa.mul: the shift must be a constant", op)
        refuse(importer, op)
        return
    amount, scalar = int(shift.flat[0]), TensorType((), "i64")
    if not 0 < amount < 64:
        importer.fault("MG0104", f"tosa.mul: the shift must be from 1 to 63, got {amount}", op)
        refuse(importer, op)
        return
    product = builder.apply("multiply", *(builder.convert(x, "i64") for x in values))
    rounded = builder.apply("add", product, builder.constant(1 << (amount - 1), scalar))
    found = builder.apply("shift_right_arithmetic", rounded, builder.constant(amount, scalar))
    finish(importer, op, builder.convert(found, importer.type(op.results[0]).dtype))


def import_negate(importer: Importer, op: Operation) -> None:
    """Further operands are zero points: those of the operand and of the result. Only integers have other ones than 0."""
    builder, kind = Builder(importer, op), importer.type(op.results[0])
    if is_inexact(kind.dtype):
        known = [array for zero in op.operands[1:] if (array := _array(zero)) is not None]
        if any(array.any() for array in known):
            importer.fault("MG0104", f"{op.name}: the zero points of {kind.dtype} must be 0", op)
        finish(importer, op, builder.apply("negate", importer.value(op.operands[0])))
        return
    has_opposites = kind.dtype not in ("i8", "i16")  # of these the least has none: the greatest stands for it
    if is_zero(op.operands[1:]) and has_opposites:
        finish(importer, op, builder.apply("negate", importer.value(op.operands[0])))
        return
    value, *zeros = (builder.convert(x, "i64") for x in importer.values(op.operands))
    before = _sum_of(builder, [builder.constant(0, TensorType((), "i64")), *(builder.reshape(x, ()) for x in zeros)])
    total = builder.apply("subtract", *builder.together([before, value]))
    ends = [builder.constant(end, TensorType((), "i64")) for end in integer_range(kind.dtype)]
    finish(importer, op, builder.convert(builder.emit("clamp", [ends[0], total, ends[1]], total.type), kind.dtype))


def _sum_of(builder: Builder, values: Sequence[Value]) -> Value:
    first, *others = values
    for other in others:
        first = builder.apply("add", first, other)
    return first


def fits(importer: Importer, op: Operation, *ranks: int) -> bool:
    """Whether the first operands have these ranks, and the result that of the first; a fault where not."""
    kinds = [importer.type(value) for value in (*op.operands[: len(ranks)], *op.results)]
    if [kind.rank for kind in kinds] == [*ranks, ranks[0]]:
        return True
    message = (
        f"{op.name}: ({', '.join(map(str, kinds[:-1]))}) -> {kinds[-1]} must have ranks {list(ranks)} -> {ranks[0]}"
    )
    importer.fault("MG0104", message, op)
    refuse(importer, op)
    return False


def is_zero(values: Sequence[SSAValue]) -> bool:
    """Whether values are constants of zeros; also where there are none."""
    return all((array := _array(value)) is not None and not array.any() for value in values)


def without_zero(importer: Importer, op: Operation, number: int, value: Value, dtype: str) -> Value:
    """An operand less its zero point, which is operand `number` where it is given; in type `dtype` unless that is 0."""
    if len(op.operands) <= number or is_zero(op.operands[number : number + 1]):
        return value
    builder = Builder(importer, op)
    zero = builder.reshape(builder.convert(importer.value(op.operands[number]), dtype), ())
    return builder.apply("subtract", builder.convert(value, dtype), zero)


def _array(value: SSAValue) -> np.ndarray | None:
    owner = value.owner
    dense = attribute_of(owner, "values") or attribute_of(owner, "value") if isinstance(owner, Operation) else None
    return dense.data.array if isinstance(dense, DenseElements) else None


def axis_of(op: Operation) -> int:
    axis = attribute_of(op, "axis")
    return axis.value.data if isinstance(axis, IntegerAttr) else 0


def import_clamp(importer: Importer, op: Operation) -> None:
    builder, value = Builder(importer, op), importer.value(op.operands[0])
    kind = "fp" if is_float(value.type.dtype) else "int"  # older text has a pair of attributes for each kind
    low, high = (
        scalar_of(attribute_of(op, f"{end}_val") or attribute_of(op, f"{end}_{kind}")) for end in ("min", "max")
    )
    if low is None or high is None:
        importer.fault("MG0104", "tosa.clamp needs min_val and max_val", op)
        refuse(importer, op)
        return
    bounds = [builder.constant(number, value.type.with_shape(())) for number in (low, high)]
    if ignores_nan(importer, op):
        value = not_a_number_as(builder, bounds[0], value)
    finish(importer, op, builder.emit("clamp", [bounds[0], value, bounds[1]], value.type))


def import_cast(importer: Importer, op: Operation) -> None:
    """Floats become integers by rounding to the nearest even."""
    builder, value, kind = Builder(importer, op), importer.value(op.operands[0]), importer.type(op.results[0])
    if value.type.dtype.startswith(("f", "bf")) and kind.dtype.startswith(("i", "ui")) and kind.dtype != "i1":
        value = builder.apply("round_nearest_even", value)
    finish(importer, op, builder.convert(value, kind.dtype))


def import_const(importer: Importer, op: Operation) -> None:
    array = _array(op.results[0])
    if array is None:
        importer.fault("MG0103", "only dense constants are supported", op, "write the data into the text")
        refuse(importer, op)
        return
    finish(importer, op, Builder(importer, op).emit("constant", [], importer.type(op.results[0]), value=array))


def import_const_shape(importer: Importer, op: Operation) -> None:
    """Read where it is used."""
    del importer, op


def shape_of(op: Operation, number: int, name: str) -> tuple[int, ...] | None:
    """The numbers of a `tosa.const_shape`, or constant, that is operand `number`; in older text the attribute `name`."""
    if (attribute := attribute_of(op, name)) is not None:
        return integers(attribute)
    array = _array(op.operands[number]) if len(op.operands) > number else None
    return None if array is None else tuple(int(n) for n in array.flat)


def import_matmul(importer: Importer, op: Operation) -> None:
    """Batched product; operands 2 and 3 are zero points."""
    if not fits(importer, op, 3, 3):
        return
    kind = importer.type(op.results[0])
    values = [without_zero(importer, op, 2 + n, x, kind.dtype) for n, x in enumerate(importer.values(op.operands[:2]))]
    numbers = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (1,)}
    finish(importer, op, Builder(importer, op).emit("dot_general", values, kind, **numbers, precision=EXACT))


def import_reduce(importer: Importer, op: Operation) -> None:
    """A reduction that keeps its dim with size 1."""
    builder, value, axis = Builder(importer, op), importer.value(op.operands[0]), axis_of(op)
    kind, result = REDUCTIONS[mnemonic(op)], importer.type(op.results[0])
    if not 0 <= axis < value.type.rank:
        importer.fault("MG0104", f"{op.name}: axis {axis} is out of range for {value.type}", op)
        refuse(importer, op)
        return
    init = builder.constant(neutral(kind, value.type.dtype).item(), value.type.with_shape(()))
    shape = value.type.with_shape(size for d, size in enumerate(value.type.shape) if d != axis)
    ignores = ignores_nan(importer, op)
    numbers = not_a_number_as(builder, init, value) if ignores else value
    found = builder.emit("reduce", [numbers, init], shape, dims=(axis,), kind=kind)
    if ignores:  # NaN where all elements are NaN
        is_nan, yes = builder.compare("NE", value, value), builder.constant(True, TensorType((), "i1"))
        alone = builder.emit("reduce", [is_nan, yes], TensorType(shape.shape, "i1"), dims=(axis,), kind="and")
        nan = builder.broadcast(builder.constant(np.nan, found.type.with_shape(())), found.type.shape)
        found = builder.select(alone, nan, found)
    finish(importer, op, builder.emit("reshape", [found], result))


def import_transpose(importer: Importer, op: Operation) -> None:
    order = integers(attribute_of(op, "perms"))
    value, kind = importer.value(op.operands[0]), importer.type(op.results[0])
    finish(importer, op, Builder(importer, op).emit("transpose", [value], kind, perm=order))


def import_reshape(importer: Importer, op: Operation) -> None:
    """The second operand only repeats the result's shape."""
    value, kind = importer.value(op.operands[0]), importer.type(op.results[0])
    finish(importer, op, Builder(importer, op).emit("reshape", [value], kind))


def import_concat(importer: Importer, op: Operation) -> None:
    values, kind = importer.values(op.operands), importer.type(op.results[0])
    finish(importer, op, Builder(importer, op).emit("concatenate", values, kind, dim=axis_of(op)))


def import_reverse(importer: Importer, op: Operation) -> None:
    value = importer.value(op.operands[0])
    finish(importer, op, Builder(importer, op).emit("reverse", [value], value.type, dims=(axis_of(op),)))


def import_slice(importer: Importer, op: Operation) -> None:
    value, kind = importer.value(op.operands[0]), importer.type(op.results[0])
    start, size = shape_of(op, 1, "start"), shape_of(op, 2, "size")
    if start is None or size is None:
        importer.fault("MG0103", "tosa.slice needs start and size from tosa.const_shape", op)
        refuse(importer, op)
        return
    limit = tuple(a + n for a, n in zip(start, size, strict=False))
    stride = (1,) * len(start)
    finish(importer, op, Builder(importer, op).emit("slice", [value], kind, start=start, limit=limit, stride=stride))


def import_pad(importer: Importer, op: Operation) -> None:
    """The second operand holds (before, after) per dim, the third the value, else it is 0."""
    value, kind = importer.value(op.operands[0]), importer.type(op.results[0])
    amounts, builder = shape_of(op, 1, "padding"), Builder(importer, op)
    if amounts is None or len(amounts) != 2 * value.type.rank:
        importer.fault("MG0103", "tosa.pad needs two paddings per dim from tosa.const_shape", op)
        refuse(importer, op)
        return
    scalar = value.type.with_shape(())
    fill = builder.reshape(importer.value(op.operands[2]), ()) if len(op.operands) > 2 else builder.constant(0, scalar)
    interior = (0,) * kind.rank
    found = builder.emit("pad", [value, fill], kind, low=amounts[::2], high=amounts[1::2], interior=interior)
    finish(importer, op, found)


PART = Dialect(
    importers={
        "tosa.mul": import_mul,
        "tosa.negate": import_negate,
        "tosa.clamp": import_clamp,
        "tosa.cast": import_cast,
        "tosa.const": import_const,
        "tosa.const_shape": import_const_shape,
        "tosa.matmul": import_matmul,
        "tosa.transpose": import_transpose,
        "tosa.reshape": import_reshape,
        "tosa.concat": import_concat,
        "tosa.reverse": import_reverse,
        "tosa.slice": import_slice,
        "tosa.pad": import_pad,
        **dict.fromkeys((f"tosa.{word}" for word in ELEMENTWISE), import_elementwise),
        **dict.fromkeys((f"tosa.{word}" for word in REDUCTIONS), import_reduce),
    }
)
