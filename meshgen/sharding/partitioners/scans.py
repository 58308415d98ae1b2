"""Partitioners of ops that read along an entire dim, but need little from other tiles: cumulative ops and top_k.

A device works on its tile. From each other tile it needs one row (its total) or k candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.ir.predicates import is_constant
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.window import fold_kind
from meshgen.sharding.partitioners.builder import IDEMPOTENT, INDEX, Scalar, neutral_scalar
from meshgen.sharding.partitioners.candidates import combine_candidates
from meshgen.sharding.partitioners.registry import Site, local_type, partitioner


def scan(site: Site, dim: int) -> list[Value]:
    """Write a cumulative op along a split dim.

    Each device scans its tile, gathers the totals of all tiles, and combines the totals of preceding tiles into its
    rows. Tile and totals start from the neutral element. The initial value itself is combined in at the end.
    """
    builder, attrs = site.builder, site.node.attrs
    combiner = fold_kind(site.node.regions[0])
    assert combiner, "the rule lets only plain regions be split"
    is_forward = attrs.low[dim] > 0
    operand, init = site.operands
    fill = neutral_scalar(combiner, operand.type.dtype)
    local = builder.mask_padding(operand, site.node.operands[0], site.sharding(0), () if is_forward else (dim,), fill)
    tile = local.type.sizes[dim]
    ends = {"low": tile - 1, "high": 0} if is_forward else {"low": 0, "high": tile - 1}
    changed = {name: _replaced(getattr(attrs, name), dim, n) for name, n in {"window_dimensions": tile, **ends}.items()}
    (partial,) = site.clone([local, builder.splat(fill, init.type)], **changed)
    last = tile - 1 if is_forward else 0
    before = _preceding_totals(site, dim, builder.rows(partial, dim, last, last + 1), fill, is_forward)
    dims = tuple(d for d in range(local.type.rank) if d != dim)
    kind = local.type.with_shape(local.type.sizes[d] for d in dims)
    is_simple = combiner in IDEMPOTENT or _is_known_as(site, init, fill)
    first = init if is_simple else builder.splat(fill, init.type)
    start = builder.emit("reduce", [before, first], kind, dims=(dim,), kind=combiner)
    spread = builder.spread(start, local.type.shape, dims)
    combined = builder.elementwise(combiner, *((spread, partial) if is_forward else (partial, spread)))
    if is_simple:
        return [combined]
    repeated = _repeated_init(site, dim, tile, is_forward)
    return [builder.elementwise(combiner, builder.spread(repeated, local.type.shape, (dim,)), combined)]


def _is_known_as(site: Site, init: Value, fill: Scalar) -> bool:
    """Whether the initial value is the constant `fill`, possibly broadcast to a 0-d value."""
    if site.builder.is_known(init, fill):
        return True
    value = site.node.operands[1]
    while (source := site.builder.sources.get(value)) and source[0].op == "broadcast_in_dim" and not value.type.rank:
        value = source[0].operands[0]
    return bool(source and is_constant(source[0]) and not value.type.rank and source[0].attrs.value == fill)


def _repeated_init(site: Site, dim: int, tile: int, is_forward: bool) -> Value:
    """Return, for each row of the tile, the initial value combined with itself as often as the op applies it to the
    row.

    A windowed reduction applies it once, and once more for every row of padding in the row's window.
    """
    builder, init, size = site.builder, site.operands[1], site.node.operands[0].type.sizes[dim]
    tensor_type = init.type.with_shape((size,))
    ones = dict.fromkeys(("window_strides", "base_dilations", "window_dilations"), (1,))
    ends = {"low": (0 if is_forward else size - 1,), "high": (size - 1 if is_forward else 0,)}
    fill = neutral_scalar(fold_kind(site.node.regions[0]) or "", init.type.dtype)
    operands = [builder.spread(init, (size,)), builder.splat(fill, init.type)]
    attrs = {"window_dimensions": (size,), **ones, **ends}
    (counted,) = builder.append("reduce_window", operands, [tensor_type], attrs, site.node.regions)
    return builder.emit("all_slice", [counted], tensor_type.with_shape((tile,)), axes=site.axes(0, dim), dim=0)


def _preceding_totals(site: Site, dim: int, total: Value, fill: Scalar, is_forward: bool) -> Value:
    """Return the totals of all tiles, concatenated along `dim`, with the neutral element for tiles that do not precede
    this one.
    """
    builder, axes = site.builder, site.axes(0, dim)
    sizes = _replaced(total.type.sizes, dim, site.mesh.group_size(axes))
    full = total.type.with_shape(sizes)
    why = site.why("the totals of other tiles")
    totals = builder.communicate("all_gather", total, full, why, axes=axes, dim=dim)
    number = builder.emit("iota", [], TensorType(full.shape, INDEX), dim=dim)
    own_index = builder.spread(builder.process_index(axes), sizes)
    precedes = builder.compare("LT" if is_forward else "GT", number, own_index)
    return builder.emit("select", [precedes, totals, builder.splat(fill, full)], full)


def _replaced(sizes: tuple[int, ...] | list[int], dim: int, size: int) -> tuple[int, ...]:
    return tuple(size if d == dim else s for d, s in enumerate(sizes))


@partitioner("top_k")
def top_k(site: Site) -> list[Value]:
    """Write a top_k: each device computes the top k of its tile, and the results are the top k of all these candidates.

    Among equal elements the first wins, since the tiles' candidates stay in order. Padding is the lowest value in total
    order (the lowest NaN), and comes after elements equal to it.
    """
    node, builder = site.node, site.builder
    dim, k = node.operands[0].type.rank - 1, node.attrs.k
    axes = site.axes(0, dim)
    if not axes or not k:
        return site.clone()
    if 0 in site.operands[0].type.sizes:  # an empty tile has no candidates
        return [builder.splat(0, local_type(value, site.mesh)) for value in node.results]
    lowest = _lowest(site.operands[0].type.dtype)
    local = builder.mask_padding(site.operands[0], node.operands[0], site.sharding(0), (dim,), lowest)
    tile = local.type.sizes[dim]
    tensor_type = local.type.with_shape(_replaced(local.type.sizes, dim, min(k, tile)))
    index_type = TensorType(tensor_type.shape, INDEX)
    offers, rows = builder.append("top_k", [local], [tensor_type, index_type], {"k": min(k, tile)})
    rows = builder.elementwise("add", builder.spread(builder.tile_start(axes, tile), tensor_type.sizes), rows)

    def finish(candidates: list[Value]) -> list[Value]:
        best = candidates[0].type.with_shape((candidates[0].type.sizes[0], k))
        values, chosen = builder.append("top_k", candidates[:1], [best, TensorType(best.shape, INDEX)], {"k": k})
        return [values, _gather_last_dim(site, candidates[1], chosen)]

    return combine_candidates(site, [offers, rows], axes, finish, k)


def _lowest(dtype: str) -> np.ndarray[Any, Any]:
    """Return the lowest value of a dtype; for floats, the value with all bits set, which is the lowest in total
    order.
    """
    lowest = neutral("maximum", dtype)
    return np.full(lowest.itemsize, 0xFF, np.uint8).view(lowest.dtype).reshape(()) if is_float(dtype) else lowest


def _gather_last_dim(site: Site, rows: Value, chosen: Value) -> Value:
    """Return rows[..., chosen[..., i]]."""
    outer = tuple(range(rows.type.rank - 1))
    attrs = {
        "offset_dims": (), "collapsed_slice_dims": (rows.type.rank - 1,), "operand_batching_dims": outer,
        "start_indices_batching_dims": outer, "start_index_map": (rows.type.rank - 1,),
        "index_vector_dim": rows.type.rank, "slice_sizes": (1,) * rows.type.rank, "indices_are_sorted": False,
    }  # fmt: skip
    return site.builder.emit("gather", [rows, chosen], chosen.type, **attrs)
