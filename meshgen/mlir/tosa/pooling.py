"""Convolutions and poolings of tosa, and its fully connected layer. Images are batch, spatial dims, channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import TypeAttribute

from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.mlir.arith.payload import Builder, all_computed
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.spread import fold_region
from meshgen.mlir.tosa.elementwise import has_zeros, ignores_nan, not_a_number_as, without_zero
from meshgen.mlir.tosa.movement import require_ranks
from meshgen.ops.evaluate.common import integer_range, neutral
from meshgen.ops.precision import EXACT


def _sides(amounts: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after each spatial dim."""
    return tuple(amounts[::2]), tuple(amounts[1::2])


def _biased(b: Builder, found: Value) -> Value:
    """The result plus one number per channel, or one for all."""
    if has_zeros(b, 2, 1):
        return found
    bias = b.convert(b.importer.value(b.source.operands[2]), found.type.dtype)
    if bias.type.shape == (1,) and found.type.shape[-1] != 1:
        bias = b.reshape(bias, ())
    dims = [found.type.rank - 1] if bias.type.rank else []
    return b.apply("add", found, b.broadcast(bias, found.type.shape, dims))


def _convolved(b: Builder, image: Value, kernel: Value, window: dict[str, tuple[int, ...]],
               dims: tuple[int, int, tuple[int, ...]], groups: int) -> Value:  # fmt: skip
    """The convolution with `dims` (input feature, output feature, spatial) of the kernel, and the bias."""
    kind, dtype = b.result, b.result.dtype
    image, kernel = without_zero(b, 3, image, dtype), without_zero(b, 4, kernel, dtype)
    if image.type.dtype != kernel.type.dtype and is_float(dtype):
        image, kernel = (b.convert(x, dtype) for x in (image, kernel))
    spatial = tuple(range(1, image.type.rank - 1))
    ones = (1,) * len(spatial)
    attrs = {
        "window_strides": ones, "lhs_dilation": ones, "rhs_dilation": ones, "window_reversal": (False,) * len(spatial),
        "input_batch": 0, "input_feature": image.type.rank - 1, "input_spatial": spatial,
        "output_batch": 0, "output_feature": image.type.rank - 1, "output_spatial": spatial,
        "kernel_input_feature": dims[0], "kernel_output_feature": dims[1], "kernel_spatial": dims[2],
        "feature_group_count": groups, "batch_group_count": 1, "precision": EXACT,
    }  # fmt: skip
    return _biased(b, b.emit("convolution", [image, kernel], kind, **{**attrs, **window}))


def _window(b: Builder, count: int) -> dict[str, tuple[int, ...]]:
    """Padding, strides and dilations over `count` spatial dims."""
    low, high = _sides(b.integers("pad", [0] * 2 * count))
    strides, dilations = (b.integers(name, [1] * count) for name in ("stride", "dilation"))
    return {"low": low, "high": high, "window_strides": strides, "rhs_dilation": dilations}


def _convolution(b: Builder, image: Value, kernel: Value, *_: Value) -> Value:
    """Kernels are output channels, spatial dims, input channels."""
    count = 3 if b.source.name.endswith("3d") else 2
    require_ranks(b, count + 2, count + 2, 1)
    return _convolved(b, image, kernel, _window(b, count), (count + 1, 0, tuple(range(1, count + 1))), 1)


def _depthwise(b: Builder, image: Value, kernel: Value, *_: Value) -> Value:
    """Kernels are height, width, input channels, results per channel."""
    require_ranks(b, 4, 4, 1)
    height, width, channels, times = kernel.type.sizes
    kernel = b.reshape(kernel, (height, width, 1, channels * times))
    return _convolved(b, image, kernel, _window(b, 2), (2, 3, (0, 1)), channels)


def _transposed(b: Builder, image: Value, kernel: Value, *_: Value) -> Value:
    """The image with rows put between its own, walked by the kernel turned round."""
    require_ranks(b, 4, 4, 1)
    low, high = _sides(b.integers("out_pad", [0] * 4))
    reach = [size - 1 for size in kernel.type.sizes[1:3]]
    window = {
        "low": tuple(r + p for r, p in zip(reach, low, strict=True)),
        "high": tuple(r + p for r, p in zip(reach, high, strict=True)),
        "lhs_dilation": b.integers("stride", (1, 1)),
        "window_reversal": (True, True),
    }
    return _convolved(b, image, kernel, window, (3, 0, (1, 2)), 1)


