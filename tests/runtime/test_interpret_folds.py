"""Tests that reductions and scans in the interpreter combine adjacent elements in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from meshgen.runtime.interpret_folds import reduced_by_halves, scanned_by_halves

Array = np.ndarray[Any, Any]


def joined(left: list[Array], right: list[Array]) -> list[Array]:
    """Compose affine maps, where `right` is applied after `left`. This is associative but not commutative."""
    (a, b), (c, d) = left, right
    return [a * c, b * c + d]


@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_reduction_and_scan_match_sequential_loop(length: int) -> None:
    rng = np.random.default_rng(length)
    rows = [rng.integers(-2, 3, (length, 5)), rng.integers(-2, 3, (length, 5))]
    expected = [[x[0] for x in rows]]
    for index in range(1, length):
        expected.append(joined(expected[-1], [x[index] for x in rows]))
    for result, last in zip(reduced_by_halves(rows, joined), expected[-1], strict=True):
        np.testing.assert_array_equal(result, last)
    for component, result in enumerate(scanned_by_halves(rows, joined)):
        np.testing.assert_array_equal(result, np.stack([prefix[component] for prefix in expected]))
