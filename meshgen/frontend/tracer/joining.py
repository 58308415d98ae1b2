"""Traced operations that put tensors together, cut them, and repeat or move their rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from numbers import Integral
from typing import Any

import numpy as np

from meshgen.frontend.tracer.indexing import getitem, take
from meshgen.frontend.tracer.operands import aligned, axes_of, axis_of, broadcast, emit, promote, tensor
from meshgen.frontend.tracer.recording import named, refuse, traced
from meshgen.frontend.tracer.shapes import expand_dims, ravel, reshape, swapaxes
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType


@named("concatenate", "concat")
def concatenate(tensors: Sequence[Operand], axis: int | None = 0) -> Tensor:
    """The tensors one after the other along an existing dim; None: the elements of all."""
    if not len(tensors):
        refuse("concatenate needs at least one tensor")
    if axis is None:
        tensors, axis = [ravel(t) for t in tensors], 0
    dtype = promote(*tensors)
    parts = [tensor(t, dtype) for t in tensors]
    dim = axis_of(axis, parts[0].ndim)
    rests = [(*p.shape[:dim], *p.shape[dim + 1 :]) for p in parts]
    if any(rest != rests[0] for rest in rests) or any(p.ndim != parts[0].ndim for p in parts):
        refuse(
            f"the shapes {' and '.join(str(list(p.shape)) for p in parts)} cannot be concatenated along axis {dim}",
            "all other dims must be equal",
        )
    shape = list(parts[0].shape)
    shape[dim] = sum(p.shape[dim] for p in parts)
    return emit("concatenate", parts, TensorType(tuple(shape), dtype), {"dim": dim})


@traced
def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """The tensors one after the other along a new dim."""
    return concatenate([expand_dims(t, axis) for t in aligned(*tensors)], axis)


@traced
def hstack(tensors: Sequence[Operand]) -> Tensor:
    """The tensors one after the other along the second dim; 1-d ones along the first."""
    parts = [tensor(t) for t in tensors]
    return concatenate(parts, int(parts[0].ndim > 1))


@traced
def vstack(tensors: Sequence[Operand]) -> Tensor:
    """The tensors, 1-d ones as rows, one below the other."""
    return concatenate([expand_dims(t, 0) if t.ndim == 1 else t for t in map(tensor, tensors)])


@traced
def unstack(x: Operand, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of size 1 along a dim, without the dim."""
    x = tensor(x)
    at = (slice(None),) * axis_of(axis, x.ndim)
    return tuple(getitem(x, (*at, i)) for i in range(x.shape[len(at)]))


