"""Buffers that share bytes while both are live, in linear time.

Bytes pass from one buffer to the next in the order of writes. If each buffer is dead before the next
one of the same bytes is written, it is dead before all later ones: only neighbours in this order are checked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

Clock: TypeAlias = tuple[int, ...]  # the last of some items on each stream; -1: none


class Use(NamedTuple):
    """A storage's bytes, who writes it (None: it is in place before the step), and the last items that touch it.

    `stays`: it is live until the step ends. `replaces`: the storage of the same bytes that its writer reads.
    """

    number: int
    start: int
    end: int
    writer: int | None
    touched: Clock
    stays: bool
    replaces: int | None = None


def conflicts(uses: Sequence[Use], done: Sequence[Clock]) -> Iterator[tuple[Use, Use]]:
    """Pairs of storages that share bytes where the first is live when the second is written.

    Args:
        done: vector clocks, as in `checker.Order`.
    """
    owners = _Owners()
    for use in sorted(uses, key=lambda use: (-1 if use.writer is None else use.writer, use.number)):
        before = () if use.writer is None else done[use.writer]
        for other in dict.fromkeys(owners.hand_over(use)):
            ends = other.touched
            if other.number == use.replaces:
                ends = tuple(last if last != use.writer else -1 for last in ends)  # it writes after it has read
            is_over = all(last <= clock for last, clock in zip(ends, before, strict=False))
            if other.stays or use.writer is None or not is_over:
                yield other, use


class _Owners:
    """The last owner of each byte, as ordered segments."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._segments: list[tuple[int, Use]] = []  # end and owner

    def hand_over(self, use: Use) -> list[Use]:
        """Assign bytes to a storage; returns the previous owners, once for each piece."""
        first = max(0, bisect_right(self._starts, use.start) - 1)
        if first < len(self._starts) and self._segments[first][0] <= use.start:
            first += 1
        last = first
        while last < len(self._starts) and self._starts[last] < use.end:
            last += 1
        taken = list(zip(self._starts[first:last], self._segments[first:last], strict=True))
        pieces = [(use.start, (use.end, use))]
        if taken and taken[0][0] < use.start:
            pieces.insert(0, (taken[0][0], (use.start, taken[0][1][1])))
        if taken and taken[-1][1][0] > use.end:
            pieces.append((use.end, taken[-1][1]))
        self._starts[first:last] = [start for start, _ in pieces]
        self._segments[first:last] = [segment for _, segment in pieces]
        return [owner for _, (_, owner) in taken]
