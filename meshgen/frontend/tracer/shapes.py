"""Traced operations on dims: reshapes, permutations, broadcasts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any, cast

import numpy as np

from meshgen.frontend.tracer.operands import axes_of, axis_of, broadcast, common_shape, emit, tensor
from meshgen.frontend.tracer.recording import named, refuse, traced
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType


@traced
def reshape(x: Operand, shape: int | Sequence[int], copy: bool | None = None) -> Tensor:
    """Return the elements of x, in row-major order, in another shape. One size may be -1, which is inferred."""
    x = tensor(x)
    requested: list[Any] = [shape] if isinstance(shape, Integral) else list(cast("Sequence[int]", shape))
    sizes = requested
    if sizes.count(-1) == 1:
        known_size = -math.prod(sizes)
        sizes = [x.size // known_size if s == -1 and known_size else s for s in sizes]
    if math.prod(sizes) != x.size or min(sizes, default=0) < 0 or not all(isinstance(s, Integral) for s in sizes):
        refuse(f"{list(x.shape)} has {x.size} elements, which do not fill the shape {requested}")
    sizes = tuple(int(s) for s in sizes)
    return x if sizes == x.shape else emit("reshape", [x], TensorType(sizes, x.type.dtype))


@named("ravel", "flatten")
def ravel(x: Operand) -> Tensor:
    """Flatten the tensor to one dim, in row-major order."""
    return reshape(x, -1)


@named("transpose", "permute_dims")
def transpose(x: Operand, axes: Sequence[Any] | None = None) -> Tensor:
    """Permute the dims: dim i of the result is dim `axes[i]` of x. With `axes` None, reverse the dims."""
    x = tensor(x)
    if axes and not isinstance(axes[0], Integral):
        axes = axes[0]
    perm = tuple(axis_of(a, x.ndim) for a in axes) if axes is not None else tuple(reversed(range(x.ndim)))
    if sorted(perm) != list(range(x.ndim)):
        refuse(f"{perm} is not a permutation of the {x.ndim} dims of {x.type}")
    if perm == tuple(range(x.ndim)):
        return x
    return emit("transpose", [x], TensorType(tuple(x.shape[p] for p in perm), x.type.dtype), {"perm": perm})


@named("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: Operand) -> Tensor:
    """Swap the last two dims."""
    x = tensor(x)
    return swapaxes(x, -1, -2) if x.ndim > 1 else refuse(f"{x.type} is not a matrix: it has fewer than two dims")


@traced
def swapaxes(x: Operand, first: int, second: int) -> Tensor:
    """Swap two dims."""
    x = tensor(x)
    perm = list(range(x.ndim))
    i, j = axis_of(first, x.ndim), axis_of(second, x.ndim)
    perm[i], perm[j] = j, i
    return transpose(x, perm)


@traced
def moveaxis(x: Operand, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Move the dims `source` to the positions `destination`. The other dims keep their order."""
    x = tensor(x)
    moved, positions = ([axis_of(a, x.ndim) for a in np.atleast_1d(axis)] for axis in (source, destination))
    if len(moved) != len(positions) or len({*moved}) < len(moved) or len({*positions}) < len(positions):
        refuse(f"the axes {source} cannot move to {destination}", "give distinct positions, one for each axis")
    other_dims = iter(d for d in range(x.ndim) if d not in moved)
    dim_at = dict(zip(positions, moved, strict=True))
    return transpose(x, [dim_at[d] if d in dim_at else next(other_dims) for d in range(x.ndim)])


@traced
def broadcast_to(x: Operand, shape: Sequence[int]) -> Tensor:
    """Broadcast the tensor to a larger shape, by NumPy's rules."""
    return broadcast(tensor(x), shape)


@traced
def broadcast_arrays(*arrays: Operand) -> list[Tensor]:
    """Broadcast all tensors to one shape, by NumPy's rules. Their dtypes do not change."""
    tensors = [tensor(x) for x in arrays]
    shape = common_shape(*tensors)
    return [broadcast(x, shape) for x in tensors]


@traced
def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which tensors of these shapes broadcast."""
    try:
        return np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        refuse(f"the shapes {' and '.join(str(list(shape)) for shape in shapes)} do not broadcast together")


@traced
def expand_dims(x: Operand, axis: int | Sequence[int] = 0) -> Tensor:
    """Insert dims of size 1, so that they have the positions `axis` in the result."""
    x = tensor(x)
    rank = x.ndim + (1 if isinstance(axis, int) else len(axis))
    positions, old = axes_of(axis, rank), iter(x.shape)
    return reshape(x, [1 if d in positions else next(old) for d in range(rank)])


@traced
def squeeze(x: Operand, axis: int | Sequence[int] | None = None) -> Tensor:
    """Remove the dims `axis`, which must have size 1. With `axis` None, remove all dims of size 1."""
    x = tensor(x)
    squeezed = [d for d, s in enumerate(x.shape) if s == 1] if axis is None else axes_of(axis, x.ndim)
    if invalid := [d for d in squeezed if x.shape[d] != 1]:
        refuse(f"dim {invalid[0]} of {x.type} has size {x.shape[invalid[0]]} and cannot be squeezed")
    return reshape(x, [s for d, s in enumerate(x.shape) if d not in squeezed])


@traced
def atleast_1d(x: Operand) -> Tensor:
    """Reshape a 0-d tensor to one dim of size 1; other tensors are unchanged."""
    return _at_least(x, 1)


@traced
def atleast_2d(x: Operand) -> Tensor:
    """Prepend dims of size 1 until the tensor has two dims."""
    return _at_least(x, 2)


def _at_least(x: Operand, rank: int) -> Tensor:
    x = tensor(x)
    return reshape(x, (1,) * (rank - x.ndim) + x.shape)
