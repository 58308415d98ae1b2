"""Random arguments where a user gives none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.ir.graph import TensorType, is_complex, is_float, real_dtype


def random_array(kind: TensorType, seed: Sequence[int]) -> np.ndarray[Any, Any]:
    """Normally distributed floats, integers from 1 to 7: never all zero, and the same for the same seed.

    Floats of rank 2 and more are scaled by the root of their first dim, as weights are: sums over it stay near 1,
    and an error is not lost in large results.
    """
    if is_complex(kind.dtype):
        real, imaginary = (random_array(TensorType(kind.shape, real_dtype(kind.dtype)), [*seed, n]) for n in (0, 1))
        return np.asarray(real + imaginary * np.complex64(1j)).astype(kind.numpy_dtype)
    generator = np.random.default_rng(seed)
    if is_float(kind.dtype):
        scale = np.float32(max(1, kind.sizes[0]) ** -0.5 if kind.rank > 1 else 1.0)
        normal = np.asarray(generator.standard_normal(kind.sizes, dtype=np.float32))  # a NumPy scalar for no dims
        return np.asarray(scale * normal).astype(kind.numpy_dtype)
    return np.asarray(generator.integers(1, 8, kind.sizes)).astype(kind.numpy_dtype)
