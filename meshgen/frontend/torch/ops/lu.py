"""PyTorch's LU: factors of matrices, what they solve, and the exponential of a matrix."""

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
    """Return which row is at each place after the exchanges [..., k] of LU, [..., rows]."""
    place = iota((*pivots.shape[:-1], rows), pivots.ndim - 1, "i32")
    if 0 in pivots.shape:
        return place

    def exchanged(i: Tensor, order: Tensor) -> Tensor:
        partner = take_along_axis(pivots, broadcast(i, (*pivots.shape[:-1], 1)), -1) - 1
        own, other = (take_along_axis(order, convert(each, "i32"), -1) for each in (broadcast(i, partner.shape), partner))  # fmt: skip
        return where(place == i, other, where(place == partner, own, order))

    return control_flow.fori_loop(0, pivots.shape[-1], exchanged, place)


def _triangles(factors: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = factors.shape[-2:]
    least = min(rows, columns)
    return tril(factors[..., :least], -1) + eye(rows, least, dtype=factors.type.dtype), triu(factors[..., :least, :])


@aten("lu_unpack")
def lu_unpack(factors: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return P, L and U with P @ L @ U equal to the matrix; those that are not asked for are empty."""
    none, rows = zeros((0,), factors.type.dtype), factors.shape[-2]
    left, right = _triangles(factors) if unpack_data else (none, none)
    if not unpack_pivots:
        return none, left, right
    order = _row_order(pivots, rows)
    place = iota((*order.shape[:-1], rows, rows), order.ndim - 1, "i32")
    return convert(place == order[..., None, :], factors.type.dtype), left, right


@aten("linalg_lu_solve")
def lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Return x with a @ x = b for the a of LU factors, a^H @ x = b with `adjoint`, or x @ a = b."""
    if not left:
        return _adjoint(lu_solve(factors, pivots, _adjoint(b), adjoint=not adjoint))
    lead = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    b, factors = (broadcast(each, (*lead, *each.shape[-2:])) for each in (b, factors))
    if 0 in b.shape:
        return b
    order = broadcast(_row_order(pivots, factors.shape[-2]), (*lead, factors.shape[-2]))
    lower, upper = _triangles(factors)
    if not adjoint:
        half = solve_triangular(lower, take_along_axis(b, broadcast(order[..., None], b.shape), -2), upper=False)
        return solve_triangular(upper, half, upper=True)
    half = solve_triangular(_adjoint(lower), solve_triangular(_adjoint(upper), b, upper=False), upper=True)
    place = iota((*order.shape, order.shape[-1]), order.ndim, "i32")
    back = argmax(convert(order[..., None, :] == moveaxis(place, -1, -2), "i32"), -1)
    return take_along_axis(half, broadcast(back[..., None], half.shape), -2)


@aten("linalg_matrix_exp")
def matrix_exp(x: Tensor) -> Tensor:
    """Return the exponential: Taylor's series of x / 2**s, whose norm is below 1, squared s times for the largest s."""
    wide_x, dtype = wide(x)
    one = eye(x.shape[-1], dtype=wide_x.type.dtype)
    if 0 in x.shape:
        return x
    size = abs_(wide_x).sum(-2).max()
    is_finite = (size > 0) & (size < np.inf)  # else no number of halvings is enough
    halvings = maximum(ceil(log(where(is_finite, size, 1)) / np.log(2.0)), 0)
    factor = power(tensor(2.0, halvings.type.dtype), -halvings)
    scaled, result = wide_x * convert(factor, wide_x.type.dtype), broadcast(one, x.shape)
    for k in range(18 if dtype in ("f64", "c128") else 12, 0, -1):
        result = linear.matmul(scaled, result) / k + one
    count = convert(halvings, "i32")
    held = (tensor(0, "i32"), result)
    _, result = control_flow.while_loop(lambda held: held[0] < count, lambda held: (held[0] + 1, linear.matmul(held[1], held[1])), held)  # fmt: skip
    return convert(result, dtype)


enter_rows({
    "linalg_lu": lambda x, *, pivot=True: lu_unpack(*lu_factor(x, pivot=pivot)[:2]),
    "lu_solve": lambda b, factors, pivots: lu_solve(factors, pivots, b),
    "geqrf": linalg.qr_factor,
})  # fmt: skip
