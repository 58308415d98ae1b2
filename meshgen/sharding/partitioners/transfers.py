"""Partitioner of transfers between meshes. A transfer carries the shardings of both sides, so it stays as it is."""

from __future__ import annotations

from meshgen.ccl.mesh_transfers import Ends
from meshgen.ir.axis_parts import merged
from meshgen.ir.graph import Value
from meshgen.ir.predicates import is_transfer_send
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of


@partitioner("transfer_send", "transfer_recv")
def transfer(site: Site) -> list[Value]:
    """Write a transfer unchanged.

    Raises ShardingError if the value does not have the sharding that the transfer names, or cannot be transferred.
    """
    node, sends = site.node, is_transfer_send(site.node)
    if "source" not in node.attrs.given or "target" not in node.attrs.given:
        raise site.refuse("it needs the value's sharding on both meshes")
    value, named = (node.operands if sends else node.results)[0], node.attrs["source" if sends else "target"]
    if merged(sharding_of(value), site.mesh) != merged(named, site.mesh):
        raise site.refuse(f"it names {named}, but its value has sharding {sharding_of(value)}")
    if faults := Ends.of(node.op, node.attrs, site.mesh).faults():
        raise site.refuse(faults[0])
    return site.clone()
