"""Fourier transforms. ONNX stores complex numbers as pairs of real and imaginary parts in the last dim."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.reductions import along
from meshgen.frontend.onnx.ops.table import Array, Call, array_of, dim_of, op, require_small_array
from meshgen.frontend.tracer import fft
from meshgen.frontend.tracer.elementwise import imag, real
from meshgen.frontend.tracer.indexing import take
from meshgen.frontend.tracer.joining import stack
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import emit
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Tensor


def _complex(x: Tensor) -> Tensor:
    """Convert pairs (real, imaginary) in the last dim to complex numbers.

    If the last dim has size 1, the numbers are real.
    """
    x = x if x.type.dtype in ("f32", "f64") else x.astype("f32")
    if x.shape[-1] == 1:
        return x[..., 0]
    first, second = x[..., 0], x[..., 1]
    kind = type(first.type)(first.shape, "c128" if x.type.dtype == "f64" else "c64")
    return emit("complex", [first, second], kind)


def _complex_pairs(x: Tensor, kind: str) -> Tensor:
    return stack([real(x), imag(x)], -1).astype(kind)


@op("DFT", known=(1,), plain=(2,))
def dft(call: Call, x: Tensor, length: Array | None = None, axis: Array | Tensor | None = None) -> Tensor:
    """Transform `x` along one dim. The dim may be a tensor if the result shape does not depend on it.

    With the attribute `onesided`, the spectrum (result, or operand of an inverse) is only the first half of a symmetric
    one.
    """
    axis_operand = np.asarray(-2) if axis is None else axis
    size = None if length is None else int(length.reshape(()))
    if size is not None or call["onesided"]:
        axis_operand = array_of(axis_operand, "axis")
    # The last dim holds real and imaginary parts and does not exist in the complex tensor, so negative axes shift by
    # one.
    if isinstance(axis_operand, Tensor):
        axis_operand = where(axis_operand < 0, axis_operand + 1, axis_operand)
        return along(axis_operand, x.ndim - 1, lambda dim: _dft_along(call, x, size, dim))
    return _dft_along(call, x, size, dim_of(axis_operand.reshape(()), x.ndim))


def _dft_along(call: Call, x: Tensor, size: int | None, dim: int) -> Tensor:
    numbers, kind = _complex(x), x.type.dtype
    if call["inverse"]:
        if call["onesided"]:
            return expand_dims(fft.irfft(numbers, size, dim), x.ndim - 1).astype(kind)
        return _complex_pairs(fft.ifft(numbers, size, dim), kind)
    if call["onesided"] and x.shape[-1] == 1:
        return _complex_pairs(fft.rfft(numbers, size, dim), kind)
    spectrum = fft.fft(numbers, size, dim)
    half = spectrum.shape[dim] // 2 + 1 if call["onesided"] else spectrum.shape[dim]
    return _complex_pairs(spectrum[(slice(None),) * dim + (slice(half),)], kind)


@op("STFT", known=(1, 3))
def stft(call: Call, x: Tensor, step: Array, window: Any = None, length: Array | None = None) -> Tensor:
    """Transform overlapping frames of a signal [b, n, 1 or 2] to [b, frames, frequencies, 2]."""
    size, hop = len(window) if length is None else int(length.reshape(())), int(step.reshape(()))
    frames = 1 + (x.shape[1] - size) // hop
    require_small_array("STFT", frames, size)
    positions = np.arange(frames)[:, None] * hop + np.arange(size)
    frame_samples = take(x, positions.astype(np.int32), 1)
    return _dft_along(call, frame_samples if window is None else frame_samples * expand_dims(window, 1), None, 2)