def _pool(b: Builder, value: Value, *_: Value) -> Value:
    """The greatest, or the mean of those elements of a window that are not padding."""
    require_ranks(b, 4)
    kind, is_mean = b.result, b.source.name == "tosa.avg_pool2d"
    low, high = _sides(b.integers("pad", [0] * 4))
    attrs = {
        "window_dimensions": (1, *b.integers("kernel", (1, 1)), 1), "low": (0, *low, 0), "high": (0, *high, 0),
        "window_strides": (1, *b.integers("stride", (1, 1)), 1), "base_dilations": (1,) * 4, "window_dilations": (1,) * 4,
    }  # fmt: skip
    wide = _accumulator(b, kind.dtype) if is_mean else kind.dtype
    fold = "add" if is_mean else "maximum"
    value = b.convert(without_zero(b, 1, value, wide) if is_mean else value, wide)
    init = b.constant(neutral(fold, wide).item(), TensorType((), wide))
    if ignores_nan(b):
        value = not_a_number_as(b, init, value)
    region = fold_region(fold, wide)
    (found,) = b.append("reduce_window", [value, init], [TensorType(kind.shape, wide)], attrs, (region,))
    if is_mean:
        counts = _counts(value.type.sizes[1:3], attrs, kind.sizes[1:3])
        found = b.apply("divide", found, _per_window(b, counts, found)) if is_float(wide) else _scaled(b, found, counts)
    return b.convert(found, kind.dtype)


def _per_window(b: Builder, numbers: np.ndarray, like: Value) -> Value:
    """A number for each row and column of windows."""
    kind = TensorType(numbers.shape, like.type.dtype)
    table = b.emit("constant", [], kind, value=numbers.astype(kind.numpy_dtype))
    return b.broadcast(table, like.type.shape, (1, 2))


def _scaled(b: Builder, total: Value, counts: np.ndarray) -> Value:
    """Means of integers as tosa has them: times a reciprocal of 31 bits, shifted back and rounded, plus the zero point."""
    bits = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    factors, shifts = (((1 << 30) + 1) << bits) // np.maximum(counts, 1), 30 + bits
    wide = b.convert(total, "i64")
    product = b.apply("multiply", wide, _per_window(b, factors, wide))
    rounded = b.apply("add", product, _per_window(b, np.int64(1) << (shifts - 1), wide))
    found = b.apply("shift_right_arithmetic", rounded, _per_window(b, shifts, wide))
    for zero in b.importer.values(b.source.operands[2:]):
        found = b.apply("add", found, b.reshape(b.convert(zero, "i64"), ()))
    ends = [b.constant(end, TensorType((), "i64")) for end in integer_range(b.result.dtype)]
    return b.emit("clamp", [ends[0], found, ends[1]], found.type)


def _accumulator(b: Builder, dtype: str) -> str:
    kind = b.attribute("acc_type")
    return str(kind) if isinstance(kind, TypeAttribute) else dtype if is_float(dtype) else "i32"


def _counts(sizes: Sequence[int], attrs: dict[str, tuple[int, ...]], result: Sequence[int]) -> np.ndarray:
    """The number of elements of each window that are not padding."""
    found: list[np.ndarray] = []
    for dim, size in enumerate(sizes, start=1):
        first = np.arange(result[dim - 1]) * attrs["window_strides"][dim] - attrs["low"][dim]
        last = np.minimum(first + attrs["window_dimensions"][dim], size)
        found.append(last - np.maximum(first, 0))
    return np.multiply.outer(*found)


def _fully_connected(b: Builder, left: Value, right: Value, *_: Value) -> Value:
    """Kernels are output channels, input channels."""
    require_ranks(b, 2, 2, 1)
    left, right = (without_zero(b, 3 + number, value, b.result.dtype) for number, value in enumerate((left, right)))
    return _biased(b, b.dot(left, right, b.result, contract=((1,), (1,))))


PART = Dialect(
    importers=all_computed("tosa", {
        "conv2d": _convolution, "conv3d": _convolution, "depthwise_conv2d": _depthwise, "transpose_conv2d": _transposed,
        "max_pool2d": _pool, "avg_pool2d": _pool, "fully_connected": _fully_connected,
    })
)  # fmt: skip
