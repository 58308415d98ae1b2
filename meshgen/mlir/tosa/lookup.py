"""Reader of tosa's operations that look elements up: argmax, gather, scatter, tile, resize; and rescale."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from meshgen.ir.graph import Graph, TensorType, Value, is_float
from meshgen.mlir.arith.elementwise import scaled
from meshgen.mlir.arith.payload import Builder, finish, scalar_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.structured import refuse
from meshgen.mlir.operation_signature import attribute_of
from meshgen.mlir.tosa.elementwise import axis_of, fits, ignores_nan, not_a_number_as, shape_of
from meshgen.ops.evaluate.common import integer_range, neutral


def import_argmax(importer: Importer, op: Operation) -> None:
    """The place of the greatest element, the first of equal ones; of a NaN unless those are ignored."""
    builder, value, axis = Builder(importer, op), importer.value(op.operands[0]), axis_of(op)
    kind = importer.type(op.results[0])
    if not 0 <= axis < value.type.rank:
        importer.fault("MG0104", f"tosa.argmax: axis {axis} is out of range for {value.type}", op)
        refuse(importer, op)
        return
    numbers = builder.emit("iota", [], TensorType(value.type.shape, kind.dtype), dim=axis)
    scalar = value.type.with_shape(())
    first = builder.constant(neutral("maximum", value.type.dtype).item(), scalar)
    if ignores_nan(importer, op):
        value = not_a_number_as(builder, first, value)
    operands = [value, numbers, first, builder.constant(0, TensorType((), kind.dtype))]
    region = _greater(importer, op, scalar, kind.dtype)
    types = [value.type.with_shape(kind.shape), kind]
    found = importer.emit("reduce_region", operands, types, {"dims": (axis,)}, op, (region,))
    finish(importer, op, found[1])


def _greater(importer: Importer, op: Operation, scalar: TensorType, index: str) -> Graph:
    """The choice between two (element, place): a NaN is greater than all numbers."""
    inner = Importer(importer.reading, Graph(""), importer)
    builder = Builder(inner, op)
    old, place, new, other = (Value(kind) for kind in (scalar, TensorType((), index)) * 2)
    inner.graph.inputs = [old, place, new, other]
    taken = builder.compare("GT", new, old)
    if is_float(scalar.dtype):
        is_first = builder.apply("and", builder.compare("NE", new, new), builder.compare("EQ", old, old))
        taken = builder.apply("or", taken, is_first)
    inner.graph.outputs = [builder.select(taken, new, old), builder.select(taken, other, place)]
    return inner.graph


def import_gather(importer: Importer, op: Operation) -> None:
    """Rows of each batch at that batch's numbers."""
    if not fits(importer, op, 3, 2):
        return
    value, places = importer.values(op.operands[:2])
    attrs = {
        "offset_dims": (2,), "collapsed_slice_dims": (1,), "operand_batching_dims": (0,),
        "start_indices_batching_dims": (0,), "start_index_map": (1,), "index_vector_dim": 2,
        "slice_sizes": (1, 1, value.type.sizes[2]),
    }  # fmt: skip
    finish(importer, op, Builder(importer, op).emit("gather", [value, places], importer.type(op.results[0]), **attrs))


def import_scatter(importer: Importer, op: Operation) -> None:
    """Rows of each batch replaced at that batch's numbers, which are different ones."""
    if not fits(importer, op, 3, 2, 3):
        return
    value, places, rows = importer.values(op.operands[:3])
    attrs = {
        "update_window_dims": (2,), "inserted_window_dims": (1,), "input_batching_dims": (0,),
        "scatter_indices_batching_dims": (0,), "scatter_dims_to_operand_dims": (1,), "index_vector_dim": 2,
        "indices_are_sorted": False, "unique_indices": True,
    }  # fmt: skip
    scalar = value.type.with_shape(())
    region = Graph("", [Value(scalar), Value(scalar)])
    region.outputs = region.inputs[1:]
    (found,) = importer.emit("scatter", [value, places, rows], [value.type], attrs, op, (region,))
    finish(importer, op, found)


