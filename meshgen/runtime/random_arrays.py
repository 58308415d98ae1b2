"""Random arguments for runs in which the user passes none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.ir.graph import Graph, TensorType, Value, is_complex, is_float, real_dtype
from meshgen.ir.matchers import through
from meshgen.ops.classes import LAYOUT


def random_array(tensor_type: TensorType, seed: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return an array of normally distributed floats, or of integers from 1 to 7. It is never all zero.

    Equal seeds give equal arrays. Floats of rank 2 and more are scaled by the inverse root of their first dim, as
    weights are. Reductions over this dim then stay near 1, so that large results do not hide errors.
    """
    if is_complex(tensor_type.dtype):
        real, imaginary = (
            random_array(TensorType(tensor_type.shape, real_dtype(tensor_type.dtype)), [*seed, n]) for n in (0, 1)
        )
        return np.asarray(real + imaginary * np.complex64(1j)).astype(tensor_type.numpy_dtype)
    generator = np.random.default_rng(seed)
    if is_float(tensor_type.dtype):
        scale = np.float32(max(1, tensor_type.sizes[0]) ** -0.5 if tensor_type.rank > 1 else 1.0)
        # generator returns a NumPy scalar for an empty shape
        normal = np.asarray(generator.standard_normal(tensor_type.sizes, dtype=np.float32))
        return np.asarray(scale * normal).astype(tensor_type.numpy_dtype)
    return np.asarray(generator.integers(1, 8, tensor_type.sizes)).astype(tensor_type.numpy_dtype)


def random_operands(body: Graph, seed: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    """Return random operands for a kernel's body. Operands that become sorted indices are sorted."""
    ordered = _ordered_inputs(body)
    arrays = (random_array(value.type, [*seed, number]) for number, value in enumerate(body.inputs))
    return [
        np.sort(array, None).reshape(array.shape) if value in ordered else array
        for value, array in zip(body.inputs, arrays, strict=True)
    ]


def _ordered_inputs(body: Graph) -> set[Value]:
    """Return the values that scatters and gathers with `indices_are_sorted` use as indices."""
    producers, ordered = body.index.producers, set[Value]()
    for node in body.nodes:
        if node.attrs.get("indices_are_sorted"):
            ordered.add(through(node.operands[len(node.operands) // 2], producers.get, LAYOUT))
    return ordered
