"""Partitioners of ops that move elements. Dims that are cut, padded, joined or reversed are whole (`legality`)."""

from __future__ import annotations

import math

from meshgen.ir.graph import Value
from meshgen.sharding.partitioners.registry import Site, partitioner


@partitioner("broadcast_in_dim", "transpose", "reverse", "pad", "concatenate")
def same_attributes(site: Site) -> list[Value]:
    return site.clone()


@partitioner("reshape")
def reshape(site: Site) -> list[Value]:
    """A device reshapes its tile: the split factors divide it evenly, or are a dim on both sides (`legality`)."""
    local = site.local_types()[0]
    assert math.prod(local.sizes) == math.prod(site.operands[0].type.sizes), "a reshape changed the number of elements"
    return site.clone()


@partitioner("slice")
def slice_(site: Site) -> list[Value]:
    """Dims that are taken whole end where the tile ends."""
    sizes, limit = site.node.operands[0].type.sizes, list(site.node.attrs["limit"])
    for dim, size in enumerate(site.operands[0].type.sizes):
        if site.axes(0, dim):
            assert limit[dim] == sizes[dim], "a dim that is cut is not split"
            limit[dim] = size
    return site.clone(limit=tuple(limit))
