"""Traced random numbers, `mg.random`. They equal those of `jax.random` with its default generator, under any sharding.

    key = mg.random.key(0); k1, k2 = mg.random.split(key); x = mg.random.normal(k1, (8, 16))

A key is a ui32[2] tensor; an argument of that type also accepts `jax.random.key(0)`. The bits of an element depend only
on the key and the element's index (threefry over a 64-bit counter), so devices generate their tiles without
communication.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.elementwise import as_float, clip, erf, erf_inv, log, log1p, maximum
from meshgen.frontend.tracer.joining import stack
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import axis_of, broadcast, convert, dtype_of, emit, sizes_of, tensor
from meshgen.frontend.tracer.recording import named, refuse
from meshgen.frontend.tracer.rounding import nextafter
from meshgen.frontend.tracer.searching import argmax
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, TensorType, is_float
from meshgen.ops.random_bits import threefry

Shape = int | Sequence[int]


@named("random.key", "random.PRNGKey")
def key(seed: Operand) -> Tensor:
    """Return a key from a seed, a 32-bit integer."""
    low = tensor(int(seed) & 0xFFFFFFFF, "ui32") if not isinstance(seed, Tensor) else convert(seed, "ui32")
    return stack([tensor(0, "ui32"), low])


def _key_words(key: Operand) -> tuple[Tensor, Tensor]:
    key = tensor(key)
    if key.type != TensorType((2,), "ui32"):
        refuse(f"a random key is ui32[2], not {key.type}", "make one with mg.random.key(seed), or take one as an argument of that type")  # fmt: skip
    return key[0], key[1]


def _random_words(key: Operand, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return two random 32-bit words per element, from the key and the row-major index of the element."""
    return threefry(_key_words(key), counters(shape, "ui64" if math.prod(shape) >= 1 << 32 else "ui32"))


def counters(shape: Sequence[int], dtype: str) -> tuple[Tensor, Tensor]:
    """Return the high and the low 32 bits of each element's row-major index, computed in `dtype`."""
    number = tensor(0, dtype)
    for dim, size in enumerate(shape):
        number = number * size + iota(shape, dim, dtype)
    return (convert(number >> 32, "ui32"), convert(number, "ui32")) if dtype == "ui64" else (tensor(0, "ui32"), number)


@named("random.split")
def split(key: Operand, num: Shape = 2) -> Tensor:
    """Derive `num` new keys, stacked along the first dims. The old key must not be used again."""
    return stack(_broadcast(_random_words(key, sizes_of(num)), sizes_of(num)), -1)


def _broadcast(words: tuple[Tensor, Tensor], shape: Sequence[int]) -> list[Tensor]:
    return [broadcast(word, shape) for word in words]


@named("random.fold_in")
def fold_in(key: Operand, number: Operand) -> Tensor:
    """Derive a new key from a key and an integer `number`, such as a step count."""
    low = tensor(int(number) & 0xFFFFFFFF, "ui32") if not isinstance(number, Tensor) else convert(number, "ui32")
    return stack(list(threefry(_key_words(key), (tensor(0, "ui32"), low))))


@named("random.bits")
def bits(key: Operand, shape: Shape = (), dtype: Any = "ui32") -> Tensor:
    """Return random bits as elements of an unsigned integer dtype."""
    kind, sizes = dtype_of(dtype), sizes_of(shape)
    if kind not in ("ui8", "ui16", "ui32", "ui64"):
        refuse(f"random bits are ui8, ui16, ui32 or ui64, not {kind}")
    high, low = _broadcast(_random_words(key, sizes), sizes)
    return convert(high, "ui64") << 32 | convert(low, "ui64") if kind == "ui64" else convert(high ^ low, kind)


@named("random.uniform")
def uniform(key: Operand, shape: Shape = (), dtype: Any = "f32", minval: Operand = 0.0, maxval: Operand = 1.0) -> Tensor:  # fmt: skip
    """Return random numbers, uniform over [minval, maxval)."""
    kind = dtype_of(dtype)
    if kind not in ("bf16", "f16", "f32", "f64"):
        refuse(f"random numbers are floats, not {kind}")
    low, high = tensor(minval, kind), tensor(maxval, kind)
    width, mantissa = DTYPES[kind].itemsize * 8, int(ml_dtypes.finfo(DTYPES[kind]).nmant)
    random_bits = 8 if mantissa < 8 else width
    word = f"ui{width}"
    one = int(np.ones((), DTYPES[kind]).view(f"u{width // 8}"))
    # The bits of a float in [1, 2): exponent 0 and a random mantissa.
    pattern = convert(bits(key, shape, f"ui{random_bits}"), word) >> (random_bits - mantissa) | one
    numbers = emit("bitcast_convert", [pattern], TensorType(pattern.shape, kind)) - 1
    return maximum(low, numbers * (high - low) + low)


