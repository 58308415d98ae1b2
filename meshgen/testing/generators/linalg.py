"""Complex numbers, Fourier transforms and matrix factorizations."""

from __future__ import annotations

import math

import numpy as np

from meshgen.ir.graph import DTYPES, TensorType, Value
from meshgen.testing.generators.elementwise import smooth
from meshgen.testing.generators.writer import MAX_ELEMENTS, Writer, floats, has_type

_COMPLEX = "c64"


def make_complex(writer: Writer) -> None:
    if value := writer.pick(has_type("f32", *(["f64"] if "c128" in writer.variety.more else []))):
        _use(writer, writer.add("complex", [value, writer.partner(value)]))


def of_complex(writer: Writer) -> None:
    if value := writer.pick(has_type(_COMPLEX, *writer.variety.more)):
        _use(writer, value)


def _use(writer: Writer, value: Value) -> None:
    """Append a user of a complex value: the real or imaginary part, a sum, a product, or a function without poles."""
    if writer.chance(0.35):
        op = writer.one_of(smooth(value.type.dtype, 2))
        writer.add(op, [value, writer.partner(value)], rounds=op == "multiply")
    else:
        writer.add(writer.one_of(("real", "imag", *smooth(value.type.dtype, 1))), [value])


def transform(writer: Writer) -> None:
    """Append a forward or inverse Fourier transform of the last one or two dims."""
    if value := writer.pick(
        has_type("f32", _COMPLEX, *(["f64"] if writer.variety.more else []), *writer.variety.more, rank=1)
    ):
        sizes = value.type.sizes
        count = min(len(sizes), writer.integer(1, 3))
        kind = "RFFT" if floats(value) else writer.one_of(("FFT", "IFFT", "IRFFT"))
        length = sizes[-count:]
        if kind == "IRFFT":
            length = (*length[:-1], max(1, 2 * (length[-1] - 1)))
        if math.prod(sizes[:-count]) * math.prod(length) <= MAX_ELEMENTS:
            writer.add("fft", [value], None, {"kind": kind, "length": tuple(length)}, rounds=True)


def _matrix(writer: Writer, shape: tuple[int, ...], dtype: str) -> Value:
    """Return constant matrices that are symmetric and diagonally dominant, hence positive definite."""
    size = shape[-1]
    small = writer.rng.uniform(-1, 1, shape)
    array = (small + np.swapaxes(small, -1, -2)) / 2 + (size + 1) * np.eye(size)
    return writer.add("constant", [], TensorType(shape, dtype), {"value": array.astype(DTYPES[dtype])})


_ROUTINES = (("getrf", ""), ("geqrf", ""), ("syevd", "mode=V uplo=L"), ("gesdd", "mode=S"), ("gehrd", ""))


def factorize(writer: Writer) -> None:
    """Append a factorization of constant matrices. They are constants so that all devices factorize equal matrices to
    equal factors.
    """
    size, batch = writer.integer(1, 7), writer.shape(writer.integer(0, 2))
    matrix = _matrix(writer, (*batch, size, size), "f32")
    if writer.chance(0.5):
        writer.add("cholesky", [matrix], None, {"lower": writer.chance(0.5)}, rounds=True)
        return
    routine, options = writer.one_of(_ROUTINES)
    writer.add("lapack", [matrix], None, {"routine": routine, "options": options}, rounds=True)


def solve(writer: Writer) -> None:
    """Append a triangular system, solved from the left or the right."""
    if value := writer.pick(has_type("f32", rank=2, most=3)):
        left = writer.chance(0.5)
        size = value.type.sizes[-2 if left else -1]
        matrix = _matrix(writer, (*value.type.sizes[:-2], size, size), "f32")
        attrs = {"left_side": left, "lower": writer.chance(0.5), "unit_diagonal": False,
                 "transpose_a": writer.one_of(("NO_TRANSPOSE", "TRANSPOSE"))}  # fmt: skip
        writer.add("triangular_solve", [matrix, value], None, attrs, rounds=True)


OPS = (make_complex, of_complex, of_complex, transform, factorize, solve)
