"""Traced operations that join, split, pad, repeat and reorder tensors."""

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
    """Concatenate the tensors along a dim. With `axis` None, the tensors are flattened first."""
    if not len(tensors):
        refuse("concatenate needs at least one tensor")
    if axis is None:
        tensors, axis = [ravel(t) for t in tensors], 0
    dtype = promote(*tensors)
    operands = [tensor(t, dtype) for t in tensors]
    dim = axis_of(axis, operands[0].ndim)
    other_sizes = [(*operand.shape[:dim], *operand.shape[dim + 1 :]) for operand in operands]
    if any(sizes != other_sizes[0] for sizes in other_sizes) or any(
        operand.ndim != operands[0].ndim for operand in operands
    ):
        refuse(
            f"the shapes {' and '.join(str(list(operand.shape)) for operand in operands)} cannot be concatenated along axis {dim}",
            "all other dims must be equal",
        )
    shape = list(operands[0].shape)
    shape[dim] = sum(operand.shape[dim] for operand in operands)
    return emit("concatenate", operands, TensorType(tuple(shape), dtype), {"dim": dim})


@traced
def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new dim."""
    return concatenate([expand_dims(t, axis) for t in aligned(*tensors)], axis)


@traced
def hstack(tensors: Sequence[Operand]) -> Tensor:
    """Concatenate the tensors along the second dim, 1-d tensors along the first."""
    operands = [tensor(t) for t in tensors]
    return concatenate(operands, int(operands[0].ndim > 1))


@traced
def vstack(tensors: Sequence[Operand]) -> Tensor:
    """Concatenate the tensors along the first dim; 1-d tensors count as single rows."""
    return concatenate([expand_dims(t, 0) if t.ndim == 1 else t for t in map(tensor, tensors)])


@traced
def unstack(x: Operand, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices of `x` along a dim, each without that dim."""
    x = tensor(x)
    leading = (slice(None),) * axis_of(axis, x.ndim)
    return tuple(getitem(x, (*leading, i)) for i in range(x.shape[len(leading)]))


@traced
def split(x: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Split `x` along a dim into `indices_or_sections` equal parts, or before each index of a list."""
    x, parts = tensor(x), indices_or_sections
    dim = axis_of(axis, x.ndim)
    size = x.shape[dim]
    if isinstance(parts, int):
        if parts < 1 or size % parts:
            refuse(f"dim {dim} of {x.type} cannot be split into {parts} equal parts", "give the indices to split at")
        parts = list(accumulate([size // parts] * (parts - 1)))
    boundaries = [0, *parts, size]
    return [getitem(x, (*[slice(None)] * dim, slice(a, b))) for a, b in pairwise(boundaries)]


_MODES = ("edge", "reflect", "symmetric", "wrap")  # Modes of `pad` that repeat slices of the tensor.


@traced
def pad(x: Operand, pad_width: Any, mode: str = "constant", *, constant_values: float = 0) -> Tensor:
    """Pad each dim with a constant, or with rows of the tensor in the modes edge, reflect, symmetric and wrap.

    `pad_width` is a (before, after) pair per dim, or a number or pair for all dims.
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
    """Repeat each slice along a dim `repeats` times; a list has a count for each slice.

    With `axis` None, flatten first.
    """
    x = ravel(x) if axis is None else tensor(x)
    dim = axis_of(0 if axis is None else axis, x.ndim)
    if isinstance(repeats, Tensor):
        refuse("the repeats must be constants while the function is traced", "they decide the shape")
    if not isinstance(repeats, Integral):
        counts = np.broadcast_to(np.asarray(repeats), (x.shape[dim],))
        return take(x, np.repeat(np.arange(x.shape[dim], dtype=np.int32), counts), dim)
    leading, (size, *rest) = x.shape[:dim], x.shape[dim:]
    repeated = broadcast(expand_dims(x, dim + 1), [*leading, size, int(repeats), *rest])
    return reshape(repeated, [*leading, size * int(repeats), *rest])


@traced
def tile(x: Operand, repetitions: int | Sequence[int]) -> Tensor:
    """Repeat the entire tensor along each dim."""
    x = tensor(x)
    counts = [int(repetition) for repetition in np.atleast_1d(np.asarray(repetitions))]
    counts = [1] * (x.ndim - len(counts)) + counts
    x = reshape(x, (1,) * (len(counts) - x.ndim) + x.shape)
    pairs = [(count, size) for count, size in zip(counts, x.shape, strict=True)]
    interleaved = reshape(x, [n for _, size in pairs for n in (1, size)])
    return reshape(broadcast(interleaved, [n for pair in pairs for n in pair]), [count * size for count, size in pairs])


@traced
def roll(x: Operand, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Shift elements cyclically along dims. With `axis` None, shift the flattened tensor."""
    x = tensor(x)
    if axis is None:
        return reshape(roll(ravel(x), int(np.sum(np.asarray(shift))), 0), x.shape)
    axes = [axis_of(int(amount), x.ndim) for amount in np.atleast_1d(np.asarray(axis))]
    for amount, dim in zip(np.broadcast_to(np.asarray(shift), len(axes)), axes, strict=True):
        if distance := int(amount) % max(x.shape[dim], 1):
            first, second = split(x, [x.shape[dim] - distance], dim)
            x = concatenate([second, first], dim)
    return x


@traced
def flip(x: Operand, axis: int | Sequence[int] | None = None) -> Tensor:
    """Reverse the order of elements along dims (None: all)."""
    x = tensor(x)
    dims = axes_of(axis, x.ndim)
    return emit("reverse", [x], x.type, {"dims": dims}) if dims else x


@traced
def flipud(x: Operand) -> Tensor:
    """Reverse the first dim."""
    return flip(x, 0)


@traced
def fliplr(x: Operand) -> Tensor:
    """Reverse the second dim."""
    return flip(x, 1)


@traced
def rot90(x: Operand, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate by k * 90 degrees in the plane of two dims, from the first dim towards the second."""
    first, second = axes
    if k % 4 == 0:
        return tensor(x)
    if k % 4 == 2:
        return flip(x, (first, second))
    return swapaxes(flip(x, second), first, second) if k % 4 == 1 else flip(swapaxes(x, first, second), second)


@traced
def array_split(x: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Split `x` along a dim into a number of nearly equal parts, the larger ones first, or before each index of a list."""
    x = tensor(x)
    boundaries: Any = indices_or_sections
    if isinstance(boundaries, int):
        boundaries = [int(part[0]) for part in np.array_split(np.arange(x.shape[axis]), boundaries)[1:] if part.size]
    return split(x, boundaries, axis)


@traced
def column_stack(tensors: Sequence[Operand]) -> Tensor:
    """Concatenate the tensors along the second dim; 1-d tensors count as columns."""
    return concatenate([expand_dims(t, 1) if t.ndim == 1 else t for t in map(tensor, tensors)], 1)


@traced
def append(x: Operand, values: Operand, axis: int | None = None) -> Tensor:
    """Concatenate `x` and `values` along a dim. With `axis` None, both are flattened first."""
    return concatenate([x, values], axis)
