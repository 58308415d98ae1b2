"""Array-like arguments as NumPy arrays with the same meaning; those whose meaning NumPy would change are refused."""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

Array = np.ndarray[Any, Any]


class NoArrayError(Exception):
    """The argument is not an array of numbers. Holds what it is, and a hint."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def plain_array(given: Any) -> Array:
    """The argument as an array of numbers.

    Lists of numbers, scalars, and what NumPy reads as an array (pandas, JAX, torch on the CPU) are accepted. Raises
    NoArrayError for arrays whose meaning NumPy would drop (a mask, a matrix, the zeros of a sparse one), for elements that
    are not numbers, and for ragged lists.
    """
    _refuse_other_meaning(given)
    try:
        array = np.asarray(given)
    except Exception as error:  # ragged lists, tensors on a device: whatever the conversion does
        reason = " ".join(str(error).split())
        raise NoArrayError(
            f"a {type(given).__name__} that cannot be converted to an array ({reason})",
            "nested lists must have rows of equal length",
        ) from error
    if array.dtype.names or array.dtype.kind in "OSUMmT":
        kind = "structured elements" if array.dtype.names else f"elements of {array.dtype}"
        what = "an array" if hasattr(given, "dtype") else f"a {type(given).__name__}"
        raise NoArrayError(f"{what} with {kind}, which are not numbers", "convert it with astype")
    return array


def _refuse_other_meaning(given: Any) -> None:
    """Raise NoArrayError for an array, or lists with one in them, with more meaning than its numbers."""
    if isinstance(given, np.ma.MaskedArray):
        raise NoArrayError("a masked array", "pass .filled(...), and the mask as an array of its own")
    if isinstance(given, np.matrix):
        raise NoArrayError("a np.matrix, whose * is a matrix product", "pass np.asarray of it")
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(given):
        raise NoArrayError("a sparse array", "pass .toarray()")
    for each in cast("list[Any]", given) if isinstance(given, (list, tuple)) else ():
        _refuse_other_meaning(each)
