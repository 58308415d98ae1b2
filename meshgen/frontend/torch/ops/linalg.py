"""PyTorch linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from meshgen.frontend.torch.ops.elementwise import add, mul
from meshgen.frontend.torch.ops.indexing import diagonal_scatter
from meshgen.frontend.torch.ops.reductions import sum_dtype
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import in_common_type, result_type
from meshgen.frontend.tracer import linalg
from meshgen.frontend.tracer.creation import eye, ones, tril, zeros
from meshgen.frontend.tracer.elementwise import maximum
from meshgen.frontend.tracer.joining import concatenate, pad
from meshgen.frontend.tracer.operands import broadcast, convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import moveaxis
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import real_dtype


@aten("linalg_det", "det")
def det(x: Tensor) -> Tensor:
    return linalg.det(x) if x.shape[-1] else ones(x.shape[:-2], x.type.dtype)


@aten("linalg_slogdet", "slogdet")
def slogdet(x: Tensor) -> tuple[Tensor, Tensor]:
    if not x.shape[-1]:
        return ones(x.shape[:-2], x.type.dtype), zeros(x.shape[:-2], real_dtype(x.type.dtype))
    sign, log_abs_det = linalg.slogdet(x)
    return sign, log_abs_det


@aten("linalg_qr")
def qr(x: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    q, r = linalg.qr(x, mode="complete" if mode == "complete" else "reduced")
    return (zeros((0,), x.type.dtype), r) if mode == "r" else (q, r)


@aten("linalg_eigh", "_linalg_eigh")
def eigh(x: Tensor, uplo: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    del compute_v
    values, vectors = linalg.eigh(x.mT.conj() if uplo.upper() == "U" else x)
    return values, vectors


@aten("linalg_svd", "_linalg_svd")
def svd(x: Tensor, full_matrices: bool = True, compute_uv: bool = True, *, driver: str | None = None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    del driver
    if not compute_uv:
        empty = zeros((0,), x.type.dtype)
        return empty, linalg.svdvals(x), empty
    u, s, vh = linalg.svd(x, full_matrices)
    return u, s, vh


def _hermitian_from_lower(x: Tensor) -> Tensor:
    """Return the Hermitian matrix whose lower triangle is that of `x`. Imaginary parts of the diagonal are ignored."""
    below = tril(x, -1)
    return below + convert((tril(x) - below).real, x.type.dtype) + below.mT.conj()


@aten("linalg_pinv")
def pinv(x: Tensor, rcond: Operand | None = None, hermitian: bool = False, *, atol: Operand | None = None, rtol: Operand | None = None) -> Tensor:  # fmt: skip
    """Return the pseudo-inverse. Singular values of at most max(`atol`, `rtol` * largest) count as zero."""
    if hermitian:
        x = _hermitian_from_lower(x)
    relative = rcond if rtol is None else rtol
    if atol is None:
        return linalg.pinv(x, rtol=relative)
    tolerance = tensor(atol) / linalg.svdvals(x).max(-1)
    return linalg.pinv(x, rtol=tolerance if relative is None else maximum(tolerance, relative))


@aten("linalg_solve")
def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    """Solve a @ x = b, or x @ a = b if `left` is False. If `b` has one dim less than `a`, it is a stack of vectors."""
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    right = b[..., None] if is_vector else b
    if not left:
        solution = linalg.solve(a.mT, right.mT).mT
    else:
        solution = linalg.solve(a, right)
    return solution[..., 0] if is_vector else solution


@aten("linalg_lu_factor_ex")
def lu_factor(x: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Return both LU factors in one matrix, the pivots (1-based row indices), and zeros as success codes."""
    del check_errors
    if not pivot:
        refuse("LU without row exchanges is not supported", "leave pivot=True", "MG0103")
    if 0 in x.shape:
        return x, zeros((*x.shape[:-2], min(x.shape[-2:])), "i32"), zeros(x.shape[:-2], "i32")
    return *linalg.lu_factor(x), zeros(x.shape[:-2], "i32")


