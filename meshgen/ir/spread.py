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
