"""Compute the rows that devices fetch from each other for the windows of a sharding rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from meshgen.ccl.halo import RowFetch
from meshgen.ir.graph import Node, Value
from meshgen.ops.rules.rule import Rule, Window


def row_fetch(total: int, window: Window, size: int, count: int) -> RowFetch:
    """Return the rows that each device fetches for a window, if the factor and the operand's dim are split over `count`
    devices.

    Args:
        total: number of rows of the factor, which is a dim of the result or a reduced dim.
        size: number of rows of the operand's dim.
        count: number of devices that both dims are split over.
    """
    tile, held = -(-total // count), -(-size // count)
    # stride -1 is a reversed dim: the first row of a result's tile needs the last row of the fetch
    if window.stride < 0:
        return RowFetch(count, held, window.base - tile + 1, -tile, tile, size)
    dilation = window.dilation
    limit = max(0, min(size, -(-((total - 1) * window.stride + window.base + window.width) // dilation)))
    step, positions = tile * window.stride, span(window, tile)
    rows = -(-positions // dilation)
    if step % dilation == 0 and positions:  # Every device begins at the same offset between two rows.
        rows = (window.base + positions - 1) // dilation + -window.base // dilation + 1
    return RowFetch(count, held, window.base, step, rows, limit, divisor=dilation)


def span(window: Window, tile: int) -> int:
    """Return the number of positions from the first to the last that windows of `tile` rows of the factor read.

    Operand rows are at every `dilation`-th position.
    """
    return (tile - 1) * window.stride + window.width if tile else 0


@lru_cache(maxsize=4096)
def _moved(total: int, window: Window, size: int, count: int) -> int:
    return row_fetch(total, window, size, count).moved()


def rows_moved(rule: Rule, window: Window, size: int, count: int) -> int:
    """Return the rows that the busiest of `count` devices sends or receives for a window on an operand dim of `size`
    rows.
    """
    return _moved(rule.factors[window.factor].size, window, size, count)


def turn(node: Node, producer_of: Callable[[Value], Node | None]) -> int | None:
    """Return k for the rotation `concatenate(x[k:], x[:k])`, or None if the node is not such a rotation.

    Args:
        producer_of: maps a value to its producer.
    """
    if node.op != "concatenate" or len(node.operands) != 2:
        return None
    tail, head = (producer_of(value) for value in node.operands)
    if tail is None or head is None or tail.op != "slice" or head.op != "slice":
        return None
    source, dim = tail.operands[0], node.attrs.dim
    begin = tail.attrs.start[dim]
    ends = (tail.attrs.limit[dim], head.attrs.start[dim], head.attrs.limit[dim])
    is_rotation = (
        head.operands[0] is source and node.result.type == source.type and ends == (source.type.sizes[dim], 0, begin)
    )
    return begin if is_rotation and {*tail.attrs.stride, *head.attrs.stride} == {1} else None
