"""PyTorch Fourier transforms, window functions, and short-time Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.frontend.torch.ops.padding import pad
from meshgen.frontend.torch.ops.table import aten, enter_rows, enter_traced
from meshgen.frontend.tracer import fft
from meshgen.frontend.tracer.creation import zeros
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.shapes import moveaxis
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import DTYPES, is_complex

# Indexed by torch's normalization mode (0, 1, 2): the factor of a forward transform is 1, 1 / sqrt(n) or 1 / n.
_NORMS = ("backward", "ortho", "forward")
_INVERSE_NORMS = ("forward", "ortho", "backward")


enter_traced(" ".join(f"fft_{name}=fft.{name}" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn")))  # fmt: skip
enter_rows({
    "_fft_c2c": lambda x, dim, norm, forward: fft.fftn(x, axes=dim, norm=_NORMS[norm]) if forward else fft.ifftn(x, axes=dim, norm=_INVERSE_NORMS[norm]),
    "_fft_c2r": lambda x, dim, norm, size: fft.irfftn(x, [*(x.shape[d] for d in dim[:-1]), size], dim, _INVERSE_NORMS[norm]),
    "_fft_r2c": lambda x, dim, norm, onesided: (fft.rfftn if onesided else fft.fftn)(x, axes=dim, norm=_NORMS[norm]),
    "fft_fftfreq": lambda n, d=1.0, dtype=None: tensor(np.fft.fftfreq(n, d).astype(DTYPES[dtype or "f32"])),
    "fft_rfftfreq": lambda n, d=1.0, dtype=None: tensor(np.fft.rfftfreq(n, d).astype(DTYPES[dtype or "f32"])),
})  # fmt: skip


def _over_two_dims(transform: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, s=None, dim=(-2, -1), norm=None: transform(x, s, dim, norm)


enter_rows({"fft_fft2": fft.fftn, "fft_ifft2": fft.ifftn, "fft_rfft2": fft.rfftn, "fft_irfft2": fft.irfftn}, _over_two_dims)  # fmt: skip


def _raised_cosine(first: float, second: float, third: float = 0.0) -> Callable[..., Tensor]:
    """Return a function for the window `first - second * cos(t) + third * cos(2 * t)`.

    In a window of n samples, t has a period of n samples if `periodic` is set, else n - 1.
    """

    def window(n: int, periodic: bool = True, dtype: str | None = None) -> Tensor:
        angle = 2 * math.pi * np.arange(n) / max(1, n if periodic else n - 1)
        samples = first - second * np.cos(angle) + third * np.cos(2 * angle) if n > 1 else np.ones(n)
        return tensor(samples.astype(DTYPES[dtype or "f32"]))

    return window


enter_rows({
    "hann_window hann_window.periodic": _raised_cosine(0.5, 0.5),
    "hamming_window hamming_window.periodic": _raised_cosine(0.54, 0.46),
    "blackman_window blackman_window.periodic": _raised_cosine(0.42, 0.5, 0.08),
})  # fmt: skip


def _window(window: Tensor | None, size: int, length: int, dtype: str) -> Tensor:
    """Pad `window`, which has `size` samples, with zeros on both sides to `length` samples. The default window is ones."""
    left_padding = (length - size) // 2
    samples = tensor(np.ones(size, DTYPES[dtype])) if window is None else window
    return pad(samples, [left_padding, length - size - left_padding])


@aten("stft.center")
def centered_stft(x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
                 *args: Any, **options: Any) -> Tensor:  # fmt: skip
    """Compute `stft`. With `center`, the signal is padded by half a window on both sides first."""
    if center:
        rows = x if x.ndim > 1 else x.reshape(1, -1)
        padded = pad(rows, [n_fft // 2] * 2, pad_mode)
        x = padded if x.ndim > 1 else padded[0]
    return stft(x, n_fft, hop_length, win_length, window, *args, **options)


@aten("stft")
def stft(x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None, normalized: bool = False, onesided: bool | None = None,
         return_complex: bool | None = None, align_to_window: bool | None = None) -> Tensor:  # fmt: skip
    """Return the spectra of overlapping windows of a signal: [..., frequencies, frames]."""
    del return_complex, align_to_window
    rows, hop = x if x.ndim > 1 else x.reshape(1, -1), hop_length or n_fft // 4
    frame_starts = np.arange((rows.shape[-1] - n_fft) // hop + 1)[:, None] * hop
    frames = rows[slice(None), (frame_starts + np.arange(n_fft)).astype(np.int32)]
    is_real = not is_complex(x.type.dtype)
    window_dtype = x.type.dtype if is_real else "f64" if x.type.dtype == "c128" else "f32"
    frames = frames * convert(_window(window, win_length or n_fft, n_fft, window_dtype), x.type.dtype)
    transform = fft.rfft if is_real and onesided is not False else fft.fft
    spectra = transform(frames, norm="ortho" if normalized else None).mT
    return spectra if x.ndim > 1 else spectra[0]


@aten("istft")
def istft(x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None, center: bool = True,
          normalized: bool = False, onesided: bool | None = None, length: int | None = None, return_complex: bool = False) -> Tensor:  # fmt: skip
    """Reconstruct a signal from spectra [..., frequencies, frames].

    The windowed frames are overlap-added. The sum is divided by the overlap-added squares of the window.
    """
    hop, norm = hop_length or n_fft // 4, "ortho" if normalized else None
    spectra = (x if x.ndim > 2 else x.reshape(1, *x.shape)).mT
    is_onesided = onesided if onesided is not None else not return_complex
    frames = fft.irfft(spectra, n_fft, norm=norm) if is_onesided else fft.ifft(spectra, norm=norm)
    if not is_onesided and not return_complex:
        frames = frames.real
    window_dtype = "f64" if x.type.dtype == "c128" else "f32"
    padded_window = _window(window, win_length or n_fft, n_fft, window_dtype)
    count = frames.shape[-2]
    total_length = n_fft + hop * (count - 1)
    begin = n_fft // 2 if center else 0
    end = begin + length if length is not None else total_length - (n_fft // 2 if center else 0)
    squares = _overlap_add(
        (padded_window * padded_window).reshape(1, 1, n_fft) + zeros((1, count, n_fft), window_dtype), hop, total_length
    )
    added = _overlap_add(frames * convert(padded_window, frames.type.dtype), hop, total_length)
    signal = added[..., begin : min(end, total_length)] / convert(
        squares[..., begin : min(end, total_length)], frames.type.dtype
    )
    signal = pad(signal, [0, end - total_length]) if end > total_length else signal
    return signal if x.ndim > 2 else signal[0]


def _overlap_add(frames: Tensor, hop: int, size: int) -> Tensor:
    """Overlap-add frames [rows, frames, n] into signals [rows, size].

    Each frame starts `hop` samples after the previous one.
    """
    rows, count, n = frames.shape
    positions = (np.arange(count)[:, None] * hop + np.arange(n)).reshape(-1).astype(np.int32)
    flat = moveaxis(frames.reshape(rows, count * n), 0, -1)
    return moveaxis(zeros((size, rows), frames.type.dtype).at[positions].add(flat), -1, 0)
