"""Attributes of matrix factorisations and Fourier transforms."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Ints


class Cholesky(Attributes):
    """Whether the factor is a lower triangle."""

    lower: bool


class TriangularSolve(Attributes):
    """`left_side`: a x = b rather than x a = b; `transpose_a`: NO_TRANSPOSE, TRANSPOSE or ADJOINT."""

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: str


class FFT(Attributes):
    """FFT, IFFT, RFFT or IRFFT over the last dims, which have these lengths."""

    kind: str
    length: Ints


class Lapack(Attributes):
    """The name of a routine, and its options as `name=value` with spaces between."""

    routine: str
    options: str
