"""The partitioner of manual computations: their bodies are local already and stand in place of them."""

from __future__ import annotations

from meshgen.ir.graph import Value
from meshgen.ir.inline import copy_nodes
from meshgen.sharding.partitioners.registry import Site, lies, partitioner


@partitioner("manual")
def manual(site: Site) -> list[Value]:
    node, mesh = site.node, site.mesh
    ends = [*zip(node.operands, node.attrs["in_shardings"], strict=True)]
    ends += zip(node.results, node.attrs["out_shardings"], strict=True)
    for value, sharding in ends:
        if lies(value).canonical(mesh) != sharding.canonical(mesh):
            raise site.refuse(f"a value lies as {lies(value)}, but is declared as {sharding}")
    return copy_nodes(node.regions[0], site.operands, site.builder.graph)
