"""Attributes of matrix factorizations and Fourier transforms."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Ints


class Cholesky(Attributes):
    """Attributes of a Cholesky factorization; `lower`: the factor is a lower triangle."""

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
    """The kind of transform (FFT, IFFT, RFFT or IRFFT) and the length along each of the last dims."""

    kind: str
    length: Ints


class Lapack(Attributes):
    """The name of a LAPACK routine, and its options as `name=value` separated by spaces."""

    routine: str
    options: str
