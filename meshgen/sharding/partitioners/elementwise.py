"""Partitioners of ops that look at one place at a time: a device does the same to its tiles, padding included."""

from __future__ import annotations

from meshgen.ir.graph import Value
from meshgen.ops.rules.elementwise import BINARY, UNARY
from meshgen.sharding.partitioners.registry import Site, partitioner


@partitioner(*UNARY, *BINARY, "convert", "bitcast_convert", "select", "clamp")
def elementwise(site: Site) -> list[Value]:
    return site.clone()
