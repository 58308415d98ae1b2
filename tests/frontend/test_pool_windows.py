"""Divisors of average pools: meshgen computes them without a table of all window elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshgen.frontend.tracer.pooling import Windows


@pytest.mark.parametrize("counts_padding", [False, True])
def test_divisors_count_rows_of_each_window(counts_padding: bool) -> None:
    for rows, size, step, before, behind, dilation in itertools.product(
        (1, 4, 7), (1, 3), (1, 2), (0, 1), (0, 2), (1, 2)
    ):
        windows = Windows(rows, size, step, before, behind, dilation)
        first, last = (-before, rows + behind) if counts_padding else (0, rows)
        positions = windows.places()
        np.testing.assert_array_equal(
            windows.divisors(counts_padding), ((positions >= first) & (positions < last)).sum(1)
        )


def test_divisors_of_many_long_windows_need_little_memory() -> None:
    """A table of all window elements would have 10**13 entries."""
    divisors = Windows(10**7, 10**6, 1, 0, 0).divisors(False)
    assert divisors.shape == (9_000_001,) and set(divisors[[0, -1]].tolist()) == {10**6}
