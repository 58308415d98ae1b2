"""Partitioners of ops that move elements within a tile."""

from __future__ import annotations

import math

from meshgen.ir.graph import Value
from meshgen.sharding.partitioners.registry import Site, partitioner


@partitioner("broadcast_in_dim", "transpose")
def same_attributes(site: Site) -> list[Value]:
    return site.clone()


@partitioner("reshape")
def reshape(site: Site) -> list[Value]:
    """Write a reshape of the tile. It is local, since `legality` checked that split factors are even, or one dim on
    both sides.
    """
    local = site.local_types()[0]
    assert math.prod(local.sizes) == math.prod(site.operands[0].type.sizes), "a reshape changed the number of elements"
    return site.clone()
