"""Partitioners of ops that cut or write windows at run-time places, sort, or combine in a region.

Dims that such an op looks along are whole (`legality`); along the others it does the same to every tile.
"""

from __future__ import annotations

from meshgen.ir.graph import Value
from meshgen.sharding.partitioners.registry import Site, partitioner


@partitioner("dynamic_update_slice", "scatter", "sort", "top_k", "reduce_region", "select_and_scatter")
def along_whole_dims(site: Site) -> list[Value]:
    return site.clone()


@partitioner("dynamic_slice")
def dynamic_slice(site: Site) -> list[Value]:
    """Dims that are taken whole are taken whole from the tile: their start is clamped to 0 on both."""
    return site.clone(slice_sizes=site.local_types()[0].sizes)
