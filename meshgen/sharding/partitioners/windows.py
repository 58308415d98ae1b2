"""Partitioners of ops that need other rows of a split dim than a device's tile has: they fetch them first.

The rule's windows say which rows of an operand a tile of the result needs. Rows that do not exist are the op's
own padding: they are filled with what the op pads with before it sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.ir.graph import TensorType, Value
from meshgen.sharding.partitioners.builder import INDEX
from meshgen.sharding.partitioners.registry import Site, lies, partitioner
from meshgen.sharding.partitioners.run_time_places import own_rows
from meshgen.sharding.partitioners.scans import scan
from meshgen.sharding.rules import rule_of
from meshgen.sharding.rules.rule import Window
from meshgen.sharding.rules.windows import scanned_dim
from meshgen.sharding.windows import row_fetch


@partitioner("slice")
def slice_(site: Site) -> list[Value]:
    """Of a dim that is taken whole the tile is; of one that is cut the rows that the result's tile needs, or those that
    the device has where the result is partial.
    """
    attrs, sizes = site.node.attrs, site.node.operands[0].type.sizes
    start, limit = list(attrs["start"]), list(attrs["limit"])
    whole = lies(site.node.result).canonical(site.mesh).dims
    picked = [w.dim for w in rule_of(site.node).windows if site.axes(0, w.dim) and not whole[w.dim]]
    for dim in picked:
        site = replace(site, operands=[own_rows(site, dim, start[dim], limit[dim] - start[dim])])
        start[dim], limit[dim] = 0, limit[dim] - start[dim]
    for dim, size in enumerate(site.operands[0].type.sizes):
        if site.axes(0, dim) and limit[dim] == sizes[dim] and start[dim] == 0 and attrs["stride"][dim] == 1:
            limit[dim] = size
    value, rows = fetched(site, 0, None, picked)
    for dim, count in rows.items():
        start[dim], limit[dim] = 0, count
    return site.clone([value], start=tuple(start), limit=tuple(limit))


@partitioner("pad")
def pad(site: Site) -> list[Value]:
    low, high = list(site.node.attrs["low"]), list(site.node.attrs["high"])
    value, rows = fetched(site, 0, site.operands[1])
    for dim in rows:
        low[dim] = high[dim] = 0
    return site.clone([value, site.operands[1]], low=tuple(low), high=tuple(high))


@partitioner("reverse")
def reverse(site: Site) -> list[Value]:
    """Of a split dim the rows from the other end are fetched first; a device then reverses what it has."""
    return site.clone([fetched(site, 0, None)[0]])


@partitioner("concatenate")
def concatenate(site: Site) -> list[Value]:
    """Along a split dim every operand's rows are brought to where the result has them, and the right one is chosen."""
    dim, builder = site.node.attrs["dim"], site.builder
    axes = site.axes(0, dim)
    if not axes:
        return site.clone()
    local = site.local_types()[0]
    if turned := _roll(site, dim, axes):
        return [turned]
    parts = [fetched(site, number, None)[0] for number in range(len(site.operands))]
    row = global_rows(site, axes, local, dim, 0, local.sizes[dim])
    joined, begin = parts[0], 0
    for number, part in enumerate(parts[1:]):
        begin += site.node.operands[number].type.sizes[dim]
        is_earlier = builder.compare(row, "LT", builder.splat(begin, row.type))
        joined = builder.emit("select", [is_earlier, joined, part], local)
    return [joined]


