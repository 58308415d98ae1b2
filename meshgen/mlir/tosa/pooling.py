"""Importers of tosa's convolutions, poolings and fully connected layer.

The dims of an image are the batch, the spatial dims and the channels, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import TypeAttribute

from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.mlir.arith.builder import Builder, all_computed
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.loop_values import fold_region
from meshgen.mlir.tosa.elementwise import has_zero_operands, ignores_nan, replace_nan, subtract_zero_point
from meshgen.mlir.tosa.movement import require_ranks
from meshgen.ops.evaluate.common import integer_range, neutral
from meshgen.ops.precision import EXACT


def _sides(amounts: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split a list of padding amounts into those before each spatial dim and those after it."""
    return tuple(amounts[::2]), tuple(amounts[1::2])


def _add_bias(b: Builder, result: Value) -> Value:
    """Add the bias, which has one element per channel or a single element."""
    if has_zero_operands(b, 2, 1):
        return result
    bias = b.convert(b.importer.value(b.source.operands[2]), result.type.dtype)
    if bias.type.shape == (1,) and result.type.shape[-1] != 1:
        bias = b.reshape(bias, ())
    dims = [result.type.rank - 1] if bias.type.rank else []
    return b.apply("add", result, b.broadcast(bias, result.type.shape, dims))


def _convolved(b: Builder, image: Value, kernel: Value, window: dict[str, tuple[int, ...]],
               dims: tuple[int, int, tuple[int, ...]], groups: int) -> Value:  # fmt: skip
    """Emit a convolution and add the bias. `dims` are the kernel's input feature, output feature and spatial dims."""
    kind, dtype = b.result, b.result.dtype
    image, kernel = subtract_zero_point(b, 3, image, dtype), subtract_zero_point(b, 4, kernel, dtype)
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
    return _add_bias(b, b.emit("convolution", [image, kernel], kind, **{**attrs, **window}))


def _window(b: Builder, count: int) -> dict[str, tuple[int, ...]]:
    """Return the node attributes for padding, strides and dilations along `count` spatial dims."""
    low, high = _sides(b.integers("pad", [0] * 2 * count))
    strides, dilations = (b.integers(name, [1] * count) for name in ("stride", "dilation"))
    return {"low": low, "high": high, "window_strides": strides, "rhs_dilation": dilations}


def _convolution(b: Builder, image: Value, kernel: Value, *_: Value) -> Value:
    """Emit a conv2d or conv3d. The dims of the kernel are output channels, spatial dims and input channels."""
    count = 3 if b.source.name.endswith("3d") else 2
    require_ranks(b, count + 2, count + 2, 1)
    return _convolved(b, image, kernel, _window(b, count), (count + 1, 0, tuple(range(1, count + 1))), 1)


def _depthwise(b: Builder, image: Value, kernel: Value, *_: Value) -> Value:
    """Emit a depthwise convolution. The dims of the kernel are height, width, input channels and channel multiplier."""
    require_ranks(b, 4, 4, 1)
    height, width, channels, multiplier = kernel.type.sizes
    kernel = b.reshape(kernel, (height, width, 1, channels * multiplier))
    return _convolved(b, image, kernel, _window(b, 2), (2, 3, (0, 1)), channels)


