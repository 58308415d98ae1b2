"""Splat constants: arrays in which all elements are equal, stored as a broadcast view of a single element."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def splat_element(array: Array) -> Array | None:
    """Return the stored element of a splat as a 0-d array. Returns None for any other array."""
    if array.ndim == 0 or array.size == 0 or any(array.strides):
        return None
    return array[(0,) * array.ndim].reshape(())


def stored_bytes(array: Array) -> bytes:
    """Return the bytes of an array's elements. A splat has only the bytes of the single stored element."""
    element = splat_element(array)
    return (array if element is None else element).tobytes()


def uniform_element(array: Array) -> Array | None:
    """Return the element of an array whose elements have equal bits, as a 0-d array.

    Returns None if the elements differ, or if the array is empty.
    """
    if array.size == 0:
        return None
    if any(array.strides):
        flat = np.ascontiguousarray(array).reshape(-1)
        bits = flat.view(np.uint8).reshape(flat.size, -1)
        if (bits[0] != bits[-1]).any() or (bits != bits[0]).any():
            return None
    return array[(0,) * array.ndim].reshape(())