def _roll(site: Site, dim: int, axes: tuple[str, ...]) -> Value | None:
    """`concatenate(x[k:], x[:k])` is a rotation: one exchange of the rows that cross tiles. None if it is none."""
    makers = [site.builder.sources.get(value) for value in site.node.operands]
    if len(makers) != 2 or not all(maker and maker[0].op == "slice" for maker in makers):
        return None
    (tail, given), (head, _) = (maker for maker in makers if maker)
    source, size = tail.operands[0], tail.operands[0].type.sizes[dim]
    turn = tail.attrs["start"][dim]
    ends = (tail.attrs["limit"][dim], head.attrs["start"][dim], head.attrs["limit"][dim])
    others = (
        site.node.result.type == source.type and head.operands[0] is source and lies(source) == lies(site.node.result)
    )
    if not others or ends != (size, 0, turn) or {*tail.attrs["stride"], *head.attrs["stride"]} != {1}:
        return None
    tile = given[0].type.sizes[dim]
    attrs: dict[str, Any] = {"axes": axes, "dim": dim, "base": turn, "step": tile, "limit": size, "wrap": True}
    attrs["why"] = site.why(f"its rows turned by {turn} along dim {dim}")
    return site.builder.emit("fetch_rows", [given[0]], given[0].type, **attrs)


@partitioner("reduce_window")
def reduce_window(site: Site) -> list[Value]:
    """What lies outside the operand is the initial value."""
    if (dim := scanned_dim(site.node)) is not None and site.axes(0, dim):
        return scan(site, dim)
    count = len(site.operands) // 2
    low, high = list(site.node.attrs["low"]), list(site.node.attrs["high"])
    values: list[Value] = []
    for number in range(count):
        value, rows = fetched(site, number, site.operands[count + number])
        values.append(value)
        for dim in rows:
            low[dim] = high[dim] = 0
    return site.clone([*values, *site.operands[count:]], low=tuple(low), high=tuple(high))


def fetched(site: Site, operand: int, fill: Value | None, left: Sequence[int] = ()) -> tuple[Value, dict[int, int]]:
    """An operand with the rows that the result's tile needs along its split windowed dims.

    Args:
        fill: a 0-d value for rows that do not exist; None: they may hold anything.
        left: dims along which nothing is fetched.
    Returns:
        The value, and the number of rows of each dim that was fetched.
    """
    value, found = site.operands[operand], dict[int, int]()
    for window in rule_of(site.node).windows:
        axes = site.axes(operand, window.dim)
        if window.operand == operand and axes and window.dim not in left:
            value = _fetch(site, value, window, axes, fill)
            found[window.dim] = value.type.sizes[window.dim]
    return value, found


def _fetch(site: Site, value: Value, window: Window, axes: tuple[str, ...], fill: Value | None) -> Value:
    rule, dim = rule_of(site.node), window.dim
    size = site.node.operands[window.operand].type.sizes[dim]
    plan = row_fetch(rule.factors[window.factor].size, window, size, site.mesh.group_size(axes))
    why = site.why(f"rows of other tiles along dim {dim}")
    attrs = {"axes": axes, "dim": dim, "base": plan.base, "step": plan.step, "limit": plan.limit, "why": why}
    shape = [plan.rows if d == dim else s for d, s in enumerate(value.type.sizes)]
    value = site.builder.emit("fetch_rows", [value], value.type.with_shape(shape), **attrs)
    if fill is None or not plan.has_padding():
        return value
    row = global_rows(site, axes, value.type, dim, plan.base, plan.step)
    builder = site.builder
    inside = builder.compare(row, "LT", builder.splat(plan.limit, row.type))
    if window.base < 0:
        inside = builder.elementwise("and", inside, builder.compare(row, "GE", builder.splat(0, row.type)))
    return builder.emit("select", [inside, value, builder.spread(fill, shape)], value.type)


def global_rows(site: Site, axes: Sequence[str], kind: TensorType, dim: int, base: int, step: int) -> Value:
    """For every element of a local value the global row that it is of: index step + base + i."""
    builder = site.builder
    row = builder.emit("iota", [], TensorType(kind.shape, INDEX), dim=dim)
    first = builder.elementwise(
        "multiply", builder.process_index(tuple(axes)), builder.splat(step, TensorType((), INDEX))
    )
    if base:
        first = builder.elementwise("add", first, builder.splat(np.int32(base).item(), TensorType((), INDEX)))
    return builder.elementwise("add", builder.spread(first, kind.sizes), row)
