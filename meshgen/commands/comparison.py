"""Results against expected ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.commands.common import Array
from meshgen.errors import ArgumentError, Diagnostic


def compare(
    names: Sequence[str], results: Sequence[Array], expected: Mapping[str, Array], tolerance: float | None
) -> list[dict[str, Any]]:
    """Per result, its largest error relative to the largest expected value. Raises ArgumentError for a misfit."""
    if len(expected) != len(results):
        raise ArgumentError(
            Diagnostic("MG0601", f"{len(expected)} results are expected, but the program has {len(results)}")
        )
    rows: list[dict[str, Any]] = []
    for name, got, key in zip(names, results, names if set(names) == set(expected) else expected, strict=True):
        want = expected[key]
        if want.shape != got.shape:
            raise ArgumentError(
                Diagnostic("MG0601", f"result '{name}' has shape {list(got.shape)}, expected is {list(want.shape)}")
            )
        want = want.view(got.dtype) if want.dtype.kind == "V" else want
        limit = default_tolerance(got) if tolerance is None else tolerance
        error = relative_error(got, want)
        rows.append({"name": name, "error": error, "tolerance": limit, "ok": error <= limit})
    return rows


def relative_error(got: Array, want: Array) -> float:
    """Largest difference over the largest expected value; infinite where one is not finite and they differ."""
    left, right = np.asarray(got, np.float64), np.asarray(want, np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(left - right))
    worst = float(np.max(np.nan_to_num(distance, nan=np.inf), initial=0))
    scale = float(np.max(np.abs(right), initial=0, where=np.isfinite(right)))
    return worst / scale if scale else worst


def default_tolerance(array: Array) -> float:
    """Half of the digits of a float type; integers must be equal."""
    try:
        return float(ml_dtypes.finfo(array.dtype).eps) ** 0.5
    except ValueError:
        return 0.0
