"""Importers of tensor.extract_slice, insert_slice and pad, with static or dynamic offsets and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder, all_computed
from meshgen.mlir.constants import depends_only_on_sizes, folded_array
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.integer_folding import constant
from meshgen.mlir.loop_values import sliced
from meshgen.mlir.scf.parallel_ops import ParallelInsertSliceOp
from meshgen.mlir.tensor.conversion import computed_elements

Entry = int | Value  # an integer, or a 0-d value that the program computes


def entries_of(b: Builder, name: str, dynamic: Sequence[SSAValue]) -> list[Entry]:
    """Return the list `name` of the operation, which mixes static entries and the operands `dynamic`.

    An entry is an integer if it is static or can be constant-folded, else a 0-d value.
    """
    static, rest = b.integers(f"static_{name}"), list(dynamic)
    if static.count(DYNAMIC_INDEX) != len(rest):
        raise Refused("MG0104", f"{len(rest)} values do not fit the {name} {list(static)}")
    return [_dynamic_entry(b.importer, rest.pop(0)) if entry == DYNAMIC_INDEX else entry for entry in static]


def _dynamic_entry(importer: Importer, ssa: SSAValue) -> Entry:
    if (folded := constant(ssa)) is not None:
        return folded
    array = folded_array(importer, ssa)
    return importer.value(ssa) if array is None or array.size != 1 else int(array.item())


@dataclass(frozen=True)
class Part:
    """A slice of a tensor: its offset (`start`), size and stride along each dim."""

    start: list[Entry]
    sizes: list[Entry]
    strides: list[Entry]
    has_foldable_offsets: bool  # whether all offsets become constants when the dynamic sizes are specified

    @property
    def size(self) -> tuple[int, ...]:
        """Return the sizes, all of which must be static."""
        return tuple(n for n in self.sizes if isinstance(n, int))

    @property
    def stride(self) -> tuple[int, ...]:
        """Return the strides, all of which must be static."""
        return tuple(n for n in self.strides if isinstance(n, int))

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Return the shape of the slice, with None for dynamic sizes."""
        return tuple(n if isinstance(n, int) else None for n in self.sizes)

    @property
    def is_static(self) -> bool:
        return all(isinstance(offset, int) for offset in self.start)

    def is_plain(self, whole: TensorType) -> bool:
        """Whether sizes and strides are static, and each dim that has a static offset has a static size in the tensor
        `whole`.
        """
        are_static = all(isinstance(n, int) for n in (*self.sizes, *self.strides))
        pairs = zip(self.start, whole.shape, strict=True)
        return are_static and all(size is not None or not isinstance(offset, int) for offset, size in pairs)

    def reach(self, dim: int) -> int:
        """Return the number of elements along `dim` from the first selected element to the last, both included."""
        return (self.size[dim] - 1) * self.stride[dim] + 1 if self.size[dim] else 0

    def first(self, dim: int) -> int:
        """Return the offset along `dim` if it is static, else 0."""
        offset = self.start[dim]
        return offset if isinstance(offset, int) else 0


def part_of(b: Builder, whole: TensorType) -> Part:
    """Return the slice of a tensor of type `whole` that the operation reads or replaces.

    Raises Refused if it is malformed or statically out of bounds.
    """
    op = b.source
    assert isinstance(op, tensor.ExtractSliceOp | tensor.InsertSliceOp | ParallelInsertSliceOp)
    part = Part(
        entries_of(b, "offsets", op.offsets),
        entries_of(b, "sizes", op.sizes),
        entries_of(b, "strides", op.strides),
        has_foldable_offsets=all(depends_only_on_sizes(b.importer, ssa) for ssa in op.offsets),
    )
    if any(len(entries) != whole.rank for entries in (part.start, part.sizes, part.strides)):
        raise Refused("MG0104", f"offsets, sizes and strides do not fit {whole}")
    for dim, whole_size in enumerate(whole.shape):
        stride, size = part.strides[dim], part.sizes[dim]
        first = part.first(dim)
        reach = (size - 1) * stride + 1 if isinstance(size, int) and size and isinstance(stride, int) else 0
        ends = whole_size is not None and first + reach > whole_size
        if first < 0 or ends or (isinstance(stride, int) and stride < 1) or (isinstance(size, int) and size < 0):
            message = f"dim {dim}: [{first}, {first + reach}) by {stride} is not inside [0, {whole_size})"
            raise Refused("MG0104", message)
    return part


