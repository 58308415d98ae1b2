"""Importers of tosa's indexed operations (argmax, gather, scatter, resize, table) and Fourier transforms."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import Graph, TensorType, Value, is_float
from meshgen.mlir.arith.builder import Builder, all_computed
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.tosa.elementwise import ignores_nan, replace_nan
from meshgen.mlir.tosa.movement import axis_of, require_ranks, shape_of
from meshgen.ops.evaluate.common import integer_range, neutral


def _argmax(b: Builder, value: Value) -> Value:
    """Emit the index of the greatest element, the first of equal ones. A NaN is greater than all numbers unless NaN is
    ignored.
    """
    axis, kind, scalar = axis_of(b, value), b.result, value.type.with_shape(())
    indices = b.emit("iota", [], TensorType(value.type.shape, kind.dtype), dim=axis)
    first = b.constant(neutral("maximum", value.type.dtype).item(), scalar)
    if ignores_nan(b):
        value = replace_nan(b, first, value)
    operands = [value, indices, first, b.constant(0, TensorType((), kind.dtype))]
    types, region = [value.type.with_shape(kind.shape), kind], _greater_region(b, scalar, kind.dtype)
    return b.append("reduce_region", operands, types, {"dims": (axis,)}, (region,))[1]


def _greater_region(outer: Builder, scalar: TensorType, index: str) -> Graph:
    """Return the region of an argmax: it selects between two (element, index) pairs. A NaN is greater than all numbers."""
    inner = Importer(outer.importer.reading, Graph(""), outer.importer)
    b = Builder(inner, outer.source)
    old, old_index, new, new_index = (Value(kind) for kind in (scalar, TensorType((), index)) * 2)
    inner.graph.inputs = [old, old_index, new, new_index]
    taken = b.compare("GT", new, old)
    if is_float(scalar.dtype):
        is_first = b.apply("and", b.compare("NE", new, new), b.compare("EQ", old, old))
        taken = b.apply("or", taken, is_first)
    inner.graph.outputs = [b.select(taken, new, old), b.select(taken, new_index, old_index)]
    return inner.graph


def _gather(b: Builder, value: Value, indices: Value) -> Value:
    """Emit a gather per batch: `result[b, i] = value[b, indices[b, i]]`."""
    require_ranks(b, 3, 2)
    return b.gather(value, indices, (1,), 2, batch=(0,), result=b.result)


def _scatter(b: Builder, value: Value, indices: Value, rows: Value) -> Value:
    """Return `value` with rows replaced: `result[b, indices[b, i]] = rows[b, i]`. The indices of a batch must be
    unique.
    """
    require_ranks(b, 3, 2, 3)
    return b.replaced(value, indices, rows, (1,), 2, batch=(0,))


def _resize(b: Builder, value: Value, *_: Value) -> Value:
    """Resize an image, first its rows and then its columns: take the nearest element, or interpolate between two
    neighbors.
    """
    require_ranks(b, 4)
    scale, offset, mode = shape_of(b, 1, "scale") or (), shape_of(b, 2, "offset") or (), b.word("mode")
    if len(scale) != 4 or len(offset) != 2 or mode not in ("NEAREST_NEIGHBOR", "BILINEAR"):
        raise Refused("MG0103", "needs scale (4) and offset (2) from tosa.const_shape and a mode")
    value = b.convert(value, b.result.dtype)
    for dim in (1, 2):
        up, down = scale[2 * dim - 2 : 2 * dim]
        position = np.arange(b.result.sizes[dim]) * down + offset[dim - 1]
        value = _resized_dim(b, value, dim, position // up, position % up, up, mode)
    return value


def _resized_dim(b: Builder, value: Value, dim: int, first: np.ndarray, rest: np.ndarray, unit: int, mode: str
                 ) -> Value:  # fmt: skip
    """Sample dim `dim` of `value` at the positions `first + rest / unit`."""
    last = value.type.sizes[dim] - 1
    if mode == "NEAREST_NEIGHBOR":
        return _gather_rows(b, value, dim, np.clip(np.where(2 * rest >= unit, first + 1, first), 0, last))
    near, far = (_gather_rows(b, value, dim, np.clip(first + step, 0, last)) for step in (0, 1))
    dtype = value.type.dtype
    weights = [(unit - rest) / unit, rest / unit] if is_float(dtype) else [unit - rest, rest]
    sides = [_weighted(b, side, dim, weight) for side, weight in zip((near, far), weights, strict=True)]
    return b.apply("add", *sides)


def _weighted(b: Builder, value: Value, dim: int, weight: np.ndarray) -> Value:
    kind = TensorType(weight.shape, value.type.dtype)
    factor = b.emit("constant", [], kind, value=weight.astype(kind.numpy_dtype))
    return b.apply("multiply", value, b.broadcast(factor, value.type.shape, (dim,)))


def _gather_rows(b: Builder, value: Value, dim: int, indices: np.ndarray) -> Value:
    """Gather from dim `dim` of `value` at the constant `indices`."""
    sizes, rank = value.type.sizes, value.type.rank
    if np.array_equal(indices, np.arange(sizes[dim])):
        return value
    table = b.emit("constant", [], TensorType(indices.shape, "i32"), value=indices.astype(np.int32))
    attrs = {
        "offset_dims": tuple(d for d in range(rank) if d != dim), "collapsed_slice_dims": (dim,),
        "operand_batching_dims": (), "start_indices_batching_dims": (), "start_index_map": (dim,), "index_vector_dim": 1,
        "slice_sizes": tuple(1 if d == dim else size for d, size in enumerate(sizes)),
    }  # fmt: skip
    shape = [len(indices) if d == dim else size for d, size in enumerate(sizes)]
    return b.emit("gather", [value, table], value.type.with_shape(shape), **attrs)


def _table(b: Builder, value: Value, table: Value) -> Value:
    """Look up each element in `table`, which has 256 entries for i8 and 513 for i16.

    The upper 9 bits of an i16 select two adjacent entries, and its lower 7 bits interpolate between them.
    """
    source, dtype = value.type.dtype, b.result.dtype
    if table.type.shape != ({"i8": 256, "i16": 513}.get(source),):
        raise Refused("MG0104", f"{table.type} is not a table for {value.type}")
    index = b.apply("subtract", b.convert(value, "i32"), _i32(b, integer_range(source)[0]))
    if source == "i8":
        return b.convert(_table_entries(b, table, index), dtype)
    first = b.apply("shift_right_logical", index, _i32(b, 7))
    rest = b.apply("and", index, _i32(b, 127))
    near, far = (b.convert(_table_entries(b, table, b.apply("add", first, _i32(b, step))), "i32") for step in (0, 1))
    between = b.apply("multiply", b.apply("subtract", far, near), rest)
    return b.convert(b.apply("add", b.apply("multiply", near, _i32(b, 128)), between), dtype)


def _i32(b: Builder, number: int) -> Value:
    return b.constant(number, TensorType((), "i32"))


def _table_entries(b: Builder, table: Value, indices: Value) -> Value:
    return b.gather(table, indices, (0,), indices.type.rank)


def _fft(b: Builder, *parts: Value) -> list[Value]:
    """Emit a Fourier transform over the last two dims, with real and imaginary parts as separate tensors.

    An inverse transform is not divided by the number of elements.
    """
    kinds = [part.type for part in parts]
    if {*kinds} != {kinds[0]} or kinds[0].rank != 3 or kinds[0].dtype != "f32":
        raise Refused("MG0104", f"expected batches of f32 planes, got ({', '.join(map(str, kinds))})")
    length, result = kinds[0].sizes[1:], TensorType(b.result.shape, "c64")
    is_real, is_inverse = len(parts) == 1, bool(b.number("inverse"))
    value = parts[0] if is_real else b.emit("complex", parts, result)
    transformed = b.emit(
        "fft", [value], result, kind="RFFT" if is_real else "IFFT" if is_inverse else "FFT", length=length
    )
    sides = [b.emit(part, [transformed], TensorType(result.shape, "f32")) for part in ("real", "imag")]
    scale = b.constant(float(np.prod(length)), TensorType((), "f32"))
    return [b.apply("multiply", side, scale) for side in sides] if is_inverse else sides


PART = Dialect(
    importers=all_computed("tosa", {
        "argmax": _argmax, "gather": _gather, "scatter": _scatter, "resize": _resize, "table": _table, "fft2d": _fft, "rfft2d": _fft,
    })
)  # fmt: skip
