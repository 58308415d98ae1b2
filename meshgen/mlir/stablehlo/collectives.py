"""Convert StableHLO's collectives over numbered devices to nodes over mesh axes.

StableHLO numbers the devices of a program, or its replicas and partitions. Here these are the devices of the mesh in
row-major order. Replica groups become the mesh axes along which the devices form these groups, and source-target pairs
become a shift along an axis if they rotate along it. A program without a mesh runs on as many devices as it declares or
names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from meshgen.errors import ShardingError
from meshgen.ir.graph import Value
from meshgen.ir.replica_groups import are_uneven, axes_of_size, device_groups, find_axes, group_faults, moving_axes
from meshgen.mlir.arith.builder import Builder, lifted
from meshgen.mlir.attributes import integer_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.loop_values import sliced
from meshgen.mlir.shard.collectives import emit_on
from meshgen.mlir.stablehlo.attributes import ChannelHandle
from meshgen.mlir.stablehlo.reduce import applied_op
from meshgen.mlir.stablehlo.replica_group_rows import group_rows
from meshgen.mlir.stablehlo.uneven_groups import reduce_unevenly

_KINDS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "product", "and": "and", "or": "or", "xor": "xor"}  # fmt: skip
Attrs = Mapping[str, object]
# In these collectives, groups contain partition numbers if they have a channel, and replica numbers otherwise.
# In other collectives, groups may also contain device numbers.
_OF_ONE_SIDE = ("stablehlo.all_to_all", "stablehlo.collective_broadcast", "stablehlo.collective_permute")


def listed_group_rows(importer: Importer, operation: Operation) -> list[tuple[int, ...]] | None:
    """Return the rows of `replica_groups`, one per group. If they are invalid, reports a fault and returns None."""
    try:
        return group_rows(importer.reading, operation)
    except ShardingError as error:
        importer.reading.refuse(error.diagnostics, operation, f"{operation.name}: ")
        return None


def has_mesh(importer: Importer, operation: Operation) -> bool:
    """Whether the number of devices is known. Reports a fault if an axis of the mesh has an unknown size."""
    mesh = importer.reading.module.mesh
    if not mesh.is_static:
        importer.fault("MG0201", f"{operation.name}: {mesh} has axes of unknown size", operation)
    return mesh.is_static


class Group(NamedTuple):
    """The mesh axes along which the groups of a collective run, if the devices are first permuted.

    Attributes:
        order: the device at each position of the mesh after the permutation; empty if the devices are not permuted.
    """

    axes: tuple[str, ...] = ()
    order: tuple[int, ...] = ()


def group_of(importer: Importer, operation: Operation, is_ordered: bool = True) -> Group | None:
    """Return the groups of a collective as mesh axes. If they are invalid, reports a fault and returns None.

    In a program with one replica, the groups [[0]] with a channel mean one group of all devices. If no mesh axes have
    the groups, the devices are permuted so that axes of the same size have them. Unless `is_ordered`, the order of the
    devices within a group does not matter.
    """
    if not has_mesh(importer, operation):
        return None
    mesh, rows = importer.reading.module.mesh, listed_group_rows(importer, operation)
    if rows is None:
        return None
    is_one = importer.reading.replicas == 1
    if rows in ([], [(0,)]) and (mesh.size == 1 or (is_one and is_across(operation))):
        return Group(mesh.names)
    groups = importer.reading.placed(device_rows(importer, operation, rows))
    if message := group_faults(groups, mesh):
        hint = "groups of all_reduce and collective_broadcast may have different sizes: their results have the operand's shape"
        importer.fault("MG0104", f"{operation.name}: {message}", operation, hint if are_uneven(groups, mesh) else "")
        return None
    axes = find_axes(groups, mesh)
    if axes is None and not is_ordered:
        axes = find_axes([tuple(sorted(group)) for group in groups], mesh)
    if axes is not None:
        return Group(axes)
    along = axes_of_size(len(groups[0]), mesh)
    pairs = zip(mesh.groups(along), groups, strict=True)
    order = {position: device for positions, group in pairs for position, device in zip(positions, group, strict=True)}
    return Group(along, tuple(order[position] for position in range(mesh.size)))


def _uneven_groups(importer: Importer, operation: Operation) -> list[tuple[int, ...]]:
    """Return the groups of a collective as mesh positions if they have different sizes, else []."""
    mesh, rows = importer.reading.module.mesh, listed_group_rows(importer, operation) or []
    groups = importer.reading.placed(device_rows(importer, operation, rows)) if mesh.is_static else []
    return groups if are_uneven(groups, mesh) else []


def device_rows(importer: Importer, operation: Operation, rows: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Convert groups of replica, partition or device numbers to groups of device numbers, without the padding (-1).

    If there is only one replica, or one partition per replica, a number that is too large for a replica or partition is
    a device number.
    """
    unpadded = [tuple(number for number in row if number >= 0) for row in rows]
    mesh, replicas = importer.reading.module.mesh, importer.reading.replicas
    partitions = mesh.size // replicas
    across = is_across(operation)
    if operation.name in _OF_ONE_SIDE:
        numbering = "partitions" if across else "replicas"
    else:
        is_global = operation.properties.get("use_global_device_ids") is not None
        numbering = "devices" if across and is_global else "both" if across else "replicas"
    largest = max((number for row in unpadded for number in row), default=0)
    if min(replicas, partitions) == 1 and largest >= (partitions if numbering == "partitions" else replicas):
        return unpadded
    return device_groups(unpadded, replicas, partitions, numbering)


