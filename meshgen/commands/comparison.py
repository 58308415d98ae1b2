"""Compare the results of a run with expected results."""

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
    """Expected results by name or index. If error bounds are known, there is a bound for each element."""

    arrays: Mapping[str, Array]
    bounds: Sequence[Array] | None = None


def compare(
    names: Sequence[str], results: Sequence[Array], expectation: Expected, tolerance: float | None
) -> list[dict[str, Any]]:
    """Return a record per result, with its largest error and the allowed error.

    Errors are compared element by element if bounds are known and `tolerance` is None. Otherwise errors are relative to
    the largest expected value.

    Raises:
        ArgumentError: the number, shape or element type of results differs from the expected one.
    """
    expected = expectation.arrays
    if len(expected) != len(results):
        raise ArgumentError(
            Diagnostic("MG0601", f"expected {len(expected)} results, but the program has {len(results)}")
        )
    rows: list[dict[str, Any]] = []
    keys = names if set(names) == set(expected) else expected
    for index, (name, got, key) in enumerate(zip(names, results, keys, strict=True)):
        want = _expected_values(name, got, expected[key])
        if expectation.bounds is not None and tolerance is None:
            rows.append({"name": name, **_compare_within_bounds(got, want, expectation.bounds[index])})
            continue
        limit = default_tolerance(got) if tolerance is None else tolerance
        error = relative_error(got, want)
        measure = "error relative to the largest value"
        rows.append({"name": name, "measure": measure, "error": error, "tolerance": limit, "ok": error <= limit})
    return rows


def _expected_values(name: str, got: Array, want: Array) -> Array:
    """Return the expected values of a result as numbers.

    Raises:
        ArgumentError: the shape differs, or the elements are not numbers.
    """
    if want.shape != got.shape:
        message = f"result '{name}' has shape {list(got.shape)}, expected {list(want.shape)}"
        raise ArgumentError(Diagnostic("MG0601", message))
    if want.dtype.kind in "biufc" or want.dtype == got.dtype:
        return want
    if is_raw(want) and want.dtype.itemsize == got.dtype.itemsize:
        return want.view(got.dtype)
    raise ArgumentError(Diagnostic("MG0601", f"result '{name}' has element type {got.dtype}, expected {want.dtype}"))


def _compare_within_bounds(got: Array, want: Array, bound: Array) -> dict[str, Any]:
    """Compare a result with the expected values element by element, with a bound for each, as command `check` does."""
    from meshgen.testing.oracle import compare as compared

    comparison = compared(TensorType(got.shape, dtype_name(got.dtype)), want, got, bound)
    return {
        "measure": "largest error",
        "error": comparison.max_abs_error,
        "tolerance": comparison.tolerance,
        "ok": comparison.ok,
    }


def relative_error(got: Array, want: Array) -> float:
    """Return the largest difference divided by the largest expected value, or infinity if a non-finite value differs."""
    wide = np.complex128 if np.iscomplexobj(got) or np.iscomplexobj(want) else np.float64
    actual, reference = np.asarray(got, wide), np.asarray(want, wide)
    are_integers = got.dtype.kind in "iu" and want.dtype.kind in "iu"  # float64 cannot represent large integers exactly
    are_equal = got == want if are_integers else (actual == reference) | (np.isnan(actual) & np.isnan(reference))
    with np.errstate(invalid="ignore"):
        distance = np.where(are_equal, 0.0, np.maximum(np.abs(actual - reference), float(are_integers)))
    largest_error = float(np.max(np.nan_to_num(distance, nan=np.inf), initial=0))
    scale = float(np.max(np.abs(reference), initial=0, where=np.isfinite(reference)))
    return largest_error / scale if scale else largest_error


def default_tolerance(array: Array) -> float:
    """Return the tolerance for a result without error bounds: half the digits of a float type, or 0 for integers."""
    try:
        return float(ml_dtypes.finfo(array.dtype).eps) ** 0.5
    except ValueError:
        return 0.0
