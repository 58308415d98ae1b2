"""Windows of pools: how many elements a mean counts, without a table of all elements of all windows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshgen.frontend.tracer.pooling import Windows


@pytest.mark.parametrize("counts_padding", [False, True])
def test_divisors_count_the_rows_of_each_window(counts_padding: bool) -> None:
    for rows, size, step, before, behind, apart in itertools.product((1, 4, 7), (1, 3), (1, 2), (0, 1), (0, 2), (1, 2)):
        windows = Windows(rows, size, step, before, behind, apart)
        first, last = (-before, rows + behind) if counts_padding else (0, rows)
        places = windows.places()
        np.testing.assert_array_equal(windows.divisors(counts_padding), ((places >= first) & (places < last)).sum(1))


def test_divisors_of_many_long_windows_take_little_memory() -> None:
    """All elements of all windows would be 10**13 numbers."""
    divisors = Windows(10**7, 10**6, 1, 0, 0).divisors(False)
    assert divisors.shape == (9_000_001,) and set(divisors[[0, -1]].tolist()) == {10**6}
