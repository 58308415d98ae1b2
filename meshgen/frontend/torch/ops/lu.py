"""PyTorch operations on LU factors (unpacking, solving), and the matrix exponential."""

from __future__ import annotations

import numpy as np

from meshgen.frontend.torch.ops.linalg import lu_factor, solve_triangular
from meshgen.frontend.torch.ops.searching import argmax
from meshgen.frontend.torch.ops.shapes import adjoint as _adjoint
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import wide
from meshgen.frontend.tracer import control_flow, linalg, linear
from meshgen.frontend.tracer.creation import eye, iota, tril, triu, zeros
from meshgen.frontend.tracer.elementwise import abs_, log, maximum, power
from meshgen.frontend.tracer.indexing import take_along_axis
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import broadcast, convert, tensor
from meshgen.frontend.tracer.rounding import ceil
from meshgen.frontend.tracer.shapes import moveaxis
from meshgen.frontend.tracer.tensor import Tensor


def _row_order(pivots: Tensor, rows: int) -> Tensor:
    """Convert the pivots of LU [..., k] to a permutation [..., rows]: the original index of each permuted row."""
    position = iota((*pivots.shape[:-1], rows), pivots.ndim - 1, "i32")
    if 0 in pivots.shape:
        return position

    def exchange(i: Tensor, order: Tensor) -> Tensor:
        partner = take_along_axis(pivots, broadcast(i, (*pivots.shape[:-1], 1)), -1) - 1
        current, partner_row = (take_along_axis(order, convert(index, "i32"), -1) for index in (broadcast(i, partner.shape), partner))  # fmt: skip
        return where(position == i, partner_row, where(position == partner, current, order))

    return control_flow.fori_loop(0, pivots.shape[-1], exchange, position)


def _triangles(factors: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = factors.shape[-2:]
    rank = min(rows, columns)
    return tril(factors[..., :rank], -1) + eye(rows, rank, dtype=factors.type.dtype), triu(factors[..., :rank, :])


@aten("lu_unpack")
def lu_unpack(factors: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return P, L and U with P @ L @ U equal to the factored matrix. Factors that the flags do not request are empty."""
    empty, rows = zeros((0,), factors.type.dtype), factors.shape[-2]
    left, right = _triangles(factors) if unpack_data else (empty, empty)
    if not unpack_pivots:
        return empty, left, right
    order = _row_order(pivots, rows)
    position = iota((*order.shape[:-1], rows, rows), order.ndim - 1, "i32")
    return convert(position == order[..., None, :], factors.type.dtype), left, right


@aten("linalg_lu_solve")
def lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Solve a linear system with the LU factors of a matrix a.

    Solves a @ x = b; with `adjoint`, a^H @ x = b; if `left` is False, x @ a = b.
    """
    if not left:
        return _adjoint(lu_solve(factors, pivots, _adjoint(b), adjoint=not adjoint))
    batch_shape = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    b, factors = (broadcast(matrix, (*batch_shape, *matrix.shape[-2:])) for matrix in (b, factors))
    if 0 in b.shape:
        return b
    order = broadcast(_row_order(pivots, factors.shape[-2]), (*batch_shape, factors.shape[-2]))
    lower, upper = _triangles(factors)
    if not adjoint:
        half = solve_triangular(lower, take_along_axis(b, broadcast(order[..., None], b.shape), -2), upper=False)
        return solve_triangular(upper, half, upper=True)
    half = solve_triangular(_adjoint(lower), solve_triangular(_adjoint(upper), b, upper=False), upper=True)
    position = iota((*order.shape, order.shape[-1]), order.ndim, "i32")
    inverse_order = argmax(convert(order[..., None, :] == moveaxis(position, -1, -2), "i32"), -1)
    return take_along_axis(half, broadcast(inverse_order[..., None], half.shape), -2)


@aten("linalg_matrix_exp")
def matrix_exp(x: Tensor) -> Tensor:
    """Return the matrix exponential, computed by scaling and squaring.

    The Taylor series of exp(x / 2**s) is squared s times. The norm of x / 2**s is at most 1; s is the same for all
    matrices of the batch.
    """
    wide_x, dtype = wide(x)
    identity = eye(x.shape[-1], dtype=wide_x.type.dtype)
    if 0 in x.shape:
        return x
    norm = abs_(wide_x).sum(-2).max()
    # Norms that are infinite or NaN have no suitable s, and norm 0 needs none.
    is_finite = (norm > 0) & (norm < np.inf)
    squarings = maximum(ceil(log(where(is_finite, norm, 1)) / np.log(2.0)), 0)
    factor = power(tensor(2.0, squarings.type.dtype), -squarings)
    scaled, result = wide_x * convert(factor, wide_x.type.dtype), broadcast(identity, x.shape)
    for k in range(18 if dtype in ("f64", "c128") else 12, 0, -1):
        result = linear.matmul(scaled, result) / k + identity
    count = convert(squarings, "i32")
    state = (tensor(0, "i32"), result)
    _, result = control_flow.while_loop(lambda state: state[0] < count, lambda state: (state[0] + 1, linear.matmul(state[1], state[1])), state)  # fmt: skip
    return convert(result, dtype)


enter_rows({
    "linalg_lu": lambda x, *, pivot=True: lu_unpack(*lu_factor(x, pivot=pivot)[:2]),
    "lu_solve": lambda b, factors, pivots: lu_solve(factors, pivots, b),
    "geqrf": linalg.qr_factor,
})  # fmt: skip
