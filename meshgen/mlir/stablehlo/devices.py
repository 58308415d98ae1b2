"""The devices of a StableHLO program without a mesh, and the numbers that it asks for: of partitions and replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation

from meshgen.errors import ShardingError
from meshgen.ir.graph import Value
from meshgen.mesh import DEFAULT_NAME, Axis
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reading import Reading
from meshgen.mlir.shard.grid import declare
from meshgen.mlir.stablehlo.collectives import has_mesh, is_across
from meshgen.mlir.stablehlo.replica_group_rows import group_rows, rows_of

_SPEAKING = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "collective_reduce",
        "partition_id", "recv", "reduce_scatter", "replica_id", "send",
    )
)  # fmt: skip


def _import_number(importer: Importer, operation: Operation) -> None:
    """The number of the partition or of the replica that a device is; over a declared mesh there is one replica."""
    builder, kind = Builder(importer, operation), importer.type(operation.results[0])
    replicas, is_replica = importer.reading.replicas, operation.name == "stablehlo.replica_id"
    if is_replica and replicas == 1:
        importer.bind(operation.results[0], builder.constant(0, kind))
        return
    mesh = importer.reading.module.mesh
    number = _device_number(builder, mesh.names if has_mesh(importer, operation) else (), importer.reading.order)
    if replicas > 1 and mesh.is_static:
        count = builder.constant(mesh.size // replicas, number.type)
        number = builder.apply("divide" if is_replica else "remainder", number, count)
    importer.bind(operation.results[0], builder.convert(number, kind.dtype))


def _device_number(builder: Builder, axes: tuple[str, ...], order: Sequence[int]) -> Value:
    """The device's number, which is its place in the mesh where that does not order its devices otherwise."""
    index = builder.process_index(axes)
    return builder.entry(np.asarray(order, np.int32), "i32", index) if order else index


def _find_devices(reading: Reading, top: Operation) -> None:
    """Declare the devices that a program with collectives and without a mesh speaks of: its replicas and partitions."""
    operations = [each for each in top.walk() if each.name in _SPEAKING]
    if reading.module.mesh.axes or not operations:
        return
    rows = [row for each in operations for row in _named_devices(reading, each)]
    partitions = _count(top, "mhlo.num_partitions")
    seen = max((number + 1 for row in rows for number in row), default=1)
    if reading.replicas * partitions == 1:
        across = any(is_across(each) or each.name == "stablehlo.partition_id" for each in operations)
        reading.replicas, partitions = (1, seen) if across else (seen, 1)
    count = reading.replicas * partitions
    if len(reading.given) == 1 and reading.given[0].is_static and reading.given[0].size == count:
        reading.declare_mesh(DEFAULT_NAME, replace(reading.given[0], name=DEFAULT_NAME), top)
        return
    both = [Axis("replica", reading.replicas), Axis("partition", partitions)]
    axes = [axis for axis in both if (axis.size or 1) > 1] or [Axis("partition", 1)]
    declare(reading, DEFAULT_NAME, axes, top)


def _named_devices(reading: Reading, operation: Operation) -> list[tuple[int, ...]]:
    """The devices that an operation names."""
    if "replica_groups" not in operation.properties:
        return rows_of(operation.properties.get("source_target_pairs"))
    try:
        return group_rows(reading, operation)
    except ShardingError:  # refused where the operation is read
        return []


def _count(top: Operation, name: str) -> int:
    found = top.attributes.get(name)
    return max(1, found.value.data) if isinstance(found, IntegerAttr) else 1


def _read_replicas(reading: Reading, attribute: Attribute) -> None:
    if isinstance(attribute, IntegerAttr):
        reading.replicas = max(1, attribute.value.data)


PART = Dialect(
    importers={"stablehlo.partition_id": _import_number, "stablehlo.replica_id": _import_number},
    device_finders=(_find_devices,),
    module_attrs={"mhlo.num_replicas": _read_replicas},
)
