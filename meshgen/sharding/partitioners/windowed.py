"""Partitioners of ops that need rows of a split dim from other tiles: they fetch these rows first.

The windows of the sharding rule specify the rows of an operand that a tile of the result needs. Rows outside of the
tensor are the op's own padding; they are filled with its padding value first.
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
from meshgen.sharding.partitioners.concatenation_rows import fetch_from_operands
from meshgen.sharding.partitioners.dynamic_positions import rows_in_tile
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of
from meshgen.sharding.partitioners.scans import scan
from meshgen.sharding.window_fetches import row_fetch, span, turn


@partitioner("slice")
def slice_(site: Site) -> list[Value]:
    """Write a slice. Along an unsliced dim it takes the tile; along a sliced dim, the rows that the result's tile
    needs.

    If the result is partial along a dim, each device takes only the rows that it has.
    """
    attrs, sizes = site.node.attrs, site.node.operands[0].type.sizes
    start, limit = list(attrs.start), list(attrs.limit)
    result_dims = sharding_of(site.node.result).canonical(site.mesh).dims
    picked = [w.dim for w in rule_of(site.node).windows if site.axes(0, w.dim) and not result_dims[w.dim]]
    for dim in picked:
        site = replace(site, operands=[rows_in_tile(site, dim, start[dim], limit[dim] - start[dim])])
        start[dim], limit[dim] = 0, limit[dim] - start[dim]
    for dim, size in enumerate(site.operands[0].type.sizes):
        if site.axes(0, dim) and limit[dim] == sizes[dim] and start[dim] == 0 and attrs.stride[dim] == 1:
            limit[dim] = size
    value, rows = fetch_operand(site, 0, None, picked)
    for dim, count in rows.items():
        start[dim], limit[dim] = 0, count
    return site.clone([value], start=tuple(start), limit=tuple(limit))


@partitioner("pad")
def pad(site: Site) -> list[Value]:
    low, high, interior = (list(getattr(site.node.attrs, name)) for name in ("low", "high", "interior"))
    value, rows = fetch_operand(site, 0, site.operands[1])
    for dim in rows:
        low[dim] = high[dim] = interior[dim] = 0
    return site.clone([value, site.operands[1]], low=tuple(low), high=tuple(high), interior=tuple(interior))


@partitioner("reverse")
def reverse(site: Site) -> list[Value]:
    """Write a reversal: along a split dim, fetch the rows from the other end, then reverse them on the device."""
    return site.clone([fetch_operand(site, 0, None)[0]])


@partitioner("concatenate")
def concatenate(site: Site) -> list[Value]:
    """Write a concatenation: along a split dim, fetch every operand's rows to their positions in the result, and select
    among them.
    """
    dim, builder = site.node.attrs.dim, site.builder
    axes = site.axes(0, dim)
    if not axes:
        return site.clone()
    local = site.local_types()[0]
    if rotated := _roll(site, dim, axes):
        return [rotated]
    parts = [fetch_operand(site, index, None)[0] for index in range(len(site.operands))]
    row = builder.global_rows(local, dim, axes)
    joined, begin = parts[0], 0
    for index, part in enumerate(parts[1:]):
        begin += site.node.operands[index].type.sizes[dim]
        is_earlier = builder.compare("LT", row, builder.splat(begin, row.type))
        joined = builder.emit("select", [is_earlier, joined, part], local)
    return [joined]


def _roll(site: Site, dim: int, axes: tuple[str, ...]) -> Value | None:
    """Write the rotation `concatenate(x[k:], x[:k])` as one exchange of the rows that cross tiles, or return None for
    other nodes.
    """
    sources = site.builder.sources
    shift = turn(site.node, lambda value: sources[value][0] if value in sources else None)
    if shift is None:
        return None
    tail, local_operands = sources[site.node.operands[0]]
    source = tail.operands[0]
    if sharding_of(source) != sharding_of(site.node.result):
        return None
    size = source.type.sizes[dim]
    tile = local_operands[0].type.sizes[dim]
    attrs: dict[str, Any] = {"axes": axes, "dim": dim, "base": shift, "step": tile, "limit": size, "wrap": True}
    why = site.why(f"its rows rotated by {shift} of {size} along dim {dim}")
    return site.builder.communicate("fetch_rows", local_operands[0], local_operands[0].type, why, **attrs)


@partitioner("reduce_window")
def reduce_window(site: Site) -> list[Value]:
    """Write a windowed reduction. Rows outside of the operand are the initial value."""
    if (dim := scanned_dim(site.node)) is not None and site.axes(0, dim):
        return scan(site, dim)
    count = len(site.operands) // 2
    low, high, dilations = (list(getattr(site.node.attrs, name)) for name in ("low", "high", "base_dilations"))
    values: list[Value] = []
    for index in range(count):
        value, rows = fetch_operand(site, index, site.operands[count + index])
        values.append(value)
        for dim in rows:
            low[dim] = high[dim] = 0
            dilations[dim] = 1
    ends = {"low": tuple(low), "high": tuple(high), "base_dilations": tuple(dilations)}
    return site.clone([*values, *site.operands[count:]], **ends)


def fetch_operand(
    site: Site, operand: int, fill: Value | None, skipped_dims: Sequence[int] = ()
) -> tuple[Value, dict[int, int]]:
    """Return an operand with the rows that the result's tile needs, along its split windowed dims.

    Along a dim with dilation, the value gets `fill` between its rows.

    Args:
        fill: a 0-d value for rows that do not exist, or None if these rows may hold anything.
        skipped_dims: dims along which nothing is fetched.
    Returns:
        The value, and the number of rows for each dim that was fetched.
    """
    value, fetched_rows = site.operands[operand], dict[int, int]()
    for window in rule_of(site.node).windows:
        axes = site.axes(operand, window.dim)
        if window.operand == operand and axes and window.dim not in skipped_dims:
            value = fetch(site, value, window, axes, fill)
            if window.dilation != 1 and fill is not None:
                value = _dilated(site, value, window, axes, fill)
            fetched_rows[window.dim] = value.type.sizes[window.dim]
    return value, fetched_rows


def _plan(site: Site, window: Window, axes: tuple[str, ...], total: int | None = None) -> RowFetch:
    size = site.node.operands[window.operand].type.sizes[window.dim]
    total = rule_of(site.node).factors[window.factor].size if total is None else total
    return row_fetch(total, window, size, site.mesh.group_size(axes))


def fetch(
    site: Site, value: Value, window: Window, axes: tuple[str, ...], fill: Value | None, total: int | None = None
) -> Value:
    """Return the rows of a value that the device's tile of the window's factor needs, with `fill` for rows outside of
    the value.

    The value is split along the dim like the window's operand. `total` is the size of the window's factor, if the rule
    does not have the factor.
    """
    dim, plan = window.dim, _plan(site, window, axes, total).reduced()
    why = site.why(f"rows of other tiles along dim {dim}")
    near = plan.near()
    attrs: dict[str, Any] = {"axes": axes, "dim": dim, "base": near.base, "step": near.step, "limit": near.limit}  # fmt: skip
    if plan.divisor != 1:
        attrs["divisor"] = plan.divisor
    shape = [plan.rows if d == dim else s for d, s in enumerate(value.type.sizes)]
    if (joined := fetch_from_operands(site, value, window, plan, why)) is not None:
        value = joined
    elif not plan.is_identity():
        value = site.builder.communicate("fetch_rows", value, value.type.with_shape(shape), why, **attrs)
    if fill is None or not plan.has_padding():
        return value
    builder = site.builder
    local_row = builder.emit("iota", [], TensorType(value.type.shape, INDEX), dim=dim)
    row = builder.elementwise("add", builder.spread(_first_row(site, axes, plan), shape), local_row)
    inside = builder.compare("LT", row, builder.splat(plan.limit, row.type))
    if plan.start(0) < 0:
        inside = builder.elementwise("and", inside, builder.compare("GE", row, builder.splat(0, row.type)))
    return builder.emit("select", [inside, value, builder.spread(fill, shape)], value.type)


def _first_row(site: Site, axes: tuple[str, ...], plan: RowFetch) -> Value:
    """Return the first row that this device fetches (`plan.start`).

    Integer division truncates towards zero, so the dividend is first made positive.
    """
    builder, scalar, divisor = site.builder, TensorType((), INDEX), plan.divisor
    if plan.step % divisor == 0:
        return _affine(site, axes, plan.step // divisor, plan.start(0))
    lift = max(0, -plan.base)
    top = _affine(site, axes, plan.step, plan.base + divisor - 1 + lift * divisor)
    quotient = builder.elementwise("divide", top, builder.splat(divisor, scalar))
    return builder.elementwise("subtract", quotient, builder.splat(lift, scalar)) if lift else quotient


def _affine(site: Site, axes: tuple[str, ...], step: int, base: int) -> Value:
    """Return process_index * step + base."""
    builder, scalar = site.builder, TensorType((), INDEX)
    first = builder.elementwise("multiply", builder.process_index(axes), builder.splat(step, scalar))
    return builder.elementwise("add", first, builder.splat(base, scalar)) if base else first


def _dilated(site: Site, value: Value, window: Window, axes: tuple[str, ...], fill: Value) -> Value:
    """Return the window positions of the tile: the fetched rows, with `fill` at the positions between rows.

    Devices may begin at different offsets between two rows.
    """
    builder, dim, plan = site.builder, window.dim, _plan(site, window, axes)
    dilation, sizes = window.dilation, value.type.sizes
    needed = span(window, -(-rule_of(site.node).factors[window.factor].size // plan.count))
    is_fixed = plan.step % dilation == 0
    before = plan.start(0) * dilation - plan.base if is_fixed else dilation - 1
    length = before + max(0, (sizes[dim] - 1) * dilation + 1)
    total = needed if is_fixed else needed + dilation - 1

    def along(number: int) -> tuple[int, ...]:
        return tuple(number if d == dim else 0 for d in range(len(sizes)))

    def shaped(rows: int) -> TensorType:
        return value.type.with_shape(rows if d == dim else s for d, s in enumerate(sizes))

    spread = {"low": along(before), "high": along(total - length), "interior": along(dilation - 1)}
    value = builder.emit("pad", [value, fill], shaped(total), **spread)
    if is_fixed:
        return value
    # The first fetched row is at window position start * dilation - (index * step + base), which is below `dilation`.
    scalar = TensorType((), INDEX)
    first_position = builder.elementwise("multiply", _first_row(site, axes, plan), builder.splat(dilation, scalar))
    first_position = builder.elementwise("subtract", first_position, _affine(site, axes, plan.step, plan.base))
    start = builder.elementwise("subtract", builder.splat(dilation - 1, scalar), first_position)
    starts = [start if d == dim else builder.splat(0, scalar) for d in range(len(sizes))]
    kind = shaped(needed)
    return builder.emit("dynamic_slice", [value, *starts], kind, slice_sizes=kind.sizes)
