"""Combine the candidates that the devices of a group found: on all of them, or on each for a share of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshgen.ccl.cost import collective_seconds
from meshgen.ir.graph import TensorType, Value
from meshgen.sharding.partitioners.builder import LocalBuilder
from meshgen.sharding.partitioners.registry import Site

Finish = Callable[
    [list[Value]], list[Value]
]  # from candidates [rows, candidates of all devices] to results [rows, ...]


def finished(site: Site, found: Sequence[Value], axes: tuple[str, ...], finish: Finish, each: int) -> list[Value]:
    """The results for all rows, on every device of the group.

    Each device finishes a share of the rows and all gather the results if that takes less time than gathering all
    candidates: it moves 2 (n - 1) / n instead of n - 1 times the candidates of a device, in twice as many messages.

    Args:
        found: per operand the device's candidates, the last dim; all dims before are rows.
        finish: from the candidates of all devices, in the group's order, for some rows, to the results.
        each: number of results per row; 0: the results have no such dim.
    """
    builder, count = site.builder, site.mesh.group_size(axes)
    *outer, width = found[0].type.sizes
    rows = math.prod(outer)
    share = -(-rows // count)
    packs = _Packs.of(builder, [builder.shaped(value, (1, rows, width)) for value in found])
    if packs.gather_seconds(axes) <= packs.share_seconds(axes, share, max(each, 1)):
        why = site.why("candidates of other tiles")
        results = finish(packs.unpacked([_gathered(builder, value, 2, axes, why) for value in packs.values]))
    else:
        why = site.why("candidates of other tiles for its share of the rows")
        padded = [_padded(builder, value, share * count) for value in packs.values]
        shares = finish(packs.unpacked([_exchanged(builder, value, axes, why) for value in padded]))
        why = site.why("the results of the other rows")
        results = [_cut(builder, _gathered(builder, value, 0, axes, why), rows) for value in shares]
    return [builder.shaped(value, (*outer, *value.type.sizes[1:])) for value in results]


@dataclass(frozen=True)
class _Packs:
    """Candidates one after the other: those of one element type are exchanged in one message.

    Attributes:
        values: one per element type, [operands of the type, rows, width].
        numbers: the operands of each of `values`.
    """

    builder: LocalBuilder
    values: list[Value]
    numbers: list[list[int]]

    @classmethod
    def of(cls, builder: LocalBuilder, found: Sequence[Value]) -> _Packs:
        """Pack candidates, each [1, rows, width]."""
        numbers: dict[str, list[int]] = {}
        for number, value in enumerate(found):
            numbers.setdefault(value.type.dtype, []).append(number)
        groups = [*numbers.values()]
        return cls(builder, [_concatenated(builder, [found[n] for n in group]) for group in groups], groups)

    def unpacked(self, whole: Sequence[Value]) -> list[Value]:
        """The candidates of all devices per operand, [rows, width], from what is made of `values`."""
        found: dict[int, Value] = {}
        for value, numbers in zip(whole, self.numbers, strict=True):
            for place, number in enumerate(numbers):
                one = value if len(numbers) == 1 else self.builder.rows(value, 0, place, place + 1)
                found[number] = self.builder.reshape(one, value.type.sizes[1:])
        return [found[number] for number in sorted(found)]

    def gather_seconds(self, axes: tuple[str, ...]) -> float:
        """The time to gather all candidates."""
        return sum(self._seconds("all_gather", value.type, value.type, axes, dim=2) for value in self.values)

    def share_seconds(self, axes: tuple[str, ...], share: int, results: int) -> float:
        """The time to exchange the candidates of shares of the rows, and to gather as many results per row of each operand."""
        seconds, devices = 0.0, self.builder.mesh.group_size(axes)
        for kind in (value.type for value in self.values):
            operands, _, width = kind.sizes
            before, after = (operands, share * devices, width), (operands, share, width * devices)
            exchanged = kind.with_shape(before), kind.with_shape(after)
            seconds += self._seconds("all_to_all", *exchanged, axes, split_dim=1, concat_dim=2)
            finished = kind.with_shape((share, results * operands))
            seconds += self._seconds("all_gather", finished, finished, axes, dim=0)
        return seconds

    def _seconds(self, op: str, before: TensorType, after: TensorType, axes: tuple[str, ...], **attrs: int) -> float:
        return collective_seconds(op, {"axes": axes, **attrs}, before, after, self.builder.mesh)


def _concatenated(builder: LocalBuilder, values: Sequence[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    kind = values[0].type.with_shape((len(values), *values[0].type.sizes[1:]))
    return builder.emit("concatenate", values, kind, dim=0)


def _gathered(builder: LocalBuilder, value: Value, dim: int, axes: tuple[str, ...], why: str) -> Value:
    count = builder.mesh.group_size(axes)
    full = value.type.with_shape(size * count if d == dim else size for d, size in enumerate(value.type.sizes))
    return builder.communicate("all_gather", value, full, why, axes=axes, dim=dim)


def _exchanged(builder: LocalBuilder, value: Value, axes: tuple[str, ...], why: str) -> Value:
    """The candidates of all devices for the device's share of the rows."""
    (operands, rows, width), count = value.type.sizes, builder.mesh.group_size(axes)
    kind = value.type.with_shape((operands, -(-rows // count), width * count))  # shares are equal: rows are rounded up
    return builder.communicate("all_to_all", value, kind, why, axes=axes, split_dim=1, concat_dim=2)


def _padded(builder: LocalBuilder, value: Value, rows: int) -> Value:
    """The value with unused rows appended, so that all shares are equal."""
    more = rows - value.type.sizes[1]
    if not more:
        return value
    zero = builder.splat(0, TensorType((), value.type.dtype))
    return builder.pad(value, zero, (0, 0, 0), (0, more, 0))


def _cut(builder: LocalBuilder, value: Value, rows: int) -> Value:
    return value if value.type.sizes[0] == rows else builder.rows(value, 0, 0, rows)
