"""Fetch rows of a concatenation from its operands.

A tensor with a few rows concatenated to its ends (a convolution that wraps around, or repeats the edge) has tiles of its own, which
no op needs by themselves: an op that reads its rows fetches them from the operands.
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
    """Rows of a concatenation from row `begin` on: `fetch.rows` rows of a local value, `shift` rows after the first wanted one."""

    begin: int
    value: Value
    fetch: RowFetch
    shift: int


def from_parts(site: Site, value: Value, window: Window, plan: RowFetch, why: str) -> Value | None:
    """The rows of `plan` of a concatenated operand; rows outside of it may hold anything.

    None if the operand is not a concatenation along the window's dim, or fetching its own rows moves no more.
    """
    operand, dim, sources = site.node.operands[window.operand], window.dim, site.builder.sources
    node, given = sources.get(operand, (None, []))
    is_join = node is not None and node.op in JOINING and node.attrs.dim == dim
    if not is_join or node is None or value is not site.operands[window.operand] or plan.divisor != 1 or plan.wrap:
        return None
    is_turn = turn(node, lambda part: sources[part][0] if part in sources else None) is not None
    if is_turn or plan.step < 0 or any(sharding_of(part) != sharding_of(operand) for part in node.operands):
        return None
    parts = list(_parts(node, given, dim, plan, sources))
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
    node: Node, given: list[Value], dim: int, plan: RowFetch, sources: dict[Value, tuple[Node, list[Value]]]
) -> Iterator[_Part]:
    """The operands of which some device wants rows, each with its own rows or those of the tensor that it is a slice of."""
    sizes = [part.type.sizes[dim] for part in node.operands]
    for part, local, begin in zip(node.operands, given, itertools.accumulate(sizes, initial=0), strict=False):
        rows, offset = part.type.sizes[dim], 0
        wanted = [
            (i, max(plan.start(i), begin), min(plan.start(i) + plan.rows, begin + rows)) for i in range(plan.count)
        ]
        users = [(index, first, stop) for index, first, stop in wanted if first < stop]
        made, operands = sources.get(part, (None, []))
        if (
            made is not None
            and made.op == "slice"
            and _is_cut_along(made, dim)
            and sharding_of(made.operands[0]) == sharding_of(part)
        ):
            local, offset, whole = operands[0], made.attrs.start[dim], made.operands[0].type.sizes[dim]
        else:
            whole = rows
        fetch = RowFetch(
            plan.count, local.type.sizes[dim], plan.base - begin + offset, plan.step, plan.rows, offset + rows
        )
        if len(users) == 1:  # the others want none of its rows: theirs are before the first or after the last
            ((index, first, stop),) = users
            base = first - begin + offset - index * whole
            yield _Part(
                begin,
                local,
                replace(fetch, base=base, step=whole, rows=stop - first, limit=whole),
                first - plan.start(index),
            )
        elif users:
            yield _Part(begin, local, fetch, 0)


def _is_cut_along(node: Node, dim: int) -> bool:
    """Whether a slice takes neighbouring rows of a dim, and all of the others."""
    sizes = node.operands[0].type.sizes
    cut = [d for d, size in enumerate(sizes) if node.result.type.sizes[d] != size]
    return cut == [dim] and set(node.attrs.stride) == {1}


def _joined_row_numbers(builder: LocalBuilder, axes: tuple[str, ...], plan: RowFetch, value: Value, dim: int) -> Value:
    """The row of the concatenation that each element belongs to."""
    kind = TensorType(tuple(plan.rows if d == dim else size for d, size in enumerate(value.type.sizes)), INDEX)
    row = builder.emit("iota", [], kind, dim=dim)
    scalar = TensorType((), INDEX)
    first = builder.elementwise("multiply", builder.process_index(axes), builder.splat(plan.step, scalar))
    first = builder.elementwise("add", first, builder.splat(plan.start(0), scalar))
    return builder.elementwise("add", row, builder.spread(first, kind.sizes))


def _fetched(builder: LocalBuilder, part: _Part, plan: RowFetch, axes: tuple[str, ...], dim: int, why: str) -> Value:
    """All wanted rows, with those of the part in their positions."""
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
