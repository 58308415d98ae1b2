"""Partitioner of element-wise ops and optimization barriers: a device applies the op to its tiles, including the
padding.
"""

from __future__ import annotations

from meshgen.ir.graph import Value
from meshgen.ops.op import Trait
from meshgen.ops.registry import with_trait
from meshgen.sharding.partitioners.registry import Site, partitioner


@partitioner(*with_trait(Trait.ELEMENTWISE), "bitcast_convert", "optimization_barrier")
def elementwise(site: Site) -> list[Value]:
    return site.clone()
