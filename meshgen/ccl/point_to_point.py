"""Lowering of sends and receives of strided views, which are packed and unpacked if they are not contiguous."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from meshgen.ccl.steps import SCRATCH, Box, Copy, Message, Messages, Step, dense


@dataclass
class Scratch:
    """A bump allocator for elements of one type in scratch memory."""

    used: int = 0

    def take(self, dtype: str, shape: Sequence[int]) -> Box:
        """Allocate a contiguous view of `shape`."""
        box = dense(SCRATCH, dtype, shape, self.used)
        self.used += box.size
        return box


@dataclass
class PointToPoint:
    """The concurrent sends and receives of a rank, and the copies within the rank.

    Sends to a rank match its receives in order. Empty views are skipped.

    Attributes:
        axes: mesh axes of the communicator; empty between meshes.
        sends: world rank of the receiver, and a view of the operand.
        receives: world rank of the sender, and a view of the result.
        own: copies from operand to result, which run first.
    """

    axes: tuple[str, ...]
    sends: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    receives: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    own: list[tuple[Box, Box]] = field(default_factory=list[tuple[Box, Box]])

    def steps(self, scratch: Scratch | None = None) -> list[Step]:
        """Return the steps: own copies, packing, messages, unpacking.

        The `Messages` step is present even if it is empty, because all ranks must have the same communicating steps.
        """
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
    """Return a view in scratch for each view that is not contiguous."""
    return {box: scratch.take(box.dtype, box.shape) for box in dict.fromkeys(boxes) if not box.is_contiguous}


def copies(pairs: Iterable[tuple[Box, Box]]) -> list[Step]:
    """Return copies for the non-empty (source, target) pairs. Equidistant views become one copy, which is one launch."""
    steps: list[Step] = []
    row: list[tuple[Box, Box]] = []
    for pair in pairs:
        if not pair[0].size:
            continue
        if row and not _continues(row, pair):
            steps.append(_merged_copy(row))
            row = []
        row.append(pair)
    return [*steps, _merged_copy(row)] if row else steps


def _continues(row: Sequence[tuple[Box, Box]], pair: tuple[Box, Box]) -> bool:
    """Whether `pair` can extend a merged copy: both views have the shape of the `row` and continue its stride."""
    for side, box in enumerate(pair):
        last = row[-1][side]
        if (last.buffer, last.shape, last.strides) != (box.buffer, box.shape, box.strides):
            return False
        if len(row) > 1 and box.offset - last.offset != last.offset - row[-2][side].offset:
            return False
    return True


def _merged_copy(row: Sequence[tuple[Box, Box]]) -> Copy:
    """Return one copy for all pairs of `row`, with a new leading dim for the index in the row."""
    if len(row) == 1:
        return Copy(*row[0])
    boxes: list[Box] = []
    for first, second in zip(*row[:2], strict=True):
        strides = (second.offset - first.offset, *first.strides)
        boxes.append(Box(first.buffer, first.dtype, first.offset, (len(row), *first.shape), strides))
    return Copy(*boxes)