@named("random.normal")
def normal(key: Operand, shape: Shape = (), dtype: Any = "f32") -> Tensor:
    """Return random numbers of the normal distribution with mean 0 and variance 1."""
    kind = DTYPES[dtype_of(dtype)]
    lowest = np.nextafter(np.array(-1, kind), np.array(0, kind), dtype=kind)
    return erf_inv(uniform(key, shape, dtype, lowest, 1)) * math.sqrt(2)


@named("random.truncated_normal")
def truncated_normal(key: Operand, lower: Operand, upper: Operand, shape: Shape | None = None, dtype: Any = "f32") -> Tensor:  # fmt: skip
    """Return random numbers of the standard normal distribution, conditioned to be between `lower` and `upper`."""
    kind = dtype_of(dtype)
    low, high = tensor(lower, kind), tensor(upper, kind)
    sizes = np.broadcast_shapes(low.shape, high.shape) if shape is None else shape
    samples = erf_inv(uniform(key, sizes, kind, erf(low / math.sqrt(2)), erf(high / math.sqrt(2)))) * math.sqrt(2)
    return clip(samples, nextafter(low, math.inf), nextafter(high, -math.inf))


@named("random.exponential")
def exponential(key: Operand, shape: Shape = (), dtype: Any = "f32") -> Tensor:
    """Return random numbers of the exponential distribution with mean 1."""
    return -log1p(-uniform(key, shape, dtype))


@named("random.bernoulli")
def bernoulli(key: Operand, p: Operand = 0.5, shape: Shape | None = None) -> Tensor:
    """Return random booleans that are True with probability p."""
    p = as_float(p)
    return uniform(key, p.shape if shape is None else shape, p.type.dtype) < p


@named("random.randint")
def randint(key: Operand, shape: Shape, minval: Operand, maxval: Operand, dtype: Any = "i32") -> Tensor:
    """Return random integers in [minval, maxval)."""
    kind = dtype_of(dtype)
    if is_float(kind) or kind == "i1":
        refuse(f"randint makes integers, not {kind}")
    width = DTYPES[kind].itemsize * 8
    if width < 32:
        return convert(randint(key, shape, minval, maxval), kind)
    low, high = tensor(minval, kind), tensor(maxval, kind)
    word = f"ui{width}"
    keys = split(key)
    upper, lower = bits(keys[0], shape, word), bits(keys[1], shape, word)
    span = where(high <= low, 1, convert(high - low, word))
    factor = tensor(1 << width // 2, word) % span
    offset = (upper % span) * (factor * factor % span) + lower % span
    return low + convert(offset % span, kind)


@named("random.gumbel")
def gumbel(key: Operand, shape: Shape = (), dtype: Any = "f32") -> Tensor:
    """Return random numbers of the Gumbel distribution, -log(-log(u)) for uniform u."""
    smallest = float(ml_dtypes.finfo(DTYPES[dtype_of(dtype)]).tiny)
    return -log(-log(uniform(key, shape, dtype, smallest, 1.0)))


@named("random.categorical")
def categorical(key: Operand, logits: Operand, axis: int = -1, shape: Shape | None = None) -> Tensor:
    """Return random class indices as i32. `logits` has the logarithms of the class probabilities along `axis`."""
    logits = as_float(logits)
    dim = axis_of(axis, logits.ndim)
    batch = tuple(np.delete(logits.shape, dim))
    sizes = batch if shape is None else sizes_of(shape)
    sample_sizes = sizes[: len(sizes) - len(batch)]
    noise = gumbel(key, [*sample_sizes, *sizes[len(sample_sizes) : len(sample_sizes) + dim], logits.shape[dim], *sizes[len(sample_sizes) + dim :]], logits.type.dtype)  # fmt: skip
    return argmax(noise + logits, dim + len(sample_sizes))


@named("random.dropout", "dropout")
def dropout(key: Operand, x: Operand, rate: float) -> Tensor:
    """Set each element to 0 with probability `rate`, else to x / (1 - rate)."""
    x = as_float(x)
    if not 0 <= rate < 1:
        refuse(f"a rate of dropout is from 0 on and below 1, not {rate}")
    return x if not rate else where(bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)