def _transposed(b: Builder, image: Value, kernel: Value, *_: Value) -> Value:
    """Emit a transposed convolution: a convolution whose image is dilated by the strides, with a reversed kernel."""
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
    """Emit a max pooling or an average pooling. An average is over those elements of a window that are not padding."""
    require_ranks(b, 4)
    kind, is_mean = b.result, b.source.name == "tosa.avg_pool2d"
    low, high = _sides(b.integers("pad", [0] * 4))
    attrs = {
        "window_dimensions": (1, *b.integers("kernel", (1, 1)), 1), "low": (0, *low, 0), "high": (0, *high, 0),
        "window_strides": (1, *b.integers("stride", (1, 1)), 1), "base_dilations": (1,) * 4, "window_dilations": (1,) * 4,
    }  # fmt: skip
    accumulator_dtype = _accumulator(b, kind.dtype) if is_mean else kind.dtype
    fold = "add" if is_mean else "maximum"
    value = b.convert(subtract_zero_point(b, 1, value, accumulator_dtype) if is_mean else value, accumulator_dtype)
    init = b.constant(neutral(fold, accumulator_dtype).item(), TensorType((), accumulator_dtype))
    if ignores_nan(b):
        value = replace_nan(b, init, value)
    region = fold_region(fold, accumulator_dtype)
    (pooled,) = b.append("reduce_window", [value, init], [TensorType(kind.shape, accumulator_dtype)], attrs, (region,))
    if is_mean:
        counts = _window_sizes(value.type.sizes[1:3], attrs, kind.sizes[1:3])
        pooled = (
            b.apply("divide", pooled, _per_window(b, counts, pooled))
            if is_float(accumulator_dtype)
            else _integer_means(b, pooled, counts)
        )
    return b.convert(pooled, kind.dtype)


def _per_window(b: Builder, numbers: np.ndarray, like: Value) -> Value:
    """Broadcast `numbers`, one per window row and column, to the shape of `like`."""
    kind = TensorType(numbers.shape, like.type.dtype)
    table = b.emit("constant", [], kind, value=numbers.astype(kind.numpy_dtype))
    return b.broadcast(table, like.type.shape, (1, 2))


def _integer_means(b: Builder, total: Value, counts: np.ndarray) -> Value:
    """Divide integer sums by the window sizes `counts` with the rounding of tosa.

    That is, multiply by a reciprocal of 31 bits, shift right with rounding, add the zero point, and clamp.
    """
    bits = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    factors, shifts = (((1 << 30) + 1) << bits) // np.maximum(counts, 1), 30 + bits
    wide = b.convert(total, "i64")
    product = b.apply("multiply", wide, _per_window(b, factors, wide))
    rounded = b.apply("add", product, _per_window(b, np.int64(1) << (shifts - 1), wide))
    means = b.apply("shift_right_arithmetic", rounded, _per_window(b, shifts, wide))
    for zero in b.importer.values(b.source.operands[2:]):
        means = b.apply("add", means, b.reshape(b.convert(zero, "i64"), ()))
    ends = [b.constant(end, TensorType((), "i64")) for end in integer_range(b.result.dtype)]
    return b.emit("clamp", [ends[0], means, ends[1]], means.type)


def _accumulator(b: Builder, dtype: str) -> str:
    kind = b.attribute("acc_type")
    return str(kind) if isinstance(kind, TypeAttribute) else dtype if is_float(dtype) else "i32"


def _window_sizes(sizes: Sequence[int], attrs: dict[str, tuple[int, ...]], result: Sequence[int]) -> np.ndarray:
    """Return for each window the number of its elements that are not padding."""
    counts_by_dim: list[np.ndarray] = []
    for dim, size in enumerate(sizes, start=1):
        first = np.arange(result[dim - 1]) * attrs["window_strides"][dim] - attrs["low"][dim]
        last = np.minimum(first + attrs["window_dimensions"][dim], size)
        counts_by_dim.append(last - np.maximum(first, 0))
    return np.multiply.outer(*counts_by_dim)


def _fully_connected(b: Builder, left: Value, right: Value, *_: Value) -> Value:
    """Emit a fully connected layer. The dims of the weights are output channels and input channels."""
    require_ranks(b, 2, 2, 1)
    left, right = (
        subtract_zero_point(b, 3 + index, value, b.result.dtype) for index, value in enumerate((left, right))
    )
    return _add_bias(b, b.dot(left, right, b.result, contract=((1,), (1,))))


PART = Dialect(
    importers=all_computed("tosa", {
        "conv2d": _convolution, "conv3d": _convolution, "depthwise_conv2d": _depthwise, "transpose_conv2d": _transposed,
        "max_pool2d": _pool, "avg_pool2d": _pool, "fully_connected": _fully_connected,
    })
)  # fmt: skip
