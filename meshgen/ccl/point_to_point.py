"""Boxes that go to other ranks and come from them, as steps: packed where they are not contiguous, and unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from meshgen.ccl.steps import SCRATCH, Box, Copy, Message, Messages, Step, dense


@dataclass
class Scratch:
    """Elements of one type in scratch, given out one after the other."""

    used: int = 0

    def take(self, dtype: str, shape: Sequence[int]) -> Box:
        """A contiguous box behind all that were given out before."""
        box = dense(SCRATCH, dtype, shape, self.used)
        self.used += box.size
        return box


@dataclass
class PointToPoint:
    """What a rank sends and receives at once, and the parts that it has itself.

    What a rank sends to another and what that one expects have the same order. Boxes without elements are left out.

    Attributes:
        axes: of the communicator; empty between meshes.
        sends, receives: world rank of the other side, and where the box is in the operand or lands in the result.
        own: from the operand to the result; these copies come first.
    """

    axes: tuple[str, ...]
    sends: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    receives: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    own: list[tuple[Box, Box]] = field(default_factory=list[tuple[Box, Box]])

    def steps(self, scratch: Scratch | None = None) -> list[Step]:
        """Own copies, packing, messages, unpacking. The messages are there on every rank, also where it has none."""
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
    """A place in scratch for each box that is not contiguous."""
    return {box: scratch.take(box.dtype, box.shape) for box in dict.fromkeys(boxes) if not box.is_contiguous}


def copies(pairs: Iterable[tuple[Box, Box]]) -> list[Step]:
    """Copies of the boxes that have elements; those at equal distances from each other are one copy, which is one launch."""
    found: list[Step] = []
    row: list[tuple[Box, Box]] = []
    for pair in pairs:
        if not pair[0].size:
            continue
        if row and not _continues(row, pair):
            found.append(_joined(row))
            row = []
        row.append(pair)
    return [*found, _joined(row)] if row else found


def _continues(row: Sequence[tuple[Box, Box]], pair: tuple[Box, Box]) -> bool:
    """Whether both boxes are like those of the row, and as far from its last as these are from each other."""
    for number, box in enumerate(pair):
        last = row[-1][number]
        if (last.buffer, last.shape, last.strides) != (box.buffer, box.shape, box.strides):
            return False
        if len(row) > 1 and box.offset - last.offset != last.offset - row[-2][number].offset:
            return False
    return True


def _joined(row: Sequence[tuple[Box, Box]]) -> Copy:
    """One copy of boxes with the number of the box as one more dim in front."""
    if len(row) == 1:
        return Copy(*row[0])
    boxes: list[Box] = []
    for first, second in zip(*row[:2], strict=True):
        strides = (second.offset - first.offset, *first.strides)
        boxes.append(Box(first.buffer, first.dtype, first.offset, (len(row), *first.shape), strides))
    return Copy(*boxes)