def import_tile(importer: Importer, op: Operation) -> None:
    """Copies side by side: a new dim in front of each, merged into it."""
    builder, value, kind = Builder(importer, op), importer.value(op.operands[0]), importer.type(op.results[0])
    times = shape_of(op, 1, "multiples")
    if times is None or len(times) != value.type.rank:
        importer.fault("MG0103", "tosa.tile needs multiples from tosa.const_shape", op)
        refuse(importer, op)
        return
    parts = [[n, size] if n != 1 else [size] for n, size in zip(times, value.type.sizes, strict=True)]
    ends = np.cumsum([len(part) for part in parts])
    wide = builder.broadcast(value, [size for part in parts for size in part], [int(end) - 1 for end in ends])
    finish(importer, op, builder.reshape(wide, kind.shape))


def import_resize(importer: Importer, op: Operation) -> None:
    """Rows, then columns, at places between those of the image: the nearest one, or both by their distance."""
    if not fits(importer, op, 4):
        return
    builder, value, kind = Builder(importer, op), importer.value(op.operands[0]), importer.type(op.results[0])
    scale, offset = shape_of(op, 1, "scale"), shape_of(op, 2, "offset")
    mode = attribute_of(op, "mode")
    word = mode.data if isinstance(mode, StringAttr) else ""
    if (
        scale is None
        or offset is None
        or len(scale) != 4
        or len(offset) != 2
        or word not in ("NEAREST_NEIGHBOR", "BILINEAR")
    ):
        importer.fault("MG0103", "tosa.resize needs scale (4) and offset (2) from tosa.const_shape and a mode", op)
        refuse(importer, op)
        return
    value = builder.convert(value, kind.dtype)
    for dim in (1, 2):
        up, down = scale[2 * dim - 2 : 2 * dim]
        place = np.arange(kind.sizes[dim]) * down + offset[dim - 1]
        value = _resized_dim(builder, value, dim, place // up, place % up, up, word)
    finish(importer, op, value)


def _resized_dim(builder: Builder, value: Value, dim: int, first: np.ndarray, rest: np.ndarray, unit: int, mode: str
                 ) -> Value:  # fmt: skip
    """One dim at the places `first + rest / unit`."""
    last = value.type.sizes[dim] - 1
    if mode == "NEAREST_NEIGHBOR":
        return _taken(builder, value, dim, np.clip(np.where(2 * rest >= unit, first + 1, first), 0, last))
    near, far = (_taken(builder, value, dim, np.clip(first + step, 0, last)) for step in (0, 1))
    dtype = value.type.dtype
    weights = [(unit - rest) / unit, rest / unit] if is_float(dtype) else [unit - rest, rest]
    sides = [_weighted(builder, side, dim, weight) for side, weight in zip((near, far), weights, strict=True)]
    return builder.apply("add", *sides)


def _weighted(builder: Builder, value: Value, dim: int, weight: np.ndarray) -> Value:
    kind = TensorType(weight.shape, value.type.dtype)
    factor = builder.emit("constant", [], kind, value=weight.astype(kind.numpy_dtype))
    return builder.apply("multiply", value, builder.broadcast(factor, value.type.shape, (dim,)))


def _taken(builder: Builder, value: Value, dim: int, places: np.ndarray) -> Value:
    """Rows of a dim at constant places."""
    sizes, rank = value.type.sizes, value.type.rank
    if np.array_equal(places, np.arange(sizes[dim])):
        return value
    table = builder.emit("constant", [], TensorType(places.shape, "i32"), value=places.astype(np.int32))
    attrs = {
        "offset_dims": tuple(d for d in range(rank) if d != dim), "collapsed_slice_dims": (dim,),
        "operand_batching_dims": (), "start_indices_batching_dims": (), "start_index_map": (dim,), "index_vector_dim": 1,
        "slice_sizes": tuple(1 if d == dim else size for d, size in enumerate(sizes)),
    }  # fmt: skip
    shape = [len(places) if d == dim else size for d, size in enumerate(sizes)]
    return builder.emit("gather", [value, table], value.type.with_shape(shape), **attrs)


def import_table(importer: Importer, op: Operation) -> None:
    """Of i8 the entry of each number; of i16 between the entries of its upper bits, by its 7 lower ones."""
    builder, (value, table) = Builder(importer, op), importer.values(op.operands)
    kind = importer.type(op.results[0])
    entries = {"i8": 256, "i16": 513}.get(value.type.dtype)
    if table.type.shape != (entries,):
        importer.fault("MG0104", f"tosa.table: {table.type} is not a table for {value.type}", op)
        refuse(importer, op)
        return
    place = builder.apply(
        "subtract", builder.convert(value, "i32"), _i32_constant(builder, integer_range(value.type.dtype)[0])
    )
    if value.type.dtype == "i8":
        finish(importer, op, builder.convert(_entries(builder, table, place), kind.dtype))
        return
    first = builder.apply("shift_right_logical", place, _i32_constant(builder, 7))
    rest = builder.apply("and", place, _i32_constant(builder, 127))
    near, far = (
        builder.convert(_entries(builder, table, builder.apply("add", first, _i32_constant(builder, step))), "i32")
        for step in (0, 1)
    )
    between = builder.apply("multiply", builder.apply("subtract", far, near), rest)
    base = builder.apply("multiply", near, _i32_constant(builder, 128))
    finish(importer, op, builder.convert(builder.apply("add", base, between), kind.dtype))


def _i32_constant(builder: Builder, number: int) -> Value:
    return builder.constant(number, TensorType((), "i32"))


def _entries(builder: Builder, table: Value, places: Value) -> Value:
    attrs = {
        "offset_dims": (), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "start_indices_batching_dims": (),
        "start_index_map": (0,), "index_vector_dim": places.type.rank, "slice_sizes": (1,), "indices_are_sorted": False,
    }  # fmt: skip
    return builder.emit("gather", [table, places], table.type.with_shape(places.type.shape), **attrs)


def import_fft(importer: Importer, op: Operation) -> None:
    """Over the last two dims, of parts and to parts; the inverse is not scaled down."""
    kinds = [importer.type(x) for x in op.operands]
    is_real = op.name == "tosa.rfft2d"
    if {*kinds} != {kinds[0]} or kinds[0].rank != 3 or kinds[0].dtype != "f32":
        importer.fault("MG0104", f"{op.name}: expected batches of f32 planes, got ({', '.join(map(str, kinds))})", op)
        refuse(importer, op)
        return
    builder, values, length = Builder(importer, op), importer.values(op.operands), kinds[0].sizes[1:]
    inverse = not is_real and bool(scalar_of(attribute_of(op, "inverse")))
    result = TensorType(importer.type(op.results[0]).shape, "c64")
    given = values[0] if is_real else builder.emit("complex", values, result)
    word = "RFFT" if is_real else "IFFT" if inverse else "FFT"
    found = builder.emit("fft", [given], result, kind=word, length=length)
    for part, target in zip(("real", "imag"), op.results, strict=True):
        value = builder.emit(part, [found], TensorType(result.shape, "f32"))
        scale = builder.constant(float(np.prod(length)), value.type.with_shape(()))
        importer.bind(target, builder.apply("multiply", value, scale) if inverse else value)


def import_rescale(importer: Importer, op: Operation) -> None:
    """(x - zero) * multiplier / 2^shift, rounded, plus the other zero, within the result's range."""
    builder, kind = Builder(importer, op), importer.type(op.results[0])
    operands = importer.values(op.operands)
    for number, side in ((0, "input"), (3, "input"), (4, "output")):
        if scalar_of(attribute_of(op, f"{side}_unsigned")):
            operands[number] = builder.bits(operands[number], f"u{operands[number].type.dtype}")
    value, factor, shift, before, behind = (builder.convert(x, "i64") for x in operands)
    shape = value.type.shape
    factor, shift = (
        builder.broadcast(x, shape, (len(shape) - 1,))
        if scalar_of(attribute_of(op, "per_channel"))
        else _reshaped_to_scalar(builder, x)
        for x in (factor, shift)
    )
    value = builder.apply("subtract", value, _reshaped_to_scalar(builder, before))
    found = builder.apply("add", scaled(builder, op, value, factor, shift), _reshaped_to_scalar(builder, behind))
    dtype = operands[4].type.dtype  # that of the zero point which is added: the result's, or unsigned of its width
    low, high = (builder.constant(end, TensorType((), "i64")) for end in integer_range(dtype))
    clamped = builder.apply("minimum", builder.apply("maximum", found, low), high)
    finish(importer, op, builder.bits(builder.convert(clamped, dtype), kind.dtype))


def _reshaped_to_scalar(builder: Builder, value: Value) -> Value:
    return builder.reshape(value, ())


PART = Dialect(
    importers={
        "tosa.argmax": import_argmax,
        "tosa.gather": import_gather,
        "tosa.scatter": import_scatter,
        "tosa.tile": import_tile,
        "tosa.resize": import_resize,
        "tosa.table": import_table,
        "tosa.fft2d": import_fft,
        "tosa.rfft2d": import_fft,
        "tosa.rescale": import_rescale,
    }
)
