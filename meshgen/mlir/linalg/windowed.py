"""Windows in structured operations: products summed over windows are convolutions, other folds are `reduce_window`.

A dim of an operand that is read at `stride * o + dilation * k`, with o in the result and k folded away, is walked by a
window. Whatever else the operand is read at makes up batch and channel dims; several of one role are merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import BlockArgument, SSAValue

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.linalg.body import Body, Structure, depends_on, narrow
from meshgen.mlir.linalg.maps import Line, lines_of
from meshgen.mlir.spread import Loops, Spread, fold_region, in_order, over, reduced, reshaped_dim, sliced
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.precision import EXACT


@dataclass(frozen=True)
class Window:
    """A dim that is walked: the loop of the result, the loop in the window, and how they step from `offset` on."""

    dim: int
    outer: int
    inner: int
    stride: int
    dilation: int
    offset: int


@dataclass(frozen=True)
class Walk:
    """An operand that is read through windows: its value, and per dim the loop or the window."""

    value: Value
    dims: tuple[int | Window, ...]

    @property
    def windows(self) -> list[Window]:
        return [dim for dim in self.dims if isinstance(dim, Window)]

    @property
    def loops(self) -> Loops:
        """Per dim its loop; of a window the one in the result."""
        return tuple(dim if isinstance(dim, int) else dim.outer for dim in self.dims)

    @property
    def plain(self) -> list[int]:
        """The loops of dims without windows."""
        return [dim for dim in self.dims if isinstance(dim, int)]


def walk_of(structure: Structure, factor: SSAValue, place: Loops) -> Walk | None:
    """A factor computed from one operand alone, which is read through windows."""
    used = [argument for argument in structure.block.args if depends_on(factor, argument)]
    if len(used) != 1 or None in structure.sizes:
        return None
    number = structure.block.args.index(used[0])
    lines = lines_of(structure.maps[number].results, structure.sizes)
    known = [line for line in lines if line is not None]
    if len(known) != len(lines) or all(len(line.steps) < 2 for line in known) or not _is_walk(known, place):
        return None
    value = _in_own_dims(structure, used[0], factor, structure.values[number])
    return None if value is None else _cropped_dims(structure.builder, value, known, place, structure.sizes)


def _is_walk(lines: Sequence[Line], place: Loops) -> bool:
    """Whether every dim is a loop, a place, or a window with one of its two loops in the result."""
    loops = [loop for line in lines for loop in line.loops]
    pairs = [line for line in lines if len(line.steps) > 1]
    walks = all(len(line.steps) == 2 and sum(loop in place for loop in line.loops) == 1 for line in pairs)
    return walks and len(set(loops)) == len(loops) and all(step > 0 for line in lines for _, step in line.steps)


def _in_own_dims(structure: Structure, argument: BlockArgument, factor: SSAValue, value: Value) -> Value | None:
    """A factor computed on the whole of the operand that it depends on."""
    own = tuple(range(value.type.rank))
    body = Body(structure.builder, structure.block, value.type.shape, known={argument: Spread(value, own)})
    return body.full(factor, own)


def _cropped_dims(
    builder: Builder, value: Value, lines: Sequence[Line], place: Loops, sizes: Sequence[int | None]
) -> Walk:
    """Dims that are read at one loop cut to what it reads, places dropped; windows stay as they are."""
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
        (outer, step), (inner, dilation) = sorted(line.steps, key=lambda pair: pair[0] not in place)
        dims.append(Window(len(dims), outer, inner, step, dilation, line.offset))
    value = sliced(builder, value, start, limit, stride)
    for dim in reversed([dim for dim, line in enumerate(lines) if not line.steps]):
        value = reshaped_dim(builder, value, dim, [])
    return Walk(value, tuple(dims))


def _padding(window: Window, size: int, sizes: Sequence[int | None]) -> tuple[int, int]:
    """Negative padding that crops the operand, so that the window makes the loop's number of steps."""
    outer, inner = sizes[window.outer] or 0, sizes[window.inner] or 0
    reach = window.offset + (outer - 1) * window.stride + (inner - 1) * window.dilation + 1
    rest = size - reach
    return -window.offset, -rest if rest >= window.stride else 0