def is_across(operation: Operation) -> bool:
    """Whether a collective communicates across partitions, which it does if it has a channel."""
    handle = operation.properties.get("channel_handle")
    return isinstance(handle, ChannelHandle) and handle.integer("handle") > 0


def emit_each(importer: Importer, operation: Operation, name: str, attrs: Attrs, order: Sequence[int] = (),
              operands: Sequence[SSAValue] | None = None, results: Sequence[SSAValue] | None = None) -> None:  # fmt: skip
    """Emit the collective `name` on each of `operands`, by default all operands, and bind `results`.

    If `order` is not empty, the values are moved to these devices before the collective and back after it.
    """
    to_order = tuple(sorted((device, position) for position, device in enumerate(order)))
    from_order = tuple((position, device) for position, device in enumerate(order))
    for operand, result in zip(operands or operation.operands, results or operation.results, strict=True):
        value, kind = importer.value(operand), importer.type(result)
        sharding = importer.reading.sharding(result.type, result)
        value = moved(importer, operation, value, to_order)
        moved_result = emit_on(importer, operation, value, name, attrs, kind, sharding)
        importer.bind(result, moved(importer, operation, moved_result, from_order))


def moved(importer: Importer, operation: Operation, value: Value, pairs: tuple[tuple[int, int], ...]) -> Value:
    """Return `value` after each device of `pairs` has sent it: pairs are (source device, target device)."""
    if not pairs:
        return value
    attrs = {"axes": moving_axes(pairs, importer.reading.module.mesh), "pairs": pairs}
    return emit_on(importer, operation, value, "permute_pairs", attrs, value.type, value.sharding)


def _grouped(name: str, attrs_of: Callable[[Importer, Operation], Attrs]) -> Callable[[Importer, Operation], None]:
    """Return the importer of a collective over groups that becomes the node `name`."""

    def import_grouped(importer: Importer, operation: Operation) -> None:
        if (group := group_of(importer, operation)) is None:
            importer.bind_placeholders(operation)
            return
        emit_each(importer, operation, name, {"axes": group.axes, **attrs_of(importer, operation)}, group.order)

    return import_grouped


