"""Partitioners of ops that slice or write at positions known only at run time: dynamic slices, updates and scatter.

Along a split dim, a device reads or writes the positions in its tile. No communication is needed here: a value read
this way is a partial sum, with zeros for rows that a device does not have.
"""

from __future__ import annotations

from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.evaluate.common import integer_range
from meshgen.ops.rules.rule import reduction_kind
from meshgen.ops.rules.updates import scatter_reduction
from meshgen.sharding.partitioners.builder import IDEMPOTENT, INDEX
from meshgen.sharding.partitioners.lookup import clamped
from meshgen.sharding.partitioners.registry import Site, partitioner

_NOWHERE = -(2**30)  # an index that is out of bounds in every operand, so that the update is dropped


def _split_dims(site: Site, window: tuple[int, ...]) -> list[int]:
    """Return the split dims of operand 0 of which the window covers only a part."""
    sizes = site.node.operands[0].type.sizes
    return [d for d, size in enumerate(sizes) if window[d] != size and site.axes(0, d)]


def _clamped_start(site: Site, dim: int, first: int, taken: int) -> Value:
    """Return the global start of a window of `taken` rows along `dim`, clamped to the operand.

    The unclamped start is operand `first + dim`.
    """
    return clamped(site, site.operands[first + dim], site.node.operands[0].type.sizes[dim] - taken)


def _tile_position(site: Site, dim: int, start: Value) -> Value:
    """Return a global position relative to the device's tile."""
    begin = site.builder.tile_start(site.axes(0, dim), site.operands[0].type.sizes[dim])
    return site.builder.elementwise("subtract", start, begin)


def _rows_from(site: Site, start: Value, count: int) -> Value:
    """Return the positions start, start + 1, ..., start + count - 1."""
    row = site.builder.emit("iota", [], TensorType((count,), INDEX), dim=0)
    return site.builder.elementwise("add", site.builder.spread(start, (count,)), row)


def _lookup_rows(site: Site, value: Value, dim: int, rows: Value) -> tuple[Value, Value]:
    """Return the rows at positions `rows` along `dim`, and a mask of the positions inside the tile.

    Other rows are undefined.
    """
    builder, size = site.builder, value.type.sizes[dim]
    zero = builder.splat(0, rows.type)
    inside = builder.elementwise(
        "and", builder.compare("GE", rows, zero), builder.compare("LT", rows, builder.splat(size, rows.type))
    )
    safe = builder.emit("clamp", [zero, rows, builder.splat(size - 1, rows.type)], rows.type)
    shape = tuple(rows.type.sizes[0] if d == dim else s for d, s in enumerate(value.type.sizes))
    attrs = {
        "offset_dims": tuple(d for d in range(len(shape)) if d != dim), "collapsed_slice_dims": (dim,),
        "operand_batching_dims": (), "start_indices_batching_dims": (), "start_index_map": (dim,),
        "index_vector_dim": 1, "slice_sizes": tuple(1 if d == dim else s for d, s in enumerate(value.type.sizes)),
        "indices_are_sorted": False,
    }  # fmt: skip
    looked_up = builder.emit("gather", [value, safe], value.type.with_shape(shape), **attrs)
    return looked_up, builder.spread(inside, shape, (dim,))


def rows_in_tile(site: Site, dim: int, start: int, count: int) -> Value:
    """Return rows [start, start + count) of operand 0 along a split dim, with zeros for rows that the device does not
    have.
    """
    builder, value = site.builder, site.operands[0]
    rows = _rows_from(site, _tile_position(site, dim, builder.splat(start, TensorType((), INDEX))), count)
    looked_up, inside = _lookup_rows(site, value, dim, rows)
    return builder.emit("select", [inside, looked_up, builder.absent(looked_up.type)], looked_up.type)


@partitioner("dynamic_slice")
def dynamic_slice(site: Site) -> list[Value]:
    """Write a dynamic slice. Along a split dim, each device looks up the rows that it has; the other rows are zeros.

    A dim that is sliced in full size takes the entire tile: the start is clamped to 0 in both programs.
    """
    builder, taken = site.builder, site.node.attrs.slice_sizes
    value, result_type = site.operands[0], site.local_types()[0]
    split = _split_dims(site, taken)
    sizes = [value.type.sizes[d] if d in split else size for d, size in enumerate(result_type.sizes)]
    if tuple(sizes) != value.type.sizes or not split:
        operands = [value, *site.operands[1:]]
        value = builder.emit("dynamic_slice", operands, value.type.with_shape(sizes), slice_sizes=tuple(sizes))
    for dim in split:
        rows = _rows_from(site, _tile_position(site, dim, _clamped_start(site, dim, 1, taken[dim])), taken[dim])
        value, inside = _lookup_rows(site, value, dim, rows)
        value = builder.emit("select", [inside, value, builder.absent(value.type)], value.type)
    return [value]


