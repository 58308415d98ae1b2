"""Attributes of matrix factorizations and Fourier transforms."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Ints


class Cholesky(Attributes):
    """Attributes of a Cholesky factorization. `lower`: the result is a lower triangular matrix, else an upper
    triangular one.
    """

    lower: bool


class TriangularSolve(Attributes):
    """Attributes of a triangular solve. `left_side`: solve a x = b, otherwise x a = b.

    `transpose_a` is NO_TRANSPOSE, TRANSPOSE or ADJOINT.
    """

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: str


class FFT(Attributes):
    """Attributes of `fft`: the kind (FFT, IFFT, RFFT or IRFFT), and the transform length along each of the last dims."""

    kind: str
    length: Ints


class Lapack(Attributes):
    """Attributes of `lapack`: the name of the LAPACK routine, and options as `name=value` pairs separated by spaces."""

    routine: str
    options: str