def _sliced(builder: Builder, value: Value, part: Part) -> Value:
    """Emit a slice with dynamic sizes.

    If its offsets depend on run-time values, gather a contiguous window, then slice it with the strides.
    """
    if part.has_foldable_offsets:
        ends = [
            _sum_of_entries(builder, n, _reach(builder, size, stride))
            for n, size, stride in zip(part.start, part.sizes, part.strides, strict=True)
        ]
        lists = [builder.listed(entries) for entries in (part.start, ends, part.strides)]
        return builder.emit("real_dynamic_slice", [value, *lists], value.type.with_shape(part.shape))
    ranks = tuple(range(value.type.rank))
    pairs = list(zip(part.sizes, part.strides, strict=True))
    reach = [_reach(builder, size, stride) for size, stride in pairs]
    kind = value.type.with_shape(n if isinstance(n, int) else None for n in reach)
    offsets, sizes = builder.listed(part.start), builder.listed(reach)
    none: tuple[int, ...] = ()
    window = builder.emit("dynamic_gather", [value, offsets, sizes], kind, offset_dims=ranks, collapsed_slice_dims=none,
                         operand_batching_dims=none, start_indices_batching_dims=none, start_index_map=ranks,
                         index_vector_dim=0)  # fmt: skip
    if all(stride == 1 for stride in part.strides):
        return window
    lists = [builder.listed(entries) for entries in ([0] * len(ranks), reach, part.strides)]
    return builder.emit("real_dynamic_slice", [window, *lists], value.type.with_shape(part.shape))


def _sum_of_entries(builder: Builder, left: Entry, right: Entry) -> Entry:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    index = TensorType((), "i64")
    a, b = (builder.constant(n, index) if isinstance(n, int) else builder.convert(n, "i64") for n in (left, right))
    return builder.apply("add", a, b)


def _reach(builder: Builder, size: Entry, stride: Entry) -> Entry:
    """Return the number of elements from the first selected element to the last, both included."""
    if stride == 1:
        return size
    if isinstance(size, int) and isinstance(stride, int):
        return (size - 1) * stride + 1 if size else 0
    index = TensorType((), "i64")
    a, b = (builder.constant(n, index) if isinstance(n, int) else builder.convert(n, "i64") for n in (size, stride))
    one, zero = builder.constant(1, index), builder.constant(0, index)
    last = builder.apply("multiply", builder.apply("subtract", a, one), b)
    return builder.apply("maximum", builder.apply("add", last, one), zero)


def _extracted(builder: Builder, value: Value, *_: Value) -> Value:
    """Emit a slice, and drop dims of size 1 that the result lacks."""
    part, shape = part_of(builder, value.type), builder.result.shape
    if not part.is_plain(value.type):
        return _without_unit_sizes(builder, _sliced(builder, value, part), part.sizes, shape)
    ranks = range(value.type.rank)
    is_dynamic = [not isinstance(offset, int) for offset in part.start]
    if any(is_dynamic):
        offsets = [offset if isinstance(offset, Value) else builder.constant(0, _index(part)) for offset in part.start]
        sizes = tuple(part.reach(d) if is_dynamic[d] else value.type.shape[d] or 0 for d in ranks)
        value = builder.emit("dynamic_slice", [value, *offsets], value.type.with_shape(sizes), slice_sizes=sizes)
    start = [part.first(dim) for dim in ranks]
    extracted = sliced(builder, value, start, [start[dim] + part.reach(dim) for dim in ranks], part.stride)
    return _without_unit_sizes(builder, extracted, part.sizes, shape)


def _kept_sizes(sizes: Sequence[Entry], shape: Sequence[int | None]) -> list[Entry]:
    """Return `sizes` without those sizes of 1 that must be dropped to get the shape `shape`."""
    kept_sizes, drops = list[Entry](), len(sizes) - len(shape)
    for position, size in enumerate(sizes):
        next_size = shape[len(kept_sizes)] if len(kept_sizes) < len(shape) else None
        if drops and size == 1 and (next_size != 1 or len(sizes) - position - drops < len(shape) - len(kept_sizes)):
            drops -= 1
        else:
            kept_sizes.append(size)
    return kept_sizes


