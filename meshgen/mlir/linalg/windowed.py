"""Windowed reductions of structured operations: sums of products become a `convolution`, others a `reduce_window`.

A dim of an operand is a window if its index is `stride * o + dilation * k`, where o is a loop of the result and k a
reduced loop. The other dims of the operand are batch and channel dims; several dims of one role are merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.ir import BlockArgument, SSAValue

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.linalg.body import Body, Structure, depends_on, narrow
from meshgen.mlir.linalg.maps import LinearIndex, linear_indices_of
from meshgen.mlir.loop_values import Loops, Spread, fold_region, in_order, over, reduced, reshaped_dim, sliced
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.precision import EXACT


@dataclass(frozen=True)
class Window:
    """A windowed dim of an operand, whose index is `offset + stride * outer + dilation * inner`.

    Attributes:
        outer: a loop of the result.
        inner: a reduced loop, over the elements of a window.
        low: number of padding elements before the dim, which the operand does not contain.
        high: number of padding elements after the dim.
    """

    dim: int
    outer: int
    inner: int
    stride: int
    dilation: int
    offset: int
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class WindowedOperand:
    """An operand with windowed dims: its value, and for each dim a window or the one loop that indexes it."""

    value: Value
    dims: tuple[int | Window, ...]

    @property
    def windows(self) -> list[Window]:
        return [dim for dim in self.dims if isinstance(dim, Window)]

    @property
    def loops(self) -> Loops:
        """Return one loop per dim: the loop that indexes it, or the result loop (`outer`) of its window."""
        return tuple(dim if isinstance(dim, int) else dim.outer for dim in self.dims)

    @property
    def plain(self) -> list[int]:
        """Return the loops that index the dims without windows."""
        return [dim for dim in self.dims if isinstance(dim, int)]


def match_windowed_operand(structure: Structure, factor: SSAValue, out_loops: Loops) -> WindowedOperand | None:
    """Match a factor that is computed from a single operand, which is read through windows. Returns None for other
    factors.
    """
    used = [argument for argument in structure.block.args if depends_on(factor, argument)]
    if len(used) != 1 or None in structure.sizes:
        return None
    index = structure.block.args.index(used[0])
    lines = linear_indices_of(structure.maps[index].results, structure.sizes)
    linear = [line for line in lines if line is not None]
    if (
        len(linear) != len(lines)
        or all(len(line.steps) < 2 for line in linear)
        or not _has_simple_windows(linear, out_loops)
    ):
        return None
    value = _over_operand_dims(structure, used[0], factor, structure.values[index])
    return None if value is None else _cropped_dims(structure.builder, value, linear, out_loops, structure.sizes)


def _has_simple_windows(lines: Sequence[LinearIndex], out_loops: Loops) -> bool:
    """Whether every index is constant, one loop, or a window of one result loop and one reduced loop."""
    loops = [loop for line in lines for loop in line.loops]
    pairs = [line for line in lines if len(line.steps) > 1]
    are_windows = all(len(line.steps) == 2 and sum(loop in out_loops for loop in line.loops) == 1 for line in pairs)
    return are_windows and len(set(loops)) == len(loops) and all(step > 0 for line in lines for _, step in line.steps)


def _over_operand_dims(structure: Structure, argument: BlockArgument, factor: SSAValue, value: Value) -> Value | None:
    """Compute `factor`, which depends on no other argument than `argument`, over all elements of the operand `value`."""
    loops = tuple(range(value.type.rank))
    body = Body(structure.builder, structure.block, value.type.shape, computed={argument: Spread(value, loops)})
    return body.full(factor, loops)


def _cropped_dims(
    builder: Builder, value: Value, lines: Sequence[LinearIndex], out_loops: Loops, sizes: Sequence[int | None]
) -> WindowedOperand:
    """Slice each dim without a window to the range that its index covers, and drop dims with a constant index."""
    start, limit, stride = [0] * len(lines), list(value.type.sizes), [1] * len(lines)
    dims: list[int | Window] = []
    for dim, line in enumerate(lines):
        if len(line.steps) < 2:
            loop, stride[dim] = line.steps[0] if line.steps else (None, 1)
            count = 1 if loop is None else sizes[loop] or 0
            start[dim], limit[dim] = line.offset, line.offset + (count - 1) * stride[dim] + 1
            if loop is not None:
                dims.append(loop)
            continue
        (outer, step), (inner, dilation) = sorted(line.steps, key=lambda pair: pair[0] not in out_loops)
        dims.append(Window(len(dims), outer, inner, step, dilation, line.offset))
    value = sliced(builder, value, start, limit, stride)
    for dim in reversed([dim for dim, line in enumerate(lines) if not line.steps]):
        value = reshaped_dim(builder, value, dim, [])
    return WindowedOperand(value, tuple(dims))


def _padding(window: Window, size: int, sizes: Sequence[int | None]) -> tuple[int, int]:
    """Return the low and high padding of a windowed dim of `size` elements.

    The high padding is negative, which crops the operand, if more windows fit into the dim than the outer loop has
    iterations.
    """
    outer, inner = sizes[window.outer] or 0, sizes[window.inner] or 0
    reach = window.offset + (outer - 1) * window.stride + (inner - 1) * window.dilation + 1
    unread = size + window.low + window.high - reach
    return window.low - window.offset, window.high - (unread if unread >= window.stride else 0)


def without_pad(builder: Builder, operand: WindowedOperand, number: float) -> WindowedOperand:
    """Turn a `pad` node into padding of the windows.

    If a `pad` with the fill value `number` produces the operand, return the unpadded operand. Otherwise return
    `operand`.
    """
    producers = {result: node for node in builder.importer.graph.nodes for result in node.results}
    pad = producers.get(operand.value)
    if (
        pad is None
        or pad.op != "pad"
        or any((*pad.attrs.interior, *(n < 0 for n in (*pad.attrs.low, *pad.attrs.high))))
    ):
        return operand
    fill = producers.get(pad.operands[1])
    if fill is None or fill.op != "constant" or np.asarray(fill.attrs.value).item() != number:
        return operand
    dims: list[int | Window] = []
    for dim, low, high in zip(operand.dims, pad.attrs.low, pad.attrs.high, strict=True):
        if isinstance(dim, int) and (low or high):
            return operand
        dims.append(dim if isinstance(dim, int) else replace(dim, low=low, high=high))
    return WindowedOperand(pad.operands[0], tuple(dims))


def folded_windows(structure: Structure, kind: str, term: SSAValue, out_loops: Loops, prepare: Callable[[Value], Value]
                   ) -> Value | None:  # fmt: skip
    """Emit the reduction of a term that reads one operand through windows as a `reduce_window`.

    `prepare` is applied to the operand first. Returns None for other terms.
    """
    operand, builder, sizes = match_windowed_operand(structure, term, out_loops), structure.builder, structure.sizes
    if operand is None:
        return None
    read_loops = {*operand.plain, *(loop for w in operand.windows for loop in (w.outer, w.inner))}
    if any(size != 1 for loop, size in enumerate(sizes) if loop not in read_loops) or not set(out_loops) <= read_loops:
        return None
    fill = neutral(kind, operand.value.type.dtype).item()
    operand = without_pad(builder, WindowedOperand(prepare(operand.value), operand.dims), fill)
    plain = reduced(builder, Spread(operand.value, operand.loops), kind, out_loops)
    value = plain.value
    attrs = {name: [1] * value.type.rank for name in ("window_dimensions", "window_strides", "window_dilations")}
    low, high = [0] * value.type.rank, [0] * value.type.rank
    for window in operand.windows:
        dim = plain.loops.index(window.outer)
        attrs["window_dimensions"][dim] = sizes[window.inner] or 0
        attrs["window_strides"][dim], attrs["window_dilations"][dim] = window.stride, window.dilation
        low[dim], high[dim] = _padding(window, value.type.sizes[dim], sizes)
    lists = {**attrs, "base_dilations": [1] * value.type.rank, "low": low, "high": high}
    init = builder.constant(neutral(kind, value.type.dtype).item(), value.type.with_shape(()))
    shape = value.type.with_shape(sizes[loop] for loop in plain.loops)
    (result,) = builder.importer.emit(
        "reduce_window", [value, init], [shape], {name: tuple(n) for name, n in lists.items()},
        builder.source, (fold_region(kind, value.type.dtype),),
    )  # fmt: skip
    return in_order(builder, Spread(result, plain.loops), out_loops)


def convolved(structure: Structure, factors: Sequence[SSAValue], out_loops: Loops, dtype: str) -> Value | None:
    """Emit a sum of products as a `convolution`. Returns None if neither factor is read through windows."""
    for image, kernel in ((factors[0], factors[1]), (factors[1], factors[0])):
        operand = match_windowed_operand(structure, narrow(image), out_loops)
        if operand is None:
            continue
        body = structure.body()
        kernel_spread = body.value(narrow(kernel))
        if kernel_spread is not None and kernel_spread.value.type.dtype != operand.value.type.dtype:
            operand, kernel_spread = match_windowed_operand(structure, image, out_loops), body.value(kernel)
        if operand is None or kernel_spread is None:
            return None
        return _convolution(structure.builder, operand, kernel_spread, structure.sizes, out_loops, dtype)
    return None


def _convolution(builder: Builder, operand: WindowedOperand, kernel: Spread, sizes: Sequence[int | None],
                 out_loops: Loops, dtype: str) -> Value | None:  # fmt: skip
    """Emit the convolution of an image with a kernel. Returns None if some loop is none of a convolution's dims."""
    windows = operand.windows
    inner, outer = {w.inner for w in windows}, {w.outer for w in windows}
    if outer & set(kernel.loops) or set(out_loops) & inner or set(range(len(sizes))) - {*operand.plain, *inner, *outer, *kernel.loops}:  # fmt: skip
        return None
    shared = [loop for loop in operand.plain if loop in kernel.loops]
    groups, summed = [x for x in shared if x in out_loops], [x for x in shared if x not in out_loops]
    operand = without_pad(builder, operand, 0)
    windows = operand.windows
    image = reduced(builder, Spread(operand.value, operand.loops), "add", [*shared, *out_loops])  # fmt: skip
    kernel = reduced(builder, kernel, "add", [*shared, *out_loops, *inner])
    missing = [loop for loop in inner if loop not in kernel.loops]
    kernel = Spread(over(builder, kernel, (*kernel.loops, *missing), sizes), (*kernel.loops, *missing))
    batch = [loop for loop in image.loops if loop not in shared and loop not in outer]
    features = [loop for loop in kernel.loops if loop not in shared and loop not in inner]
    spatial, taps = [[w.outer] for w in windows], [[w.inner] for w in windows]
    left, left_dims = _merged_roles(builder, image, [batch, groups + summed, *spatial])
    right, right_dims = _merged_roles(builder, kernel, [summed, groups + features, *taps])
    roles = [batch, groups + features, *spatial]
    loops = [loop for role in roles for loop in role]
    is_unmerged = all(len(role) == 1 for role in roles)
    out_dims = [out_loops.index(role[0]) for role in roles] if is_unmerged else list(range(len(roles)))
    shape = [0] * len(roles)
    for dim, role in zip(out_dims, roles, strict=True):
        shape[dim] = math.prod(sizes[loop] or 0 for loop in role)
    padding = [_padding(w, left.type.sizes[d], sizes) for w, d in zip(windows, left_dims[2:], strict=True)]
    result = builder.emit(
        "convolution",
        [left, right],
        TensorType(tuple(shape), dtype),
        window_strides=tuple(w.stride for w in windows),
        low=tuple(low for low, _ in padding),
        high=tuple(high for _, high in padding),
        lhs_dilation=(1,) * len(windows),
        rhs_dilation=tuple(w.dilation for w in windows),
        window_reversal=(False,) * len(windows),
        feature_group_count=math.prod(sizes[x] or 0 for x in groups),
        batch_group_count=1,
        precision=EXACT,
        **_dims("input", "batch", "feature", left_dims),
        **_dims("kernel", "input_feature", "output_feature", right_dims),
        **_dims("output", "batch", "feature", out_dims),
    )
    if is_unmerged:
        return result
    expanded = builder.reshape(result, [sizes[loop] for loop in loops])
    return in_order(builder, Spread(expanded, tuple(loops)), out_loops)


def _dims(side: str, first: str, second: str, dims: Sequence[int]) -> dict[str, Any]:
    """Return the `convolution` attributes with the dim numbers of one side: batch or feature dims `first`, `second`,
    spatial dims.
    """
    return {f"{side}_{first}": dims[0], f"{side}_{second}": dims[1], f"{side}_spatial": tuple(dims[2:])}


def _merged_roles(builder: Builder, spread: Spread, roles: Sequence[Sequence[int]]) -> tuple[Value, list[int]]:
    """Reshape a value so that each role has one dim. `roles` lists the loops of each role, which are merged.

    Returns the value and the dim of each role.
    """
    if all(len(role) == 1 for role in roles):
        return spread.value, [spread.loops.index(role[0]) for role in roles]
    value = in_order(builder, spread, tuple(loop for role in roles for loop in role))
    rest = iter(value.type.sizes)
    merged = [math.prod(next(rest) for _ in role) for role in roles]
    return builder.reshape(value, merged), list(range(len(roles)))
