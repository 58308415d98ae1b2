"""The steps of one rank for one collective.

NCCL, MPI and a device's copy kernels can execute them.

    all_gather of f32[2,4] along dim 1 over two devices becomes
    Group(all_gather, operand -> scratch), Copy(scratch[0:8] -> result[:, 0:4]), Copy(scratch[8:16] -> result[:, 4:8])

Transports only move contiguous memory. Non-contiguous views are packed into scratch and unpacked from it. Steps run in
order on one stream. All ranks of a mesh have the same sequence of communicating steps, but these refer to the rank's
own memory and peers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from meshgen.ir.graph import DTYPES, TensorType

BufferKind = Literal["operand", "result", "scratch"]
GroupKind = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"]
Ranges = Sequence[tuple[int, int]]  # [start, stop) along each dim


class BufferRef(NamedTuple):
    """A reference to a buffer of a collective: operand or result `number`, or the scratch."""

    kind: BufferKind
    number: int = 0


OPERAND, RESULT, SCRATCH = BufferRef("operand"), BufferRef("result"), BufferRef("scratch")


class Box(NamedTuple):
    """A strided view of a buffer: element (i, j, ..) is at `offset + i * strides[0] + j * strides[1] + ..`.

    `offset` and strides count elements of `dtype`; `offset` starts at the beginning of the buffer.
    """

    buffer: BufferRef
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return the number of elements of the view."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype].itemsize

    @property
    def nbytes(self) -> int:
        """Return the number of elements times their size in bytes. A contiguous view spans exactly these bytes."""
        return self.size * self.itemsize

    @property
    def byte_offset(self) -> int:
        return self.offset * self.itemsize

    @property
    def byte_start(self) -> int:
        """Return the byte offset of the element with the lowest address.

        With negative strides, it is below `byte_offset`.
        """
        lowest = sum(min(0, (count - 1) * stride) for count, stride in zip(self.shape, self.strides, strict=True))
        return (self.offset + lowest * bool(self.size)) * self.itemsize

    @property
    def byte_end(self) -> int:
        """Return the byte offset after the element with the highest address, or `byte_offset` if the view is empty."""
        if not self.size:
            return self.byte_offset
        highest = sum(max(0, (count - 1) * stride) for count, stride in zip(self.shape, self.strides, strict=True))
        return (self.offset + highest + 1) * self.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements of the view are contiguous in row-major order."""
        expected = 1
        for count, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if count != 1 and stride != expected:
                return not self.size
            expected *= count
        return True

    def part(self, ranges: Ranges) -> Box:
        """Return the view of elements [start, stop) of each dim, with one pair per dim."""
        offset = self.offset + sum(start * stride for (start, _), stride in zip(ranges, self.strides, strict=True))
        return self._replace(offset=offset, shape=tuple(stop - start for start, stop in ranges))

    def rows(self, dim: int, start: int, stop: int) -> Box:
        """Return the view of elements [start, stop) of dim `dim`."""
        if (start, stop) == (0, self.shape[dim]):
            return self
        shape = (*self.shape[:dim], stop - start, *self.shape[dim + 1 :])
        return Box(self.buffer, self.dtype, self.offset + start * self.strides[dim], shape, self.strides)

    def flat(self, start: int, stop: int) -> Box:
        """Return the view of elements [start, stop) in row-major order of this view, which must be contiguous."""
        assert self.is_contiguous
        return Box(self.buffer, self.dtype, self.offset + start, (stop - start,), (1,))


def dense(buffer: BufferRef, dtype: str, shape: Sequence[int], offset: int = 0) -> Box:
    """Return a contiguous view of `shape` that starts at element `offset` of the buffer."""
    strides = tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
    return Box(buffer, dtype, offset, tuple(shape), strides)


def whole(buffer: BufferRef, type_: TensorType) -> Box:
    """Return the contiguous view of an entire buffer that holds a tensor of type `type`."""
    return dense(buffer, type_.dtype, type_.sizes)


@dataclass(frozen=True)
class Copy:
    """A copy of all elements of one view to another view of the same shape and element type.

    The views do not overlap.
    """

    source: Box
    target: Box


class Fill(NamedTuple):
    """A store of the byte `value` to every byte of the target. Value 0 is zero in all element types."""

    target: Box
    value: int


class Reduce(NamedTuple):
    """An element-wise reduction of `sources`, in order, to `target`, with the semantics of `simulated.reduce_arrays`.

    Each source is first converted to the target's element type. Floats narrower than f32 are accumulated in f32 and
    rounded once.
    """

    sources: tuple[Box, ...]
    target: Box
    kind: str


@dataclass(frozen=True)
class Group:
    """A call of an NCCL collective on contiguous memory, in the communicator of the rank's group along `axes`.

    Adjacent calls are independent and form one launch.

    Attributes:
        reduction: `sum`, `product`, `max` or `min`; empty if the call does not reduce.
        dtype: element type that NCCL reduces. It may differ from the views' type: i1 is reduced as ui8, and c64 as
            pairs of f32. It is `ui8` if the call only moves data.
        count: elements of `dtype`, as NCCL counts them. For all_gather and reduce_scatter, this is one device's part;
            for all_to_all, one block; else the entire operand.
        axes: outer to inner; the rank's index in its group is `mesh.index(rank, axes)`.
        root: group index of the root of a `broadcast` or `reduce`.
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
    """A message to or from another rank.

    Attributes:
        peer: world rank, which counts the devices of all meshes of the program in order.
        box: the contiguous view that is sent or received.
    """

    peer: int
    box: Box


@dataclass(frozen=True)
class Messages:
    """The concurrent sends and receives of a rank, between one `ncclGroupStart` and its `ncclGroupEnd`.

    Messages between the same two ranks match in order of the lists.

    Attributes:
        axes: sender and receiver are in one group along these axes. Empty if they are on different meshes.
    """

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]
    axes: tuple[str, ...]


Communication: TypeAlias = Group | Messages
Step: TypeAlias = Copy | Fill | Reduce | Communication


def read_and_written(step: Step) -> tuple[tuple[Box, ...], tuple[Box, ...]]:
    """Return the views that a step reads, and the views that it writes."""
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
    """Adapt a step of a one-operand collective to a variadic one.

    The step then uses the operand and the result of index `operand`, and scratch from byte `start` on.
    """
    if not operand:
        return step

    def box(view: Box) -> Box:
        is_scratch = view.buffer == SCRATCH
        buffer = SCRATCH if is_scratch else BufferRef(view.buffer.kind, operand)
        return view._replace(buffer=buffer, offset=view.offset + start // view.itemsize * is_scratch)

    match step:
        case Fill():
            return step._replace(target=box(step.target))
        case Reduce():
            return step._replace(sources=tuple(map(box, step.sources)), target=box(step.target))
        case Messages():
            sides = [
                tuple(Message(message.peer, box(message.box)) for message in side)
                for side in (step.sends, step.receives)
            ]
            return replace(step, sends=sides[0], receives=sides[1])
        case _:
            return replace(step, source=box(step.source), target=box(step.target))


def boxes_of(step: Step) -> tuple[Box, ...]:
    """Return all views that a step reads or writes."""
    read, written = read_and_written(step)
    return (*read, *written)


class Lowered(NamedTuple):
    """The lowered form of a collective on one rank: steps, and bytes of scratch.

    All ranks of a mesh need equal scratch.
    """

    steps: tuple[Step, ...]
    scratch_bytes: int

    @property
    def local_bytes(self) -> int:
        """Return the bytes that copies, fills and reductions read and write in this device's memory."""
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
