"""Traced products of vectors and matrices, each as one dot_general. `einsum.py` has einsum."""

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
    """Multiply matrices as NumPy does: 1-d operands are vectors, and leading dims broadcast.

    Args:
        sharding_option: a tuple of mesh axes for each loop: batch dims, free dims of x, free dims of y, contracted dim.
        preferred_element_type: the dtype of the result, such as f32 for bf16 operands.

    Raises:
        ProgramError: MG0104, the shapes do not fit; the message has both.
    """
    dtype = promote(x, y)
    result_dtype = "" if preferred_element_type is None else dtype_of(preferred_element_type)
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
        return dot_general(left, right, (), (), (k_left,), (k_right,), sharding_option, result_dtype)
    if left.ndim == 1:
        batch_dims = tuple(range(right.ndim - 2))
        product = dot_general(right, left, (), (), (k_right,), (0,), sharding_option, result_dtype)
        assert product.shape == tuple(right.shape[d] for d in (*batch_dims, right.ndim - 1))
        return product
    batch = _leading(left, right)
    left, right = broadcast(left, (*batch, *left.shape[-2:])), broadcast(right, (*batch, *right.shape[-2:]))
    dims = tuple(range(len(batch)))
    return dot_general(left, right, dims, dims, (left.ndim - 1,), (right.ndim - 2,), sharding_option, result_dtype)


def _leading(left: Tensor, right: Tensor) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        refuse(f"matmul of {list(left.shape)} and {list(right.shape)}: the leading dims do not broadcast together")


def dot_general(left: Tensor, right: Tensor, lhs_batch: Sequence[int], rhs_batch: Sequence[int], lhs_contract: Sequence[int],
                rhs_contract: Sequence[int], option: Option | None = None, dtype: str = "") -> Tensor:  # fmt: skip
    """Contract two tensors. The result has dtype `dtype`, by default the dtype of `left`.

    Its dims are the batch dims, the free dims of `left`, and the free dims of `right`.
    """
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
    """Multiply groups of rows of `left` by one matrix per group. Rows outside all groups give zeros.

    Args:
        left: [rows, k].
        right: matrices [groups, k, n], or with `contracts` rows [rows, n].
        starts, ends: integers [groups]: group g has the rows `starts[g]` to `ends[g] - 1`. Groups cannot overlap.
        contracts: contract the rows instead: for each group, multiply the transposed rows of `left` by the rows of
            `right`.
        dtype: the dtype of the result; by default, the dtype of `left`.

    Returns:
        [rows, n], or [groups, k, n] with `contracts`.
    """
    has_valid_ranks = left.ndim == 2 and right.ndim == (2 if contracts else 3)
    if not has_valid_ranks or left.shape[0 if contracts else 1] != right.shape[0 if contracts else 1]:
        refuse(f"groups of rows of {left.type} do not fit {right.type}")
    if starts.shape != ends.shape or ends.ndim != 1 or (not contracts and ends.shape[0] != right.shape[0]):
        refuse(f"groups that start at {starts.type} and end at {ends.type} do not fit {right.type}")
    bounds = [tensor(bound, "i32") for bound in (starts, ends)]
    shape = (ends.shape[0], left.shape[1], right.shape[1]) if contracts else (left.shape[0], right.shape[2])
    attrs = {"contracts": contracts, "precision": ("DEFAULT", "DEFAULT"), "disjoint": True}
    return emit("ragged_dot", [left, right, *bounds], TensorType(shape, dtype or left.type.dtype), attrs)


@named("dot_general")
def contracted(lhs: Operand, rhs: Operand, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None) -> Tensor:  # fmt: skip
    """Contract two tensors with the arguments of `jax.lax.dot_general`.

    `dimension_numbers` is ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)).
    """
    dtype = promote(lhs, rhs)
    left, right = tensor(lhs, dtype), tensor(rhs, dtype)
    result_dtype = "" if preferred_element_type is None else dtype_of(preferred_element_type)
    (lhs_dims, rhs_dims), (lhs_batch, rhs_batch) = (
        [[axis_of(int(a), operand.ndim) for a in dims] for operand, dims in zip((left, right), pair, strict=True)]
        for pair in dimension_numbers
    )
    sizes = [
        [operand.shape[d] for d in dims]
        for operand, dims in ((left, [*lhs_batch, *lhs_dims]), (right, [*rhs_batch, *rhs_dims]))
    ]
    if sizes[0] != sizes[1]:
        refuse(f"dot_general of {left.type} and {right.type} over {dimension_numbers}: the sizes differ")
    return dot_general(left, right, lhs_batch, rhs_batch, lhs_dims, rhs_dims, None, result_dtype)


