"""Ops that move elements without computing on them."""

from __future__ import annotations

from meshgen.ir.graph import TensorType
from meshgen.testing.generators.writer import MAX_ELEMENTS, MAX_SIZE, Writer, changed, has_type


def broadcast(writer: Writer) -> None:
    """Append a broadcast that inserts a dim anywhere or expands a dim of size 1."""
    if value := writer.pick(lambda v: v.type.rank < 4 and v.type.size <= MAX_ELEMENTS // MAX_SIZE, empty=True):
        at = writer.integer(0, value.type.rank + 1)
        sizes = [*value.type.sizes]
        ones = [d for d, n in enumerate(sizes) if n == 1]
        if ones and writer.chance(0.5):
            sizes[ones[0]], at = writer.integer(2, MAX_SIZE + 1), -1
        else:
            sizes.insert(at, writer.integer(1, MAX_SIZE + 1))
        dims = tuple(d for d in range(len(sizes)) if d != at)
        writer.add("broadcast_in_dim", [value], value.type.with_shape(sizes), {"dims": dims})


def transpose(writer: Writer) -> None:
    if value := writer.pick(has_type(rank=2), empty=True):
        writer.add("transpose", [value], None, {"perm": tuple(writer.order(value.type.rank))})


def reshape(writer: Writer) -> None:
    """Append a reshape that merges two adjacent dims, splits one, or does both."""
    if value := writer.pick(has_type(rank=1)):
        sizes = [*value.type.sizes]
        dim = writer.integer(0, len(sizes))
        merges, splits = dim + 1 < len(sizes) and writer.chance(0.5), writer.chance(0.5)
        if merges:
            sizes[dim : dim + 2] = [sizes[dim] * sizes[dim + 1]]
        if splits or not merges:
            major = writer.one_of([f for f in range(1, sizes[dim] + 1) if sizes[dim] % f == 0])
            sizes[dim : dim + 1] = [major, sizes[dim] // major]
        if len(sizes) < 6:
            writer.add("reshape", [value], value.type.with_shape(sizes))


def slice_rows(writer: Writer) -> None:
    """Append a slice of one dim, sometimes with a stride."""
    if value := writer.pick(has_type(rank=1)):
        sizes = value.type.sizes
        dim = writer.integer(0, len(sizes))
        begin = writer.integer(0, sizes[dim])
        end = sizes[dim] if writer.chance(0.5) else writer.integer(begin + 1, sizes[dim] + 1)
        if writer.variety.empty and writer.chance(0.1):
            end = begin
        stride = writer.integer(2, 4) if writer.chance(0.3) else 1
        attrs = {
            "start": changed((0,) * len(sizes), dim, begin),
            "limit": changed(sizes, dim, end),
            "stride": changed((1,) * len(sizes), dim, stride),
        }
        writer.add("slice", [value], None, attrs)


def roll(writer: Writer) -> None:
    """Append a rotation of the rows of one dim: two slices, concatenated in reverse order."""
    if value := writer.pick(lambda v: any(n > 1 for n in v.type.sizes)):
        sizes = value.type.sizes
        dim = next(d for d, n in enumerate(sizes) if n > 1)
        first, zeros, ones = writer.integer(1, sizes[dim]), (0,) * len(sizes), (1,) * len(sizes)
        ends = ((changed(zeros, dim, first), sizes), (zeros, changed(sizes, dim, first)))
        parts = [
            writer.add("slice", [value], None, {"start": begin, "limit": end, "stride": ones}) for begin, end in ends
        ]
        writer.add("concatenate", parts, None, {"dim": dim})


def pad(writer: Writer) -> None:
    """Append a pad with elements before, after and between; sometimes with negative amounts, which remove elements."""
    if value := writer.pick(has_type("f32", "bf16", "i32", *writer.variety.more, rank=1), empty=True):
        sizes, dims = value.type.sizes, [d for d in range(value.type.rank) if writer.chance(0.5)]
        zeros = (0,) * len(sizes)
        low, high, interior = (
            tuple(writer.integer(0, 3) if d in dims else 0 for d in range(len(sizes))) for _ in "lhi"
        )
        if dims and sizes[dims[0]] > 2 and writer.chance(0.3):
            low, high, interior = changed(zeros, dims[0], -1), changed(zeros, dims[0], writer.integer(-1, 3)), zeros
        fill = writer.scalar(writer.integer(0, 3), value.type.dtype)
        result = writer.add("pad", [value, fill], None, {"low": low, "high": high, "interior": interior})
        assert result.type.size or not value.type.size, "rows are left"


def concatenate(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.rank > 0 and v.type.size < MAX_ELEMENTS // 3, empty=True):
        parts = [value, *(writer.partner(value) for _ in range(writer.integer(1, 3)))]
        dim = writer.integer(0, value.type.rank)
        if writer.chance(0.3):
            parts.append(writer.new_input(TensorType(changed(value.type.sizes, dim, 1), value.type.dtype)))
        writer.add("concatenate", parts, None, {"dim": dim})


def reverse(writer: Writer) -> None:
    if value := writer.pick(has_type(rank=1), empty=True):
        writer.add("reverse", [value], None, {"dims": (writer.integer(0, value.type.rank),)})


OPS = (broadcast, broadcast, transpose, reshape, reshape, slice_rows, slice_rows, roll, pad, pad, concatenate, reverse)
