"""Operands of structured operations as values over loops: what their indexing maps read.

A dim that is read at one loop is that loop; a stride, an offset or a negative step is a slice or a reversal; the digits
of an index (`4 * i + j` with j below 4) are a reshape; a window (`i + k`) is its shifted slices side by side; what is
left (`i mod 3`, a diagonal) is looked up at constant places.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.spread import Loops, Spread, reshaped_dim, sliced

MOST_SLICES = 256  # a window of more elements is looked up
MOST_PLACES = 1 << 22  # a table of them is a constant of the program: 32 MB per index


class UnreadableMap(Exception):
    """A map that cannot be converted; the message has the reason."""


@dataclass(frozen=True)
class Line:
    """The place `sum(step * loop) + offset` at which a dim is read: steps by loop, none of them 0."""

    steps: tuple[tuple[int, int], ...]
    offset: int

    @property
    def loop(self) -> int | None:
        """The loop that the dim is, if it is one."""
        return self.steps[0][0] if self.offset == 0 and len(self.steps) == 1 and self.steps[0][1] == 1 else None

    @property
    def loops(self) -> Loops:
        return tuple(loop for loop, _ in self.steps)


def line_of(expression: AffineExpr) -> Line | None:
    """An expression as a sum of loops with constant steps; None where it is none."""
    if isinstance(expression, AffineDimExpr):
        return Line(((expression.position, 1),), 0)
    if isinstance(expression, AffineConstantExpr):
        return Line((), expression.value)
    if not isinstance(expression, AffineBinaryOpExpr):
        return None
    left, right = line_of(expression.lhs), line_of(expression.rhs)
    if left is None or right is None:
        return None
    if expression.kind is AffineBinaryOpKind.Add:
        steps = dict(left.steps)
        for loop, step in right.steps:
            steps[loop] = steps.get(loop, 0) + step
        return Line(tuple((loop, step) for loop, step in steps.items() if step), left.offset + right.offset)
    if expression.kind is AffineBinaryOpKind.Mul and not (left.steps and right.steps):
        line, factor = (left, right.offset) if left.steps else (right, left.offset)
        return Line(tuple((loop, step * factor) for loop, step in line.steps if factor), line.offset * factor)
    return None


def lines_of(expressions: Sequence[AffineExpr], sizes: Sequence[int | None]) -> list[Line | None]:
    """The lines of a map's results; loops that run once add nothing, unless a dim is just that loop."""
    found: list[Line | None] = []
    for line in map(line_of, expressions):
        if line is not None and line.loop is None:
            line = replace(line, steps=tuple((loop, step) for loop, step in line.steps if sizes[loop] != 1))
        found.append(line)
    return found


def read(builder: Builder, value: Value, expressions: Sequence[AffineExpr], sizes: Sequence[int | None]) -> Spread:
    """The elements of an operand that a map reads, over the loops that it depends on. Raises UnreadableMap."""
    lines = lines_of(expressions, sizes)
    plain = [line.loop for line in lines if line is not None and line.loop is not None]
    if len(plain) == len(lines) == len(set(plain)):
        return Spread(value, tuple(plain))
    if None in sizes or None in value.type.shape:
        raise UnreadableMap("reads indices that cannot be computed while sizes are unknown")
    known = [size or 0 for size in sizes]
    if 0 in known:
        loops = sorted({dim.position for each in expressions for dim in each.dfs() if isinstance(dim, AffineDimExpr)})
        return Spread(builder.constant(0, value.type.with_shape(known[loop] for loop in loops)), tuple(loops))
    _check_bounds(value, expressions, lines, known)
    value, found = _looked_up(builder, value, expressions, lines, known)
    return _opened(builder, *_cropped(builder, value, found, known), known)


def _check_bounds(value: Value, expressions: Sequence[AffineExpr], lines: Sequence[Line | None], sizes: Sequence[int]
                  ) -> None:  # fmt: skip
    for dim, (line, size) in enumerate(zip(lines, value.type.sizes, strict=True)):
        if line is None:
            continue
        ends = [sorted((0, step * (sizes[loop] - 1))) for loop, step in line.steps]
        low, high = (line.offset + sum(end[side] for end in ends) for side in (0, 1))
        if low < 0 or high >= size:
            raise UnreadableMap(f"reads {expressions[dim]} from {low} to {high} in a dim of size {size}")


def _looked_up(builder: Builder, value: Value, expressions: Sequence[AffineExpr], lines: Sequence[Line | None],
               sizes: Sequence[int]) -> tuple[Value, list[Line]]:  # fmt: skip
    """The value with its dims that no slice can read replaced by the loops they depend on, in front."""
    uses = [loop for line in lines if line is not None for loop in line.loops]
    hard = [
        dim for dim, line in enumerate(lines)
        if line is None or _slices(line, sizes) > MOST_SLICES or any(uses.count(loop) > 1 for loop in line.loops)
    ]  # fmt: skip
    loops = sorted({d.position for dim in hard for d in expressions[dim].dfs() if isinstance(d, AffineDimExpr)})
    also = [dim for dim, line in enumerate(lines) if line is not None and set(line.loops) & set(loops)]
    hard = sorted({*hard, *also})
    if not hard:
        return value, [line for line in lines if line is not None]
    loops = sorted({d.position for dim in hard for d in expressions[dim].dfs() if isinstance(d, AffineDimExpr)})
    places = _places([expressions[dim] for dim in hard], loops, sizes)
    shape = value.type.sizes
    if any(place.min() < 0 or place.max() >= shape[dim] for dim, place in zip(hard, places, strict=True)):
        raise UnreadableMap("reads outside of the operand")
    index = np.stack(places, -1).astype(np.int32)
    table = builder.emit("constant", [], TensorType(index.shape, "i32"), value=index)
    found = builder.gather(value, table, hard, len(loops))
    left = [line for dim, line in enumerate(lines) if dim not in hard and line is not None]
    return found, [*(Line(((loop, 1),), 0) for loop in loops), *left]


