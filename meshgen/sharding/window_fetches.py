"""Compute the rows that devices fetch from the windows of a sharding rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from meshgen.ccl.halo import RowFetch
from meshgen.ir.graph import Node, Value
from meshgen.ops.rules.rule import Rule, Window


def row_fetch(total: int, window: Window, size: int, count: int) -> RowFetch:
    """The fetch of a window's rows.

    Args:
        total: rows of the factor: of the result's dim, or of the dim that is summed over.
        size: rows of the operand's dim.
        count: devices that split both.
    """
    tile, held = -(-total // count), -(-size // count)
    if window.stride < 0:  # -1, a dim that is reversed: the first row of a result's tile is the last that it needs
        return RowFetch(count, held, window.base - tile + 1, -tile, tile, size)
    apart = window.dilation
    limit = max(0, min(size, -(-((total - 1) * window.stride + window.base + window.width) // apart)))
    step, places = tile * window.stride, span(window, tile)
    rows = -(-places // apart)
    if step % apart == 0 and places:  # every device begins at the same place between two rows
        rows = (window.base + places - 1) // apart + -window.base // apart + 1
    return RowFetch(count, held, window.base, step, rows, limit, divisor=apart)


def span(window: Window, tile: int) -> int:
    """Number of positions from the first to the last that `tile` rows of the factor read; rows are `dilation` apart in them."""
    return (tile - 1) * window.stride + window.width if tile else 0


@lru_cache(maxsize=4096)
def _moved(total: int, window: Window, size: int, count: int) -> int:
    return row_fetch(total, window, size, count).moved()


def rows_moved(rule: Rule, window: Window, size: int, count: int) -> int:
    """Rows that the busiest of `count` devices sends or receives for a window on an operand dim of `size` rows."""
    return _moved(rule.factors[window.factor].size, window, size, count)


def turn(node: Node, maker: Callable[[Value], Node | None]) -> int | None:
    """By how many rows `concatenate(x[k:], x[:k])` turns x: k. None for a node that is not such a rotation.

    Args:
        maker: from a value to its producer.
    """
    if node.op != "concatenate" or len(node.operands) != 2:
        return None
    tail, head = (maker(value) for value in node.operands)
    if tail is None or head is None or tail.op != "slice" or head.op != "slice":
        return None
    source, dim = tail.operands[0], node.attrs.dim
    begin = tail.attrs.start[dim]
    ends = (tail.attrs.limit[dim], head.attrs.start[dim], head.attrs.limit[dim])
    is_whole = (
        head.operands[0] is source and node.result.type == source.type and ends == (source.type.sizes[dim], 0, begin)
    )
    return begin if is_whole and {*tail.attrs.stride, *head.attrs.stride} == {1} else None
