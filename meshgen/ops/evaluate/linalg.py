"""Evaluation of matrix factorizations and Fourier transforms over the last dims; leading dims are batches.

Each step of a factorization runs on all batches at once. The bits of a result do not depend on the other batches.
"""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import Node
from meshgen.ops.evaluate.common import Array, RunRegion, narrow, widen
from meshgen.ops.lapack import ROUTINES, factorize, options_of


def _transposed(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def cholesky(x: Array) -> Array:
    """Return the lower Cholesky factor. Only the lower triangle of `x` is read.

    From the first step with a non-positive pivot on, the columns of the factor are NaN.
    """
    rest = np.tril(x)
    factor = np.zeros_like(rest)
    for step in range(x.shape[-1]):
        pivot = rest[..., step, step].real
        root = np.sqrt(np.where(pivot > 0, pivot, np.nan)).astype(rest.dtype)
        column = rest[..., step:, step] / root[..., None]
        column[..., 0] = root
        factor[..., step:, step] = column
        rest[..., step:, step:] = rest[..., step:, step:] - column[..., :, None] * column[..., None, :].conj()
    return factor


def cholesky_of(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    dtype = node.result.type.dtype
    x = widen(args[0], dtype)
    lower = cholesky(x if node.attrs.lower else _transposed(x).conj())
    return [narrow(lower if node.attrs.lower else _transposed(lower).conj(), dtype)]


def triangular_solve(a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    """Solve a x = b for x by substitution, row by row. Only the lower (or upper) triangle of `a` is read."""
    rest, rows = b.copy(), range(a.shape[-1])
    solution = np.empty_like(rest)
    for row in rows if lower else reversed(rows):
        x = rest[..., row, :] if unit else rest[..., row, :] / a[..., row, row, None]
        solution[..., row, :] = x
        after = slice(row + 1, None) if lower else slice(0, row)
        rest[..., after, :] = rest[..., after, :] - a[..., after, row, None] * x[..., None, :]
    return solution


def triangular_solve_of(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Solve op(a) x = b, or x op(a) = b by solving the transposed system."""
    attrs, dtype = node.attrs, node.result.type.dtype
    a, b = (widen(x, dtype) for x in args)
    lower = bool(attrs.lower)
    if attrs.transpose_a != "NO_TRANSPOSE":
        a, lower = _transposed(a.conj() if attrs.transpose_a == "ADJOINT" else a), not lower
    if attrs.left_side:
        return [narrow(triangular_solve(a, b, lower=lower, unit=attrs.unit_diagonal), dtype)]
    transposed_solution = triangular_solve(_transposed(a), _transposed(b), lower=not lower, unit=attrs.unit_diagonal)
    return [narrow(_transposed(transposed_solution), dtype)]


def fft(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    length = node.attrs.length
    dims = tuple(range(args[0].ndim - len(length), args[0].ndim))
    function = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}[node.attrs.kind]
    return [narrow(function(args[0], length, dims), node.result.type.dtype)]


def lapack(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    types = [value.type for value in node.results]
    return factorize(ROUTINES[node.attrs.routine], args, types, options_of(node.attrs.options))