def loop_axes(option: Option, loops: int) -> tuple[tuple[str, ...], ...]:
    """Return a sharding option (mesh axes for each loop) with axes by name.

    Raises ProgramError if it does not have `loops` entries, or for an unknown axis.
    """
    if len(option) != loops:
        refuse(
            f"the sharding option {list(map(list, option))} has {len(option)} entries, but the operation has {loops} loops"
        )
    return tuple(tuple(axis_name(axis) for axis in axes) for axes in option)


def axis_name(axis: str | int) -> str:
    """Return the name of a mesh axis.

    Raises ProgramError for an axis number if the mesh is unknown during tracing or has too few axes.
    """
    if isinstance(axis, str):
        return axis
    mesh = current().mesh
    if mesh is None or not 0 <= axis < len(mesh.axes):
        refuse(f"mesh axis number {axis} is unknown", "name the axis, or give the mesh when compiling", "MG0202")
    return mesh.names[axis]


@traced
def dot(x: Operand, y: Operand) -> Tensor:
    """Contract the last dim of x with the second to last dim of y, as NumPy's `dot`. 0-d operands are multiplied."""
    x, y = tensor(x), tensor(y)
    if not x.ndim or not y.ndim:
        return x * y
    return tensordot(x, y, ([-1], [max(y.ndim - 2, 0)]))


@named("tensordot", "linalg.tensordot")
def tensordot(x: Operand, y: Operand, axes: Any = 2) -> Tensor:
    """Contract the last `axes` dims of x with the first `axes` dims of y, or pairs of dims: (dims of x, dims of y)."""
    dtype = promote(x, y)
    left, right = tensor(x, dtype), tensor(y, dtype)
    if isinstance(axes, int):
        axes = (range(left.ndim - axes, left.ndim), range(axes))
    left_dims, right_dims = ([axis_of(int(a), operand.ndim) for a in np.atleast_1d(np.asarray(dims))]
                    for operand, dims in zip((left, right), axes, strict=True))  # fmt: skip
    if [left.shape[d] for d in left_dims] != [right.shape[d] for d in right_dims]:
        refuse(
            f"tensordot of {list(left.shape)} over {left_dims} and {list(right.shape)} over {right_dims}: the sizes differ"
        )
    return dot_general(left, right, (), (), left_dims, right_dims)


@named("vecdot", "linalg.vecdot")
def vecdot(x: Operand, y: Operand, axis: int = -1) -> Tensor:
    """Return the dot products of the vectors of conj(x) and y along a dim. The other dims broadcast."""
    x, y = (moveaxis(tensor(operand), axis, -1) for operand in (x, y))
    if x.shape[-1] != y.shape[-1]:
        refuse(f"vecdot of {list(x.shape)} and {list(y.shape)}: the vectors differ in size")
    return reshape(matmul(expand_dims(conj(x), -2), expand_dims(y, -1)), np.broadcast_shapes(x.shape, y.shape)[:-1])


@traced
def inner(x: Operand, y: Operand) -> Tensor:
    """Contract the last dim of x with the last dim of y."""
    x, y = tensor(x), tensor(y)
    return tensordot(x, y, ([-1], [-1])) if x.ndim and y.ndim else x * y


@named("outer", "linalg.outer")
def outer(x: Operand, y: Operand) -> Tensor:
    """Return the products of all elements of x with all elements of y, as a matrix [size of x, size of y]."""
    return expand_dims(ravel(x), 1) * expand_dims(ravel(y), 0)


@traced
def kron(x: Operand, y: Operand) -> Tensor:
    """Return the Kronecker product: a block x[i] * y for each element of x."""
    x, y = tensor(x), tensor(y)
    rank = max(x.ndim, y.ndim)
    left_shape, right_shape = ((1,) * (rank - operand.ndim) + operand.shape for operand in (x, y))
    left = reshape(x, [n for size in left_shape for n in (size, 1)])
    right = reshape(y, [n for size in right_shape for n in (1, size)])
    return reshape(left * right, [a * b for a, b in zip(left_shape, right_shape, strict=True)])


@traced
def trace(x: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    """Return the sum of a diagonal of the dims `axis1` and `axis2`."""
    return sum_(diagonal(x, offset, axis1, axis2), -1, dtype=dtype)
