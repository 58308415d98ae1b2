"""Partitioners of ops that read along a whole dim, but need little of other tiles: cumulative ops and top_k.

A device works on its tile; of the others it needs one row each (the total of the tile) or k candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.ir.predicates import is_constant
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.window import fold_kind
from meshgen.sharding.partitioners.builder import IDEMPOTENT, INDEX, Scalar, neutral_scalar
from meshgen.sharding.partitioners.candidates import finished
from meshgen.sharding.partitioners.registry import Site, local_type, partitioner


def scan(site: Site, dim: int) -> list[Value]:
    """A cumulative op along a split dim: scan the tile, gather all tiles' totals, combine those before it.

    The tile and the totals use the neutral element as initial value; the initial value itself is combined in at the end.
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
    before = _before(site, dim, builder.rows(partial, dim, last, last + 1), fill, is_forward)
    dims = tuple(d for d in range(local.type.rank) if d != dim)
    kind = local.type.with_shape(local.type.sizes[d] for d in dims)
    is_simple = combiner in IDEMPOTENT or _is_known_as(site, init, fill)
    first = init if is_simple else builder.splat(fill, init.type)
    start = builder.emit("reduce", [before, first], kind, dims=(dim,), kind=combiner)
    spread = builder.spread(start, local.type.shape, dims)
    found = builder.elementwise(combiner, *((spread, partial) if is_forward else (partial, spread)))
    if is_simple:
        return [found]
    repeated = _repeated(site, dim, tile, is_forward)
    return [builder.elementwise(combiner, builder.spread(repeated, local.type.shape, (dim,)), found)]


def _is_known_as(site: Site, init: Value, fill: Scalar) -> bool:
    """Whether the initial value is a neutral constant, possibly broadcast to a 0-d value."""
    if site.builder.is_known(init, fill):
        return True
    value = site.node.operands[1]
    while (made := site.builder.sources.get(value)) and made[0].op == "broadcast_in_dim" and not value.type.rank:
        value = made[0].operands[0]
    return bool(made and is_constant(made[0]) and not value.type.rank and made[0].attrs.value == fill)


def _repeated(site: Site, dim: int, tile: int, is_forward: bool) -> Value:
    """The initial value, combined as often as each row of the tile needs it: once, and once for every row of padding."""
    builder, init, size = site.builder, site.operands[1], site.node.operands[0].type.sizes[dim]
    kind = init.type.with_shape((size,))
    ones = dict.fromkeys(("window_strides", "base_dilations", "window_dilations"), (1,))
    ends = {"low": (0 if is_forward else size - 1,), "high": (size - 1 if is_forward else 0,)}
    fill = neutral_scalar(fold_kind(site.node.regions[0]) or "", init.type.dtype)
    operands = [builder.spread(init, (size,)), builder.splat(fill, init.type)]
    attrs = {"window_dimensions": (size,), **ones, **ends}
    (counted,) = builder.append("reduce_window", operands, [kind], attrs, site.node.regions)
    return builder.emit("all_slice", [counted], kind.with_shape((tile,)), axes=site.axes(0, dim), dim=0)


def _before(site: Site, dim: int, total: Value, fill: Scalar, is_forward: bool) -> Value:
    """The totals of all tiles, concatenated along the dim, with the neutral element for tiles that are not before this one."""
    builder, axes = site.builder, site.axes(0, dim)
    sizes = _replaced(total.type.sizes, dim, site.mesh.group_size(axes))
    full = total.type.with_shape(sizes)
    why = site.why("the totals of other tiles")
    totals = builder.communicate("all_gather", total, full, why, axes=axes, dim=dim)
    number = builder.emit("iota", [], TensorType(full.shape, INDEX), dim=dim)
    here = builder.spread(builder.process_index(axes), sizes)
    counts = builder.compare("LT" if is_forward else "GT", number, here)
    return builder.emit("select", [counts, totals, builder.splat(fill, full)], full)


def _replaced(sizes: tuple[int, ...] | list[int], dim: int, size: int) -> tuple[int, ...]:
    return tuple(size if d == dim else s for d, s in enumerate(sizes))


@partitioner("top_k")
def top_k(site: Site) -> list[Value]:
    """Each device offers the top k of its tile; the top k of all offers, in the order of tiles, are the results.

    Among equal elements the first wins: each tile offers them in order.
    Padding is the lowest value in total order (the lowest NaN), and comes after elements equal to it.
    """
    node, builder = site.node, site.builder
    dim, k = node.operands[0].type.rank - 1, node.attrs.k
    axes = site.axes(0, dim)
    if not axes or not k:
        return site.clone()
    if 0 in site.operands[0].type.sizes:  # nothing to choose from
        return [builder.splat(0, local_type(value, site.mesh)) for value in node.results]
    lowest = _lowest(site.operands[0].type.dtype)
    local = builder.mask_padding(site.operands[0], node.operands[0], site.sharding(0), (dim,), lowest)
    tile = local.type.sizes[dim]
    kind = local.type.with_shape(_replaced(local.type.sizes, dim, min(k, tile)))
    places = TensorType(kind.shape, INDEX)
    offers, rows = builder.append("top_k", [local], [kind, places], {"k": min(k, tile)})
    rows = builder.elementwise("add", builder.spread(builder.tile_start(axes, tile), kind.sizes), rows)

    def finish(offered: list[Value]) -> list[Value]:
        best = offered[0].type.with_shape((offered[0].type.sizes[0], k))
        values, chosen = builder.append("top_k", offered[:1], [best, TensorType(best.shape, INDEX)], {"k": k})
        return [values, _picked(site, offered[1], chosen)]

    return finished(site, [offers, rows], axes, finish, k)


def _lowest(dtype: str) -> np.ndarray[Any, Any]:
    """The lowest value of a type: for floats all bits set, the lowest in total order."""
    lowest = neutral("maximum", dtype)
    return np.full(lowest.itemsize, 0xFF, np.uint8).view(lowest.dtype).reshape(()) if is_float(dtype) else lowest


def _picked(site: Site, rows: Value, chosen: Value) -> Value:
    """rows[..., chosen[..., i]]."""
    outer = tuple(range(rows.type.rank - 1))
    attrs = {
        "offset_dims": (), "collapsed_slice_dims": (rows.type.rank - 1,), "operand_batching_dims": outer,
        "start_indices_batching_dims": outer, "start_index_map": (rows.type.rank - 1,),
        "index_vector_dim": rows.type.rank, "slice_sizes": (1,) * rows.type.rank, "indices_are_sorted": False,
    }  # fmt: skip
    return site.builder.emit("gather", [rows, chosen], chosen.type, **attrs)
