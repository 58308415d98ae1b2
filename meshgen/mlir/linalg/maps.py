"""Conversion of the operands of structured operations, read through indexing maps, into values over loops.

A dim that one loop indexes becomes the dim of that loop. Strides, offsets and negative steps become slices and
reversals. A linearized index (`4 * i + j` with j < 4) becomes a reshape, and a window (`i + k`) a concatenation of
shifted slices. Other maps (`i mod 3`, a diagonal) become a gather at constant indices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.loop_values import Loops, Spread, reshaped_dim, sliced

# Maximum number of slices per window; a window that needs more is gathered. Chosen to bound the number of nodes
MAX_WINDOW_SLICES = 256
# Maximum number of elements of a gather's constant index table per indexed dim; 2^22 int64 are 32 MB. Chosen to bound
# the size of a program
MAX_INDEX_TABLE_ELEMENTS = 1 << 22


class UnreadableMap(Exception):
    """Exception for an indexing map that cannot be converted. Its message is the reason."""


@dataclass(frozen=True)
class LinearIndex:
    """An index of the form `sum(step * loop) + offset`. `steps` are the pairs (loop, step) with nonzero steps."""

    steps: tuple[tuple[int, int], ...]
    offset: int

    @property
    def loop(self) -> int | None:
        """Return the loop if the index is one plain loop with step 1 and offset 0, else None."""
        return self.steps[0][0] if self.offset == 0 and len(self.steps) == 1 and self.steps[0][1] == 1 else None

    @property
    def loops(self) -> Loops:
        return tuple(loop for loop, _ in self.steps)


def linear_index_of(expression: AffineExpr) -> LinearIndex | None:
    """Return an affine expression as a `LinearIndex`, or None if it is not linear in the loop indices."""
    if isinstance(expression, AffineDimExpr):
        return LinearIndex(((expression.position, 1),), 0)
    if isinstance(expression, AffineConstantExpr):
        return LinearIndex((), expression.value)
    if not isinstance(expression, AffineBinaryOpExpr):
        return None
    left, right = linear_index_of(expression.lhs), linear_index_of(expression.rhs)
    if left is None or right is None:
        return None
    if expression.kind is AffineBinaryOpKind.Add:
        steps = dict(left.steps)
        for loop, step in right.steps:
            steps[loop] = steps.get(loop, 0) + step
        return LinearIndex(tuple((loop, step) for loop, step in steps.items() if step), left.offset + right.offset)
    if expression.kind is AffineBinaryOpKind.Mul and not (left.steps and right.steps):
        line, factor = (left, right.offset) if left.steps else (right, left.offset)
        return LinearIndex(tuple((loop, step * factor) for loop, step in line.steps if factor), line.offset * factor)
    return None


def linear_indices_of(expressions: Sequence[AffineExpr], sizes: Sequence[int | None]) -> list[LinearIndex | None]:
    """Return each result of a map as a `LinearIndex`, or None if it is not linear.

    Loops of size 1 are dropped from an index, unless the index is one plain loop.
    """
    lines: list[LinearIndex | None] = []
    for line in map(linear_index_of, expressions):
        if line is not None and line.loop is None:
            line = replace(line, steps=tuple((loop, step) for loop, step in line.steps if sizes[loop] != 1))
        lines.append(line)
    return lines


def read(builder: Builder, value: Value, expressions: Sequence[AffineExpr], sizes: Sequence[int | None]) -> Spread:
    """Return the elements of `value` that the map `expressions` reads, over the loops that occur in the map.

    Raises UnreadableMap if the map cannot be converted.
    """
    lines = linear_indices_of(expressions, sizes)
    plain = [line.loop for line in lines if line is not None and line.loop is not None]
    is_whole = all(
        None in (size, sizes[loop]) or size == sizes[loop] for size, loop in zip(value.type.shape, plain, strict=False)
    )
    if len(plain) == len(lines) == len(set(plain)) and is_whole:
        return Spread(value, tuple(plain))
    if None in sizes or None in value.type.shape:
        raise UnreadableMap("reads indices that cannot be computed while sizes are unknown")
    static_sizes = [size or 0 for size in sizes]
    if 0 in static_sizes:
        loops = sorted(
            {dim.position for expression in expressions for dim in expression.dfs() if isinstance(dim, AffineDimExpr)}
        )
        return Spread(builder.constant(0, value.type.with_shape(static_sizes[loop] for loop in loops)), tuple(loops))
    _check_bounds(value, expressions, lines, static_sizes)
    value, sliceable_lines = _gather_dims(builder, value, expressions, lines, static_sizes)
    return _expand(builder, *_crop(builder, value, sliceable_lines, static_sizes), static_sizes)


def _check_bounds(
    value: Value, expressions: Sequence[AffineExpr], lines: Sequence[LinearIndex | None], sizes: Sequence[int]
) -> None:
    for dim, (line, size) in enumerate(zip(lines, value.type.sizes, strict=True)):
        if line is None:
            continue
        ends = [sorted((0, step * (sizes[loop] - 1))) for loop, step in line.steps]
        low, high = (line.offset + sum(end[side] for end in ends) for side in (0, 1))
        if low < 0 or high >= size:
            raise UnreadableMap(f"reads {expressions[dim]} from {low} to {high} in a dim of size {size}")


def _gather_dims(builder: Builder, value: Value, expressions: Sequence[AffineExpr], lines: Sequence[LinearIndex | None],
                 sizes: Sequence[int]) -> tuple[Value, list[LinearIndex]]:  # fmt: skip
    """Gather from those dims of `value` that slices and reshapes cannot read.

    Returns the gathered value, with the loops of these dims in front, and the linear index of each of its dims.
    """
    uses = [loop for line in lines if line is not None for loop in line.loops]
    gathered_dims = [
        dim for dim, line in enumerate(lines)
        if line is None or _slice_count(line, sizes) > MAX_WINDOW_SLICES or any(uses.count(loop) > 1 for loop in line.loops)
    ]  # fmt: skip
    loops = sorted(
        {d.position for dim in gathered_dims for d in expressions[dim].dfs() if isinstance(d, AffineDimExpr)}
    )
    also = [dim for dim, line in enumerate(lines) if line is not None and set(line.loops) & set(loops)]
    gathered_dims = sorted({*gathered_dims, *also})
    if not gathered_dims:
        return value, [line for line in lines if line is not None]
    loops = sorted(
        {d.position for dim in gathered_dims for d in expressions[dim].dfs() if isinstance(d, AffineDimExpr)}
    )
    indices = _constant_indices([expressions[dim] for dim in gathered_dims], loops, sizes)
    shape = value.type.sizes
    if any(
        dim_indices.min() < 0 or dim_indices.max() >= shape[dim]
        for dim, dim_indices in zip(gathered_dims, indices, strict=True)
    ):
        raise UnreadableMap("reads outside of the operand")
    index = np.stack(indices, -1).astype(np.int32)
    table = builder.emit("constant", [], TensorType(index.shape, "i32"), value=index)
    gathered = builder.gather(value, table, gathered_dims, len(loops))
    remaining_lines = [line for dim, line in enumerate(lines) if dim not in gathered_dims and line is not None]
    return gathered, [*(LinearIndex(((loop, 1),), 0) for loop in loops), *remaining_lines]


def _constant_indices(
    expressions: Sequence[AffineExpr], loops: Sequence[int], sizes: Sequence[int]
) -> list[np.ndarray]:
    """Evaluate each index expression for all combinations of the loop indices."""
    shape = [sizes[loop] for loop in loops]
    if math.prod(shape) > MAX_INDEX_TABLE_ELEMENTS:
        raise UnreadableMap(f"reads {math.prod(shape)} elements one by one")
    grid = dict(zip(loops, np.indices(shape), strict=True))
    return [np.broadcast_to(evaluated(expression, grid), shape) for expression in expressions]


def evaluated(expression: AffineExpr, grid: dict[int, np.ndarray]) -> np.ndarray:
    """Evaluate an affine expression on arrays of loop indices. Raises UnreadableMap if it contains symbols."""
    if isinstance(expression, AffineDimExpr):
        return grid[expression.position]
    if isinstance(expression, AffineConstantExpr):
        return np.asarray(expression.value)
    if not isinstance(expression, AffineBinaryOpExpr):
        raise UnreadableMap("has symbols")
    left, right = evaluated(expression.lhs, grid), evaluated(expression.rhs, grid)
    kind = expression.kind
    if kind in (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul):
        return left + right if kind is AffineBinaryOpKind.Add else left * right
    if not (right > 0).all():
        raise UnreadableMap("divides by a non-positive number")
    if kind is AffineBinaryOpKind.Mod:
        return left % right
    return left // right if kind is AffineBinaryOpKind.FloorDiv else -(-left // right)


def _slice_count(line: LinearIndex, sizes: Sequence[int]) -> int:
    """Return the number of slices that a window needs, or 0 for a linearized index, which needs none."""
    if _linearized_loops(line, sizes) is not None:
        return 0
    loop_sizes = sorted(sizes[loop] for loop in line.loops)
    return math.prod(loop_sizes[:-1])


def _linearized_loops(line: LinearIndex, sizes: Sequence[int]) -> Loops | None:
    """Return the loops of a linearized index such as `4 * i + j` from major to minor, or None for other indices."""
    inner_size, digit_loops = 1, list[int]()
    for loop, step in sorted(line.steps, key=lambda pair: pair[1]):
        if step != inner_size:
            return None
        digit_loops.insert(0, loop)
        inner_size *= sizes[loop]
    return tuple(digit_loops) if len(digit_loops) > 1 else None


def _crop(
    builder: Builder, value: Value, lines: Sequence[LinearIndex], sizes: Sequence[int]
) -> tuple[Value, list[LinearIndex]]:
    """Reverse dims with a negative step, and slice the dims without windows to the range that their index covers."""
    lines = list(lines)
    shape = value.type.sizes
    back = [d for d, line in enumerate(lines) if len(line.steps) == 1 and line.steps[0][1] < 0]
    if back:
        value = builder.emit("reverse", [value], value.type, dims=tuple(back))
    start, limit, stride = [0] * len(shape), list(shape), [1] * len(shape)
    for dim, line in enumerate(lines):
        if dim in back:
            line = LinearIndex(((line.steps[0][0], -line.steps[0][1]),), shape[dim] - 1 - line.offset)
        count = math.prod(sizes[loop] for loop in line.loops)
        if len(line.steps) < 2 or _linearized_loops(line, sizes) is not None:
            stride[dim] = line.steps[0][1] if len(line.steps) == 1 else 1
            start[dim], limit[dim] = line.offset, line.offset + (count - 1) * stride[dim] + 1
            line = replace(line, steps=tuple((loop, step // stride[dim]) for loop, step in line.steps), offset=0)
        lines[dim] = line
    return sliced(builder, value, start, limit, stride), lines


def _expand(builder: Builder, value: Value, lines: Sequence[LinearIndex], sizes: Sequence[int]) -> Spread:
    """Replace each dim by one dim per loop of its index: by a reshape for a linearized index, by shifted slices for a
    window.

    Dims with a constant index are dropped.
    """
    loops: list[int] = []
    dim = 0
    for line in lines:
        digits = _linearized_loops(line, sizes)
        if len(line.steps) > 1 and digits is None:
            value, expanded_loops = _expanded_window(builder, value, dim, line, sizes)
        else:
            expanded_loops = digits or line.loops
            value = reshaped_dim(builder, value, dim, [sizes[loop] for loop in expanded_loops])
        loops += expanded_loops
        dim += len(expanded_loops)
    return Spread(value, tuple(loops))


def _expanded_window(
    builder: Builder, value: Value, dim: int, line: LinearIndex, sizes: Sequence[int]
) -> tuple[Value, Loops]:
    """Expand a dim that a sum of loops indexes, such as `i + k`.

    Takes a slice along the longest loop for each combination of the other loop indices, and concatenates the slices.
    Returns the value and the loops of the new dims.
    """
    longest = max(line.loops, key=lambda loop: sizes[loop])
    other_loops = [loop for loop in line.loops if loop != longest]
    steps = dict(line.steps)
    step, shifted_slices, shape = steps[longest], list[Value](), value.type.sizes
    for point in itertools.product(*(range(sizes[loop]) for loop in other_loops)):
        first = line.offset + sum(steps[loop] * at for loop, at in zip(other_loops, point, strict=True))
        last = first + step * (sizes[longest] - 1)
        start, limit, stride = [0] * len(shape), list(shape), [1] * len(shape)
        start[dim], limit[dim], stride[dim] = min(first, last), max(first, last) + 1, abs(step)
        shifted_slice = sliced(builder, value, start, limit, stride)
        if step < 0:
            shifted_slice = builder.emit("reverse", [shifted_slice], shifted_slice.type, dims=(dim,))
        shifted_slices.append(reshaped_dim(builder, shifted_slice, dim, [1, sizes[longest]]))
    kind = shifted_slices[0].type.with_shape([*shape[:dim], len(shifted_slices), sizes[longest], *shape[dim + 1 :]])
    joined = (
        shifted_slices[0] if len(shifted_slices) == 1 else builder.emit("concatenate", shifted_slices, kind, dim=dim)
    )
    return reshaped_dim(builder, joined, dim, [sizes[loop] for loop in other_loops]), (*other_loops, longest)
