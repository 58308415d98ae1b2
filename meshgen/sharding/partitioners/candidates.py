"""Combine the candidates that the devices of a group found: on all of them, or on each for a share of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from meshgen.ir.graph import TensorType, Value
from meshgen.sharding.partitioners.builder import LocalBuilder
from meshgen.sharding.partitioners.registry import Site

Finish = Callable[
    [list[Value]], list[Value]
]  # from candidates [rows, candidates of all devices] to results [rows, ...]


def finished(site: Site, found: Sequence[Value], axes: tuple[str, ...], finish: Finish, each: int) -> list[Value]:
    """The results for all rows, on every device of the group.

    Each device finishes a share of the rows and all gather the results if that moves less than gathering all
    candidates: 2 (n - 1) / n instead of n - 1 times the candidates of a device.

    Args:
        found: per operand the device's candidates, the last dim; all dims before are rows.
        finish: from the candidates of all devices, in the group's order, for some rows, to the results.
        each: number of results per row; 0: the results have no such dim.
    """
    builder, count = site.builder, site.mesh.group_size(axes)
    *outer, width = found[0].type.sizes
    rows = math.prod(outer)
    share = -(-rows // count)
    flat = [_reshaped(builder, value, (rows, width)) for value in found]
    if share * (width + max(each, 1)) >= rows * width:
        why = site.why("candidates of other tiles")
        results = finish([_gathered_candidates(builder, value, 1, axes, why) for value in flat])
    else:
        why = site.why("candidates of other tiles for its share of the rows")
        shares = finish([_exchanged(builder, _padded(builder, value, share * count), axes, why) for value in flat])
        why = site.why("the results of the other rows")
        results = [_cut(builder, _gathered_candidates(builder, value, 0, axes, why), rows) for value in shares]
    return [_reshaped(builder, value, (*outer, *value.type.sizes[1:])) for value in results]


def _reshaped(builder: LocalBuilder, value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.type.sizes == shape else builder.reshape(value, shape)


def _gathered_candidates(builder: LocalBuilder, value: Value, dim: int, axes: tuple[str, ...], why: str) -> Value:
    count = builder.mesh.group_size(axes)
    full = value.type.with_shape(size * count if d == dim else size for d, size in enumerate(value.type.sizes))
    return builder.communicate("all_gather", value, full, why, axes=axes, dim=dim)


def _exchanged(builder: LocalBuilder, value: Value, axes: tuple[str, ...], why: str) -> Value:
    """The candidates of all devices for the device's share of the rows."""
    (rows, width), count = value.type.sizes, builder.mesh.group_size(axes)
    kind = value.type.with_shape((-(-rows // count), width * count))  # shares are equal: rows are rounded up
    return builder.communicate("all_to_all", value, kind, why, axes=axes, split_dim=0, concat_dim=1)


def _padded(builder: LocalBuilder, value: Value, rows: int) -> Value:
    """The value with unused rows appended, so that all shares are equal."""
    more = rows - value.type.sizes[0]
    if not more:
        return value
    zero = builder.splat(0, TensorType((), value.type.dtype))
    return builder.pad(value, zero, (0, 0), (more, 0))


def _cut(builder: LocalBuilder, value: Value, rows: int) -> Value:
    return value if value.type.sizes[0] == rows else builder.rows(value, 0, 0, rows)
