"""StableHLO's collectives with a root, the first device of each group: `collective_broadcast` and `collective_reduce`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation

from meshgen.ir.graph import Value
from meshgen.ir.replica_groups import are_uneven
from meshgen.mesh import Mesh
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.attributes import boolean_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.collectives import Group, device_rows, emit_each, group_of, moved, reducing, rows_in


def _import_broadcast(importer: Importer, operation: Operation) -> None:
    """From the first device of each group; who is in none has zeros."""
    rows = None if _has_root_at_run_time(importer, operation) else rows_in(importer, operation)
    if rows is None:
        importer.bind_unknown(operation)
        return
    mesh = importer.reading.module.mesh
    groups = importer.reading.placed(device_rows(importer, operation, rows)) if mesh.axes and mesh.is_static else []
    members = [device for group in groups for device in group]
    is_part = len(set(members)) == len(members) and set(members) < set(range(mesh.size)) and groups != [(0,)]
    if is_part or are_uneven(groups, mesh):
        _broadcast_to_some(importer, operation, groups)
        return
    group = group_of(importer, operation) or Group()
    attrs = {"axes": group.axes, "root": (0,) * len(group.axes)}
    emit_each(importer, operation, "broadcast", attrs, group.order)


def _has_root_at_run_time(importer: Importer, operation: Operation) -> bool:
    """Whether an operand says which device of a group is the root; a fault where it does."""
    said = operation.properties.get("has_dynamic_root")
    found = isinstance(said, UnitAttr) or boolean_of(said)
    if found:
        hint = "without has_dynamic_root the first device of each group is the root"
        importer.fault(
            "MG0103", f"{operation.name} with a root that is known only at run time is not supported", operation, hint
        )
    return found


def _broadcast_to_some(importer: Importer, operation: Operation, groups: Sequence[Sequence[int]]) -> None:
    """The first of each group sends to one member after the other: a device sends once in each step."""
    builder, mesh = Builder(importer, operation), importer.reading.module.mesh
    for operand, result in zip(operation.operands, operation.results, strict=False):
        value = importer.value(operand)
        found = builder.constant(0, value.type)
        for step in range(max(map(len, groups))):
            pairs = tuple(sorted((group[0], group[step]) for group in groups if len(group) > step))
            taken = _is_one_of(builder, mesh, [target for _, target in pairs])
            here = builder.broadcast(taken, value.type.shape)
            found = builder.select(here, moved(importer, operation, value, pairs), found)
        importer.bind(result, found)


def _is_one_of(builder: Builder, mesh: Mesh, places: Sequence[int]) -> Value:
    """Whether a device is at one of these places."""
    return builder.entry(np.isin(np.arange(mesh.size), places), "i1", builder.process_index(mesh.names))


def _import_collective_reduce(importer: Importer, operation: Operation) -> None:
    """The reduced operands of a group on its first device; zeros on the others."""
    rows = rows_in(importer, operation)
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
