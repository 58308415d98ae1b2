"""Convolutions and windowed reductions."""

from __future__ import annotations

import math
from typing import Any

from meshgen.ir.graph import TensorType
from meshgen.ops.types.inference import infer_types
from meshgen.testing.generators.writer import MAX_ELEMENTS, Writer, binary_body, changed, floats, lowest


def convolution(writer: Writer) -> None:
    """Append a convolution with one or two spatial dims, in any order of dims.

    Padding, strides, dilations and groups are random.
    """
    if value := writer.pick(writer.numbers(rank=3, most=4)):
        dims = writer.order(value.type.rank) if writer.chance(0.5) else [*range(value.type.rank)]
        batch, channel, *spatial = dims
        sizes, count = value.type.sizes, len(spatial)
        groups = 2 if sizes[channel] % 2 == 0 and writer.chance(0.2) else 1
        batches = 2 if groups == 1 and sizes[batch] % 2 == 0 and writer.chance(0.1) else 1
        outputs = writer.integer(1, 5) * groups * batches
        widths = tuple(writer.integer(1, 4) for _ in spatial)
        attrs = {
            "input_batch": batch, "input_feature": channel, "input_spatial": tuple(spatial),
            "kernel_output_feature": 0, "kernel_input_feature": 1, "kernel_spatial": tuple(range(2, 2 + count)),
            "output_batch": batch, "output_feature": channel, "output_spatial": tuple(spatial),
            "window_strides": _strides(writer, count, 0.3), "lhs_dilation": _strides(writer, count, 0.1),
            "rhs_dilation": _strides(writer, count, 0.2), "low": _paddings(writer, count), "high": _paddings(writer, count),
            "window_reversal": tuple(writer.chance(0.2) for _ in spatial), "feature_group_count": groups,
            "batch_group_count": batches, "precision": ("DEFAULT", "DEFAULT"),
        }  # fmt: skip
        kernel = value.type.with_shape((outputs, sizes[channel] // groups, *widths))
        if _window_fits(infer_types("convolution", attrs, [value.type, kernel])):
            operands = [value, writer.new_input(kernel)]
            writer.add("convolution", operands, None, attrs, rounds=floats(value))


def _strides(writer: Writer, count: int, probability: float) -> tuple[int, ...]:
    return tuple(2 if writer.chance(probability) else 1 for _ in range(count))


def _paddings(writer: Writer, count: int) -> tuple[int, ...]:
    return tuple(writer.integer(0, 3) for _ in range(count))


def _window_fits(types: list[TensorType] | None) -> bool:
    return types is not None and all(0 < t.size <= MAX_ELEMENTS for t in types)


def _window_attrs(writer: Writer, rank: int, *, dilated: bool) -> dict[str, Any]:
    """Return the attributes of a window along one dim."""
    dim, ones, zeros = writer.integer(0, rank), (1,) * rank, (0,) * rank
    attrs = {
        "window_dimensions": changed(ones, dim, writer.integer(1, 5)),
        "window_strides": changed(ones, dim, writer.integer(1, 4)),
        "low": changed(zeros, dim, writer.integer(0, 3)),
        "high": changed(zeros, dim, writer.integer(0, 3)),
    }
    if dilated:
        attrs["base_dilations"] = changed(ones, dim, *_strides(writer, 1, 0.15))
        attrs["window_dilations"] = changed(ones, dim, *_strides(writer, 1, 0.2))
    return attrs


def reduce_window(writer: Writer) -> None:
    """Append a maximum or sum over windows along one dim."""
    if value := writer.pick(writer.numbers(rank=1)):
        kind, dtype = writer.one_of(("maximum", "add")), value.type.dtype
        init, body = writer.scalar(lowest(dtype) if kind == "maximum" else 0, dtype), binary_body(kind, dtype)
        attrs = _window_attrs(writer, value.type.rank, dilated=True)
        if _window_fits(infer_types("reduce_window", attrs, [value.type, init.type], (body,))):
            rounds = kind == "add" and floats(value)
            writer.add("reduce_window", [value, init], None, attrs, regions=(body,), rounds=rounds)


def running_sum(writer: Writer) -> None:
    if value := writer.pick(writer.numbers(rank=1)):
        rank, dim = value.type.rank, writer.integer(0, value.type.rank)
        ones, zeros, size = (1,) * rank, (0,) * rank, value.type.sizes[dim]
        attrs = {
            "window_dimensions": changed(ones, dim, size), "window_strides": ones, "base_dilations": ones,
            "window_dilations": ones, "low": changed(zeros, dim, size - 1), "high": zeros,
        }  # fmt: skip
        body, init = binary_body("add", value.type.dtype), writer.scalar(0, value.type.dtype)
        writer.add("reduce_window", [value, init], None, attrs, regions=(body,), rounds=floats(value))


def select_and_scatter(writer: Writer) -> None:
    """Append the gradient of a maximum over windows."""
    if value := writer.pick(writer.numbers(rank=1, most=3), exact=True):
        attrs, dtype = _window_attrs(writer, value.type.rank, dilated=False), value.type.dtype
        parts = zip(
            value.type.sizes,
            *(attrs[key] for key in ("window_dimensions", "window_strides", "low", "high")),
            strict=True,
        )
        shape = [(n + low + high - width) // stride + 1 for n, width, stride, low, high in parts]
        if min(shape) < 1 or math.prod(shape) > MAX_ELEMENTS:
            return
        source, init = writer.new_input(value.type.with_shape(shape)), writer.scalar(0, dtype)
        bodies = (binary_body("compare", dtype, {"direction": "GE", "compare_type": ""}), binary_body("add", dtype))
        operands = [value, source, init]
        writer.add("select_and_scatter", operands, None, attrs, regions=bodies, rounds=floats(value))


OPS = (convolution, convolution, convolution, reduce_window, reduce_window, running_sum, select_and_scatter)
