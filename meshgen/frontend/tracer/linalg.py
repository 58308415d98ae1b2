"""Traced linear algebra, `mg.linalg`: the functions of the array-API standard on stacks of matrices.

They are computed as by LAPACK's routines. `solve` uses QR rather than LU, because QR needs no data-dependent pivoting
and loses fewer digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from meshgen.frontend.tracer.creation import eye, iota, tril, triu
from meshgen.frontend.tracer.elementwise import abs_, as_float, conj, log, sqrt
from meshgen.frontend.tracer.indexing import diagonal as diagonal_of
from meshgen.frontend.tracer.joining import concatenate, pad
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import aligned, axes_of, broadcast, convert, emit, promote, tensor
from meshgen.frontend.tracer.recording import current, named, refuse, user_location
from meshgen.frontend.tracer.reduce import max_, min_, prod, sum_
from meshgen.frontend.tracer.rounding import remainder
from meshgen.frontend.tracer.shapes import expand_dims, matrix_transpose, squeeze
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ops.lapack import ROUTINES


class QRResult(NamedTuple):
    """Result of `qr`: factors with x = Q @ R. Q has orthonormal columns, R is upper triangular."""

    Q: Tensor
    R: Tensor


class EighResult(NamedTuple):
    """Result of `eigh`: eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """Result of `svd`: left singular vectors as columns, singular values in descending order, right ones as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class SlogdetResult(NamedTuple):
    """Result of `slogdet`: the sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


