"""Splat constants: a broadcast view that stores a single element for any shape."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def spread_element(array: Array) -> Array | None:
    """Return the stored element of a splat as a 0-d array, or None if the array stores several elements or none."""
    if array.ndim == 0 or array.size == 0 or any(array.strides):
        return None
    return array[(0,) * array.ndim].reshape(())


def stored_bytes(array: Array) -> bytes:
    """Return the bytes that an array stores: of a splat, those of its single element."""
    element = spread_element(array)
    return (array if element is None else element).tobytes()


def uniform_element(array: Array) -> Array | None:
    """Return the common element of an array as a 0-d array, or None if its elements differ in bits or it is empty."""
    if array.size == 0:
        return None
    if any(array.strides):
        flat = np.ascontiguousarray(array).reshape(-1)
        bits = flat.view(np.uint8).reshape(flat.size, -1)
        if (bits[0] != bits[-1]).any() or (bits != bits[0]).any():
            return None
    return array[(0,) * array.ndim].reshape(())