def _without_unit_sizes(builder: Builder, value: Value, sizes: Sequence[Entry], shape: Sequence[int | None]) -> Value:
    """Drop dims of size 1 of `value`, which has the sizes `sizes`, so that it gets the rank of `shape`."""
    kept = _kept_sizes(sizes, shape)
    if len(kept) == value.type.rank:
        return value
    kind = value.type.with_shape(n if isinstance(n, int) else None for n in kept)
    return builder.emit("dynamic_reshape", [value, builder.listed(kept)], kind) if None in kind.shape else builder.reshape(value, kind.shape)  # fmt: skip


def _index(part: Part) -> TensorType:
    """Return the type of the first dynamic offset, or i64 if all offsets are static."""
    return next((offset.type for offset in part.start if isinstance(offset, Value)), TensorType((), "i64"))


def inserted(builder: Builder, source: Value, target: Value, *_: Value) -> Value:
    """Emit an insertion: return `target` with the slice that the operation names replaced by `source`."""
    part = part_of(builder, target.type)
    if source.type.rank < len(part.sizes):
        if None in part.shape:
            kind = source.type.with_shape(part.shape)
            source = builder.emit("dynamic_reshape", [source, builder.listed(part.sizes)], kind)
        else:
            source = builder.reshape(source, part.size)
    if any(step != 1 for step in part.strides):
        return _strided_insert(builder, source, target, part)
    offsets = [offset if isinstance(offset, Value) else builder.constant(offset, _index(part)) for offset in part.start]
    return builder.emit("dynamic_update_slice", [target, source, *offsets], target.type)


def _strided_insert(builder: Builder, source: Value, target: Value, part: Part) -> Value:
    """Emit an insertion with strides: pad `source` to the shape of `target`, and select from both with a constant mask."""
    if not part.is_static or not part.is_plain(target.type):
        raise Refused("MG0103", "strides at dynamic offsets are not supported")
    shape = target.type.sizes
    low = [part.first(dim) for dim in range(len(shape))]
    high = [shape[dim] - low[dim] - part.reach(dim) for dim in range(len(shape))]
    mask = np.zeros(shape, np.bool_)
    steps = zip(low, part.stride, strict=True)
    mask[tuple(slice(a, a + part.reach(dim), step) for dim, (a, step) in enumerate(steps))] = True
    zero = builder.constant(0, source.type.with_shape(()))
    inner = tuple(step - 1 for step in part.stride)
    spread = builder.emit("pad", [source, zero], target.type, low=tuple(low), high=tuple(high), interior=inner)
    mask_value = builder.emit("constant", [], TensorType(shape, "i1"), value=mask)
    return builder.select(mask_value, spread, target)


def _padded_by_region(b: Builder, value: Value, *_: Value) -> Value:
    """Emit `tensor.pad` with the value that its region yields: one value, or a value per index of the result."""
    op, rank = b.source, value.type.rank
    assert isinstance(op, tensor.PadOp)
    low, high = entries_of(b, "low", op.low), entries_of(b, "high", op.high)
    if len(low) != rank or len(high) != rank:
        raise Refused("MG0104", f"has {len(low)} low and {len(high)} high paddings for {value.type}")
    sizes = [_padded_size(size, *ends) for size, *ends in zip(value.type.shape, low, high, strict=True)]
    kind = value.type.with_shape(sizes)
    attrs = {"low": tuple(low), "high": tuple(high), "interior": (0,) * rank}
    fill = computed_elements(b, op.region.block, kind)
    if fill is None or (fill.type.rank and None in kind.shape):
        raise Refused("MG0103", "the computation of its value is not supported")
    if not all(isinstance(n, int) for n in (*low, *high)):
        lists = [b.listed(entries) for entries in (low, high, [0] * rank)]
        return b.emit("dynamic_pad", [value, fill, *lists], kind)
    if not fill.type.rank:
        return b.emit("pad", [value, fill], kind, **attrs)
    zero = b.constant(0, value.type.with_shape(()))
    yes, no = (b.constant(flag, TensorType((), "i1")) for flag in (True, False))
    inside = b.emit("pad", [b.broadcast(yes, value.type.shape), no], TensorType(kind.shape, "i1"), **attrs)
    return b.select(inside, b.emit("pad", [value, zero], kind, **attrs), fill)


def _padded_size(size: int | None, low: Entry, high: Entry) -> int | None:
    return size + low + high if size is not None and isinstance(low, int) and isinstance(high, int) else None


PART = Dialect(
    importers=all_computed("tensor", {"extract_slice": _extracted, "insert_slice": inserted, "pad": _padded_by_region})
)
