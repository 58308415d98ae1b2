"""Readers of tensor.extract_slice, insert_slice and pad: their places are constants of the program or computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase
from xdsl.ir import Operation, SSAValue

from meshgen.errors import Diagnostic
from meshgen.ir.bridge.conversion import Importer
from meshgen.ir.bridge.linalg.spread import sliced
from meshgen.ir.bridge.payload import Builder, finish
from meshgen.ir.bridge.registries import imports
from meshgen.ir.bridge.shard.sharding import constant, constants
from meshgen.ir.bridge.tensor import computed_places
from meshgen.ir.dialects.upstream.parallel import ParallelInsertSliceOp
from meshgen.ir.graph import TensorType, Value


def numbers_of(importer: Importer, op: Operation, name: str, dynamic: Sequence[SSAValue]) -> tuple[int, ...] | None:
    """A list of sizes; a fault where one is not a constant."""
    static = op.properties[f"static_{name}"]
    assert isinstance(static, DenseArrayBase)
    faults: list[Diagnostic] = []
    numbers = constants(static, dynamic, f"{op.name}: {name}", faults)
    for fault in faults:
        importer.fault(fault.code, fault.message, op, fault.hint)
    return None if faults else tuple(numbers)


def places_of(importer: Importer, op: Operation, dynamic: Sequence[SSAValue]) -> list[int | Value]:
    """Offsets: numbers where they are constants, else 0-d values."""
    static, rest = op.properties["static_offsets"], list(dynamic)
    assert isinstance(static, DenseArrayBase)
    found: list[int | Value] = []
    for number in static.get_values():
        ssa = rest.pop(0) if number == DYNAMIC_INDEX else None
        known = int(number) if ssa is None else constant(ssa)
        found.append(known if known is not None else importer.value(ssa) if ssa is not None else 0)
    return found


@dataclass(frozen=True)
class Part:
    """A part of a tensor: offsets, sizes and strides per dim."""

    start: list[int | Value]
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def is_static(self) -> bool:
        return all(isinstance(place, int) for place in self.start)

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
    """What a slice operation takes or replaces; None after a fault."""
    size, stride = numbers_of(importer, op, "sizes", op.sizes), numbers_of(importer, op, "strides", op.strides)
    if size is None or stride is None or None in whole.shape:
        if size is not None and stride is not None:
            importer.fault("MG0103", f"{op.name} of {whole}: its sizes must be known", op)
        return None
    part = Part(places_of(importer, op, op.offsets), size, stride)
    for dim, whole_size in enumerate(whole.sizes):
        first, last = part.first(dim), part.first(dim) + part.reach(dim)
        if stride[dim] < 1 or first < 0 or last > whole_size:
            message = f"{op.name}: dim {dim}: [{first}, {last}) by {stride[dim]} is not inside [0, {whole_size})"
            importer.fault("MG0104", message, op)
            return None
    return part


@imports("tensor.extract_slice")
def import_extract_slice(importer: Importer, op: Operation) -> None:
    """A slice; dims of size 1 that the result does not have are dropped."""
    assert isinstance(op, tensor.ExtractSliceOp)
    builder, value, kind = Builder(importer, op), importer.value(op.source), importer.type(op.result)
    part = part_of(importer, op, value.type)
    if part is None:
        finish(importer, op, builder.constant(0, kind))
        return
    ranks = range(value.type.rank)
    moves = [not isinstance(place, int) for place in part.start]
    if any(moves):
        places = [place if isinstance(place, Value) else builder.constant(0, _index(part)) for place in part.start]
        sizes = tuple(part.reach(d) if moves[d] else value.type.sizes[d] for d in ranks)
        value = builder.node("dynamic_slice", [value, *places], value.type.with_shape(sizes), slice_sizes=sizes)
    start = [part.first(dim) for dim in ranks]
    found = sliced(builder, value, start, [start[dim] + part.reach(dim) for dim in ranks], part.stride)
    finish(importer, op, builder.reshape(found, _kept(part.size, kind.shape)))


def _kept(sizes: Sequence[int], shape: Sequence[int | None]) -> tuple[int, ...]:
    """The sizes without as many of size 1 as make the rank of the result."""
    found, drop = list[int](), len(sizes) - len(shape)
    for position, size in enumerate(sizes):
        wanted = shape[len(found)] if len(found) < len(shape) else None
        if drop and size == 1 and (wanted != 1 or len(sizes) - position - drop < len(shape) - len(found)):
            drop -= 1
        else:
            found.append(size)
    return tuple(found)


def _index(part: Part) -> TensorType:
    """The type of the places that are computed."""
    return next((place.type for place in part.start if isinstance(place, Value)), TensorType((), "i64"))


@imports("tensor.insert_slice")
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
    source = builder.reshape(source, part.size)
    if any(step != 1 for step in part.stride):
        found = _strided(builder, source, target, part)
        if found is None:
            importer.fault("MG0103", f"{op.name} with strides at computed offsets is not supported", op)
        return found or target
    places = [place if isinstance(place, Value) else builder.constant(place, _index(part)) for place in part.start]
    return builder.node("dynamic_update_slice", [target, source, *places], target.type)


def _strided(builder: Builder, source: Value, target: Value, part: Part) -> Value | None:
    """The source spread out by padding, where a constant mask says that it goes."""
    if not part.is_static:
        return None
    shape = target.type.sizes
    low = [part.first(dim) for dim in range(len(shape))]
    high = [shape[dim] - low[dim] - part.reach(dim) for dim in range(len(shape))]
    mask = np.zeros(shape, np.bool_)
    steps = zip(low, part.stride, strict=True)
    mask[tuple(slice(a, a + part.reach(dim), step) for dim, (a, step) in enumerate(steps))] = True
    zero = builder.constant(0, source.type.with_shape(()))
    inner = tuple(step - 1 for step in part.stride)
    spread = builder.node("pad", [source, zero], target.type, low=tuple(low), high=tuple(high), interior=inner)
    taken = builder.node("constant", [], TensorType(shape, "i1"), value=mask)
    return builder.select(taken, spread, target)


@imports("tensor.pad")
def import_pad(importer: Importer, op: Operation) -> None:
    """Padding with what the region yields: one value, or one for every place."""
    assert isinstance(op, tensor.PadOp)
    builder, value, kind = Builder(importer, op), importer.value(op.source), importer.type(op.result)
    low, high = numbers_of(importer, op, "low", op.low), numbers_of(importer, op, "high", op.high)
    if low is None or high is None:
        finish(importer, op, builder.constant(0, kind))
        return
    sizes = zip(value.type.shape, low, high, strict=True)
    shape = value.type.with_shape(None if size is None else size + a + b for size, a, b in sizes)
    attrs = {"low": low, "high": high, "interior": (0,) * kind.rank}
    fill = None if None in shape.shape else computed_places(importer, op, op.region.block, shape)
    if fill is None:
        importer.fault("MG0103", "tensor.pad: its value is computed in a way that is not supported", op)
        finish(importer, op, builder.constant(0, kind))
    elif not fill.type.rank:
        finish(importer, op, builder.node("pad", [value, fill], shape, **attrs))
    else:
        zero = builder.constant(0, value.type.with_shape(()))
        yes, no = (builder.constant(flag, TensorType((), "i1")) for flag in (True, False))
        inside = builder.node(
            "pad", [builder.broadcast(yes, value.type.shape), no], TensorType(shape.shape, "i1"), **attrs
        )
        finish(importer, op, builder.select(inside, builder.node("pad", [value, zero], shape, **attrs), fill))