@aten("linalg_solve_triangular")
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    if not left:
        transposed = solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular)
        return transposed.mT
    if unitriangular:
        identity = eye(a.shape[-1], dtype=a.type.dtype)
        a = a * (1 - identity) + identity
    batch_shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return linalg.solve_triangular(
        broadcast(a, (*batch_shape, *a.shape[-2:])), broadcast(b, (*batch_shape, *b.shape[-2:])), not upper
    )


@aten("triangular_solve")
def triangular_solve(b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    matrix = a.mT if transpose else a
    return solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular), a


@aten("cholesky_solve")
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """Solve A @ x = b, where `factor` is the Cholesky factor of A."""
    lower = factor.mT.conj() if upper else factor
    half = solve_triangular(lower, b, upper=False)
    return solve_triangular(lower.mT.conj(), half, upper=True)


@aten("diag_embed")
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return diagonal matrices, in the new dims `dim1` and `dim2`, with the rows of `x` on the diagonal."""
    size = x.shape[-1] + abs(offset)
    matrices = diagonal_scatter(zeros((*x.shape[:-1], size, size), x.type.dtype), x, offset, -2, -1)
    return moveaxis(matrices, (-2, -1), (dim1, dim2))


@aten("block_diag")
def block_diag(tensors: Sequence[Tensor]) -> Tensor:
    """Return a block-diagonal matrix. Vectors are blocks of one row, scalars blocks of one element."""
    blocks = [block.reshape((1,) * (2 - block.ndim) + block.shape) for block in to_common_type(tensors)]
    width, left_columns, rows = sum(block.shape[1] for block in blocks), 0, list[Tensor]()
    for block in blocks:
        rows.append(pad(block, [(0, 0), (left_columns, width - left_columns - block.shape[1])]))
        left_columns += block.shape[1]
    return concatenate(rows, 0)


def to_common_type(tensors: Sequence[Tensor]) -> list[Tensor]:
    dtype = result_type(*tensors)
    return [convert(operand, dtype) for operand in tensors]


def _with_success_code(function: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Decorate a function to also return zeros, which are success codes.

    If the function fails, its result contains NaN.
    """
    return lambda x, *args, check_errors=False, **options: (function(x, *args, **options), zeros(x.shape[:-2], "i32"))


enter_rows({
    "linalg_cholesky cholesky": lambda x, upper=False: linalg.cholesky(x, upper=upper),
    "linalg_cholesky_ex": _with_success_code(linalg.cholesky),
    "linalg_inv inverse": linalg.inv,
    "linalg_inv_ex": _with_success_code(linalg.inv),
    "linalg_solve_ex": _with_success_code(solve),
    "_linalg_solve_ex": lambda a, b, *, left=True, check_errors=False: (solve(a, b, left=left), *lu_factor(a)),
    "_linalg_det": lambda x: (det(x), *lu_factor(x)[:2]),
    "_linalg_slogdet": lambda x: (*slogdet(x), *lu_factor(x)[:2]),
    "linalg_eigvalsh": lambda x, uplo="L": eigh(x, uplo)[0],
    "linalg_svdvals": lambda x, *, driver=None: linalg.svdvals(x),
    "cholesky_inverse": lambda x, upper=False: cholesky_solve(broadcast(eye(x.shape[-1], dtype=x.type.dtype), x.shape), x, upper),
    "linalg_householder_product orgqr": linalg.householder_product,
    "ormqr": lambda x, scales, other, left=True, transpose=False: linalg.householder_multiply(x, scales, other, left=left, transposed=transpose),
    "trace": lambda x: linalg.trace(x, dtype=sum_dtype(x.type.dtype)),
    "addr": lambda x, left, right, *, beta=1, alpha=1: add(mul(x, beta), mul(mul(left[:, None], right[None]), alpha)),
})  # fmt: skip
enter_rows({"linalg_cross": lambda x, y, *, dim=-1: linalg.cross(x, y, axis=dim)}, in_common_type)
