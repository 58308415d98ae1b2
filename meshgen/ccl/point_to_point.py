"""Lowering of sends and receives of strided views. Views that are not contiguous are packed and unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from meshgen.ccl.steps import SCRATCH, Box, Copy, Message, Messages, Step, dense


@dataclass
class Scratch:
    """A bump allocator in scratch memory. `used` counts elements, which all have one type."""

    used: int = 0

    def take(self, dtype: str, shape: Sequence[int]) -> Box:
        """Allocate a contiguous array of `shape` and return its view."""
        box = dense(SCRATCH, dtype, shape, self.used)
        self.used += box.size
        return box


@dataclass
class PointToPoint:
    """The concurrent sends and receives of a rank, and the copies within the rank.

    The sends to a peer and the receives of this peer match in order. Empty views are skipped.

    Attributes:
        axes: mesh axes of the communicator; empty between meshes.
        sends: (world rank of the receiver, view of the operand) per message.
        receives: (world rank of the sender, view of the result) per message.
        local_copies: (view of the operand, view of the result) pairs of this rank, which are copied first.
    """

    axes: tuple[str, ...]
    sends: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    receives: list[tuple[int, Box]] = field(default_factory=list[tuple[int, Box]])
    local_copies: list[tuple[Box, Box]] = field(default_factory=list[tuple[Box, Box]])

    def steps(self, scratch: Scratch | None = None) -> list[Step]:
        """Return the steps: local copies, packing, messages, unpacking.

        The `Messages` step is present even if it is empty, because all ranks must have the same communicating steps.
        """
        scratch = scratch or Scratch()
        packed = _staged((box for _, box in self.sends), scratch)
        sends = [Message(peer, packed.get(box, box)) for peer, box in self.sends if box.size]
        unpacked = _staged((box for _, box in self.receives), scratch)
        receives = [Message(peer, unpacked.get(box, box)) for peer, box in self.receives if box.size]
        return [
            *copies(self.local_copies),
            *copies(packed.items()),
            Messages(tuple(sends), tuple(receives), self.axes),
            *copies((staged, box) for box, staged in unpacked.items()),
        ]


def _staged(boxes: Iterable[Box], scratch: Scratch) -> dict[Box, Box]:
    """Allocate scratch for the views that are not contiguous, and return a map from each such view to its scratch."""
    return {box: scratch.take(box.dtype, box.shape) for box in dict.fromkeys(boxes) if not box.is_contiguous}


def copies(pairs: Iterable[tuple[Box, Box]]) -> list[Step]:
    """Return copies for the non-empty (source, target) pairs.

    Equidistant pairs are merged into one copy, which is one launch.
    """
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
    """Whether the copy `pair` continues the equidistant copies in `row`: same buffers, shapes and distance."""
    for side, box in enumerate(pair):
        last = row[-1][side]
        if (last.buffer, last.shape, last.strides) != (box.buffer, box.shape, box.strides):
            return False
        if len(row) > 1 and box.offset - last.offset != last.offset - row[-2][side].offset:
            return False
    return True


def _merged_copy(row: Sequence[tuple[Box, Box]]) -> Copy:
    """Return one copy for all equidistant pairs in `row`.

    Its views have a new leading dim for the index of the pair.
    """
    if len(row) == 1:
        return Copy(*row[0])
    boxes: list[Box] = []
    for first, second in zip(*row[:2], strict=True):
        strides = (second.offset - first.offset, *first.strides)
        boxes.append(Box(first.buffer, first.dtype, first.offset, (len(row), *first.shape), strides))
    return Copy(*boxes)
