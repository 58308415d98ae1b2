"""Comparison of results with expected ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.commands.arrays import Array, is_raw
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.ir.graph import TensorType, dtype_name


@dataclass(frozen=True)
class Expected:
    """Expected results by name or number, and per result the error bound of each element, where it is known."""

    arrays: Mapping[str, Array]
    bounds: Sequence[Array] | None = None


def compare(
    names: Sequence[str], results: Sequence[Array], expectation: Expected, tolerance: float | None
) -> list[dict[str, Any]]:
    """Per result its largest error and what is allowed: element by element where bounds are known and no tolerance
    is given, else relative to the largest expected value. Raises ArgumentError for a misfit.
    """
    expected = expectation.arrays
    if len(expected) != len(results):
        raise ArgumentError(
            Diagnostic("MG0601", f"expected {len(expected)} results, but the program has {len(results)}")
        )
    rows: list[dict[str, Any]] = []
    keys = names if set(names) == set(expected) else expected
    for number, (name, got, key) in enumerate(zip(names, results, keys, strict=True)):
        want = _fitting(name, got, expected[key])
        if expectation.bounds is not None and tolerance is None:
            rows.append({"name": name, **_within(got, want, expectation.bounds[number])})
            continue
        limit = default_tolerance(got) if tolerance is None else tolerance
        error = relative_error(got, want)
        measure = "error relative to the largest value"
        rows.append({"name": name, "measure": measure, "error": error, "tolerance": limit, "ok": error <= limit})
    return rows


def _fitting(name: str, got: Array, want: Array) -> Array:
    """The expected values of a result, as numbers. Raises ArgumentError for another shape or elements that are not numbers."""
    if want.shape != got.shape:
        message = f"result '{name}' has shape {list(got.shape)}, expected {list(want.shape)}"
        raise ArgumentError(Diagnostic("MG0601", message))
    if want.dtype.kind in "biufc" or want.dtype == got.dtype:
        return want
    if is_raw(want) and want.dtype.itemsize == got.dtype.itemsize:
        return want.view(got.dtype)
    raise ArgumentError(Diagnostic("MG0601", f"result '{name}' has element type {got.dtype}, expected {want.dtype}"))


def _within(got: Array, want: Array, bound: Array) -> dict[str, Any]:
    """The comparison that `check` makes."""
    from meshgen.testing.oracle import compare as compared

    found = compared(TensorType(got.shape, dtype_name(got.dtype)), want, got, bound)
    return {"measure": "largest error", "error": found.max_abs_error, "tolerance": found.tolerance, "ok": found.ok}


def relative_error(got: Array, want: Array) -> float:
    """Largest difference over the largest expected value; infinite where one is not finite and they differ."""
    wide = np.complex128 if np.iscomplexobj(got) or np.iscomplexobj(want) else np.float64
    left, right = np.asarray(got, wide), np.asarray(want, wide)
    whole = got.dtype.kind in "iu" and want.dtype.kind in "iu"  # float64 cannot represent large ones exactly
    same = got == want if whole else (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.maximum(np.abs(left - right), float(whole)))
    worst = float(np.max(np.nan_to_num(distance, nan=np.inf), initial=0))
    scale = float(np.max(np.abs(right), initial=0, where=np.isfinite(right)))
    return worst / scale if scale else worst


def default_tolerance(array: Array) -> float:
    """Half of the digits of a float type; integers must be equal."""
    try:
        return float(ml_dtypes.finfo(array.dtype).eps) ** 0.5
    except ValueError:
        return 0.0
