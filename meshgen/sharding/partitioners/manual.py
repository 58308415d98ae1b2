"""Partitioner of manual computations: the body works on local tiles already, so it replaces the op."""

from __future__ import annotations

from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import Value
from meshgen.ir.inline import copy_nodes
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of


@partitioner("manual")
def manual(site: Site) -> list[Value]:
    node, mesh = site.node, site.mesh
    ends = [*zip(node.operands, node.attrs.in_shardings, strict=True)]
    ends += zip(node.results, node.attrs.out_shardings, strict=True)
    for value, sharding in ends:
        parts = AxisParts.of(mesh, [*sharding_of(value).used_axes, *sharding.used_axes])
        if parts.normal(sharding_of(value)) != parts.normal(sharding):
            raise site.refuse(f"a value has sharding {sharding_of(value)}, but is declared with {sharding}")
    return copy_nodes(node.regions[0], site.operands, site.builder.graph)
