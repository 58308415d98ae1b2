"""Random arguments where a user gives none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.ir.graph import Graph, TensorType, Value, is_complex, is_float, real_dtype
from meshgen.ir.matchers import through
from meshgen.ops.classes import LAYOUT


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


def random_operands(body: Graph, seed: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    """Operands of a kernel's body, each as `random_array` makes it; indices that are said to be sorted are."""
    ordered = _ordered_inputs(body)
    arrays = (random_array(value.type, [*seed, number]) for number, value in enumerate(body.inputs))
    return [
        np.sort(array, None).reshape(array.shape) if value in ordered else array
        for value, array in zip(body.inputs, arrays, strict=True)
    ]


def _ordered_inputs(body: Graph) -> set[Value]:
    """What the indices of scatters and gathers come from that say that these are sorted."""
    made, found = body.index.producers, set[Value]()
    for node in body.nodes:
        if node.attrs.get("indices_are_sorted"):
            found.add(through(node.operands[len(node.operands) // 2], made.get, LAYOUT))
    return found
