"""Fetch rows of a concatenation directly from its operands.

A tensor with a few rows concatenated to its ends (a convolution that wraps around, or repeats the edge) has other tiles
than its operands. No op needs these tiles as such, so an op that reads rows of the concatenation fetches them from the
operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from meshgen.ccl.halo import RowFetch, rows_moved
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.classes import JOINING
from meshgen.ops.rules.rule import Window
from meshgen.sharding.partitioners.builder import INDEX, LocalBuilder
from meshgen.sharding.partitioners.registry import Site, sharding_of
from meshgen.sharding.window_fetches import turn


@dataclass(frozen=True)
class _Part:
    """Rows of one operand of a concatenation: `fetch.rows` rows of a local value, from row `begin` of the concatenation
    on.

    They come `shift` rows after the first row that the op needs.
    """

    begin: int
    value: Value
    fetch: RowFetch
    shift: int


def fetch_from_operands(site: Site, value: Value, window: Window, plan: RowFetch, why: str) -> Value | None:
    """Return the rows of `plan` of a concatenated operand, fetched from the operands of the concatenation.

    Rows outside of the concatenation are undefined. Returns None if `value` is not a concatenation along the window's
    dim, or if fetching from its own tiles moves no more.
    """
    operand, dim, sources = site.node.operands[window.operand], window.dim, site.builder.sources
    node, local_parts = sources.get(operand, (None, []))
    is_join = node is not None and node.op in JOINING and node.attrs.dim == dim
    if not is_join or node is None or value is not site.operands[window.operand] or plan.divisor != 1 or plan.wrap:
        return None
    is_rotation = turn(node, lambda part: sources[part][0] if part in sources else None) is not None
    if is_rotation or plan.step < 0 or any(sharding_of(part) != sharding_of(operand) for part in node.operands):
        return None
    parts = list(_parts(node, local_parts, dim, plan, sources))
    if rows_moved([part.fetch for part in parts]) > plan.moved():
        return None
    axes = site.axes(window.operand, dim)
    row = _joined_row_numbers(site.builder, axes, plan, value, dim) if len(parts) > 1 else None
    joined: Value | None = None
    for part in parts:
        rows = _fetched(site.builder, part, plan, axes, dim, why)
        if joined is not None and row is not None:
            is_earlier = site.builder.compare("LT", row, site.builder.splat(part.begin, row.type))
            rows = site.builder.emit("select", [is_earlier, joined, rows], rows.type)
        joined = rows
    return joined


def _parts(
    node: Node, local_parts: list[Value], dim: int, plan: RowFetch, sources: dict[Value, tuple[Node, list[Value]]]
) -> Iterator[_Part]:
    """Yield the operands of the concatenation from which some device needs rows.

    Rows of an operand that is a slice are fetched from the sliced tensor.
    """
    sizes = [part.type.sizes[dim] for part in node.operands]
    for part, local, begin in zip(node.operands, local_parts, itertools.accumulate(sizes, initial=0), strict=False):
        rows, offset = part.type.sizes[dim], 0
        needed = [
            (i, max(plan.start(i), begin), min(plan.start(i) + plan.rows, begin + rows)) for i in range(plan.count)
        ]
        users = [(index, first, stop) for index, first, stop in needed if first < stop]
        producer, operands = sources.get(part, (None, []))
        if (
            producer is not None
            and producer.op == "slice"
            and _is_cut_along(producer, dim)
            and sharding_of(producer.operands[0]) == sharding_of(part)
        ):
            local, offset, source_rows = operands[0], producer.attrs.start[dim], producer.operands[0].type.sizes[dim]
        else:
            source_rows = rows
        fetch = RowFetch(
            plan.count, local.type.sizes[dim], plan.base - begin + offset, plan.step, plan.rows, offset + rows
        )
        # Only one device needs rows of this operand, so the rows are fetched for that device alone.
        if len(users) == 1:
            ((index, first, stop),) = users
            base = first - begin + offset - index * source_rows
            yield _Part(
                begin,
                local,
                replace(fetch, base=base, step=source_rows, rows=stop - first, limit=source_rows),
                first - plan.start(index),
            )
        elif users:
            yield _Part(begin, local, fetch, 0)


def _is_cut_along(node: Node, dim: int) -> bool:
    """Whether a slice takes adjacent rows of one dim, and all rows of the other dims."""
    sizes = node.operands[0].type.sizes
    cut = [d for d, size in enumerate(sizes) if node.result.type.sizes[d] != size]
    return cut == [dim] and set(node.attrs.stride) == {1}


def _joined_row_numbers(builder: LocalBuilder, axes: tuple[str, ...], plan: RowFetch, value: Value, dim: int) -> Value:
    """Return, for each element of the rows that `plan` fetches, the index of its row in the concatenation."""
    tensor_type = TensorType(tuple(plan.rows if d == dim else size for d, size in enumerate(value.type.sizes)), INDEX)
    row = builder.emit("iota", [], tensor_type, dim=dim)
    scalar = TensorType((), INDEX)
    first = builder.elementwise("multiply", builder.process_index(axes), builder.splat(plan.step, scalar))
    first = builder.elementwise("add", first, builder.splat(plan.start(0), scalar))
    return builder.elementwise("add", row, builder.spread(first, tensor_type.sizes))


def _fetched(builder: LocalBuilder, part: _Part, plan: RowFetch, axes: tuple[str, ...], dim: int, why: str) -> Value:
    """Return all needed rows, with the rows of `part` at their positions and zeros elsewhere."""
    fetch, value = part.fetch, part.value
    attrs: dict[str, Any] = {"axes": axes, "dim": dim, "base": fetch.base, "step": fetch.step, "limit": fetch.limit}
    shape = [fetch.rows if d == dim else size for d, size in enumerate(value.type.sizes)]
    if not fetch.is_identity():
        value = builder.communicate("fetch_rows", value, value.type.with_shape(shape), why, **attrs)
    if fetch.rows == plan.rows:
        return value
    before, after = (
        tuple(rows if d == dim else 0 for d in range(value.type.rank))
        for rows in (part.shift, plan.rows - fetch.rows - part.shift)
    )
    zero = builder.splat(0, TensorType((), value.type.dtype))
    return builder.pad(value, zero, before, after)