def _matrices(x: Operand, square: bool = False) -> Tensor:
    """Convert an operand to matrices of f32, f64 or a complex dtype. Raises ProgramError if it is not a matrix.

    With `square`, the matrices must be square.
    """
    x = as_float(x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        refuse(f"{x.type} is not a {'square ' if square else ''}matrix, or a stack of these")
    return convert(x, "f32") if x.type.dtype in ("bf16", "f16") else x


def _lapack(routine: str, operands: Sequence[Tensor], **options: str) -> list[Tensor]:
    options_text = " ".join(f"{name}={value}" for name, value in options.items())
    types = ROUTINES[routine].result_types([operand.type for operand in operands], options)
    assert types is not None, routine
    attrs = {"routine": routine, "options": options_text}
    node = current().graph.add("lapack", [operand.value for operand in operands], types, attrs, loc=user_location())
    return [Tensor(value) for value in node.results]


def _adjoint(x: Tensor) -> Tensor:
    return conj(matrix_transpose(x))


@named("linalg.cholesky")
def cholesky(x: Operand, *, upper: bool = False) -> Tensor:
    """Return the Cholesky factor of positive definite matrices: L with x = L @ L^H, or with `upper` U with x = U^H @ U."""
    x = _matrices(x, square=True)
    factor = tril(emit("cholesky", [x], x.type, {"lower": True}))
    return _adjoint(factor) if upper else factor


@named("linalg.qr")
def qr(x: Operand, *, mode: str = "reduced") -> QRResult:
    """Factor x = Q @ R. With mode `complete`, Q is square."""
    x = _matrices(x)
    *_, rows, columns = x.shape
    if mode not in ("reduced", "complete"):
        refuse(f"'{mode}' is not a mode of qr", "the modes are reduced and complete")
    width = rows if mode == "complete" else min(rows, columns)
    packed, scales = _lapack("geqrf", [x])
    if width > columns:
        reflectors = pad(packed, [(0, 0)] * (x.ndim - 1) + [(0, width - columns)])
    else:
        reflectors = packed[..., :width]
    return QRResult(householder_product(reflectors, scales), triu(packed[..., :width, :]))


def qr_factor(x: Operand) -> tuple[Tensor, Tensor]:
    """Factor x = Q @ R in LAPACK's form: R with the elementary reflectors of Q below its diagonal, and their scales."""
    packed, scales = _lapack("geqrf", [_matrices(x)])
    return packed, scales


def householder_product(reflectors: Tensor, scales: Tensor) -> Tensor:
    """Return the columns of Q from its elementary reflectors, which are below the diagonal of `reflectors`.

    LAPACK's geqrf returns the reflectors in this form.
    """
    return _lapack("orgqr", [reflectors, scales])[0]


def householder_multiply(reflectors: Tensor, scales: Tensor, x: Tensor, *, left: bool, transposed: bool) -> Tensor:
    """Return Q @ x, or x @ Q if `left` is False, for the square Q given by elementary reflectors.

    With `transposed`, Q^H is used instead of Q.
    """
    reflectors, options = reflectors[..., : scales.shape[-1]], {"side": "RL"[left], "trans": "NT"[transposed]}
    return _lapack("ormqr", [reflectors, scales, x], **options)[0]


def solve_triangular(a: Tensor, b: Tensor, lower: bool = False) -> Tensor:
    """Solve a @ x = b for a triangular matrix `a`."""
    attrs = {"left_side": True, "lower": lower, "unit_diagonal": False, "transpose_a": "NO_TRANSPOSE"}
    return emit("triangular_solve", [a, b], b.type, attrs)


@named("linalg.solve")
def solve(a: Operand, b: Operand) -> Tensor:
    """Solve a @ x = b. A 1-d `b` is a single vector. Leading dims broadcast."""
    dtype = promote(a, b)
    matrix, rhs = _matrices(tensor(a, dtype), square=True), as_float(tensor(b, dtype))
    rhs = convert(rhs, matrix.type.dtype)
    is_vector = rhs.ndim == 1
    rhs = expand_dims(rhs, 1) if is_vector else rhs
    batch_dims = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    q, r = qr(broadcast(matrix, (*batch_dims, *matrix.shape[-2:])))
    solution = solve_triangular(r, matmul(_adjoint(q), broadcast(rhs, (*batch_dims, *rhs.shape[-2:]))))
    return squeeze(solution, -1) if is_vector else solution


@named("linalg.inv")
def inv(x: Operand) -> Tensor:
    """Return the inverse of square matrices."""
    x = _matrices(x, square=True)
    return solve(x, broadcast(eye(x.shape[-1], dtype=x.type.dtype), x.shape))


@named("linalg.slogdet")
def slogdet(x: Operand) -> SlogdetResult:
    """Return the signs of determinants, and the logarithms of their absolute values."""
    pivots, swaps = _triangle(x)
    magnitudes = abs_(pivots)
    swap_signs = where(remainder(swaps, 2) == 1, -1.0, 1.0)
    signs = prod(pivots / convert(where(magnitudes == 0, 1, magnitudes), pivots.type.dtype), -1) * swap_signs
    return SlogdetResult(signs, sum_(log(magnitudes), -1))


@named("linalg.det")
def det(x: Operand) -> Tensor:
    """Return the determinants of square matrices."""
    pivots, swaps = _triangle(x)
    return prod(pivots, -1) * where(remainder(swaps, 2) == 1, -1.0, 1.0)


def lu_factor(x: Operand) -> tuple[Tensor, Tensor]:
    """Return both LU factors in one matrix, and the pivots: row i was exchanged with row `pivots[i]`, counted from 1."""
    factors, pivots, _ = _lapack("getrf", [_matrices(x)])
    return factors, pivots


def _triangle(x: Operand) -> tuple[Tensor, Tensor]:
    """Return the diagonal of the upper LU factor, and the number of row exchanges, which determine the determinant."""
    factors, pivots = lu_factor(_matrices(x, square=True))
    is_exchanged = pivots != iota(pivots.shape, pivots.ndim - 1) + 1
    return diagonal_of(factors, 0, -2, -1), sum_(is_exchanged, -1, dtype="i32")


@named("linalg.eigh")
def eigh(x: Operand) -> EighResult:
    """Return the eigenvalues and eigenvectors of Hermitian matrices. Only the lower triangle of `x` is used."""
    vectors, values, _ = _lapack("syevd", [_matrices(x, square=True)], uplo="L")
    return EighResult(values, vectors)


@named("linalg.eigvalsh")
def eigvalsh(x: Operand) -> Tensor:
    """Return the eigenvalues of Hermitian matrices, in ascending order."""
    return eigh(x).eigenvalues


@named("linalg.svd")
def svd(x: Operand, full_matrices: bool = True) -> SVDResult:
    """Factor x = U * S @ Vh. Without `full_matrices`, U and Vh have only as many vectors as there are singular values."""
    _, values, left, right, _ = _lapack("gesdd", [_matrices(x)], mode="A" if full_matrices else "S")
    return SVDResult(left, values, right)


@named("linalg.svdvals")
def svdvals(x: Operand) -> Tensor:
    """Return the singular values, in descending order."""
    return _lapack("gesdd", [_matrices(x)], mode="N")[1]


@named("linalg.pinv")
def pinv(x: Operand, *, rtol: Operand | None = None) -> Tensor:
    """Return the Moore-Penrose pseudo-inverse. Singular values below `rtol` times the largest count as 0."""
    x = _matrices(x)
    u, s, vh = svd(x, full_matrices=False)
    is_nonzero = s > _cutoff(x, s, rtol)
    inverse = where(is_nonzero, 1 / where(is_nonzero, s, 1), 0)
    return matmul(_adjoint(vh) * convert(expand_dims(inverse, -2), x.type.dtype), _adjoint(u))


def _cutoff(x: Tensor, values: Tensor, rtol: Operand | None) -> Tensor:
    relative = max(x.shape[-2:]) * float(np.finfo(values.dtype).eps) if rtol is None else expand_dims(rtol, -1)
    return max_(values, -1, True) * relative


@named("linalg.matrix_rank")
def matrix_rank(x: Operand, *, rtol: Operand | None = None) -> Tensor:
    """Count the singular values above `rtol` times the largest."""
    x = _matrices(x)
    values = svdvals(x)
    return sum_(values > _cutoff(x, values, rtol), -1, dtype="i32")


@named("linalg.matrix_power")
def matrix_power(x: Operand, n: int) -> Tensor:
    """Return the product of n copies of the matrix, or for a negative n, of -n copies of its inverse."""
    x = _matrices(x, square=True)
    if n < 0:
        x, n = inv(x), -n
    result = broadcast(eye(x.shape[-1], dtype=x.type.dtype), x.shape) if not n else None
    while n:
        if n % 2:
            result = x if result is None else matmul(result, x)
        n //= 2
        x = matmul(x, x) if n else x
    assert result is not None
    return result


@named("linalg.vector_norm")
def vector_norm(x: Operand, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2) -> Tensor:  # fmt: skip
    """Return the norm (sum of abs(x) ** ord) ** (1 / ord) along dims (None: all).

    For `ord` inf, it is the largest absolute value, for -inf the smallest, for 0 the number of nonzero elements.
    """
    x = as_float(x)
    magnitudes = abs_(x)
    if math.isinf(ord):
        return (max_ if ord > 0 else min_)(magnitudes, axis, keepdims)
    if ord == 0:
        return sum_(convert(x != 0, magnitudes.type.dtype), axis, keepdims)
    if ord == 2:
        return sqrt(sum_(magnitudes * magnitudes, axis, keepdims))
    return sum_(magnitudes**ord, axis, keepdims) ** (1 / ord)


@named("linalg.matrix_norm")
def matrix_norm(x: Operand, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Return a norm of matrices in the last two dims.

    `fro` is the root of the sum of squares, `nuc` the sum of singular values, 2 the largest singular value, 1 the
    largest column sum, and inf the largest row sum of absolute values. -2, -1 and -inf are the smallest instead of the
    largest.
    """
    x = _matrices(x)
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(x)
        result = sum_(values, -1) if ord == "nuc" else (max_ if ord > 0 else min_)(values, -1)
        return expand_dims(result, (-2, -1)) if keepdims else result
    if ord not in (1, -1, math.inf, -math.inf):
        refuse(f"'{ord}' is not an order of matrix norms", "the orders are fro, nuc, 1, -1, 2, -2, inf, -inf")
    sums = sum_(abs_(x), -2 if abs(ord) == 1 else -1, True)
    return (max_ if ord > 0 else min_)(sums, (-2, -1), keepdims)


@named("linalg.norm")
def norm(x: Operand, ord: Any = None, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return NumPy's norm of `x`: of all elements, of the vectors along one dim, or of the matrices in two dims."""
    x = tensor(x)
    dims = axes_of(axis, x.ndim)
    if ord is None or len(dims) == 1:
        return vector_norm(x, axis=dims, keepdims=keepdims, ord=2 if ord is None else ord)
    if dims != (x.ndim - 2, x.ndim - 1):
        refuse(f"the norm of order {ord} over dims {list(dims)} of {x.type}: matrices are in the last two", "move them with moveaxis")  # fmt: skip
    return matrix_norm(x, keepdims=keepdims, ord=ord)


@named("linalg.diagonal")
def diagonal(x: Operand, *, offset: int = 0) -> Tensor:
    """Return the diagonals of the matrices in the last two dims."""
    return diagonal_of(tensor(x), offset, -2, -1)


@named("linalg.trace")
def trace(x: Operand, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Return the sums of the diagonals of the matrices in the last two dims."""
    return sum_(diagonal(x, offset=offset), -1, dtype=dtype)


@named("linalg.cross", "cross")
def cross(x: Operand, y: Operand, *, axis: int = -1) -> Tensor:
    """Return the cross products of the 3-vectors along a dim."""
    left, right = aligned(x, y)
    if left.shape[axis] != 3:
        refuse(f"cross products are of three numbers, but dim {axis} of {left.type} has {left.shape[axis]}")
    dim = axis % left.ndim
    components = [[vector[(slice(None),) * dim + (slice(i, i + 1),)] for i in range(3)] for vector in (left, right)]
    (a, b, c), (d, e, f) = components
    return concatenate([b * f - c * e, c * d - a * f, a * e - b * d], dim)
