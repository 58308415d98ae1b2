"""Combine the candidates that the devices of a group computed, either all rows on every device or a share of the rows
on each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshgen.ccl.cost import collective_seconds
from meshgen.ir.graph import TensorType, Value
from meshgen.sharding.partitioners.builder import LocalBuilder
from meshgen.sharding.partitioners.registry import Site

Finish = Callable[[list[Value]], list[Value]]
"""Computes results [rows, ...] from candidates [rows, candidates of all devices]."""


def combine_candidates(
    site: Site, candidates: Sequence[Value], axes: tuple[str, ...], finish: Finish, results_per_row: int
) -> list[Value]:
    """Return the results for all rows, on every device of the group.

    There are two plans. Either all devices gather all candidates, or each device finishes a share of the rows and all
    gather the results. The second plan moves 2 (n - 1) / n instead of n - 1 times the candidates of a device, in twice
    as many messages. The faster plan is chosen.

    Args:
        candidates: the device's candidates for each operand. The last dim runs over candidates; all other dims are
            rows.
        finish: computes the results of some rows from the candidates of all devices, in the order of the group.
        results_per_row: number of results per row, or 0 if the results have no last dim for them.
    """
    builder, count = site.builder, site.mesh.group_size(axes)
    *outer, width = candidates[0].type.sizes
    rows = math.prod(outer)
    share = -(-rows // count)
    packs = _Packs.of(builder, [builder.shaped(value, (1, rows, width)) for value in candidates])
    if packs.gather_seconds(axes) <= packs.share_seconds(axes, share, max(results_per_row, 1)):
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
    """Candidates, concatenated per element type, so that each type is exchanged in one message.

    Attributes:
        values: one per element type, [operands of the type, rows, width].
        numbers: the operand indices in each of `values`.
    """

    builder: LocalBuilder
    values: list[Value]
    numbers: list[list[int]]

    @classmethod
    def of(cls, builder: LocalBuilder, candidates: Sequence[Value]) -> _Packs:
        """Pack candidates, each of shape [1, rows, width]."""
        numbers: dict[str, list[int]] = {}
        for index, value in enumerate(candidates):
            numbers.setdefault(value.type.dtype, []).append(index)
        groups = [*numbers.values()]
        return cls(builder, [_concatenated(builder, [candidates[n] for n in group]) for group in groups], groups)

    def unpacked(self, exchanged: Sequence[Value]) -> list[Value]:
        """Return the candidates of all devices, [rows, width] per operand, given the exchanged packs."""
        unpacked: dict[int, Value] = {}
        for value, numbers in zip(exchanged, self.numbers, strict=True):
            for position, number in enumerate(numbers):
                candidates = value if len(numbers) == 1 else self.builder.rows(value, 0, position, position + 1)
                unpacked[number] = self.builder.reshape(candidates, value.type.sizes[1:])
        return [unpacked[number] for number in sorted(unpacked)]

    def gather_seconds(self, axes: tuple[str, ...]) -> float:
        """Return the time to gather all candidates."""
        return sum(self._seconds("all_gather", value.type, value.type, axes, dim=2) for value in self.values)

    def share_seconds(self, axes: tuple[str, ...], share: int, results: int) -> float:
        """Return the seconds to exchange the candidates of `share` rows, and then to gather `results` per row and
        operand.
        """
        seconds, devices = 0.0, self.builder.mesh.group_size(axes)
        for kind in (value.type for value in self.values):
            operands, _, width = kind.sizes
            before, after = (operands, share * devices, width), (operands, share, width * devices)
            exchanged = kind.with_shape(before), kind.with_shape(after)
            seconds += self._seconds("all_to_all", *exchanged, axes, split_dim=1, concat_dim=2)
            finished_share = kind.with_shape((share, results * operands))
            seconds += self._seconds("all_gather", finished_share, finished_share, axes, dim=0)
        return seconds

    def _seconds(self, op: str, before: TensorType, after: TensorType, axes: tuple[str, ...], **attrs: int) -> float:
        return collective_seconds(op, {"axes": axes, **attrs}, before, after, self.builder.mesh)


def _concatenated(builder: LocalBuilder, values: Sequence[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    tensor_type = values[0].type.with_shape((len(values), *values[0].type.sizes[1:]))
    return builder.emit("concatenate", values, tensor_type, dim=0)


def _gathered(builder: LocalBuilder, value: Value, dim: int, axes: tuple[str, ...], why: str) -> Value:
    count = builder.mesh.group_size(axes)
    full = value.type.with_shape(size * count if d == dim else size for d, size in enumerate(value.type.sizes))
    return builder.communicate("all_gather", value, full, why, axes=axes, dim=dim)


def _exchanged(builder: LocalBuilder, value: Value, axes: tuple[str, ...], why: str) -> Value:
    """Return the candidates of all devices for this device's share of the rows, by an all_to_all."""
    (operands, rows, width), count = value.type.sizes, builder.mesh.group_size(axes)
    # shares are equal, so the number of rows is rounded up
    tensor_type = value.type.with_shape((operands, -(-rows // count), width * count))
    return builder.communicate("all_to_all", value, tensor_type, why, axes=axes, split_dim=1, concat_dim=2)


def _padded(builder: LocalBuilder, value: Value, rows: int) -> Value:
    """Return the value with unused rows appended, so that all shares are equal."""
    more = rows - value.type.sizes[1]
    if not more:
        return value
    zero = builder.splat(0, TensorType((), value.type.dtype))
    return builder.pad(value, zero, (0, 0, 0), (0, more, 0))


def _cut(builder: LocalBuilder, value: Value, rows: int) -> Value:
    return value if value.type.sizes[0] == rows else builder.rows(value, 0, 0, rows)
