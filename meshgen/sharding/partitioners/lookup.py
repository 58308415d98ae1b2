"""Partitioner of gather.

Batch dims and unsplit dims are local. Along a split dim, each device looks up the rows of its tile and masks the
others.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes

from meshgen.ir.graph import Value
from meshgen.sharding.partitioners.builder import INDEX
from meshgen.sharding.partitioners.registry import Site, partitioner

_INDEX_MAX = 2**31 - 1  # the largest position, since positions are i32


@partitioner("gather")
def gather(site: Site) -> list[Value]:
    """Write a gather: every device looks up the indices inside its tile.

    The rows of other indices are zeros, so that the result is a partial sum.
    """
    attrs, operand = site.node.attrs, site.operands[0]
    sizes = site.node.operands[0].type.sizes
    slices = tuple(
        tile_size if size == full_size else size
        for size, full_size, tile_size in zip(attrs.slice_sizes, sizes, operand.type.sizes, strict=True)
    )
    split = [number for number, dim in enumerate(attrs.start_index_map) if _is_searched(site, dim)]
    if not split:
        return site.clone(slice_sizes=slices)
    parts = [_component(site, number) for number in range(len(attrs.start_index_map))]
    rows = site.clone([operand, _joined_indices(site, [p.index for p in parts])], slice_sizes=slices)[0]
    return [_mask_lookups(site, rows, [p.is_here for p in parts if p.is_here is not None])]


def _is_searched(site: Site, dim: int) -> bool:
    attrs, size = site.node.attrs, site.node.operands[0].type.sizes[dim]
    is_row = attrs.slice_sizes[dim] == 1 and (size != 1 or dim in attrs.collapsed_slice_dims)
    return is_row and bool(site.axes(0, dim))


@dataclass(frozen=True)
class _Component:
    """One component of the index vectors on a device: for each lookup, an index into one dim of the operand.

    Attributes:
        index: the component, relative to the tile and clamped to it.
        is_here: a mask of the lookups inside the tile, or None if all are inside.
    """

    index: Value
    is_here: Value | None


def _component(site: Site, number: int) -> _Component:
    """Return an index component, clamped to the tensor as StableHLO specifies, then relative to the tile and clamped to
    it.
    """
    attrs, builder = site.node.attrs, site.builder
    dim = attrs.start_index_map[number]
    size = site.node.operands[0].type.sizes[dim]
    index = clamped(site, _extracted(site, number), size - attrs.slice_sizes[dim])
    axes = site.axes(0, dim)
    if not _is_searched(site, dim):
        return _Component(index, None)
    tile = site.operands[0].type.sizes[dim]
    start = builder.spread(builder.tile_start(axes, tile), index.type.shape)
    local = builder.elementwise("subtract", index, start)
    low, high = builder.splat(0, local.type), builder.splat(tile, local.type)
    is_here = builder.elementwise("and", builder.compare("GE", local, low), builder.compare("LT", local, high))
    safe = builder.emit("clamp", [low, local, builder.splat(tile - 1, local.type)], local.type)
    return _Component(safe, is_here)


def _extracted(site: Site, number: int) -> Value:
    """Return component `number` of the indices, with its dim kept as size 1, or all indices if there is only one
    component.
    """
    dim, indices = site.node.attrs.index_vector_dim, site.operands[1]
    if len(site.node.attrs.start_index_map) == 1:
        return indices
    return site.builder.rows(indices, dim, number, number + 1)


def clamped(site: Site, index: Value, last: int) -> Value:
    """Return indices clamped to [0, last], converted to i32. The clamp is in their own type, so that wide values are
    not truncated.
    """
    builder, limits = site.builder, ml_dtypes.iinfo(index.type.numpy_dtype)
    if last > _INDEX_MAX:
        raise site.refuse(f"a dim of {last + 1} rows cannot be split and looked up: positions are {INDEX}")
    low, high = builder.splat(0, index.type), builder.splat(min(last, int(limits.max)), index.type)
    return builder.convert(builder.emit("clamp", [low, index, high], index.type), INDEX)


def _joined_indices(site: Site, parts: list[Value]) -> Value:
    if len(parts) == 1:
        return parts[0]
    return site.builder.concatenate(parts, site.node.attrs.index_vector_dim)


def _mask_lookups(site: Site, rows: Value, is_here: list[Value]) -> Value:
    """Return the rows that each lookup found in the device's tile, and zeros for lookups outside of the tile."""
    builder, dim = site.builder, site.node.attrs.index_vector_dim
    mask = is_here[0]
    for other in is_here[1:]:
        mask = builder.elementwise("and", mask, other)
    shape = [size for d, size in enumerate(mask.type.sizes) if d != dim]
    if mask.type.rank != len(shape):
        mask = builder.reshape(mask, shape)
    dims = tuple(d for d in range(rows.type.rank) if d not in site.node.attrs.offset_dims)
    if len(dims) < rows.type.rank:
        mask = builder.spread(mask, rows.type.shape, dims)
    return builder.emit("select", [mask, rows, builder.absent(rows.type)], rows.type)
