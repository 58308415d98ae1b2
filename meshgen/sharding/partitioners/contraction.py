"""Partitioners of reductions, dots and convolutions. The padding of a reduced dim is filled with the neutral element
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from meshgen.ir.graph import TensorType, Value
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.rules.rule import reduction_kind
from meshgen.ops.rules.windowed import summed_dims
from meshgen.sharding.partitioners.builder import IDEMPOTENT, neutral_scalar
from meshgen.sharding.partitioners.registry import Site, partitioner
from meshgen.sharding.partitioners.windowed import fetch_operand


@partitioner("reduce")
def reduce(site: Site) -> list[Value]:
    """Write a reduction of the tile. The initial value counts once: only one device of the group starts from it."""
    dims, combiner = site.node.attrs.dims, site.node.attrs.kind
    operand, init = site.operands
    fill = neutral_scalar(combiner, operand.type.dtype)
    operand = site.builder.mask_padding(operand, site.node.operands[0], site.sharding(0), dims, fill)
    axes = tuple(axis for dim in dims for axis in site.axes(0, dim))
    if axes and combiner not in IDEMPOTENT and not site.builder.is_known(init, fill):
        init = site.builder.emit("to_partial", [init], init.type, axes=axes, kind=reduction_kind(combiner))
    return site.clone([operand, init])


@partitioner("dot_general")
def dot_general(site: Site) -> list[Value]:
    """Write a dot of tiles. Both operands are masked along an unevenly split contraction, since 0 times a NaN in the
    padding would be NaN.
    """
    return site.clone([_contracted(site, side, dims) for side, dims in enumerate(DotDims.of(site.node).contract)])


@partitioner("ragged_dot")
def ragged_dot(site: Site) -> list[Value]:
    """Write a ragged dot of tiles, with group bounds relative to the device's tile.

    Groups contain no padding rows, and padding groups are empty.
    """
    node = site.node
    lhs, rhs = site.operands[:2]
    if not node.attrs.contracts:
        lhs, rhs = (_contracted(site, side, dims) for side, dims in enumerate(DotDims.of(node).contract))
    changed: dict[str, Any] = {}
    if axes := site.axes(2, 0):
        groups = node.attrs.total_groups or node.operands[2].type.size
        changed = {"total_groups": groups, "group_axes": (*node.attrs.group_axes, *axes)}
    return site.clone([lhs, rhs, _tile_bound(site, 2), _tile_bound(site, 3)], **changed)


def _tile_bound(site: Site, number: int) -> Value:
    """Return operand `number`, the bounds of row groups, relative to the device's tile. Equal bounds and tiles share
    one value.
    """
    builder, bound, rows = site.builder, site.operands[number], site.node.operands[0].type.sizes[0]
    axes, sharding, tile = site.axes(0, 0), site.sharding(number), site.operands[0].type.sizes[0]
    key = bound, axes, rows, sharding
    if key not in builder.bounds:
        if axes:
            first_row, end_row = (builder.splat(row, bound.type) for row in (0, rows))
            start = builder.spread(builder.tile_start(axes, tile), bound.type.sizes)
            bound = builder.emit("clamp", [first_row, bound, end_row], bound.type)
            bound = builder.elementwise("subtract", bound, start)
        builder.bounds[key] = builder.mask_padding(bound, site.node.operands[number], sharding, (0,), 0)
    return builder.bounds[key]


@partitioner("convolution")
def convolution(site: Site) -> list[Value]:
    """Write a convolution of tiles. Input channels are reduced, as in a dot. Along split spatial dims, the rows under
    the windows are fetched.
    """
    attrs = site.node.attrs
    summed = [attrs.kernel_spatial[index] for index in summed_dims(site.node)]
    image = _contracted(site, 0, (attrs.input_feature,))
    kernel = _contracted(site, 1, (attrs.kernel_input_feature, *summed))
    zero = site.builder.splat(0, TensorType((), image.type.dtype))
    site = replace(site, operands=[image, kernel])
    image, rows = fetch_operand(site, 0, zero)
    low, high, dilation = (list(getattr(attrs, name)) for name in ("low", "high", "lhs_dilation"))
    for index, dim in enumerate(attrs.input_spatial):
        if dim in rows:
            low[index] = high[index] = 0
            dilation[index] = 1
    changed: dict[str, Any] = {"low": tuple(low), "high": tuple(high), "lhs_dilation": tuple(dilation)}
    if attrs.feature_group_count != 1:
        features = image.type.sizes[attrs.input_feature]
        changed["feature_group_count"] = max(1, features // max(1, kernel.type.sizes[attrs.kernel_input_feature]))
    if attrs.batch_group_count != 1:
        batch = site.local_types()[0].sizes[attrs.output_batch]
        changed["batch_group_count"] = max(1, image.type.sizes[attrs.input_batch] // max(1, batch))
    return site.clone([image, kernel], **changed)


def _contracted(site: Site, number: int, dims: Sequence[int]) -> Value:
    local = site.operands[number]
    fill = neutral_scalar("add", local.type.dtype)
    return site.builder.mask_padding(local, site.node.operands[number], site.sharding(number), dims, fill)
