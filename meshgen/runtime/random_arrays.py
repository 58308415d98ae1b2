"""Random arguments where a user gives none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.ir.graph import TensorType, is_float


def random_array(kind: TensorType, seed: Sequence[int]) -> np.ndarray[Any, Any]:
    """Normally distributed floats, integers from 1 to 7: never all zero, and the same for the same seed."""
    generator = np.random.default_rng(seed)
    if is_float(kind.dtype):
        return generator.standard_normal(kind.sizes, dtype=np.float32).astype(kind.numpy_dtype)
    return np.asarray(generator.integers(1, 8, kind.sizes)).astype(kind.numpy_dtype)
