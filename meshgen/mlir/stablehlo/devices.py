"""Declares the devices of a StableHLO program without a mesh, and imports its queries for partition and replica ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation

from meshgen.errors import ShardingError
from meshgen.ir.graph import Value
from meshgen.mesh import DEFAULT_NAME, Axis
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.shard.grid import declare
from meshgen.mlir.stablehlo.collectives import has_mesh, is_across
from meshgen.mlir.stablehlo.replica_group_rows import group_rows, rows_of

_DEVICE_OPERATIONS = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "collective_reduce",
        "partition_id", "recv", "reduce_scatter", "replica_id", "send",
    )
)  # fmt: skip


def _import_device_id(importer: Importer, operation: Operation) -> None:
    """Import a query for the partition id or replica id of the device. A program with a declared mesh has one replica."""
    builder, kind = Builder(importer, operation), importer.type(operation.results[0])
    replicas, is_replica = importer.reading.replicas, operation.name == "stablehlo.replica_id"
    if is_replica and replicas == 1:
        importer.bind(operation.results[0], builder.constant(0, kind))
        return
    mesh = importer.reading.module.mesh
    device_id = _device_number(builder, mesh.names if has_mesh(importer, operation) else (), importer.reading.order)
    if replicas > 1 and mesh.is_static:
        count = builder.constant(mesh.size // replicas, device_id.type)
        device_id = builder.apply("divide" if is_replica else "remainder", device_id, count)
    importer.bind(operation.results[0], builder.convert(device_id, kind.dtype))


def _device_number(builder: Builder, axes: tuple[str, ...], order: Sequence[int]) -> Value:
    """Return the number of the device: its index in the mesh, or `order[index]` if the mesh reorders its devices."""
    index = builder.process_index(axes)
    return builder.entry(np.asarray(order, np.int32), "i32", index) if order else index


def _find_devices(reading: Reading, top: Operation) -> None:
    """Declare a mesh of the replicas and partitions of a program that communicates between devices but has no mesh."""
    operations = [operation for operation in top.walk() if operation.name in _DEVICE_OPERATIONS]
    if reading.module.mesh.axes or not operations:
        return
    rows = [row for operation in operations for row in _named_devices(reading, operation)]
    partitions = _count(top, "mhlo.num_partitions")
    device_count = max((number + 1 for row in rows for number in row), default=1)
    if reading.replicas * partitions == 1:
        across = any(is_across(operation) or operation.name == "stablehlo.partition_id" for operation in operations)
        reading.replicas, partitions = (1, device_count) if across else (device_count, 1)
    count = reading.replicas * partitions
    if len(reading.user_meshes) == 1 and reading.user_meshes[0].is_static and reading.user_meshes[0].size == count:
        reading.declare_mesh(DEFAULT_NAME, replace(reading.user_meshes[0], name=DEFAULT_NAME), top)
        return
    candidate_axes = [Axis("replica", reading.replicas), Axis("partition", partitions)]
    axes = [axis for axis in candidate_axes if (axis.size or 1) > 1] or [Axis("partition", 1)]
    declare(reading, DEFAULT_NAME, axes, top)


def _named_devices(reading: Reading, operation: Operation) -> list[tuple[int, ...]]:
    """Return the groups or pairs of device numbers that an operation lists."""
    if "replica_groups" not in operation.properties:
        return rows_of(operation.properties.get("source_target_pairs"))
    try:
        return group_rows(reading, operation)
    except ShardingError:  # The import of the operation reports the invalid groups.
        return []


def _count(top: Operation, name: str) -> int:
    attribute = top.attributes.get(name)
    return max(1, attribute.value.data) if isinstance(attribute, IntegerAttr) else 1


def _read_replicas(reading: Reading, attribute: Attribute) -> None:
    if isinstance(attribute, IntegerAttr):
        reading.replicas = max(1, attribute.value.data)


PART = Dialect(
    importers={"stablehlo.partition_id": _import_device_id, "stablehlo.replica_id": _import_device_id},
    device_finders=(_find_devices,),
    module_attrs={"mhlo.num_replicas": _read_replicas},
)