def folded_windows(structure: Structure, kind: str, term: SSAValue, place: Loops, prepare: Callable[[Value], Value]
                   ) -> Value | None:  # fmt: skip
    """A fold of a term that reads one operand through windows, as a `reduce_window`; None where it is none."""
    walk, builder, sizes = walk_of(structure, term, place), structure.builder, structure.sizes
    if walk is None:
        return None
    read = {*walk.plain, *(loop for w in walk.windows for loop in (w.outer, w.inner))}
    if any(size != 1 for loop, size in enumerate(sizes) if loop not in read) or not set(place) <= read:
        return None
    plain = reduced(builder, Spread(prepare(walk.value), walk.loops), kind, place)
    value = plain.value
    attrs = {name: [1] * value.type.rank for name in ("window_dimensions", "window_strides", "window_dilations")}
    low, high = [0] * value.type.rank, [0] * value.type.rank
    for window in walk.windows:
        dim = plain.loops.index(window.outer)
        attrs["window_dimensions"][dim] = sizes[window.inner] or 0
        attrs["window_strides"][dim], attrs["window_dilations"][dim] = window.stride, window.dilation
        low[dim], high[dim] = _padding(window, value.type.sizes[dim], sizes)
    lists = {**attrs, "base_dilations": [1] * value.type.rank, "low": low, "high": high}
    init = builder.constant(neutral(kind, value.type.dtype).item(), value.type.with_shape(()))
    shape = value.type.with_shape(sizes[loop] for loop in plain.loops)
    (found,) = builder.importer.emit(
        "reduce_window", [value, init], [shape], {name: tuple(n) for name, n in lists.items()},
        builder.source, (fold_region(kind, value.type.dtype),),
    )  # fmt: skip
    return in_order(builder, Spread(found, plain.loops), place)


def convolved(structure: Structure, factors: Sequence[SSAValue], place: Loops, dtype: str) -> Value | None:
    """The sum of a product as a `convolution`; None where neither factor is read through windows."""
    for image, kernel in ((factors[0], factors[1]), (factors[1], factors[0])):
        walk = walk_of(structure, narrow(image), place)
        if walk is None:
            continue
        body = structure.body()
        other = body.value(narrow(kernel))
        if other is not None and other.value.type.dtype != walk.value.type.dtype:
            walk, other = walk_of(structure, image, place), body.value(kernel)
        if walk is None or other is None:
            return None
        return _convolution(structure.builder, walk, other, structure.sizes, place, dtype)
    return None


def _convolution(builder: Builder, walk: Walk, kernel: Spread, sizes: Sequence[int | None], place: Loops, dtype: str
                 ) -> Value | None:  # fmt: skip
    """The convolution of an image with a kernel; None where loops have no role in one."""
    windows = walk.windows
    inner, outer = {w.inner for w in windows}, {w.outer for w in windows}
    if outer & set(kernel.loops) or set(place) & inner or set(range(len(sizes))) - {*walk.plain, *inner, *outer, *kernel.loops}:  # fmt: skip
        return None
    shared = [loop for loop in walk.plain if loop in kernel.loops]
    groups, summed = [x for x in shared if x in place], [x for x in shared if x not in place]
    image = reduced(builder, Spread(walk.value, walk.loops), "add", [*shared, *place])  # fmt: skip
    kernel = reduced(builder, kernel, "add", [*shared, *place, *inner])
    missing = [loop for loop in inner if loop not in kernel.loops]
    kernel = Spread(over(builder, kernel, (*kernel.loops, *missing), sizes), (*kernel.loops, *missing))
    batch = [loop for loop in image.loops if loop not in shared and loop not in outer]
    features = [loop for loop in kernel.loops if loop not in shared and loop not in inner]
    rows, taps = [[w.outer] for w in windows], [[w.inner] for w in windows]
    left, left_dims = _merged_roles(builder, image, [batch, groups + summed, *rows])
    right, right_dims = _merged_roles(builder, kernel, [summed, groups + features, *taps])
    roles = [batch, groups + features, *rows]
    loops = [loop for role in roles for loop in role]
    whole = all(len(role) == 1 for role in roles)
    out_dims = [place.index(role[0]) for role in roles] if whole else list(range(len(roles)))
    shape = [0] * len(roles)
    for dim, role in zip(out_dims, roles, strict=True):
        shape[dim] = math.prod(sizes[loop] or 0 for loop in role)
    padding = [_padding(w, left.type.sizes[d], sizes) for w, d in zip(windows, left_dims[2:], strict=True)]
    found = builder.emit(
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
    if whole:
        return found
    opened = builder.reshape(found, [sizes[loop] for loop in loops])
    return in_order(builder, Spread(opened, tuple(loops)), place)


def _dims(side: str, first: str, second: str, dims: Sequence[int]) -> dict[str, Any]:
    """The attributes that say which dim of an operand or of the result has which role."""
    return {f"{side}_{first}": dims[0], f"{side}_{second}": dims[1], f"{side}_spatial": tuple(dims[2:])}


def _merged_roles(builder: Builder, spread: Spread, roles: Sequence[Sequence[int]]) -> tuple[Value, list[int]]:
    """A value with one dim per role, which merges the role's loops, major to minor; and the dim of each role."""
    if all(len(role) == 1 for role in roles):
        return spread.value, [spread.loops.index(role[0]) for role in roles]
    value = in_order(builder, spread, tuple(loop for role in roles for loop in role))
    rest = iter(value.type.sizes)
    merged = [math.prod(next(rest) for _ in role) for role in roles]
    return builder.reshape(value, merged), list(range(len(roles)))
