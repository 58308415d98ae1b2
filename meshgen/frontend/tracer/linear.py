"""Traced products of vectors and matrices, as one dot_general each; `einsum` is in a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.frontend.tracer.elementwise import conj
from meshgen.frontend.tracer.indexing import diagonal
from meshgen.frontend.tracer.operands import axis_of, broadcast, dtype_of, emit, promote, tensor
from meshgen.frontend.tracer.recording import current, named, refuse, traced
from meshgen.frontend.tracer.reduce import sum_
from meshgen.frontend.tracer.shapes import expand_dims, moveaxis, ravel, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType

Option = Sequence[Sequence[str | int]]


@named("matmul", "linalg.matmul")
def matmul(
    x: Operand, y: Operand, sharding_option: Option | None = None, *, preferred_element_type: Any = None
) -> Tensor:
    """NumPy's matrix product; 1-d operands are vectors, leading dims broadcast.

    Args:
        sharding_option: mesh axes per loop: batch dims, free dims of x, free dims of y, contracted dim.
        preferred_element_type: that of the result, such as f32 of bf16 operands.
    Raises:
        ProgramError: MG0104 with both shapes where they do not fit.
    """
    dtype = promote(x, y)
    wanted = "" if preferred_element_type is None else dtype_of(preferred_element_type)
    left, right = tensor(x, dtype), tensor(y, dtype)
    if not left.ndim or not right.ndim:
        refuse("matmul needs operands with at least one dim", "use * for 0-d ones")
    k_left, k_right = left.ndim - 1, max(0, right.ndim - 2)
    if left.shape[k_left] != right.shape[k_right]:
        refuse(
            f"matmul of {list(left.shape)} and {list(right.shape)}: the contracted sizes differ, "
            f"{left.shape[k_left]} (dim {k_left} on the left) and {right.shape[k_right]} (dim {k_right} on the right)"
        )
    if right.ndim <= 2:
        return dot_general(left, right, (), (), (k_left,), (k_right,), sharding_option, wanted)
    if left.ndim == 1:
        lead = tuple(range(right.ndim - 2))
        free = dot_general(right, left, (), (), (k_right,), (0,), sharding_option, wanted)
        assert free.shape == tuple(right.shape[d] for d in (*lead, right.ndim - 1))
        return free
    batch = _leading(left, right)
    left, right = broadcast(left, (*batch, *left.shape[-2:])), broadcast(right, (*batch, *right.shape[-2:]))
    dims = tuple(range(len(batch)))
    return dot_general(left, right, dims, dims, (left.ndim - 1,), (right.ndim - 2,), sharding_option, wanted)


def _leading(left: Tensor, right: Tensor) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        refuse(f"matmul of {list(left.shape)} and {list(right.shape)}: the leading dims do not broadcast together")


def dot_general(left: Tensor, right: Tensor, lhs_batch: Sequence[int], rhs_batch: Sequence[int], lhs_contract: Sequence[int],
                rhs_contract: Sequence[int], option: Option | None = None, dtype: str = "") -> Tensor:  # fmt: skip
    """One contraction, of `dtype` if given; dims of the result: batch, free dims of the left, free dims of the right."""
    left_free = [d for d in range(left.ndim) if d not in (*lhs_batch, *lhs_contract)]
    right_free = [d for d in range(right.ndim) if d not in (*rhs_batch, *rhs_contract)]
    shape = [left.shape[d] for d in (*lhs_batch, *left_free)] + [right.shape[d] for d in right_free]
    attrs: dict[str, object] = {
        "lhs_batch": tuple(lhs_batch),
        "rhs_batch": tuple(rhs_batch),
        "lhs_contract": tuple(lhs_contract),
        "rhs_contract": tuple(rhs_contract),
        "precision": ("DEFAULT", "DEFAULT"),
    }
    axes = None if option is None else loop_axes(option, len(shape) + len(lhs_contract))
    return emit("dot_general", [left, right], TensorType(tuple(shape), dtype or left.type.dtype), attrs, option=axes)


def ragged_dot(left: Tensor, right: Tensor, starts: Tensor, ends: Tensor, *, contracts: bool = False, dtype: str = "") -> Tensor:  # fmt: skip
    """Multiply the rows [start, end) of each group by its matrix; rows of no group become zero.

    Args:
        left: [rows, k].
        right: matrices [groups, k, n], or rows [rows, n] where it `contracts`.
        starts, ends: integers [groups]; no row is in two groups.
        contracts: sum over the rows of each group instead.
        dtype: that of the result, where it is not that of `left`.
    Returns:
        [rows, n], or [groups, k, n].
    """
    fits = left.ndim == 2 and right.ndim == (2 if contracts else 3)
    if not fits or left.shape[0 if contracts else 1] != right.shape[0 if contracts else 1]:
        refuse(f"groups of rows of {left.type} do not fit {right.type}")
    if starts.shape != ends.shape or ends.ndim != 1 or (not contracts and ends.shape[0] != right.shape[0]):
        refuse(f"groups that start at {starts.type} and end at {ends.type} do not fit {right.type}")
    bounds = [tensor(bound, "i32") for bound in (starts, ends)]
    shape = (ends.shape[0], left.shape[1], right.shape[1]) if contracts else (left.shape[0], right.shape[2])
    attrs = {"contracts": contracts, "precision": ("DEFAULT", "DEFAULT"), "disjoint": True}
    return emit("ragged_dot", [left, right, *bounds], TensorType(shape, dtype or left.type.dtype), attrs)


@named("dot_general")
def contracted(lhs: Operand, rhs: Operand, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None) -> Tensor:  # fmt: skip
    """Sums over dims of both, as `jax.lax.dot_general`: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`."""
    dtype = promote(lhs, rhs)
    left, right = tensor(lhs, dtype), tensor(rhs, dtype)
    wanted = "" if preferred_element_type is None else dtype_of(preferred_element_type)
    (ours, theirs), (our_batch, their_batch) = (
        [[axis_of(int(a), each.ndim) for a in dims] for each, dims in zip((left, right), pair, strict=True)]
        for pair in dimension_numbers
    )
    sizes = [
        [each.shape[d] for d in dims] for each, dims in ((left, [*our_batch, *ours]), (right, [*their_batch, *theirs]))
    ]
    if sizes[0] != sizes[1]:
        refuse(f"dot_general of {left.type} and {right.type} over {dimension_numbers}: the sizes differ")
    return dot_general(left, right, our_batch, their_batch, ours, theirs, None, wanted)


def loop_axes(option: Option, loops: int) -> tuple[tuple[str, ...], ...]:
    """A sharding option by axis names. Raises ProgramError for a wrong number of loops or an unknown number."""
    if len(option) != loops:
        refuse(
            f"the sharding option {list(map(list, option))} has {len(option)} entries, but the operation has {loops} loops"
        )
    return tuple(tuple(axis_name(axis) for axis in axes) for axes in option)


def axis_name(axis: str | int) -> str:
    """A mesh axis by name, or by number where the trace knows the mesh."""
    if isinstance(axis, str):
        return axis
    mesh = current().mesh
    if mesh is None or not 0 <= axis < len(mesh.axes):
        refuse(f"mesh axis number {axis} is unknown", "name the axis, or give the mesh when compiling", "MG0202")
    return mesh.names[axis]


@traced
def dot(x: Operand, y: Operand) -> Tensor:
    """The sum over the last dim of x and the last but one of y, as NumPy's: of vectors their product, of 0-d operands `x * y`."""
    x, y = tensor(x), tensor(y)
    if not x.ndim or not y.ndim:
        return x * y
    return tensordot(x, y, ([-1], [max(y.ndim - 2, 0)]))


@named("tensordot", "linalg.tensordot")
def tensordot(x: Operand, y: Operand, axes: Any = 2) -> Tensor:
    """Sums over pairs of dims: a number (the last of x with the first of y), or dims of x and dims of y."""
    dtype = promote(x, y)
    left, right = tensor(x, dtype), tensor(y, dtype)
    if isinstance(axes, int):
        axes = (range(left.ndim - axes, left.ndim), range(axes))
    ours, theirs = ([axis_of(int(a), each.ndim) for a in np.atleast_1d(np.asarray(dims))]
                    for each, dims in zip((left, right), axes, strict=True))  # fmt: skip
    if [left.shape[d] for d in ours] != [right.shape[d] for d in theirs]:
        refuse(f"tensordot of {list(left.shape)} over {ours} and {list(right.shape)} over {theirs}: the sizes differ")
    return dot_general(left, right, (), (), ours, theirs)


@named("vecdot", "linalg.vecdot")
def vecdot(x: Operand, y: Operand, axis: int = -1) -> Tensor:
    """Products of vectors along a dim, x conjugated; the other dims broadcast."""
    x, y = (moveaxis(tensor(each), axis, -1) for each in (x, y))
    if x.shape[-1] != y.shape[-1]:
        refuse(f"vecdot of {list(x.shape)} and {list(y.shape)}: the vectors differ in size")
    return reshape(matmul(expand_dims(conj(x), -2), expand_dims(y, -1)), np.broadcast_shapes(x.shape, y.shape)[:-1])


@traced
def inner(x: Operand, y: Operand) -> Tensor:
    """Sums over the last dims of both."""
    x, y = tensor(x), tensor(y)
    return tensordot(x, y, ([-1], [-1])) if x.ndim and y.ndim else x * y


@named("outer", "linalg.outer")
def outer(x: Operand, y: Operand) -> Tensor:
    """All products of the elements of two tensors, as a matrix."""
    return expand_dims(ravel(x), 1) * expand_dims(ravel(y), 0)


@traced
def kron(x: Operand, y: Operand) -> Tensor:
    """The Kronecker product: blocks of y, times the elements of x."""
    x, y = tensor(x), tensor(y)
    rank = max(x.ndim, y.ndim)
    ours, theirs = ((1,) * (rank - each.ndim) + each.shape for each in (x, y))
    left = reshape(x, [n for size in ours for n in (size, 1)])
    right = reshape(y, [n for size in theirs for n in (1, size)])
    return reshape(left * right, [a * b for a, b in zip(ours, theirs, strict=True)])


@traced
def trace(x: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    """The sum of a diagonal of two dims."""
    return sum_(diagonal(x, offset, axis1, axis2), -1, dtype=dtype)
