"""From a rule's windows to the rows that devices fetch."""

from __future__ import annotations

from functools import lru_cache

from meshgen.ccl.halo import RowFetch
from meshgen.sharding.rules.rule import Rule, Window


def row_fetch(total: int, window: Window, size: int, count: int) -> RowFetch:
    """The fetch of a window's rows.

    Args:
        total: rows of the result's dim.
        size: rows of the operand's dim.
        count: devices that split both.
    """
    tile = -(-total // count)
    if window.stride < 0:  # -1, a dim that is reversed: the first row of a result's tile is the last that it needs
        return RowFetch(count, -(-size // count), window.base - tile + 1, -tile, tile, size)
    rows = (tile - 1) * window.stride + window.width if tile else 0
    limit = max(0, min(size, (total - 1) * window.stride + window.base + window.width))
    return RowFetch(count, -(-size // count), window.base, tile * window.stride, rows, limit)


@lru_cache(maxsize=4096)
def _moved(total: int, window: Window, size: int, count: int) -> int:
    return row_fetch(total, window, size, count).moved()


def rows_moved(rule: Rule, window: Window, size: int, count: int) -> int:
    """Rows that the busiest of `count` devices sends or receives for a window on an operand dim of `size` rows."""
    return _moved(rule.factors[window.factor].size, window, size, count)
