"""Partitioners of ops that need other rows of a split dim than a device's tile has: they fetch them first.

The rule's windows say which rows of an operand a tile of the result needs. Rows outside of the tensor are the op's
own padding: they are filled with its padding value first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from meshgen.ccl.halo import RowFetch
from meshgen.ir.graph import TensorType, Value
from meshgen.ops.registry import rule_of
from meshgen.ops.rules.rule import Window
from meshgen.ops.rules.windowed import scanned_dim
from meshgen.sharding.partitioners.builder import INDEX
from meshgen.sharding.partitioners.joined_rows import from_parts
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of
from meshgen.sharding.partitioners.run_time_places import own_rows
from meshgen.sharding.partitioners.scans import scan
from meshgen.sharding.window_fetches import row_fetch, span, turn


@partitioner("slice")
def slice_(site: Site) -> list[Value]:
    """The tile of an unsliced dim; of a sliced one the rows that the result's tile needs, or those that
    the device has if the result is partial.
    """
    attrs, sizes = site.node.attrs, site.node.operands[0].type.sizes
    start, limit = list(attrs.start), list(attrs.limit)
    whole = sharding_of(site.node.result).canonical(site.mesh).dims
    picked = [w.dim for w in rule_of(site.node).windows if site.axes(0, w.dim) and not whole[w.dim]]
    for dim in picked:
        site = replace(site, operands=[own_rows(site, dim, start[dim], limit[dim] - start[dim])])
        start[dim], limit[dim] = 0, limit[dim] - start[dim]
    for dim, size in enumerate(site.operands[0].type.sizes):
        if site.axes(0, dim) and limit[dim] == sizes[dim] and start[dim] == 0 and attrs.stride[dim] == 1:
            limit[dim] = size
    value, rows = fetched(site, 0, None, picked)
    for dim, count in rows.items():
        start[dim], limit[dim] = 0, count
    return site.clone([value], start=tuple(start), limit=tuple(limit))


@partitioner("pad")
def pad(site: Site) -> list[Value]:
    low, high, interior = (list(getattr(site.node.attrs, name)) for name in ("low", "high", "interior"))
    value, rows = fetched(site, 0, site.operands[1])
    for dim in rows:
        low[dim] = high[dim] = interior[dim] = 0
    return site.clone([value, site.operands[1]], low=tuple(low), high=tuple(high), interior=tuple(interior))


@partitioner("reverse")
def reverse(site: Site) -> list[Value]:
    """Along a split dim the rows from the other end are fetched first, then reversed on the device."""
    return site.clone([fetched(site, 0, None)[0]])


@partitioner("concatenate")
def concatenate(site: Site) -> list[Value]:
    """Along a split dim every operand's rows are moved to their positions in the result, and a select picks the right ones."""
    dim, builder = site.node.attrs.dim, site.builder
    axes = site.axes(0, dim)
    if not axes:
        return site.clone()
    local = site.local_types()[0]
    if turned := _roll(site, dim, axes):
        return [turned]
    parts = [fetched(site, number, None)[0] for number in range(len(site.operands))]
    row = builder.global_rows(local, dim, axes)
    joined, begin = parts[0], 0
    for number, part in enumerate(parts[1:]):
        begin += site.node.operands[number].type.sizes[dim]
        is_earlier = builder.compare("LT", row, builder.splat(begin, row.type))
        joined = builder.emit("select", [is_earlier, joined, part], local)
    return [joined]


def _roll(site: Site, dim: int, axes: tuple[str, ...]) -> Value | None:
    """`concatenate(x[k:], x[:k])` is a rotation: one exchange of the rows that cross tiles. None if it is not one."""
    sources = site.builder.sources
    by = turn(site.node, lambda value: sources[value][0] if value in sources else None)
    if by is None:
        return None
    tail, given = sources[site.node.operands[0]]
    source = tail.operands[0]
    if sharding_of(source) != sharding_of(site.node.result):
        return None
    size = source.type.sizes[dim]
    tile = given[0].type.sizes[dim]
    attrs: dict[str, Any] = {"axes": axes, "dim": dim, "base": by, "step": tile, "limit": size, "wrap": True}
    why = site.why(f"its rows rotated by {by} of {size} along dim {dim}")
    return site.builder.communicate("fetch_rows", given[0], given[0].type, why, **attrs)


@partitioner("reduce_window")
def reduce_window(site: Site) -> list[Value]:
    """Rows outside of the operand are the initial value."""
    if (dim := scanned_dim(site.node)) is not None and site.axes(0, dim):
        return scan(site, dim)
    count = len(site.operands) // 2
    low, high, dilations = (list(getattr(site.node.attrs, name)) for name in ("low", "high", "base_dilations"))
    values: list[Value] = []
    for number in range(count):
        value, rows = fetched(site, number, site.operands[count + number])
        values.append(value)
        for dim in rows:
            low[dim] = high[dim] = 0
            dilations[dim] = 1
    ends = {"low": tuple(low), "high": tuple(high), "base_dilations": tuple(dilations)}
    return site.clone([*values, *site.operands[count:]], **ends)