def _places(expressions: Sequence[AffineExpr], loops: Sequence[int], sizes: Sequence[int]) -> list[np.ndarray]:
    """The values of expressions at every point of some loops."""
    shape = [sizes[loop] for loop in loops]
    if math.prod(shape) > MOST_PLACES:
        raise UnreadableMap(f"reads {math.prod(shape)} elements one by one")
    grid = dict(zip(loops, np.indices(shape), strict=True))
    return [np.broadcast_to(evaluated(expression, grid), shape) for expression in expressions]


def evaluated(expression: AffineExpr, grid: dict[int, np.ndarray]) -> np.ndarray:
    """An affine expression at arrays of loop numbers. Raises UnreadableMap for symbols."""
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


def _slices(line: Line, sizes: Sequence[int]) -> int:
    """How many slices make a window: none where the loops are digits of the index."""
    if _digits(line, sizes) is not None:
        return 0
    counts = sorted(sizes[loop] for loop in line.loops)
    return math.prod(counts[:-1])


def _digits(line: Line, sizes: Sequence[int]) -> Loops | None:
    """The loops from major to minor where each one's step is the number of places of those below it."""
    below, found = 1, list[int]()
    for loop, step in sorted(line.steps, key=lambda pair: pair[1]):
        if step != below:
            return None
        found.insert(0, loop)
        below *= sizes[loop]
    return tuple(found) if len(found) > 1 else None


def _cropped(builder: Builder, value: Value, lines: Sequence[Line], sizes: Sequence[int]) -> tuple[Value, list[Line]]:
    """The value reversed where a dim is read backwards, and cut to what dims of at most one loop, or digits, read."""
    lines = list(lines)
    shape = value.type.sizes
    back = [d for d, line in enumerate(lines) if len(line.steps) == 1 and line.steps[0][1] < 0]
    if back:
        value = builder.emit("reverse", [value], value.type, dims=tuple(back))
    start, limit, stride = [0] * len(shape), list(shape), [1] * len(shape)
    for dim, line in enumerate(lines):
        if dim in back:
            line = Line(((line.steps[0][0], -line.steps[0][1]),), shape[dim] - 1 - line.offset)
        count = math.prod(sizes[loop] for loop in line.loops)
        if len(line.steps) < 2 or _digits(line, sizes) is not None:
            stride[dim] = line.steps[0][1] if len(line.steps) == 1 else 1
            start[dim], limit[dim] = line.offset, line.offset + (count - 1) * stride[dim] + 1
            line = replace(line, steps=tuple((loop, step // stride[dim]) for loop, step in line.steps), offset=0)
        lines[dim] = line
    return sliced(builder, value, start, limit, stride), lines


def _opened(builder: Builder, value: Value, lines: Sequence[Line], sizes: Sequence[int]) -> Spread:
    """Each dim as its loops: digits by a reshape, windows by their shifted slices, constants dropped."""
    loops: list[int] = []
    dim = 0
    for line in lines:
        digits = _digits(line, sizes)
        if len(line.steps) > 1 and digits is None:
            value, opened = _opened_window(builder, value, dim, line, sizes)
        else:
            opened = digits or line.loops
            value = reshaped_dim(builder, value, dim, [sizes[loop] for loop in opened])
        loops += opened
        dim += len(opened)
    return Spread(value, tuple(loops))


def _opened_window(builder: Builder, value: Value, dim: int, line: Line, sizes: Sequence[int]) -> tuple[Value, Loops]:
    """A dim that is read at a sum of loops: a slice along the longest loop for each point of the others."""
    slide = max(line.loops, key=lambda loop: sizes[loop])
    others = [loop for loop in line.loops if loop != slide]
    steps = dict(line.steps)
    step, parts, shape = steps[slide], list[Value](), value.type.sizes
    for point in itertools.product(*(range(sizes[loop]) for loop in others)):
        first = line.offset + sum(steps[loop] * at for loop, at in zip(others, point, strict=True))
        last = first + step * (sizes[slide] - 1)
        start, limit, stride = [0] * len(shape), list(shape), [1] * len(shape)
        start[dim], limit[dim], stride[dim] = min(first, last), max(first, last) + 1, abs(step)
        part = sliced(builder, value, start, limit, stride)
        if step < 0:
            part = builder.emit("reverse", [part], part.type, dims=(dim,))
        parts.append(reshaped_dim(builder, part, dim, [1, sizes[slide]]))
    kind = parts[0].type.with_shape([*shape[:dim], len(parts), sizes[slide], *shape[dim + 1 :]])
    joined = parts[0] if len(parts) == 1 else builder.emit("concatenate", parts, kind, dim=dim)
    return reshaped_dim(builder, joined, dim, [sizes[loop] for loop in others]), (*others, slide)
