"""Partitioners of ops that move elements of a tile."""

from __future__ import annotations

import math

from meshgen.ir.graph import Value
from meshgen.sharding.partitioners.registry import Site, partitioner


@partitioner("broadcast_in_dim", "transpose")
def same_attributes(site: Site) -> list[Value]:
    return site.clone()


@partitioner("reshape")
def reshape(site: Site) -> list[Value]:
    """A device reshapes its tile: the split factors divide it evenly, or are a dim on both sides (`legality`)."""
    local = site.local_types()[0]
    assert math.prod(local.sizes) == math.prod(site.operands[0].type.sizes), "a reshape changed the number of elements"
    return site.clone()
