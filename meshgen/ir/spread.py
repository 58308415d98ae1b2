"""Splat constants: a broadcast view that stores one element for any shape."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def spread_element(array: Array) -> Array | None:
    """The 0-d array of a splat; None where elements are stored, or there are none."""
    if array.ndim == 0 or array.size == 0 or any(array.strides):
        return None
    return array[(0,) * array.ndim].reshape(())


def stored_bytes(array: Array) -> bytes:
    """The stored bytes: of one element for a splat."""
    element = spread_element(array)
    return (array if element is None else element).tobytes()


def uniform_element(array: Array) -> Array | None:
    """Return the element that an array consists of as a 0-d array; None if elements differ in their bits or there are none."""
    if array.size == 0:
        return None
    if any(array.strides):
        rows = np.ascontiguousarray(array).reshape(-1)
        bits = rows.view(np.uint8).reshape(rows.size, -1)
        if (bits[0] != bits[-1]).any() or (bits != bits[0]).any():
            return None
    return array[(0,) * array.ndim].reshape(())
