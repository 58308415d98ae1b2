"""Fourier transforms, of pairs of real and imaginary parts in the last dim."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.reductions import along
from meshgen.frontend.onnx.ops.table import Array, Call, array_of, dim_of, kind_of, op, rank_of, require_few, shape_of
from meshgen.frontend.tracer import fft
from meshgen.frontend.tracer.elementwise import imag, real
from meshgen.frontend.tracer.indexing import take
from meshgen.frontend.tracer.joining import stack
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert, emit, tensor
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Operand, Tensor


def _complex(x: Operand) -> Tensor:
    """Numbers of pairs; single ones are real."""
    x = tensor(x)
    x = x if x.type.dtype in ("f32", "f64") else convert(x, "f32")
    if x.shape[-1] == 1:
        return x[..., 0]
    first, second = x[..., 0], x[..., 1]
    kind = type(first.type)(first.shape, "c128" if x.type.dtype == "f64" else "c64")
    return emit("complex", [first, second], kind)


def _complex_pairs(x: Tensor, kind: str) -> Tensor:
    return convert(stack([real(x), imag(x)], -1), kind)


@op("DFT", known=(1,))
def dft(call: Call, x: Operand, length: Array | None = None, axis: Operand = None) -> Tensor:
    """Along one dim; `onesided` gives, or takes, the first half of what is symmetric. The dim may be data where it decides no size."""
    given: Operand = np.asarray(-2) if axis is None else axis
    size = None if length is None else int(length.reshape(()))
    if size is not None or call["onesided"]:
        given = array_of(given, "axis")
    if isinstance(given, Tensor):  # the last dim holds the parts of the numbers
        given = where(given < 0, given + 1, given)
        return along(given, rank_of(x) - 1, lambda dim: _dft_along(call, x, size, dim))
    return _dft_along(call, x, size, dim_of(np.reshape(given, ()), rank_of(x)))


def _dft_along(call: Call, x: Operand, size: int | None, dim: int) -> Tensor:
    numbers, kind = _complex(x), kind_of(x)
    if call["inverse"]:
        if call["onesided"]:
            return convert(expand_dims(fft.irfft(numbers, size, dim), rank_of(x) - 1), kind)
        return _complex_pairs(fft.ifft(numbers, size, dim), kind)
    if call["onesided"] and shape_of(x)[-1] == 1:
        return _complex_pairs(fft.rfft(numbers, size, dim), kind)
    found = fft.fft(numbers, size, dim)
    half = found.shape[dim] // 2 + 1 if call["onesided"] else found.shape[dim]
    return _complex_pairs(found[(slice(None),) * dim + (slice(half),)], kind)


@op("STFT", known=(1, 3))
def stft(call: Call, x: Operand, step: Array, window: Operand = None, length: Array | None = None) -> Tensor:
    """Transforms of frames of a signal [b, n, 1 or 2]: [b, frames, frequencies, 2]."""
    size = int(length.reshape(())) if length is not None else shape_of(window)[0]
    frames = 1 + (shape_of(x)[1] - size) // int(step.reshape(()))
    require_few("STFT", frames, size)
    places = np.arange(frames)[:, None] * int(step.reshape(())) + np.arange(size)
    parts: Any = take(tensor(x), places.astype(np.int32), 1)
    if window is not None:
        parts = parts * expand_dims(tensor(window), 1)
    numbers, kind = _complex(parts), kind_of(x)
    if call["onesided"] and shape_of(x)[-1] == 1:
        return _complex_pairs(fft.rfft(numbers, size, -1), kind)
    found = fft.fft(numbers, size, -1)
    return _complex_pairs(found[..., : size // 2 + 1] if call["onesided"] else found, kind)
