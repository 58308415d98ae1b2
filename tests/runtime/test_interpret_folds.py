"""The interpreter's reductions and scans combine neighbours in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from meshgen.runtime.interpret_folds import reduced_by_halves, scanned_by_halves

Array = np.ndarray[Any, Any]


def joined(left: list[Array], right: list[Array]) -> list[Array]:
    """Affine maps, later after earlier: associative, and it does not commute."""
    (a, b), (c, d) = left, right
    return [a * c, b * c + d]


@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_both_are_what_a_loop_gives(length: int) -> None:
    rng = np.random.default_rng(length)
    rows = [rng.integers(-2, 3, (length, 5)), rng.integers(-2, 3, (length, 5))]
    wanted = [[x[0] for x in rows]]
    for place in range(1, length):
        wanted.append(joined(wanted[-1], [x[place] for x in rows]))
    for found, last in zip(reduced_by_halves(rows, joined), wanted[-1], strict=True):
        np.testing.assert_array_equal(found, last)
    for number, found in enumerate(scanned_by_halves(rows, joined)):
        np.testing.assert_array_equal(found, np.stack([each[number] for each in wanted]))
