"""Partitioners of constants and iota: a device makes its own tile."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import Value
from meshgen.sharding.partitioners.builder import INDEX
from meshgen.sharding.partitioners.local_moves import cut
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of


@partitioner("constant")
def constant(site: Site) -> list[Value]:
    """A splat needs no slicing; other constants are in the program once, whole, and every device cuts its tile."""
    result, builder = site.node.result, site.builder
    value = np.asarray(site.node.attrs.value)
    if value.size and _is_splat(value):
        local = site.local_types()[0]
        return site.clone(value=np.broadcast_to(value.reshape(-1)[0], local.sizes))
    whole = builder.emit("constant", [], result.type, value=value)
    return [cut(builder, whole, sharding_of(result), result.type.sizes)]


def _is_splat(value: np.ndarray) -> bool:
    """Whether all elements have the same bits: 0.0 and -0.0 differ, a NaN equals itself."""
    if not any(value.strides):  # one element, spread
        return True
    flat = np.ascontiguousarray(value).reshape(-1)
    rows = flat.view(np.uint8).reshape(flat.size, -1)
    return bool((rows == rows[0]).all())


@partitioner("iota")
def iota(site: Site) -> list[Value]:
    """Positions are counted in integers and converted last: a narrow float cannot add them exactly."""
    dim, builder, local = site.node.attrs.dim, site.builder, site.local_types()[0]
    axes = sharding_of(site.node.result).canonical(site.mesh).dims[dim]
    if not axes:
        return site.clone()
    tile = local.sizes[dim]
    here = builder.emit("iota", [], type(local)(local.shape, INDEX), dim=dim)
    start = builder.spread(builder.tile_start(axes, tile), local.shape)
    return [builder.convert(builder.elementwise("add", here, start), local.dtype)]
