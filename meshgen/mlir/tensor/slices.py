"""Readers of tensor.extract_slice, insert_slice and pad: their places are constants of the program or computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase
from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.payload import Builder, finish
from meshgen.mlir.constants import follows_from_sizes, known_array
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.scf.parallel_ops import ParallelInsertSliceOp
from meshgen.mlir.shard.sharding import constant
from meshgen.mlir.spread import sliced
from meshgen.mlir.tensor.conversion import computed_places
from meshgen.records import dataclass

Entry = int | Value  # a number, or a 0-d value where the program computes it


def entries_of(importer: Importer, op: Operation, name: str, dynamic: Sequence[SSAValue]) -> list[Entry]:
    """A list of numbers: each one as such where it is a constant, else a 0-d value."""
    static, rest = op.properties[f"static_{name}"], list(dynamic)
    assert isinstance(static, DenseArrayBase)
    if list(static.get_values()).count(DYNAMIC_INDEX) != len(rest):
        importer.fault("MG0104", f"{op.name}: {len(rest)} values do not fit the {name} {list(static.get_values())}", op)
        return [0 if number == DYNAMIC_INDEX else int(number) for number in static.get_values()]
    return [_dynamic_entry(importer, rest.pop(0)) if n == DYNAMIC_INDEX else int(n) for n in static.get_values()]


def _dynamic_entry(importer: Importer, ssa: SSAValue) -> Entry:
    if (known := constant(ssa)) is not None:
        return known
    array = known_array(importer, ssa)
    return importer.value(ssa) if array is None or array.size != 1 else int(array.item())


@dataclass(frozen=True)
class Part:
    """A part of a tensor: offsets, sizes and strides per dim."""

    start: list[Entry]
    sizes: list[Entry]
    strides: list[Entry]
    has_known_places: bool  # once sizes are given

    @property
    def size(self) -> tuple[int, ...]:
        """The sizes, where all are numbers."""
        return tuple(n for n in self.sizes if isinstance(n, int))

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides, where all are numbers."""
        return tuple(n for n in self.strides if isinstance(n, int))

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes that are numbers."""
        return tuple(n if isinstance(n, int) else None for n in self.sizes)

    @property
    def is_static(self) -> bool:
        return all(isinstance(place, int) for place in self.start)

    def is_plain(self, whole: TensorType) -> bool:
        """Whether sizes and strides are numbers, and no dim has to be cut whose own size is open."""
        numbers = all(isinstance(n, int) for n in (*self.sizes, *self.strides))
        known = zip(self.start, whole.shape, strict=True)
        return numbers and all(size is not None or not isinstance(place, int) for place, size in known)

    def reach(self, dim: int) -> int:
        """Elements from the first to the last one that is taken."""
        return (self.size[dim] - 1) * self.stride[dim] + 1 if self.size[dim] else 0

    def first(self, dim: int) -> int:
        """Where a dim whose place is computed is cut already: nowhere."""
        place = self.start[dim]
        return place if isinstance(place, int) else 0


def part_of(
    importer: Importer, op: tensor.ExtractSliceOp | tensor.InsertSliceOp | ParallelInsertSliceOp, whole: TensorType
) -> Part | None:
    """The part that a slice operation reads or replaces; None after a fault."""
    part = Part(
        entries_of(importer, op, "offsets", op.offsets),
        entries_of(importer, op, "sizes", op.sizes),
        entries_of(importer, op, "strides", op.strides),
        has_known_places=all(follows_from_sizes(importer, ssa) for ssa in op.offsets),
    )
    if any(len(entries) != whole.rank for entries in (part.start, part.sizes, part.strides)):
        importer.fault("MG0104", f"{op.name}: offsets, sizes and strides do not fit {whole}", op)
        return None
    for dim, whole_size in enumerate(whole.shape):
        stride, size = part.strides[dim], part.sizes[dim]
        first = part.first(dim)
        reach = (size - 1) * stride + 1 if isinstance(size, int) and size and isinstance(stride, int) else 0
        ends = whole_size is not None and first + reach > whole_size
        if first < 0 or ends or (isinstance(stride, int) and stride < 1) or (isinstance(size, int) and size < 0):
            message = f"{op.name}: dim {dim}: [{first}, {first + reach}) by {stride} is not inside [0, {whole_size})"
            importer.fault("MG0104", message, op)
            return None
    return part


def _sliced(builder: Builder, value: Value, part: Part) -> Value:
    """The part, where sizes are open; at places of run time a gather of one window, of which strides take rows."""
    if part.has_known_places:
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
    places, sizes = builder.listed(part.start), builder.listed(reach)
    none: tuple[int, ...] = ()
    found = builder.emit("dynamic_gather", [value, places, sizes], kind, offset_dims=ranks, collapsed_slice_dims=none,
                         operand_batching_dims=none, start_indices_batching_dims=none, start_index_map=ranks,
                         index_vector_dim=0)  # fmt: skip
    if all(stride == 1 for stride in part.strides):
        return found
    lists = [builder.listed(entries) for entries in ([0] * len(ranks), reach, part.strides)]
    return builder.emit("real_dynamic_slice", [found, *lists], value.type.with_shape(part.shape))


def _sum_of_entries(builder: Builder, left: Entry, right: Entry) -> Entry:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    index = TensorType((), "i64")
    a, b = (builder.constant(n, index) if isinstance(n, int) else builder.convert(n, "i64") for n in (left, right))
    return builder.apply("add", a, b)


def _reach(builder: Builder, size: Entry, stride: Entry) -> Entry:
    """Elements from the first to the last one that is taken."""
    if stride == 1:
        return size
    if isinstance(size, int) and isinstance(stride, int):
        return (size - 1) * stride + 1 if size else 0
    index = TensorType((), "i64")
    a, b = (builder.constant(n, index) if isinstance(n, int) else builder.convert(n, "i64") for n in (size, stride))
    one, zero = builder.constant(1, index), builder.constant(0, index)
    last = builder.apply("multiply", builder.apply("subtract", a, one), b)
    return builder.apply("maximum", builder.apply("add", last, one), zero)


def import_extract_slice(importer: Importer, op: Operation) -> None:
    """A slice; dims of size 1 that the result does not have are dropped."""
    assert isinstance(op, tensor.ExtractSliceOp)
    builder, value, kind = Builder(importer, op), importer.value(op.source), importer.type(op.result)
    part = part_of(importer, op, value.type)
    if part is None:
        finish(importer, op, builder.constant(0, kind))
        return
    if not part.is_plain(value.type):
        finish(importer, op, _without_unit_sizes(builder, _sliced(builder, value, part), part.sizes, kind.shape))
        return
    ranks = range(value.type.rank)
    moves = [not isinstance(place, int) for place in part.start]
    if any(moves):
        places = [place if isinstance(place, Value) else builder.constant(0, _index(part)) for place in part.start]
        sizes = tuple(part.reach(d) if moves[d] else value.type.shape[d] or 0 for d in ranks)
        value = builder.emit("dynamic_slice", [value, *places], value.type.with_shape(sizes), slice_sizes=sizes)
    start = [part.first(dim) for dim in ranks]
    found = sliced(builder, value, start, [start[dim] + part.reach(dim) for dim in ranks], part.stride)
    finish(importer, op, _without_unit_sizes(builder, found, part.sizes, kind.shape))


def _kept(sizes: Sequence[Entry], shape: Sequence[int | None]) -> list[Entry]:
    """The sizes without as many of size 1 as make the rank of the result."""
    found, drop = list[Entry](), len(sizes) - len(shape)
    for position, size in enumerate(sizes):
        wanted = shape[len(found)] if len(found) < len(shape) else None
        if drop and size == 1 and (wanted != 1 or len(sizes) - position - drop < len(shape) - len(found)):
            drop -= 1
        else:
            found.append(size)
    return found


def _without_unit_sizes(builder: Builder, value: Value, sizes: Sequence[Entry], shape: Sequence[int | None]) -> Value:
    """The value with as few of the sizes as the shape has: those of size 1 go."""
    kept = _kept(sizes, shape)
    if len(kept) == value.type.rank:
        return value
    kind = value.type.with_shape(n if isinstance(n, int) else None for n in kept)
    return builder.emit("dynamic_reshape", [value, builder.listed(kept)], kind) if None in kind.shape else builder.reshape(value, kind.shape)  # fmt: skip


def _index(part: Part) -> TensorType:
    """The type of the places that are computed."""
    return next((place.type for place in part.start if isinstance(place, Value)), TensorType((), "i64"))


def import_insert_slice(importer: Importer, op: Operation) -> None:
    """The destination with a part replaced."""
    assert isinstance(op, tensor.InsertSliceOp)
    finish(importer, op, inserted(importer, op, importer.value(op.dest)))


def inserted(importer: Importer, op: tensor.InsertSliceOp | ParallelInsertSliceOp, target: Value) -> Value:
    """The target with the part that an operation names replaced by its source."""
    builder, source = Builder(importer, op), importer.value(op.source)
    part = part_of(importer, op, target.type)
    if part is None:
        return target
    if source.type.rank < len(part.sizes):
        shape = builder.listed(part.sizes)
        open_kind = source.type.with_shape(part.shape)
        source = (
            builder.reshape(source, part.size)
            if None not in part.shape
            else builder.emit("dynamic_reshape", [source, shape], open_kind)
        )
    if any(step != 1 for step in part.strides):
        found = _strided(builder, source, target, part)
        if found is None:
            importer.fault("MG0103", f"{op.name} with strides at dynamic offsets is not supported", op)
        return found or target
    places = [place if isinstance(place, Value) else builder.constant(place, _index(part)) for place in part.start]
    return builder.emit("dynamic_update_slice", [target, source, *places], target.type)


def _strided(builder: Builder, source: Value, target: Value, part: Part) -> Value | None:
    """The source spread out by padding, where a constant mask says that it goes."""
    if not part.is_static or not part.is_plain(target.type):
        return None
    shape = target.type.sizes
    low = [part.first(dim) for dim in range(len(shape))]
    high = [shape[dim] - low[dim] - part.reach(dim) for dim in range(len(shape))]
    mask = np.zeros(shape, np.bool_)
    steps = zip(low, part.stride, strict=True)
    mask[tuple(slice(a, a + part.reach(dim), step) for dim, (a, step) in enumerate(steps))] = True
    zero = builder.constant(0, source.type.with_shape(()))
    inner = tuple(step - 1 for step in part.stride)
    spread = builder.emit("pad", [source, zero], target.type, low=tuple(low), high=tuple(high), interior=inner)
    taken = builder.emit("constant", [], TensorType(shape, "i1"), value=mask)
    return builder.select(taken, spread, target)


def import_pad(importer: Importer, op: Operation) -> None:
    """Padding with the yield of the region: one value, or one for every index."""
    assert isinstance(op, tensor.PadOp)
    builder, value, kind = Builder(importer, op), importer.value(op.source), importer.type(op.result)
    low, high = (entries_of(importer, op, name, values) for name, values in (("low", op.low), ("high", op.high)))
    if len(low) != value.type.rank or len(high) != value.type.rank:
        importer.fault("MG0104", f"tensor.pad: {len(low)} and {len(high)} amounts for {value.type}", op)
        finish(importer, op, builder.constant(0, kind))
        return
    sizes = zip(value.type.shape, low, high, strict=True)
    shape = value.type.with_shape(
        size + a + b if size is not None and isinstance(a, int) and isinstance(b, int) else None for size, a, b in sizes
    )
    attrs = {"low": tuple(low), "high": tuple(high), "interior": (0,) * kind.rank}
    fill = computed_places(importer, op, op.region.block, shape)
    if fill is None or (fill.type.rank and None in shape.shape):
        importer.fault("MG0103", "tensor.pad: the computation of its value is not supported", op)
        finish(importer, op, builder.constant(0, kind))
    elif not all(isinstance(n, int) for n in (*low, *high)):
        lists = [builder.listed(entries) for entries in (low, high, [0] * kind.rank)]
        finish(importer, op, builder.emit("dynamic_pad", [value, fill, *lists], shape))
    elif not fill.type.rank:
        finish(importer, op, builder.emit("pad", [value, fill], shape, **attrs))
    else:
        zero = builder.constant(0, value.type.with_shape(()))
        yes, no = (builder.constant(flag, TensorType((), "i1")) for flag in (True, False))
        inside = builder.emit(
            "pad", [builder.broadcast(yes, value.type.shape), no], TensorType(shape.shape, "i1"), **attrs
        )
        finish(importer, op, builder.select(inside, builder.emit("pad", [value, zero], shape, **attrs), fill))


PART = Dialect(
    importers={
        "tensor.extract_slice": import_extract_slice,
        "tensor.insert_slice": import_insert_slice,
        "tensor.pad": import_pad,
    }
)
