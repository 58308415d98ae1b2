"""Constants that repeat one element: a broadcast view, which costs that element whatever its shape says."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def spread_element(array: Array) -> Array | None:
    """The 0-d array that a broadcast view repeats; None where elements are stored, or there are none."""
    if array.ndim == 0 or array.size == 0 or any(array.strides):
        return None
    return array[(0,) * array.ndim].reshape(())


def stored_bytes(array: Array) -> bytes:
    """The bytes of all elements, of one where a view repeats it."""
    element = spread_element(array)
    return (array if element is None else element).tobytes()
