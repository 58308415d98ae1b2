"""Reductions over replica groups of different sizes, which no axes of a mesh have: one collective over all devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.mlir.arith.payload import Builder, lifted
from meshgen.mlir.conversion import Importer
from meshgen.ops.evaluate.common import neutral

_INDEX = TensorType((), "i32")


@dataclass(frozen=True)
class UnevenGroups:
    """Every device of the mesh, by its place, is in one of the groups."""

    groups: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]  # those of the mesh

    @property
    def count(self) -> int:
        return sum(map(len, self.groups))

    def reduced(self, builder: Builder, value: Value, kind: str) -> Value:
        """The reduced operands of the device's group: each group has a row of one tensor that all devices reduce.

        A device puts neutral elements into the rows of other groups. One that is alone keeps its own, without a row.
        """
        shared = [group for group in self.groups if len(group) > 1]
        shape = value.type.sizes
        rows = value.type.with_shape((len(shared), *shape))
        alone = {group[0]: len(shared) for group in self.groups if len(group) == 1}  # no row has that number
        own = self._per_device_number(
            builder, {place: row for row, group in enumerate(shared) for place in group} | alone
        )
        is_own = builder.compare("EQ", builder.emit("iota", [], TensorType((len(shared),), "i32"), dim=0), own)
        filled = builder.select(
            builder.broadcast(is_own, rows.shape, [0]),
            builder.broadcast(value, rows.shape, range(1, 1 + len(shape))),
            builder.constant(neutral(kind, value.type.dtype).item(), rows),
        )
        sums = builder.emit("all_reduce", [filled], rows, axes=self.axes, kind=kind)
        return self._either(builder, alone, value, _row(builder, sums, own))

    def folded(self, builder: Builder, value: Value, body: Graph) -> Value | str:
        """The operands of the device's group, folded in its order by a region; else the unsupported operation."""
        one = builder.reshape(value, (1, *value.type.sizes))
        kind = value.type.with_shape((self.count, *value.type.sizes))
        whole = builder.emit("all_gather", [one], kind, axes=self.axes, dim=0)
        found: Value | None = None
        for step in range(max(map(len, self.groups))):
            table = {place: group[step] for group in self.groups if len(group) > step for place in group}
            member = _row(builder, whole, self._per_device_number(builder, table))
            if found is None:
                found = member
                continue
            after = lifted(builder, body, [found, member])
            if isinstance(after, str):
                return after
            found = self._either(builder, dict.fromkeys(table, 1), after, found)
        assert found is not None
        return found

    def _per_device_number(self, builder: Builder, table: dict[int, int]) -> Value:
        """The number that the table has for the device; 0 where it has none."""
        numbers = np.array([table.get(place, 0) for place in range(self.count)], np.int32)
        return builder.entry(numbers, "i32", builder.process_index(self.axes))

    def _either(self, builder: Builder, table: dict[int, int], left: Value, right: Value) -> Value:
        """The left value on the devices of the table, whose numbers are not 0, the right one on the others."""
        if not table:
            return right
        flag = builder.compare("NE", self._per_device_number(builder, table), builder.constant(0, _INDEX))
        return builder.select(builder.broadcast(flag, left.type.shape), left, right)


def reduce_unevenly(
    importer: Importer, operation: Operation, groups: Sequence[Sequence[int]], kind: str | None
) -> None:
    """Bind the results of a reduction over groups of different sizes; `kind` is None where its region says something else."""
    builder = Builder(importer, operation)
    uneven = UnevenGroups(tuple(map(tuple, groups)), importer.reading.module.mesh.names)
    body, captures = importer.region(operation.regions[0]) if kind is None else (Graph(""), [])
    for operand, result in zip(operation.operands, operation.results, strict=False):
        value = builder.convert(importer.value(operand), importer.type(result).dtype)
        found: Value | str = "its region"
        if None in value.type.shape:
            found = f"a tensor of unknown size, {value.type}"
        elif kind is not None:
            found = uneven.reduced(builder, value, kind)
        elif len(body.inputs) == 2 and not captures:
            found = uneven.folded(builder, value, body)
        if isinstance(found, str):
            hint = "use element-wise operations on the two arguments of the region, and known sizes"
            importer.fault("MG0103", f"{operation.name}: {found} is not supported over groups of different sizes", operation, hint)  # fmt: skip
            found = Value(importer.type(result))
        importer.bind(result, found)


def _row(builder: Builder, value: Value, row: Value) -> Value:
    """One row of a tensor, without the dim of rows."""
    shape = value.type.sizes[1:]
    zero = builder.constant(0, _INDEX)
    sizes = (1, *shape)
    cut = builder.emit(
        "dynamic_slice", [value, row, *[zero] * len(shape)], value.type.with_shape(sizes), slice_sizes=sizes
    )
    return builder.reshape(cut, shape)