def fetched(site: Site, operand: int, fill: Value | None, left: Sequence[int] = ()) -> tuple[Value, dict[int, int]]:
    """An operand with the rows that the result's tile needs along its split windowed dims.

    A dim whose rows are dilated is written out, with `fill` between them.

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
            value = fetch(site, value, window, axes, fill)
            if window.dilation != 1 and fill is not None:
                value = _dilated(site, value, window, axes, fill)
            found[window.dim] = value.type.sizes[window.dim]
    return value, found


def _plan(site: Site, window: Window, axes: tuple[str, ...], total: int | None = None) -> RowFetch:
    size = site.node.operands[window.operand].type.sizes[window.dim]
    total = rule_of(site.node).factors[window.factor].size if total is None else total
    return row_fetch(total, window, size, site.mesh.group_size(axes))


def fetch(
    site: Site, value: Value, window: Window, axes: tuple[str, ...], fill: Value | None, total: int | None = None
) -> Value:
    """The rows of a value along a window's dim that the device's tile of the factor needs; `fill` for rows outside of it.

    The value is split along the dim as the window's operand is. `total` is the factor's size if the rule has none.
    """
    dim, plan = window.dim, _plan(site, window, axes, total).reduced()
    why = site.why(f"rows of other tiles along dim {dim}")
    sent = plan.near()
    attrs: dict[str, Any] = {"axes": axes, "dim": dim, "base": sent.base, "step": sent.step, "limit": sent.limit}  # fmt: skip
    if plan.divisor != 1:
        attrs["divisor"] = plan.divisor
    shape = [plan.rows if d == dim else s for d, s in enumerate(value.type.sizes)]
    if (joined := from_parts(site, value, window, plan, why)) is not None:
        value = joined
    elif not plan.is_identity():
        value = site.builder.communicate("fetch_rows", value, value.type.with_shape(shape), why, **attrs)
    if fill is None or not plan.has_padding():
        return value
    builder = site.builder
    here = builder.emit("iota", [], TensorType(value.type.shape, INDEX), dim=dim)
    row = builder.elementwise("add", builder.spread(_first_row(site, axes, plan), shape), here)
    inside = builder.compare("LT", row, builder.splat(plan.limit, row.type))
    if plan.start(0) < 0:
        inside = builder.elementwise("and", inside, builder.compare("GE", row, builder.splat(0, row.type)))
    return builder.emit("select", [inside, value, builder.spread(fill, shape)], value.type)


def _first_row(site: Site, axes: tuple[str, ...], plan: RowFetch) -> Value:
    """`plan.start` of the device; quotients are taken of numbers above 0, where integers truncate as they should."""
    builder, scalar, divisor = site.builder, TensorType((), INDEX), plan.divisor
    if plan.step % divisor == 0:
        return _affine(site, axes, plan.step // divisor, plan.start(0))
    lift = max(0, -plan.base)
    top = _affine(site, axes, plan.step, plan.base + divisor - 1 + lift * divisor)
    quotient = builder.elementwise("divide", top, builder.splat(divisor, scalar))
    return builder.elementwise("subtract", quotient, builder.splat(lift, scalar)) if lift else quotient


def _affine(site: Site, axes: tuple[str, ...], step: int, base: int) -> Value:
    """index step + base"""
    builder, scalar = site.builder, TensorType((), INDEX)
    first = builder.elementwise("multiply", builder.process_index(axes), builder.splat(step, scalar))
    return builder.elementwise("add", first, builder.splat(base, scalar)) if base else first


def _dilated(site: Site, value: Value, window: Window, axes: tuple[str, ...], fill: Value) -> Value:
    """The positions that the tile reads, some of which are rows: the first row may differ from device to device."""
    builder, dim, plan = site.builder, window.dim, _plan(site, window, axes)
    apart, sizes = window.dilation, value.type.sizes
    wanted = span(window, -(-rule_of(site.node).factors[window.factor].size // plan.count))
    is_fixed = plan.step % apart == 0
    before = plan.start(0) * apart - plan.base if is_fixed else apart - 1
    length = before + max(0, (sizes[dim] - 1) * apart + 1)
    total = wanted if is_fixed else wanted + apart - 1

    def along(number: int) -> tuple[int, ...]:
        return tuple(number if d == dim else 0 for d in range(len(sizes)))

    def shaped(rows: int) -> TensorType:
        return value.type.with_shape(rows if d == dim else s for d, s in enumerate(sizes))

    spread = {"low": along(before), "high": along(total - length), "interior": along(apart - 1)}
    value = builder.emit("pad", [value, fill], shaped(total), **spread)
    if is_fixed:
        return value
    # The first row is at start * apart - (index step + base), from 0 to apart - 1, after the first position.
    scalar = TensorType((), INDEX)
    place = builder.elementwise("multiply", _first_row(site, axes, plan), builder.splat(apart, scalar))
    place = builder.elementwise("subtract", place, _affine(site, axes, plan.step, plan.base))
    start = builder.elementwise("subtract", builder.splat(apart - 1, scalar), place)
    starts = [start if d == dim else builder.splat(0, scalar) for d in range(len(sizes))]
    kind = shaped(wanted)
    return builder.emit("dynamic_slice", [value, *starts], kind, slice_sizes=kind.sizes)
