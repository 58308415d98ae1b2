"""The steps of one rank for one collective, which NCCL, MPI and a device's copy kernels can execute.

    all_gather of f32[2,4] along dim 1 over two devices becomes
    Group(all_gather, operand -> scratch), Copy(scratch[0:8] -> result[:, 0:4]), Copy(scratch[8:16] -> result[:, 4:8])

Transports move contiguous memory only; boxes that are not contiguous are packed into scratch and unpacked from it. Steps run
one after the other on one stream. All ranks of a mesh have the same communicating steps in the same order, each with
its own part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from meshgen.ir.graph import DTYPES, TensorType

BufferKind = Literal["operand", "result", "scratch"]
GroupKind = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"]
Ranges = Sequence[tuple[int, int]]  # per dim [start, stop)


class BufferRef(NamedTuple):
    """An operand or result of the collective by its number, or its scratch."""

    kind: BufferKind
    number: int = 0


OPERAND, RESULT, SCRATCH = BufferRef("operand"), BufferRef("result"), BufferRef("scratch")


class Box(NamedTuple):
    """Elements of a buffer: element (i, j, ..) is number `offset + i * strides[0] + j * strides[1] + ..` of `dtype`.

    `offset` counts elements of `dtype` from the buffer's start.
    """

    buffer: BufferRef
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype].itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of its elements; where it is contiguous, also from its first byte to its end."""
        return self.size * self.itemsize

    @property
    def byte_offset(self) -> int:
        return self.offset * self.itemsize

    @property
    def byte_start(self) -> int:
        """Where its lowest element begins, from the buffer's start: before `byte_offset` where strides are negative."""
        lowest = sum(min(0, (count - 1) * stride) for count, stride in zip(self.shape, self.strides, strict=True))
        return (self.offset + lowest * bool(self.size)) * self.itemsize

    @property
    def byte_end(self) -> int:
        """Where its highest element ends, from the buffer's start; where it begins if it has none."""
        if not self.size:
            return self.byte_offset
        highest = sum(max(0, (count - 1) * stride) for count, stride in zip(self.shape, self.strides, strict=True))
        return (self.offset + highest + 1) * self.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements are contiguous in row-major order."""
        expected = 1
        for count, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if count != 1 and stride != expected:
                return not self.size
            expected *= count
        return True

    def part(self, ranges: Ranges) -> Box:
        """Rows [start, stop) of each dim."""
        offset = self.offset + sum(start * stride for (start, _), stride in zip(ranges, self.strides, strict=True))
        return self._replace(offset=offset, shape=tuple(stop - start for start, stop in ranges))

    def rows(self, dim: int, start: int, stop: int) -> Box:
        """Rows [start, stop) of one dim, and all of the others."""
        if (start, stop) == (0, self.shape[dim]):
            return self
        shape = (*self.shape[:dim], stop - start, *self.shape[dim + 1 :])
        return Box(self.buffer, self.dtype, self.offset + start * self.strides[dim], shape, self.strides)

    def flat(self, start: int, stop: int) -> Box:
        """Elements [start, stop) of a contiguous box."""
        assert self.is_contiguous
        return Box(self.buffer, self.dtype, self.offset + start, (stop - start,), (1,))


def dense(buffer: BufferRef, dtype: str, shape: Sequence[int], offset: int = 0) -> Box:
    """A contiguous box of this shape, from element `offset` of the buffer on."""
    strides = tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
    return Box(buffer, dtype, offset, tuple(shape), strides)


def whole(buffer: BufferRef, type_: TensorType) -> Box:
    """All of a buffer that holds a tensor."""
    return dense(buffer, type_.dtype, type_.sizes)


@dataclass(frozen=True)
class Copy:
    """Elements from one box to another of the same shape and element type; the boxes do not overlap."""

    source: Box
    target: Box


class Fill(NamedTuple):
    """Every byte becomes `value`; zeros are zeros in all element types."""

    target: Box
    value: int


class Reduce(NamedTuple):
    """Boxes of one shape reduced in their order to `target`, as `simulated.reduce_arrays` defines it.

    Each source is converted to the target's element type first; narrow floats add up in f32 and round once.
    """

    sources: tuple[Box, ...]
    target: Box
    kind: str


@dataclass(frozen=True)
class Group:
    """One call of a collective of NCCL over contiguous memory, in the communicator of the rank's group along `axes`.

    Calls that follow each other are independent: one launch.

    Attributes:
        reduction: `sum`, `product`, `max` or `min`; empty where nothing is reduced.
        dtype: the type in which the elements are reduced, which may differ from the boxes' (i1 as ui8, c64 as pairs of f32);
            `ui8`, bytes, where they are only moved.
        count: elements of `dtype` as NCCL counts: of a device's part in all_gather, reduce_scatter and all_to_all (there
            for each peer), of the whole operand elsewhere.
        axes: outer to inner; the rank's number in its group is `mesh.index(rank, axes)`.
        root: number in the group; of `broadcast` and `reduce`.
    """

    kind: GroupKind
    reduction: str
    dtype: str
    count: int
    source: Box
    target: Box
    axes: tuple[str, ...]
    root: int = 0


class Message(NamedTuple):
    """A contiguous box to or from another rank.

    Attributes:
        peer: rank in the world: the devices of all meshes of the program, one mesh after the other.
    """

    peer: int
    box: Box


@dataclass(frozen=True)
class Messages:
    """Concurrent sends and receives of a rank: those between one pair of `ncclGroupStart` and `ncclGroupEnd`.

    Messages between two ranks are matched in the order of both lists.

    Attributes:
        axes: sender and receiver are in one group along these; empty: they are on different meshes.
    """

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]
    axes: tuple[str, ...]


Communication: TypeAlias = Group | Messages
Step: TypeAlias = Copy | Fill | Reduce | Communication


def read_and_written(step: Step) -> tuple[tuple[Box, ...], tuple[Box, ...]]:
    """The boxes that a step reads, and those that it writes."""
    match step:
        case Fill():
            return (), (step.target,)
        case Reduce():
            return step.sources, (step.target,)
        case Messages():
            return tuple(m.box for m in step.sends), tuple(m.box for m in step.receives)
        case _:
            return (step.source,), (step.target,)


def moved(step: Step, operand: int, start: int) -> Step:
    """The step of a one-operand collective, relocated to one of several operands, with scratch from byte `start` on."""
    if not operand:
        return step

    def box(old: Box) -> Box:
        is_scratch = old.buffer == SCRATCH
        buffer = SCRATCH if is_scratch else BufferRef(old.buffer.kind, operand)
        return old._replace(buffer=buffer, offset=old.offset + start // old.itemsize * is_scratch)

    match step:
        case Fill():
            return step._replace(target=box(step.target))
        case Reduce():
            return step._replace(sources=tuple(map(box, step.sources)), target=box(step.target))
        case Messages():
            sides = [tuple(Message(each.peer, box(each.box)) for each in side) for side in (step.sends, step.receives)]
            return replace(step, sends=sides[0], receives=sides[1])
        case _:
            return replace(step, source=box(step.source), target=box(step.target))


def boxes_of(step: Step) -> tuple[Box, ...]:
    """All boxes that a step reads and writes."""
    read, written = read_and_written(step)
    return (*read, *written)


class Lowered(NamedTuple):
    """The steps of one rank, and the bytes of scratch that they may use: the same number on all ranks of the mesh."""

    steps: tuple[Step, ...]
    scratch_bytes: int

    @property
    def local_bytes(self) -> int:
        """Bytes that copies, fills and reductions read and write in the device's own memory."""
        return sum(_local_bytes(step) for step in self.steps)


def _local_bytes(step: Step) -> int:
    match step:
        case Copy():
            return step.source.nbytes + step.target.nbytes
        case Fill():
            return step.target.nbytes
        case Reduce():
            return sum(source.nbytes for source in step.sources) + step.target.nbytes
        case _:
            return 0
