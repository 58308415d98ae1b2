"""Reader of tosa's convolutions and poolings. Images are batch, spatial dims, channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, TypeAttribute

from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.mlir.arith.payload import Builder, finish
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.operation_signature import attribute_of
from meshgen.mlir.spread import fold_region
from meshgen.mlir.stablehlo.attributes import integers
from meshgen.mlir.tosa.elementwise import fits, ignores_nan, is_zero, not_a_number_as, without_zero
from meshgen.ops.evaluate.common import integer_range, neutral
from meshgen.ops.precision import EXACT


def numbers(op: Operation, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """A list of integers."""
    attribute = attribute_of(op, name)
    return tuple(default) if attribute is None else integers(attribute)


def _sides(amounts: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after each spatial dim."""
    return tuple(amounts[::2]), tuple(amounts[1::2])


def _biased(importer: Importer, op: Operation, found: Value) -> Value:
    """The result plus one number per channel, or one for all."""
    if is_zero(op.operands[2:3]):
        return found
    builder, bias = Builder(importer, op), importer.value(op.operands[2])
    bias = builder.convert(bias, found.type.dtype)
    if bias.type.shape == (1,) and found.type.shape[-1] != 1:
        bias = builder.reshape(bias, ())
    dims = [found.type.rank - 1] if bias.type.rank else []
    return builder.apply("add", found, builder.broadcast(bias, found.type.shape, dims))


def _convolve(importer: Importer, op: Operation, image: Value, kernel: Value, window: dict[str, tuple[int, ...]],
              dims: tuple[int, int, tuple[int, ...]], groups: int) -> None:  # fmt: skip
    """The convolution with `dims` (input feature, output feature, spatial) of the kernel, and the bias."""
    builder, kind = Builder(importer, op), importer.type(op.results[0])
    dtype = kind.dtype
    image, kernel = without_zero(importer, op, 3, image, dtype), without_zero(importer, op, 4, kernel, dtype)
    if image.type.dtype != kernel.type.dtype and is_float(dtype):
        image, kernel = (builder.convert(x, dtype) for x in (image, kernel))
    spatial = tuple(range(1, image.type.rank - 1))
    ones = (1,) * len(spatial)
    attrs = {
        "window_strides": ones, "lhs_dilation": ones, "rhs_dilation": ones, "window_reversal": (False,) * len(spatial),
        "input_batch": 0, "input_feature": image.type.rank - 1, "input_spatial": spatial,
        "output_batch": 0, "output_feature": image.type.rank - 1, "output_spatial": spatial,
        "kernel_input_feature": dims[0], "kernel_output_feature": dims[1], "kernel_spatial": dims[2],
        "feature_group_count": groups, "batch_group_count": 1, "precision": EXACT,
    }  # fmt: skip
    found = builder.emit("convolution", [image, kernel], kind, **{**attrs, **window})
    finish(importer, op, _biased(importer, op, found))


def import_convolution(importer: Importer, op: Operation) -> None:
    """Kernels are output channels, spatial dims, input channels."""
    count = 3 if op.name.endswith("3d") else 2
    if not fits(importer, op, count + 2, count + 2, 1):
        return
    image, kernel = importer.values(op.operands[:2])
    low, high = _sides(numbers(op, "pad", [0] * 2 * count))
    window = {
        "low": low, "high": high, "window_strides": numbers(op, "stride", [1] * count),
        "rhs_dilation": numbers(op, "dilation", [1] * count),
    }  # fmt: skip
    _convolve(importer, op, image, kernel, window, (count + 1, 0, tuple(range(1, count + 1))), 1)


def import_depthwise(importer: Importer, op: Operation) -> None:
    """Kernels are height, width, input channels, results per channel."""
    if not fits(importer, op, 4, 4, 1):
        return
    image, kernel = importer.values(op.operands[:2])
    height, width, channels, times = kernel.type.sizes
    kernel = Builder(importer, op).reshape(kernel, (height, width, 1, channels * times))
    low, high = _sides(numbers(op, "pad", [0] * 4))
    window = {"low": low, "high": high, "window_strides": numbers(op, "stride", (1, 1)), "rhs_dilation": numbers(op, "dilation", (1, 1))}  # fmt: skip
    _convolve(importer, op, image, kernel, window, (2, 3, (0, 1)), channels)


def import_transposed(importer: Importer, op: Operation) -> None:
    """The image with rows put between its own, walked by the kernel turned round."""
    if not fits(importer, op, 4, 4, 1):
        return
    image, kernel = importer.values(op.operands[:2])
    low, high = _sides(numbers(op, "out_pad", [0] * 4))
    reach = [size - 1 for size in kernel.type.sizes[1:3]]
    window = {
        "low": tuple(r + p for r, p in zip(reach, low, strict=True)),
        "high": tuple(r + p for r, p in zip(reach, high, strict=True)),
        "lhs_dilation": numbers(op, "stride", (1, 1)),
        "window_reversal": (True, True),
    }
    _convolve(importer, op, image, kernel, window, (3, 0, (1, 2)), 1)