@traced
def split(x: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Equal parts along a dim, or parts between the given row numbers."""
    x, parts = tensor(x), indices_or_sections
    dim = axis_of(axis, x.ndim)
    size = x.shape[dim]
    if isinstance(parts, int):
        if parts < 1 or size % parts:
            refuse(f"dim {dim} of {x.type} cannot be split into {parts} equal parts", "give the indices to split at")
        parts = list(accumulate([size // parts] * (parts - 1)))
    cuts = [0, *parts, size]
    return [getitem(x, (*[slice(None)] * dim, slice(a, b))) for a, b in pairwise(cuts)]


_MODES = ("edge", "reflect", "symmetric", "wrap")  # of pad: rows of the tensor itself


@traced
def pad(x: Operand, pad_width: Any, mode: str = "constant", *, constant_values: float = 0) -> Tensor:
    """Rows before and after those of each dim: constants, or with mode edge, reflect, symmetric or wrap rows of the tensor.

    `pad_width` is a pair per dim, or a number or pair for all dims.
    """
    x = tensor(x)
    try:
        pairs = [(int(a), int(b)) for a, b in np.broadcast_to(np.asarray(pad_width), (x.ndim, 2))]
    except ValueError:
        pairs = [(-1, -1)]
    if any(min(pair) < 0 for pair in pairs):
        refuse(f"pad needs a pair of sizes for each of the {x.ndim} dims of {x.type}, not {pad_width}")
    if mode == "constant":
        return _padded(x, pairs, constant_values)
    if mode not in _MODES:
        refuse(
            f"'{mode}' is not a mode of pad", f"the modes are constant, {', '.join(_MODES)}; fill with constant_values="
        )
    arrange: Any = np.pad
    for dim, pair in enumerate(pairs):
        x = take(x, arrange(np.arange(x.shape[dim], dtype=np.int32), pair, mode=mode), dim) if any(pair) else x
    return x


def _padded(x: Tensor, pairs: Sequence[tuple[int, int]], value: Operand) -> Tensor:
    low, high = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    shape = tuple(a + s + b for a, s, b in zip(low, x.shape, high, strict=True))
    attrs = {"low": low, "high": high, "interior": (0,) * x.ndim}
    return emit("pad", [x, tensor(value, x.type.dtype)], TensorType(shape, x.type.dtype), attrs)


@traced
def repeat(x: Operand, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Each row several times: all as often, or each as a list of numbers says."""
    x = ravel(x) if axis is None else tensor(x)
    dim = axis_of(0 if axis is None else axis, x.ndim)
    if isinstance(repeats, Tensor):
        refuse("the numbers of repeats must be known while the function is traced", "they decide the shape")
    if not isinstance(repeats, Integral):
        counts = np.broadcast_to(np.asarray(repeats), (x.shape[dim],))
        return take(x, np.repeat(np.arange(x.shape[dim], dtype=np.int32), counts), dim)
    lead, (size, *rest) = x.shape[:dim], x.shape[dim:]
    spread = broadcast(expand_dims(x, dim + 1), [*lead, size, int(repeats), *rest])
    return reshape(spread, [*lead, size * int(repeats), *rest])


@traced
def tile(x: Operand, repetitions: int | Sequence[int]) -> Tensor:
    """The whole tensor several times along each dim."""
    x = tensor(x)
    counts = [int(each) for each in np.atleast_1d(np.asarray(repetitions))]
    counts = [1] * (x.ndim - len(counts)) + counts
    x = reshape(x, (1,) * (len(counts) - x.ndim) + x.shape)
    pairs = [(count, size) for count, size in zip(counts, x.shape, strict=True)]
    apart = reshape(x, [n for _, size in pairs for n in (1, size)])
    return reshape(broadcast(apart, [n for pair in pairs for n in pair]), [count * size for count, size in pairs])


@traced
def roll(x: Operand, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Rows moved on along dims; those that leave at one end enter at the other. None: over all elements in row-major order."""
    x = tensor(x)
    if axis is None:
        return reshape(roll(ravel(x), int(np.sum(np.asarray(shift))), 0), x.shape)
    axes = [axis_of(int(each), x.ndim) for each in np.atleast_1d(np.asarray(axis))]
    for each, dim in zip(np.broadcast_to(np.asarray(shift), len(axes)), axes, strict=True):
        if by := int(each) % max(x.shape[dim], 1):
            first, second = split(x, [x.shape[dim] - by], dim)
            x = concatenate([second, first], dim)
    return x


@traced
def flip(x: Operand, axis: int | Sequence[int] | None = None) -> Tensor:
    """Rows in reverse order along dims; None: along all."""
    x = tensor(x)
    dims = axes_of(axis, x.ndim)
    return emit("reverse", [x], x.type, {"dims": dims}) if dims else x


@traced
def flipud(x: Operand) -> Tensor:
    """Rows along the first dim in reverse order."""
    return flip(x, 0)


@traced
def fliplr(x: Operand) -> Tensor:
    """Rows along the second dim in reverse order."""
    return flip(x, 1)


@traced
def rot90(x: Operand, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Matrices in two dims turned by k quarters, from the first dim to the second."""
    first, second = axes
    if k % 4 == 0:
        return tensor(x)
    if k % 4 == 2:
        return flip(x, (first, second))
    return swapaxes(flip(x, second), first, second) if k % 4 == 1 else flip(swapaxes(x, first, second), second)


@traced
def array_split(x: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Parts along a dim as equal as can be, the first ones larger, or parts between the given row numbers."""
    x = tensor(x)
    cuts: Any = indices_or_sections
    if isinstance(cuts, int):
        cuts = [int(part[0]) for part in np.array_split(np.arange(x.shape[axis]), cuts)[1:] if part.size]
    return split(x, cuts, axis)


@traced
def column_stack(tensors: Sequence[Operand]) -> Tensor:
    """1-d tensors as columns, and matrices, beside each other."""
    return concatenate([expand_dims(t, 1) if t.ndim == 1 else t for t in map(tensor, tensors)], 1)


@traced
def append(x: Operand, values: Operand, axis: int | None = None) -> Tensor:
    """The values behind the rows of a dim; None: behind all elements."""
    return concatenate([x, values], axis)