@partitioner("dynamic_update_slice")
def dynamic_update_slice(site: Site) -> list[Value]:
    """Write an update: along split dims, a device writes the rows of the update that fall into its tile.

    A window as large as the update (or the tile) is placed so that it covers these rows; other rows in the window keep
    their values.
    """
    builder, (operand, update) = site.builder, site.operands[:2]
    update_sizes = site.node.operands[1].type.sizes
    split = _split_dims(site, update_sizes)
    if not split:
        return site.clone()
    if 0 in update_sizes:
        return [operand]
    sizes = operand.type.sizes
    starts = [_window_start(site, dim, update_sizes[dim], sizes[dim]) for dim in range(len(sizes))]
    masks: list[Value] = []
    for dim in split:
        local_start = _tile_position(site, dim, _clamped_start(site, dim, 2, update_sizes[dim]))
        first = builder.elementwise("subtract", starts[dim], local_start)
        update, inside = _lookup_rows(site, update, dim, _rows_from(site, first, min(update_sizes[dim], sizes[dim])))
        masks = [_resized_mask(site, mask, dim, update.type) for mask in masks] + [inside]
    mask = masks[0]
    for next_mask in masks[1:]:
        mask = builder.elementwise("and", mask, next_mask)
    old = builder.emit("dynamic_slice", [operand, *starts], update.type, slice_sizes=update.type.sizes)
    new = builder.emit("select", [mask, update, old], update.type)
    return [builder.emit("dynamic_update_slice", [operand, new, *starts], operand.type)]


def _window_start(site: Site, dim: int, taken: int, tile: int) -> Value:
    """Return the position in the device's tile at which the window starts along `dim`."""
    builder, scalar = site.builder, TensorType((), INDEX)
    if taken == site.node.operands[0].type.sizes[dim]:
        return builder.splat(0, scalar)
    start = _clamped_start(site, dim, 2, taken)
    if not site.axes(0, dim):
        return start
    last = builder.splat(tile - min(taken, tile), scalar)
    return builder.emit("clamp", [builder.splat(0, scalar), _tile_position(site, dim, start), last], scalar)


def _resized_mask(site: Site, mask: Value, dim: int, tensor_type: TensorType) -> Value:
    """Return the mask with the size of `tensor_type` along `dim`, in which it is constant."""
    if mask.type.sizes == tensor_type.sizes:
        return mask
    start, limit = (0,) * tensor_type.rank, tuple(1 if d == dim else s for d, s in enumerate(mask.type.sizes))
    return site.builder.spread(site.builder.slice(mask, start, limit), tensor_type.shape, range(tensor_type.rank))


@partitioner("scatter")
def scatter(site: Site) -> list[Value]:
    """Write a scatter. Along split dims that are indexed, indices become relative to the tile, and updates outside are
    dropped.

    If the updates are split, each device combines its own updates, and the operand counts once.
    """
    attrs, count = site.node.attrs, len(site.operands) // 2
    indices, vector = site.operands[count], attrs.index_vector_dim
    rows = dict.fromkeys(attrs.inserted_window_dims, 1) | window_sizes(site.node)
    sizes = site.node.operands[0].type.sizes
    written = [d for d in attrs.scatter_dims_to_operand_dims if site.axes(0, d) and rows[d] != sizes[d]]
    index_dims = [d for d in range(indices.type.rank) if d != vector and d not in attrs.scatter_indices_batching_dims]
    axes = tuple(axis for d in index_dims for axis in site.axes(count, d))
    if not written and not axes:
        return site.clone()
    moved = _moved_indices(site, written, count)
    moved = site.builder.mask_padding(moved, site.node.operands[count], site.sharding(count), index_dims, _NOWHERE)
    operands = list(site.operands)
    operands[count] = moved
    kind = scatter_reduction(site.node)
    if axes and kind and kind not in IDEMPOTENT:
        to_partial = {"axes": axes, "kind": reduction_kind(kind)}
        operands[0] = site.builder.emit("to_partial", [operands[0]], operands[0].type, **to_partial)
    return site.clone(operands, indices_are_sorted=False)


def window_sizes(node: Node) -> dict[int, int]:
    """Return, for each dim of the operand that is neither inserted nor a batch dim, the rows that an update of a
    scatter covers.
    """
    attrs, update = node.attrs, node.operands[len(node.operands) // 2 + 1].type
    dropped = {*attrs.inserted_window_dims, *attrs.input_batching_dims}
    kept = [d for d in range(node.operands[0].type.rank) if d not in dropped]
    return {d: update.sizes[u] for d, u in zip(kept, sorted(attrs.update_window_dims), strict=True)}


def _moved_indices(site: Site, written: list[int], number: int) -> Value:
    """Return the scatter indices relative to the device's tile, as the type `INDEX`.

    An index far outside the tensor is clamped to a value that stays outside the tile after the subtraction.
    """
    builder, indices = site.builder, site.operands[number]
    type_min, type_max = integer_range(indices.type.dtype)
    ends = [builder.splat(end, indices.type) for end in (max(type_min, _NOWHERE), min(type_max, -_NOWHERE))]
    safe = builder.convert(builder.emit("clamp", [ends[0], indices, ends[1]], indices.type), INDEX)
    dims, vector = site.node.attrs.scatter_dims_to_operand_dims, site.node.attrs.index_vector_dim
    starts = [
        builder.tile_start(site.axes(0, d), site.operands[0].type.sizes[d]) if d in written else None for d in dims
    ]
    for position, start in enumerate(starts):
        if start is None:
            continue
        shift = builder.spread(start, safe.type.sizes)
        if len(dims) > 1:
            column = builder.emit("iota", [], safe.type, dim=vector)
            is_component = builder.compare("EQ", column, builder.splat(position, column.type))
            shift = builder.emit("select", [is_component, shift, builder.splat(0, shift.type)], shift.type)
        safe = builder.elementwise("subtract", safe, shift)
    return safe
