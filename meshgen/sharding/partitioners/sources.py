"""Partitioners of constants and iota: a device creates its own tile."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import Value
from meshgen.ir.splats import uniform_element
from meshgen.sharding.partitioners.builder import INDEX
from meshgen.sharding.partitioners.local_moves import cut
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of


@partitioner("constant")
def constant(site: Site) -> list[Value]:
    """Write a constant. A splat becomes a splat of the tile. Other constants are stored entirely, and every device
    slices its tile.
    """
    result, builder = site.node.result, site.builder
    value = np.asarray(site.node.attrs.value)
    if (element := uniform_element(value)) is not None:
        return site.clone(value=np.broadcast_to(element, site.local_types()[0].sizes))
    full = builder.emit("constant", [], result.type, value=value)
    return [cut(builder, full, sharding_of(result), result.type.sizes)]


@partitioner("iota")
def iota(site: Site) -> list[Value]:
    """Write an iota. Positions are computed as integers and converted last, since a narrow float cannot add them
    exactly.
    """
    dim, builder, local = site.node.attrs.dim, site.builder, site.local_types()[0]
    axes = sharding_of(site.node.result).canonical(site.mesh).dims[dim]
    if not axes:
        return site.clone()
    tile = local.sizes[dim]
    local_position = builder.emit("iota", [], type(local)(local.shape, INDEX), dim=dim)
    start = builder.spread(builder.tile_start(axes, tile), local.shape)
    return [builder.convert(builder.elementwise("add", local_position, start), local.dtype)]