def reducing(name: str) -> Callable[[Importer, Operation], None]:
    """Return the importer of a reducing collective that becomes the node `name`.

    Unless its region is a reduction that the node supports, each device gathers the operands and evaluates the region.
    """

    def import_reducing(importer: Importer, operation: Operation) -> None:
        applied = applied_op(operation.regions[0])
        kind = applied and _KINDS[applied.name.partition(".")[2]]
        if name == "all_reduce" and (groups := _uneven_groups(importer, operation)):
            reduce_unevenly(importer, operation, groups, kind)
            return
        if (group := group_of(importer, operation, name == "reduce_scatter" or kind is None)) is None:
            importer.bind_placeholders(operation)
            return
        attrs = {"dim": _integer(operation, "scatter_dimension")} if name == "reduce_scatter" else {}
        if kind is not None:
            emit_each(importer, operation, name, {"axes": group.axes, "kind": kind, **attrs}, group.order)
        else:
            _fold_each(importer, operation, group, attrs)

    return import_reducing


def _fold_each(importer: Importer, operation: Operation, group: Group, attrs: Attrs) -> None:
    """Import a reduction with an arbitrary region: every device gathers the operands of its group and folds them in
    group order.
    """
    body, captures = importer.region(operation.regions[0])
    order, mesh = group.order, importer.reading.module.mesh
    builder = Builder(importer, operation)
    for operand, result in zip(operation.operands, operation.results, strict=False):
        value = importer.value(operand)
        importer.bind(result, Value(importer.type(result)))
        if len(body.inputs) != 2 or captures or None in value.type.shape:
            message = f"{operation.name}: its region is not a known reduction, and cannot be applied to {value.type}"
            hint = f"use a region of one {', '.join(_KINDS)}, or of element-wise operations on its two arguments"
            importer.fault("MG0103", message, operation, hint)
            return
        value = moved(
            importer, operation, value, tuple(sorted((device, position) for position, device in enumerate(order)))
        )
        parts = _group_operands(builder, value, group.axes, mesh.group_size(group.axes))
        folded: Value | str = parts[0]
        for part in parts[1:]:
            folded = lifted(builder, body, [folded, part]) if isinstance(folded, Value) else folded
        if isinstance(folded, str):
            importer.fault("MG0103", f"{operation.name}: '{folded}' in its region is not supported", operation)
            return
        if attrs:
            folded = builder.emit("all_slice", [folded], importer.type(result), axes=group.axes, **attrs)
        importer.bind(result, moved(importer, operation, folded, tuple(enumerate(order))))


def _group_operands(builder: Builder, value: Value, axes: tuple[str, ...], count: int) -> list[Value]:
    """Return the operands of all `count` devices in the device's group, which an all_gather collects."""
    shape = value.type.sizes
    single_row = builder.reshape(value, (1, *shape))
    gathered = builder.emit("all_gather", [single_row], value.type.with_shape((count, *shape)), axes=axes, dim=0)
    ends = [0] * len(shape)
    rows = [sliced(builder, gathered, [n, *ends], [n + 1, *shape], [1] * (len(shape) + 1)) for n in range(count)]
    return [builder.reshape(row, shape) for row in rows]


def _all_gather_attrs(importer: Importer, operation: Operation) -> Attrs:
    return {"dim": _integer(operation, "all_gather_dim")}


def _all_to_all_attrs(importer: Importer, operation: Operation) -> Attrs:
    count, groups = _integer(operation, "split_count"), listed_group_rows(importer, operation)
    if groups and count != len(groups[0]) and groups != [(0,)]:
        message = f"{operation.name}: split_count is {count}, but a group has {len(groups[0])} devices"
        importer.fault("MG0104", message, operation)
    return {"split_dim": _integer(operation, "split_dimension"), "concat_dim": _integer(operation, "concat_dimension")}


def _integer(operation: Operation, name: str) -> int:
    return integer_of(operation.properties[name])


PART = Dialect(
    importers={
        "stablehlo.all_reduce": reducing("all_reduce"),
        "stablehlo.all_gather": _grouped("all_gather", _all_gather_attrs),
        "stablehlo.reduce_scatter": reducing("reduce_scatter"),
        "stablehlo.all_to_all": _grouped("all_to_all", _all_to_all_attrs),
    }
)
