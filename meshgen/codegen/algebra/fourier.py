"""Fourier transforms as matmuls with real matrices, on pairs of real and imaginary parts.

A dim of n = a b elements is transformed along a, multiplied by twiddle factors (roots of unity), and transformed along
b (Cooley and Tukey, 1965). A dim with few elements, or with a prime number of them, is multiplied by its DFT matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meshgen.ir.builder import Builder
from meshgen.ir.graph import TensorType, Value
from meshgen.ops.precision import EXACT

Pair = tuple[Value, Value | None]
"""The real and the imaginary part. None stands for an imaginary part of 0."""
Function = Callable[[Value], Value]
Product = Callable[[Value, Value], Value]
Array = np.ndarray[Any, Any]
# Most elements that one DFT matrix transforms. Derived: 8 FLOP per element for a complex number take about as long as
# moving the number from and to memory (32 bytes at 3.35 TB/s and 67 TFLOP/s of an H100).
DIRECT = 64
# Most elements of a dim of prime size, whose DFT matrix is a constant. Chosen: 16 MB for each part.
LARGEST_PRIME = 2048
# Most elements of any dim, whose roots of unity are constants. Chosen: 64 MB for each part.
LONGEST = 1 << 24


def can_transform(length: Sequence[int]) -> bool:
    """Whether every dim has at most `LONGEST` elements, and no prime factor above `LARGEST_PRIME`."""
    return all(0 < n <= LONGEST and _largest_prime(n) <= LARGEST_PRIME for n in length)


def transform(builder: Builder, pair: Pair, kind: str, length: Sequence[int]) -> Pair:
    """Return StableHLO's `fft` of kind `kind` over the last dims.

    The imaginary part of an IRFFT contains only rounding errors.
    """
    rank, inverse = pair[0].type.rank, kind in ("IFFT", "IRFFT")
    *dims, last = range(rank - len(length), rank)
    if kind == "RFFT":
        pair = _along(builder, pair, last, inverse)
        pair = _on_each_part(pair, lambda x: builder.rows(x, last, 0, length[-1] // 2 + 1))
    for dim in dims:
        pair = _along(builder, pair, dim, inverse)
    if kind == "IRFFT":
        pair = _full_spectrum(builder, pair, last, length[-1])
    if kind != "RFFT":
        pair = _along(builder, pair, last, inverse)
    if not inverse:
        return pair
    scale = builder.splat(1 / math.prod(length), pair[0].type)
    return _on_each_part(pair, lambda x: builder.elementwise("multiply", x, scale))


def _on_each_part(pair: Pair, function: Function) -> Pair:
    return function(pair[0]), None if pair[1] is None else function(pair[1])


def _full_spectrum(builder: Builder, pair: Pair, dim: int, size: int) -> Pair:
    """Return the full spectrum of real numbers, given its first half. The second half is its conjugate in reverse
    order.
    """

    def mirrored(x: Value) -> Value:
        part = builder.rows(x, dim, 1, (size - 1) // 2 + 1)
        return builder.emit("reverse", [part], part.type, dims=(dim,))

    real, imaginary = pair
    if size < 3:
        return pair
    spectrum = builder.concatenate([real, mirrored(real)], dim)
    if imaginary is None:
        return spectrum, None
    back = builder.elementwise("negate", mirrored(imaginary))
    return spectrum, builder.concatenate([imaginary, back], dim)


def _along(builder: Builder, pair: Pair, dim: int, inverse: bool) -> Pair:
    """Return the transform along one dim, without the factor 1 / n of the inverse transform."""
    sizes = pair[0].type.sizes
    n = sizes[dim]
    a = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    if n <= DIRECT or a == 1:
        return _by_matrix(builder, pair, dim, inverse)
    b = n // a
    pair = _on_each_part(pair, lambda x: builder.reshape(x, (*sizes[:dim], a, b, *sizes[dim + 1 :])))
    pair = _along(builder, pair, dim, inverse)
    twiddles = _roots(builder, np.outer(np.arange(a), np.arange(b)), n, pair[0].type.dtype, inverse)
    shape = pair[0].type.shape
    pair = product(builder, pair, _on_each_part(twiddles, lambda x: builder.spread(x, shape, (dim, dim + 1))))
    pair = _along(builder, pair, dim + 1, inverse)
    perm = [*range(dim), dim + 1, dim, *range(dim + 2, len(sizes) + 1)]
    return _on_each_part(pair, lambda x: builder.reshape(builder.transpose(x, perm), sizes))


def _roots(builder: Builder, powers: Array, n: int, dtype: str, inverse: bool) -> tuple[Value, Value]:
    """Return cosines and sines: the real and imaginary parts of the n-th root of unity to each power in `powers`."""
    angles = (powers % n) * (2 * np.pi / n)
    parts = [np.cos(angles), np.sin(angles) if inverse else -np.sin(angles)]
    parts = [np.where(4 * powers % n == 0, np.rint(x), x) for x in parts]  # Roots that are 1, -1, i or -i are exact.
    like = TensorType(powers.shape, dtype)
    cosines, sines = (builder.emit("constant", [], like, value=x.astype(like.numpy_dtype)) for x in parts)
    return cosines, sines


def _by_matrix(builder: Builder, pair: Pair, dim: int, inverse: bool) -> Pair:
    part_type = pair[0].type
    n = part_type.sizes[dim]
    matrices = _roots(builder, np.outer(np.arange(n), np.arange(n)), n, part_type.dtype, inverse)
    other_dims = [d for d in range(part_type.rank) if d != dim]
    perm = [*range(dim), part_type.rank - 1, *range(dim, part_type.rank - 1)]

    def times(x: Value, matrix: Value) -> Value:
        like = TensorType((*(part_type.sizes[d] for d in other_dims), n), part_type.dtype)
        # Use exact precision, because the rounding errors of all stages add up.
        transformed = builder.emit("dot_general", [x, matrix], like, lhs_batch=(), rhs_batch=(), lhs_contract=(dim,),
                                   rhs_contract=(0,), precision=EXACT)  # fmt: skip
        return builder.transpose(transformed, perm)

    return bilinear(builder, pair, matrices, times)


def product(builder: Builder, left: Pair, right: Pair) -> Pair:
    """Return the products of complex numbers, element by element."""
    return bilinear(builder, left, right, lambda x, y: builder.elementwise("multiply", x, y))


def bilinear(builder: Builder, left: Pair, right: Pair, times: Product) -> Pair:
    """Return a bilinear function of two complex operands, where `times` is the same function of real operands."""
    (a, b), (c, d) = left, right
    if d is None:
        return times(a, c), None if b is None else times(b, c)
    if b is None:
        return times(a, c), times(a, d)
    real = builder.elementwise("subtract", times(a, c), times(b, d))
    return real, builder.elementwise("add", times(a, d), times(b, c))


def _largest_prime(n: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= n:
        if n % factor:
            factor += 1
        else:
            largest, n = factor, n // factor
    return max(largest, n)