def import_pool(importer: Importer, op: Operation) -> None:
    """The greatest, or the mean of those elements of a window that are not padding."""
    if not fits(importer, op, 4):
        return
    builder, value, kind = Builder(importer, op), importer.value(op.operands[0]), importer.type(op.results[0])
    is_mean = op.name == "tosa.avg_pool2d"
    low, high = _sides(numbers(op, "pad", [0] * 4))
    attrs = {
        "window_dimensions": (1, *numbers(op, "kernel", (1, 1)), 1), "low": (0, *low, 0), "high": (0, *high, 0),
        "window_strides": (1, *numbers(op, "stride", (1, 1)), 1), "base_dilations": (1,) * 4, "window_dilations": (1,) * 4,
    }  # fmt: skip
    wide = _accumulator(op, kind.dtype) if is_mean else kind.dtype
    fold = "add" if is_mean else "maximum"
    value = builder.convert(without_zero(importer, op, 1, value, wide) if is_mean else value, wide)
    init = builder.constant(neutral(fold, wide).item(), TensorType((), wide))
    if ignores_nan(importer, op):
        value = not_a_number_as(builder, init, value)
    region = fold_region(fold, wide)
    (found,) = importer.emit("reduce_window", [value, init], [TensorType(kind.shape, wide)], attrs, op, (region,))
    if is_mean:
        counts = _counts(value.type.sizes[1:3], attrs, kind.sizes[1:3])
        found = _divided(builder, found, counts) if is_float(wide) else _scaled(importer, op, found, counts)
    finish(importer, op, builder.convert(found, kind.dtype))


def _per_window(builder: Builder, numbers: np.ndarray, like: Value) -> Value:
    """A number for each row and column of windows."""
    kind = TensorType(numbers.shape, like.type.dtype)
    table = builder.emit("constant", [], kind, value=numbers.astype(kind.numpy_dtype))
    return builder.broadcast(table, like.type.shape, (1, 2))


def _divided(builder: Builder, total: Value, counts: np.ndarray) -> Value:
    return builder.apply("divide", total, _per_window(builder, counts, total))


def _scaled(importer: Importer, op: Operation, total: Value, counts: np.ndarray) -> Value:
    """Means of integers as tosa has them: times a reciprocal of 31 bits, shifted back and rounded, plus the zero point."""
    builder, kind = Builder(importer, op), importer.type(op.results[0])
    bits = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    factors, shifts = (((1 << 30) + 1) << bits) // np.maximum(counts, 1), 30 + bits
    wide = builder.convert(total, "i64")
    product = builder.apply("multiply", wide, _per_window(builder, factors, wide))
    rounded = builder.apply("add", product, _per_window(builder, np.int64(1) << (shifts - 1), wide))
    found = builder.apply("shift_right_arithmetic", rounded, _per_window(builder, shifts, wide))
    if len(op.operands) > 2:
        zero = builder.reshape(builder.convert(importer.value(op.operands[2]), "i64"), ())
        found = builder.apply("add", found, zero)
    ends = [builder.constant(end, TensorType((), "i64")) for end in integer_range(kind.dtype)]
    return builder.emit("clamp", [ends[0], found, ends[1]], found.type)


def _accumulator(op: Operation, dtype: str) -> str:
    kind = attribute_of(op, "acc_type")
    return str(kind) if isinstance(kind, TypeAttribute) else dtype if is_float(dtype) else "i32"


def _counts(sizes: Sequence[int], attrs: dict[str, tuple[int, ...]], result: Sequence[int]) -> np.ndarray:
    """The number of elements of each window that are not padding."""
    found: list[np.ndarray] = []
    for dim, size in enumerate(sizes, start=1):
        first = np.arange(result[dim - 1]) * attrs["window_strides"][dim] - attrs["low"][dim]
        last = np.minimum(first + attrs["window_dimensions"][dim], size)
        found.append(last - np.maximum(first, 0))
    return np.multiply.outer(*found)


def import_fully_connected(importer: Importer, op: Operation) -> None:
    """Kernels are output channels, input channels."""
    if not fits(importer, op, 2, 2, 1):
        return
    kind = importer.type(op.results[0])
    left, right = (
        without_zero(importer, op, 3 + number, value, kind.dtype)
        for number, value in enumerate(importer.values(op.operands[:2]))
    )
    contracted = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (1,)}
    found = Builder(importer, op).emit("dot_general", [left, right], kind, **contracted, precision=EXACT)
    finish(importer, op, _biased(importer, op, found))


PART = Dialect(
    importers={
        "tosa.conv2d": import_convolution,
        "tosa.conv3d": import_convolution,
        "tosa.depthwise_conv2d": import_depthwise,
        "tosa.transpose_conv2d": import_transposed,
        "tosa.max_pool2d": import_pool,
        "tosa.avg_pool2d": import_pool,
        "tosa.fully_connected": import_fully_connected,
    }
)
