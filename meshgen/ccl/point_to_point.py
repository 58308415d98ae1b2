"""Sends and receives of boxes as steps, packed and unpacked where they are not contiguous."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from meshgen.ccl.steps import SCRATCH, Box, Copy, Message, Messages, Step, dense


@dataclass
class Scratch:
    """A bump allocator of elements of one type in scratch."""

    used: int = 0

    def take(self, dtype: str, shape: Sequence[int]) -> Box:
        """The next free contiguous box."""
        box = dense(SCRATCH, dtype, shape, self.used)
        self.used += box.size
        return box


@dataclass
class PointToPoint:
    """The concurrent sends and receives of a rank, and the parts that it holds itself.

    Sends to a rank and its receives have the same order. Empty boxes are skipped.

    Attributes:
        axes: of the communicator; empty between meshes.
        sends, receives: world rank of the peer, and the box in the operand or in the result.
        own: from the operand to the result; these copies come first.
    """

    axes: tuple[str, ...]
    sends: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    receives: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    own: list[tuple[Box, Box]] = field(default_factory=list[tuple[Box, Box]])

    def steps(self, scratch: Scratch | None = None) -> list[Step]:
        """Own copies, packing, messages, unpacking. The step of messages is on every rank, even if empty."""
        scratch = scratch or Scratch()
        packed = _staged((box for _, box in self.sends), scratch)
        sends = [Message(peer, packed.get(box, box)) for peer, box in self.sends if box.size]
        unpacked = _staged((box for _, box in self.receives), scratch)
        receives = [Message(peer, unpacked.get(box, box)) for peer, box in self.receives if box.size]
        return [
            *copies(self.own),
            *copies(packed.items()),
            Messages(tuple(sends), tuple(receives), self.axes),
            *copies((staged, box) for box, staged in unpacked.items()),
        ]


def _staged(boxes: Iterable[Box], scratch: Scratch) -> dict[Box, Box]:
    """A box in scratch for each box that is not contiguous."""
    return {box: scratch.take(box.dtype, box.shape) for box in dict.fromkeys(boxes) if not box.is_contiguous}


def copies(pairs: Iterable[tuple[Box, Box]]) -> list[Step]:
    """Copies of the boxes that have elements; those at equal distances from each other are one copy, which is one launch."""
    found: list[Step] = []
    row: list[tuple[Box, Box]] = []
    for pair in pairs:
        if not pair[0].size:
            continue
        if row and not _continues(row, pair):
            found.append(_merged_copy(row))
            row = []
        row.append(pair)
    return [*found, _merged_copy(row)] if row else found


def _continues(row: Sequence[tuple[Box, Box]], pair: tuple[Box, Box]) -> bool:
    """Whether both boxes extend the row: the same shapes, at the row's stride from its last."""
    for number, box in enumerate(pair):
        last = row[-1][number]
        if (last.buffer, last.shape, last.strides) != (box.buffer, box.shape, box.strides):
            return False
        if len(row) > 1 and box.offset - last.offset != last.offset - row[-2][number].offset:
            return False
    return True


def _merged_copy(row: Sequence[tuple[Box, Box]]) -> Copy:
    """One copy of all boxes, with the box number as a new leading dim."""
    if len(row) == 1:
        return Copy(*row[0])
    boxes: list[Box] = []
    for first, second in zip(*row[:2], strict=True):
        strides = (second.offset - first.offset, *first.strides)
        boxes.append(Box(first.buffer, first.dtype, first.offset, (len(row), *first.shape), strides))
    return Copy(*boxes)
