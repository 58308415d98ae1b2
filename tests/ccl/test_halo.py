"""Tests of row fetches between devices: counts computed for all devices at once match counts for each device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshgen.ccl.halo import RowFetch, most_rows, rows_moved


def fetch(rng: np.random.Generator) -> RowFetch:
    count, tile, step, rows = (int(rng.integers(low, 7)) for low in (1, 0, 0, 0))
    limit, base = int(rng.integers(0, count * tile + 1)), int(rng.integers(-9, 10))
    if limit and rng.random() < 0.4:
        return RowFetch(count, tile, base, step, min(rows, limit), limit, wrap=True)
    return RowFetch(count, tile, base, step, rows, limit, divisor=int(rng.integers(1, 4)))


def counted(of: RowFetch) -> tuple[list[int], list[int]]:
    received, sent = [0] * of.count, [0] * of.count
    for index in range(of.count):
        for start, stop in of.needed_ranges(index):
            for row in range(start, stop):
                if of.tile and row // of.tile != index:
                    received[index] += 1
                    sent[row // of.tile] += 1
    return received, sent


@pytest.mark.parametrize("seed", range(300))
def test_row_fetch_traffic_matches_counting(seed: int) -> None:
    of = fetch(np.random.default_rng(seed))
    received, sent = of.traffic()
    assert (received.tolist(), sent.tolist()) == counted(of), of
    assert most_rows([of]) == (max(received), max(sent))
    assert max(sent) <= of.most_sent()
    assert [row for index in range(of.count) for row in of.placed(index) if row[0] < row[1]] == [
        (start, stop, result_row) for index in range(of.count) for start, stop, result_row in placed_ranges(of, index)
    ]


def placed_ranges(of: RowFetch, index: int) -> list[tuple[int, int, int]]:
    """Return the nonempty row ranges that device `index` needs, each with the first result row that it fills."""
    ranges, result_row = list[tuple[int, int, int]](), 0 if of.wrap else max(0, -of.start(index))
    for start, stop in of.needed_ranges(index):
        if start < stop:
            ranges.append((start, stop, result_row))
        result_row += max(0, stop - start)
    return ranges


@pytest.mark.parametrize("seed", range(100))
def test_near_row_fetch_has_same_rows(seed: int) -> None:
    """`near` shortens large steps between devices. The rows stay the same, even if a step exceeds all rows together."""
    of = fetch(np.random.default_rng(seed))
    for step in (of.step, 40 * of.divisor, -50, 10**9):
        long = replace(of, step=step, wrap=False)
        near = long.near()
        assert abs(near.step) <= (of.limit + of.rows + 1) * of.divisor
        assert near is long or abs(near.base) <= of.count * abs(near.step) + (of.limit + of.rows + 1) * of.divisor
        for index in range(of.count):
            assert [row for row in near.placed(index) if row[0] < row[1]] == [
                row for row in long.placed(index) if row[0] < row[1]
            ]


def test_row_fetch_outside_all_rows_moves_nothing() -> None:
    for base in (2**63 - 1, 2**62, -(2**62)):
        assert rows_moved([RowFetch(1 << 20, 4, base, 2**63 - 1, 4, 1 << 22)]) == 0
    assert rows_moved([]) == 0
