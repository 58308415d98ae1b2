"""A linear-time search for buffers that share bytes although both are live.

The writes define an order of the buffers that use the same bytes. If each buffer is dead before the next one in this
order is written, it is dead before all later ones are. So only neighbors in this order are compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

Clock: TypeAlias = tuple[int, ...]  # index of the last item on each stream, or -1 if there is none


class Use(NamedTuple):
    """The bytes of a storage, or of a part of it, and the items that use the storage.

    Attributes:
        writer: the item that writes the storage, or None if it is set before the step.
        touched: the last items on each stream that use the storage.
        stays: whether the storage is live until the step ends.
        replaces: the storage with the same bytes that the writer reads and overwrites, or None.
    """

    number: int
    start: int
    end: int
    writer: int | None
    touched: Clock
    stays: bool
    replaces: int | None = None


def conflicts(uses: Sequence[Use], done: Sequence[Clock]) -> Iterator[tuple[Use, Use]]:
    """Yield pairs of uses that share bytes. The first storage is live when the second storage is written.

    Args:
        done: the vector clock of each item (see `checker.Order`).
    """
    owners = _Owners()
    for use in sorted(uses, key=lambda use: (-1 if use.writer is None else use.writer, use.number)):
        before = () if use.writer is None else done[use.writer]
        for occupant in dict.fromkeys(owners.hand_over(use)):
            last_uses = occupant.touched
            if occupant.number == use.replaces:
                # The writer may read the storage that it overwrites, because it reads before it writes.
                last_uses = tuple(last if last != use.writer else -1 for last in last_uses)
            is_over = all(last <= clock for last, clock in zip(last_uses, before, strict=False))
            if occupant.stays or use.writer is None or not is_over:
                yield occupant, use


class _Owners:
    """The storage that currently occupies each byte of the arena, as ordered segments."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._segments: list[tuple[int, Use]] = []  # (end, storage) of each segment

    def hand_over(self, use: Use) -> list[Use]:
        """Assign the bytes of `use` to its storage, and return the previous occupants, once per segment."""
        first = max(0, bisect_right(self._starts, use.start) - 1)
        if first < len(self._starts) and self._segments[first][0] <= use.start:
            first += 1
        last = first
        while last < len(self._starts) and self._starts[last] < use.end:
            last += 1
        overlapping = list(zip(self._starts[first:last], self._segments[first:last], strict=True))
        segments = [(use.start, (use.end, use))]
        if overlapping and overlapping[0][0] < use.start:
            segments.insert(0, (overlapping[0][0], (use.start, overlapping[0][1][1])))
        if overlapping and overlapping[-1][1][0] > use.end:
            segments.append((use.end, overlapping[-1][1]))
        self._starts[first:last] = [start for start, _ in segments]
        self._segments[first:last] = [segment for _, segment in segments]
        return [owner for _, (_, owner) in overlapping]
