"""StableHLO's collectives as nodes over mesh axes.

StableHLO numbers the devices of a program; here they are the devices of its mesh, row-major. Replica groups become
the axes whose groups they are, and pairs a shift along an axis where they are one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import Attribute, Operation

from meshgen.ir.bridge.conversion import Importer
from meshgen.ir.bridge.registries import imports
from meshgen.ir.bridge.shard.collectives import emit_on
from meshgen.ir.dense import DenseElements
from meshgen.ir.dialects.stablehlo.attributes import ChannelHandle, integer_of
from meshgen.ir.dialects.stablehlo.reduce import applied_op
from meshgen.ir.graph import TensorType
from meshgen.ir.replica_groups import find_axes, find_shift, group_faults, moving_axes, pair_faults

_KINDS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "product", "and": "and", "or": "or", "xor": "xor"}  # fmt: skip
Attrs = Mapping[str, object]
_NO_MESH = 'declare the devices: sdy.mesh @mesh = <["x"=8]>'


def _rows(attribute: Attribute) -> list[tuple[int, ...]]:
    """The rows of a dense matrix of integers."""
    if not isinstance(attribute, DenseElements):
        return []
    array = attribute.data.array
    return [tuple(int(n) for n in row) for row in array] if array.ndim == 2 else []


def _has_mesh(importer: Importer, operation: Operation) -> bool:
    mesh = importer.reading.module.mesh
    if not mesh.axes:
        importer.fault("MG0201", f"{operation.name}: the program declares no mesh", operation, _NO_MESH)
    elif not mesh.is_static:
        importer.fault("MG0201", f"{operation.name}: {mesh} has axes of unknown size", operation)
    return mesh.is_static and bool(mesh.axes)


def _group_axes(importer: Importer, operation: Operation) -> tuple[str, ...] | None:
    """The axes of a collective's groups; collects a fault where there are none.

    Groups of replicas, [[0]], on a channel mean all devices: programs over a mesh have one replica.
    """
    if not _has_mesh(importer, operation):
        return None
    mesh, rows = importer.reading.module.mesh, _rows(operation.properties["replica_groups"])
    groups = importer.reading.placed(rows)
    if rows in ([], [(0,)]) and (_is_across(operation) or mesh.size == 1):
        return mesh.names
    if message := group_faults(groups, mesh):
        importer.fault("MG0104", f"{operation.name}: {message}", operation)
        return None
    axes = find_axes(groups, mesh)
    if axes is None:
        shown = ", ".join(str(list(group)) for group in groups[:4]) + (", ..." if len(groups) > 4 else "")
        hint = "a collective is over axes of the mesh, or over parts of them"
        importer.fault("MG0103", f"{operation.name}: no axes of {mesh} have the groups {shown}", operation, hint)
    return axes


def _is_across(operation: Operation) -> bool:
    """Whether a collective is across partitions: on a channel."""
    handle = operation.properties.get("channel_handle")
    return isinstance(handle, ChannelHandle) and handle.integer("handle") > 0


def _emit_each(importer: Importer, operation: Operation, name: str, attrs: Attrs) -> None:
    """A node per operand."""
    if len(operation.operands) != len(operation.results):
        message = f"{operation.name}: {len(operation.operands)} operands, but {len(operation.results)} results"
        importer.fault("MG0104", message, operation)
        return
    for operand, result in zip(operation.operands, operation.results, strict=True):
        value = importer.value(operand)
        sharding = importer.reading.sharding(result.type, result)
        importer.bind(result, emit_on(importer, operation, value, name, attrs, importer.type(result), sharding))


def _grouped(name: str, attrs_of: Callable[[Importer, Operation], Attrs]) -> Callable[[Importer, Operation], None]:
    """The importer of a collective in groups."""

    def import_grouped(importer: Importer, operation: Operation) -> None:
        axes, attrs = _group_axes(importer, operation), attrs_of(importer, operation)
        _emit_each(importer, operation, name, {"axes": axes or (), **attrs})

    return import_grouped


def _reduction(importer: Importer, operation: Operation) -> dict[str, object]:
    applied = applied_op(operation.regions[0])
    if applied is None:
        hint = f"a region of one {', '.join(_KINDS)} can be"
        importer.fault("MG0103", f"{operation.name}: its region is no known reduction", operation, hint)
    return {"kind": _KINDS[applied.name.partition(".")[2]] if applied else "sum"}


def _scattered(importer: Importer, operation: Operation) -> Attrs:
    return {"dim": _integer(operation, "scatter_dimension"), **_reduction(importer, operation)}


def _gathered(importer: Importer, operation: Operation) -> Attrs:
    return {"dim": _integer(operation, "all_gather_dim")}


def _exchanged(importer: Importer, operation: Operation) -> Attrs:
    count, groups = _integer(operation, "split_count"), _rows(operation.properties["replica_groups"])
    if groups and count != len(groups[0]) and groups != [(0,)]:
        message = f"{operation.name}: split_count is {count}, but a group has {len(groups[0])} devices"
        importer.fault("MG0104", message, operation)
    return {"split_dim": _integer(operation, "split_dimension"), "concat_dim": _integer(operation, "concat_dimension")}


def _integer(operation: Operation, name: str) -> int:
    return integer_of(operation.properties[name])


imports("stablehlo.all_reduce")(_grouped("all_reduce", _reduction))
imports("stablehlo.all_gather")(_grouped("all_gather", _gathered))
imports("stablehlo.reduce_scatter")(_grouped("reduce_scatter", _scattered))
imports("stablehlo.all_to_all")(_grouped("all_to_all", _exchanged))


@imports("stablehlo.collective_broadcast")
def _import_broadcast(importer: Importer, operation: Operation) -> None:
    """From the first device of each group."""
    axes = _group_axes(importer, operation) or ()
    _emit_each(importer, operation, "broadcast", {"axes": axes, "root": (0,) * len(axes)})


@imports("stablehlo.collective_permute")
def _import_permute(importer: Importer, operation: Operation) -> None:
    """A rotation along an axis is a shift; who receives nothing has zeros, so nothing else is."""
    if not _has_mesh(importer, operation):
        _emit_each(importer, operation, "permute_pairs", {"axes": (), "pairs": ()})
        return
    mesh = importer.reading.module.mesh
    rows = importer.reading.placed(_rows(operation.properties["source_target_pairs"]))
    pairs = tuple(sorted((row[0], row[1]) for row in rows if len(row) == 2))
    if message := pair_faults(pairs, mesh.size) if len(pairs) == len(rows) else "pairs have two devices":
        importer.fault("MG0104", f"{operation.name}: {message}", operation)
    elif (shift := find_shift(pairs, mesh)) is not None:
        attrs = {"axes": (shift[0],), "shift_axis": shift[0], "offset": shift[1], "rotate": True}
        _emit_each(importer, operation, "shift", attrs)
        return
    axes = () if message else moving_axes(pairs, mesh)
    _emit_each(importer, operation, "permute_pairs", {"axes": axes, "pairs": pairs})


@imports("stablehlo.partition_id")
def _import_partition_id(importer: Importer, operation: Operation) -> None:
    """The device's number, which is its place in the mesh where that does not order its devices otherwise."""
    axes = importer.reading.module.mesh.names if _has_mesh(importer, operation) else ()
    scalar, order = TensorType((), "i32"), importer.reading.order
    (index,) = importer.emit("process_index", [], [scalar], {"axes": axes}, operation)
    if order:
        numbers, one = np.asarray(order, np.int32), TensorType((1,), "i32")
        (table,) = importer.emit("constant", [], [scalar.with_shape((len(order),))], {"value": numbers}, operation)
        (found,) = importer.emit("dynamic_slice", [table, index], [one], {"slice_sizes": (1,)}, operation)
        (index,) = importer.emit("reshape", [found], [scalar], {}, operation)
    (number,) = importer.emit("convert", [index], [importer.type(operation.results[0])], {}, operation)
    importer.bind(operation.results[0], number)
