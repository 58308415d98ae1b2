"""Importers of `collective_broadcast` and `collective_reduce`, whose root is the first device of each group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation

from meshgen.ir.graph import Value
from meshgen.ir.replica_groups import are_uneven
from meshgen.mesh import Mesh
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.attributes import boolean_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.collectives import (
    Group,
    device_rows,
    emit_each,
    group_of,
    listed_group_rows,
    moved,
    reducing,
)


def _import_broadcast(importer: Importer, operation: Operation) -> None:
    """Import a broadcast from the first device of each group. Devices that are in no group get zeros."""
    rows = None if _has_dynamic_root(importer, operation) else listed_group_rows(importer, operation)
    if rows is None:
        importer.bind_placeholders(operation)
        return
    mesh = importer.reading.module.mesh
    groups = importer.reading.placed(device_rows(importer, operation, rows)) if mesh.axes and mesh.is_static else []
    members = [device for group in groups for device in group]
    omits_devices = len(set(members)) == len(members) and set(members) < set(range(mesh.size)) and groups != [(0,)]
    if omits_devices or are_uneven(groups, mesh):
        _broadcast_to_some(importer, operation, groups)
        return
    group = group_of(importer, operation) or Group()
    attrs = {"axes": group.axes, "root": (0,) * len(group.axes)}
    emit_each(importer, operation, "broadcast", attrs, group.order)


def _has_dynamic_root(importer: Importer, operation: Operation) -> bool:
    """Whether the root of each group is an operand, which is unsupported. Reports a fault if so."""
    attribute = operation.properties.get("has_dynamic_root")
    is_dynamic = isinstance(attribute, UnitAttr) or boolean_of(attribute)
    if is_dynamic:
        hint = "without has_dynamic_root the first device of each group is the root"
        importer.fault(
            "MG0103", f"{operation.name} with a root that is known only at run time is not supported", operation, hint
        )
    return is_dynamic


def _broadcast_to_some(importer: Importer, operation: Operation, groups: Sequence[Sequence[int]]) -> None:
    """Broadcast to the devices in groups, by permutations: in step i, the first device of each group sends to the i-th
    member.

    One permutation is not enough, since a device can send to only one device in it.
    """
    builder, mesh = Builder(importer, operation), importer.reading.module.mesh
    for operand, result in zip(operation.operands, operation.results, strict=False):
        value = importer.value(operand)
        received = builder.constant(0, value.type)
        for step in range(max(map(len, groups))):
            pairs = tuple(sorted((group[0], group[step]) for group in groups if len(group) > step))
            is_target = _is_one_of(builder, mesh, [target for _, target in pairs])
            mask = builder.broadcast(is_target, value.type.shape)
            received = builder.select(mask, moved(importer, operation, value, pairs), received)
        importer.bind(result, received)


def _is_one_of(builder: Builder, mesh: Mesh, devices: Sequence[int]) -> Value:
    """Return a boolean that is true if the device that runs the program is one of `devices`."""
    return builder.entry(np.isin(np.arange(mesh.size), devices), "i1", builder.process_index(mesh.names))


def _import_collective_reduce(importer: Importer, operation: Operation) -> None:
    """Import a reduction over each group. The first device of each group gets the result, and all others get zeros."""
    rows = listed_group_rows(importer, operation)
    reducing("all_reduce")(importer, operation)
    mesh, builder = importer.reading.module.mesh, Builder(importer, operation)
    if rows is None or importer.reading.faults:
        return
    groups = importer.reading.placed(device_rows(importer, operation, rows))
    is_root = _is_one_of(builder, mesh, [group[0] for group in groups if group] or [0])
    for result in operation.results:
        value = importer.value(result)
        value.name, zeros = "", builder.constant(0, value.type)
        importer.bind(result, builder.select(builder.broadcast(is_root, value.type.shape), value, zeros))


PART = Dialect(
    importers={
        "stablehlo.collective_broadcast": _import_broadcast,
        "stablehlo.collective_reduce": _import_collective_reduce,
    }
)
