"""Reductions over replica groups of different sizes. No mesh axes have such groups, so all devices share one
collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.mlir.arith.builder import Builder, lifted
from meshgen.mlir.conversion import Importer
from meshgen.ops.evaluate.common import neutral

_INDEX = TensorType((), "i32")


@dataclass(frozen=True)
class UnevenGroups:
    """A partition of the devices of a mesh into groups of different sizes. A device is numbered by its mesh position."""

    groups: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]  # all axes of the mesh

    @property
    def count(self) -> int:
        return sum(map(len, self.groups))

    def reduced(self, builder: Builder, value: Value, kind: str) -> Value:
        """Return the reduction of `value` over the group of the device that runs the program.

        All devices reduce one tensor that has a row per group. A device puts its value into the row of its group and
        neutral elements into the others. A device that is alone in its group keeps its value, and its group has no row.
        """
        row_groups = [group for group in self.groups if len(group) > 1]
        shape = value.type.sizes
        rows = value.type.with_shape((len(row_groups), *shape))
        # The group of a single device has no row: its row index is past the last row, where no row is selected.
        single_devices = {group[0]: len(row_groups) for group in self.groups if len(group) == 1}
        own_row = self._per_device_number(
            builder, {device: row for row, group in enumerate(row_groups) for device in group} | single_devices
        )
        is_own = builder.compare("EQ", builder.emit("iota", [], TensorType((len(row_groups),), "i32"), dim=0), own_row)
        filled = builder.select(
            builder.broadcast(is_own, rows.shape, [0]),
            builder.broadcast(value, rows.shape, range(1, 1 + len(shape))),
            builder.constant(neutral(kind, value.type.dtype).item(), rows),
        )
        sums = builder.emit("all_reduce", [filled], rows, axes=self.axes, kind=kind)
        return self._select_on(builder, single_devices, value, _row(builder, sums, own_row))

    def folded(self, builder: Builder, value: Value, body: Graph) -> Value | str:
        """Return the values of all devices in the device's group, folded in group order by the region `body`.

        If the region contains an unsupported operation, returns the name of the operation.
        """
        single_row = builder.reshape(value, (1, *value.type.sizes))
        kind = value.type.with_shape((self.count, *value.type.sizes))
        gathered = builder.emit("all_gather", [single_row], kind, axes=self.axes, dim=0)
        accumulated: Value | None = None
        for step in range(max(map(len, self.groups))):
            table = {device: group[step] for group in self.groups if len(group) > step for device in group}
            member = _row(builder, gathered, self._per_device_number(builder, table))
            if accumulated is None:
                accumulated = member
                continue
            folded = lifted(builder, body, [accumulated, member])
            if isinstance(folded, str):
                return folded
            accumulated = self._select_on(builder, dict.fromkeys(table, 1), folded, accumulated)
        assert accumulated is not None
        return accumulated

    def _per_device_number(self, builder: Builder, table: dict[int, int]) -> Value:
        """Return the entry of `table` for the device that runs the program, or 0 if there is none."""
        numbers = np.array([table.get(device, 0) for device in range(self.count)], np.int32)
        return builder.entry(numbers, "i32", builder.process_index(self.axes))

    def _select_on(self, builder: Builder, table: dict[int, int], left: Value, right: Value) -> Value:
        """Return `left` on devices whose entry in `table` is nonzero, and `right` on all others."""
        if not table:
            return right
        flag = builder.compare("NE", self._per_device_number(builder, table), builder.constant(0, _INDEX))
        return builder.select(builder.broadcast(flag, left.type.shape), left, right)


def reduce_unevenly(
    importer: Importer, operation: Operation, groups: Sequence[Sequence[int]], kind: str | None
) -> None:
    """Import a reduction over groups of different sizes.

    `kind` is the reduction kind, or None if the region of the operation defines the reduction.
    """
    builder = Builder(importer, operation)
    uneven = UnevenGroups(tuple(map(tuple, groups)), importer.reading.module.mesh.names)
    body, captures = importer.region(operation.regions[0]) if kind is None else (Graph(""), [])
    for operand, result in zip(operation.operands, operation.results, strict=False):
        value = builder.convert(importer.value(operand), importer.type(result).dtype)
        reduced: Value | str = "its region"
        if None in value.type.shape:
            reduced = f"a tensor of unknown size, {value.type}"
        elif kind is not None:
            reduced = uneven.reduced(builder, value, kind)
        elif len(body.inputs) == 2 and not captures:
            reduced = uneven.folded(builder, value, body)
        if isinstance(reduced, str):
            hint = "use element-wise operations on the two arguments of the region, and known sizes"
            importer.fault("MG0103", f"{operation.name}: {reduced} is not supported over groups of different sizes", operation, hint)  # fmt: skip
            reduced = Value(importer.type(result))
        importer.bind(result, reduced)


def _row(builder: Builder, value: Value, row: Value) -> Value:
    """Return row `row` of a tensor, without the row dim."""
    shape = value.type.sizes[1:]
    zero = builder.constant(0, _INDEX)
    sizes = (1, *shape)
    row_slice = builder.emit(
        "dynamic_slice", [value, row, *[zero] * len(shape)], value.type.with_shape(sizes), slice_sizes=sizes
    )
    return builder.reshape(row_slice, shape)
