"""Partitioners: functions that write the form of an op on one device. Importing this package registers all of them."""

from meshgen.sharding.partitioners import (
    attention,
    collectives,
    composites,
    contraction,
    elementwise,
    lookup,
    manual,
    movement,
    pooling,
    random_bits,
    scans,
    sources,
    transfers,
)
from meshgen.sharding.partitioners import dynamic_positions as run_time_places
from meshgen.sharding.partitioners import region_ops as updates
from meshgen.sharding.partitioners import windowed as windows
from meshgen.sharding.partitioners.builder import LocalBuilder
from meshgen.sharding.partitioners.registry import PARTITIONERS, Site, local_type, partitioner, sharding_of

__all__ = [
    "PARTITIONERS",
    "LocalBuilder",
    "Site",
    "attention",
    "collectives",
    "composites",
    "contraction",
    "elementwise",
    "local_type",
    "lookup",
    "manual",
    "movement",
    "partitioner",
    "pooling",
    "random_bits",
    "run_time_places",
    "scans",
    "sharding_of",
    "sources",
    "transfers",
    "updates",
    "windows",
]
