"""Traced Fourier transforms, `mg.fft`: the functions of the array-API standard, computed one dim at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.frontend.tracer.elementwise import as_float, conj
from meshgen.frontend.tracer.joining import pad, roll
from meshgen.frontend.tracer.operands import axes_of, axis_of, convert, dtype_of, emit, tensor
from meshgen.frontend.tracer.recording import named, refuse
from meshgen.frontend.tracer.shapes import moveaxis
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import COMPLEX_PARTS, DTYPES, TensorType, is_complex, real_dtype

_COMPLEX = {part: name for name, part in COMPLEX_PARTS.items()}


def _transformed(kind: str, x: Operand, n: int | None, axis: int, norm: str | None) -> Tensor:
    """Apply the transform `kind` along `axis`, after cropping or zero-padding the dim to `n` elements."""
    x = as_float(x)
    x = convert(x, "f32") if x.type.dtype in ("bf16", "f16") else x
    dim = axis_of(axis, x.ndim)
    if kind == "RFFT" and is_complex(x.type.dtype):
        refuse(f"rfft transforms real numbers, not {x.type}", "use fft for complex ones")
    if kind != "RFFT" and not is_complex(x.type.dtype):
        x = convert(x, _COMPLEX[x.type.dtype])
    size = x.shape[dim]
    length = n if n is not None else 2 * (size - 1) if kind == "IRFFT" else size
    if length < 1:
        refuse(f"a Fourier transform of {length} elements along dim {dim} of {x.type}")
    rows = _padded_or_cut(moveaxis(x, dim, -1), length // 2 + 1 if kind == "IRFFT" else length)
    dtype = x.type.dtype
    dtype = _COMPLEX[dtype] if kind == "RFFT" else real_dtype(dtype) if kind == "IRFFT" else dtype
    result = TensorType((*rows.shape[:-1], length // 2 + 1 if kind == "RFFT" else length), dtype)
    transformed = emit("fft", [rows], result, {"kind": kind, "length": (length,)})
    scale = _scale(kind.startswith("I"), length, norm)
    return moveaxis(transformed if scale == 1 else transformed * scale, -1, dim)


def _padded_or_cut(x: Tensor, size: int) -> Tensor:
    padding = max(0, size - x.shape[-1])
    return pad(x, [(0, 0)] * (x.ndim - 1) + [(0, padding)]) if padding else x[..., :size]


def _scale(is_inverse: bool, length: int, norm: str | None) -> float:
    """Return the factor by which the result is multiplied to implement `norm`.

    The inverse op already divides by the length.
    """
    if norm not in (None, "backward", "ortho", "forward"):
        refuse(f"'{norm}' is not a norm of Fourier transforms", "the norms are backward, ortho, forward")
    divisor = {"ortho": math.sqrt(length), "forward": float(length)}.get(norm or "", 1.0)
    return divisor if is_inverse else 1 / divisor


@named("fft.fft")
def fft(x: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the discrete Fourier transform along a dim."""
    return _transformed("FFT", x, n, axis, norm)


@named("fft.ifft")
def ifft(x: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse discrete Fourier transform along a dim."""
    return _transformed("IFFT", x, n, axis, norm)


@named("fft.rfft")
def rfft(x: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return elements 0 to n // 2 of the Fourier transform of real numbers along a dim.

    The other elements are the conjugates of these.
    """
    return _transformed("RFFT", x, n, axis, norm)


@named("fft.irfft")
def irfft(x: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of `rfft`: `n` real numbers along a dim."""
    return _transformed("IRFFT", x, n, axis, norm)


@named("fft.hfft")
def hfft(x: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the Fourier transform, which is real, of conjugate-symmetric numbers.

    `x` has the first half of the numbers.
    """
    inverse = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
    return _transformed("IRFFT", conj(x), n, axis, inverse)


@named("fft.ihfft")
def ihfft(x: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of `hfft`: the first half of the conjugate-symmetric numbers."""
    inverse = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
    return conj(_transformed("RFFT", x, n, axis, inverse))


def _transformed_dims(x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int, int | None]]:
    """Return (dim, length) for each transformed dim; length None keeps the size of the dim."""
    chosen_axes = list(axes) if axes is not None else list(range(-len(s), 0)) if s is not None else list(range(x.ndim))
    dims = [axis_of(a, x.ndim) for a in chosen_axes]
    return list(zip(dims, s if s is not None else [None] * len(dims), strict=True))


def _along_all(kind: str, x: Operand, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None) -> Tensor:
    x = tensor(x)
    for dim, length in _transformed_dims(x, s, axes)[::-1]:
        x = _transformed(kind, x, length, dim, norm)
    return x


@named("fft.fftn", "fft.fft2")
def fftn(x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Tensor:  # fmt: skip
    """Return the Fourier transform along several dims (None: all)."""
    return _along_all("FFT", x, s, axes, norm)


@named("fft.ifftn", "fft.ifft2")
def ifftn(x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Tensor:  # fmt: skip
    """Return the inverse Fourier transform along several dims (None: all)."""
    return _along_all("IFFT", x, s, axes, norm)


@named("fft.rfftn")
def rfftn(x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Tensor:  # fmt: skip
    """Return the Fourier transform of real numbers along several dims (None: all).

    The last of them is halved as in `rfft`.
    """
    x = tensor(x)
    *other_dims, (dim, length) = _transformed_dims(x, s, axes)
    x = rfft(x, length, dim, norm)
    for other_dim, size in other_dims[::-1]:
        x = fft(x, size, other_dim, norm)
    return x


@named("fft.irfftn")
def irfftn(x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Tensor:  # fmt: skip
    """Return the inverse of `rfftn`."""
    x = tensor(x)
    *other_dims, (dim, length) = _transformed_dims(x, s, axes)
    for other_dim, size in other_dims:
        x = ifft(x, size, other_dim, norm)
    return irfft(x, length, dim, norm)


@named("fft.fftfreq")
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequency of each element of the result of `fft`, for samples at distance d."""
    return tensor(np.fft.fftfreq(n, d).astype(DTYPES["f32" if dtype is None else dtype_of(dtype)]))


@named("fft.rfftfreq")
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequency of each element of the result of `rfft`, for samples at distance d."""
    return tensor(np.fft.rfftfreq(n, d).astype(DTYPES["f32" if dtype is None else dtype_of(dtype)]))


@named("fft.fftshift")
def fftshift(x: Operand, axes: int | Sequence[int] | None = None) -> Tensor:
    """Rotate dims (None: all) so that frequency 0 moves from index 0 to the middle."""
    x = tensor(x)
    dims = axes_of(axes, x.ndim)
    return roll(x, [x.shape[d] // 2 for d in dims], dims)


@named("fft.ifftshift")
def ifftshift(x: Operand, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return the inverse of `fftshift`."""
    x = tensor(x)
    dims = axes_of(axes, x.ndim)
    return roll(x, [-(x.shape[d] // 2) for d in dims], dims)
