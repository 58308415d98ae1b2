"""Where every buffer lies: a static plan that lets buffers share bytes when streams cannot make them race.

Two buffers may share bytes if every access of one happens before the write of the other: before in the
partial order that streams and events give, not in the list. That order is kept as one clock per task: for
each stream, how many of its tasks are surely done when the task starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.runtime.plan import STREAMS, aligned

Clock = tuple[int, ...]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Lifetime:
    """When the bytes of one storage are in use.

    Attributes:
        nbytes: size, without alignment.
        born: clock of the task that writes it; None: it is in place before the step (input, constant).
        last: per stream, the number of the last task (from 1) that touches it; 0: none there.
        stays: whether it must outlive the step (input, constant, output).
    """

    nbytes: int
    born: Clock | None
    last: Clock
    stays: bool


def clocks(streams: Sequence[int], waits: Sequence[Sequence[int]]) -> tuple[list[Clock], list[Clock]]:
    """Per task in issue order its clock at the start and at the end.

    `waits[i]` are the earlier tasks (numbers in issue order) that task i waits for by event.
    """
    start: list[Clock] = []
    end: list[Clock] = []
    now: list[Clock] = [(0,) * STREAMS] * STREAMS
    for stream, waited in zip(streams, waits, strict=True):
        begin = join([now[stream], *(end[w] for w in waited)])
        start.append(begin)
        now[stream] = tuple(count + (s == stream) for s, count in enumerate(begin))
        end.append(now[stream])
    return start, end


def join(many: Sequence[Clock]) -> Clock:
    """What is surely done when all of `many` are."""
    return tuple(max(counts) for counts in zip(*many, strict=True))


def place(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Offset of each storage, and the bytes of the arena.

    What is in place before the step comes first, in order. The rest goes to the lowest gap among the storages
    that it may not share bytes with: once biggest first, once in order, and the smaller arena wins.
    """
    fixed = [n for n, life in enumerate(lifetimes) if life.born is None]
    rest = [n for n, life in enumerate(lifetimes) if life.born is not None]
    by_size = sorted(rest, key=lambda n: (-lifetimes[n].nbytes, n))
    clashes = _Clashes(lifetimes)
    plans = [_place_in_order(lifetimes, fixed + order, clashes) for order in (by_size, rest)]
    return min(plans, key=lambda plan: plan[1])


class _Clashes:
    """Which storages may not share bytes, for many at once: a plan asks once per storage about all placed ones."""

    def __init__(self, lifetimes: Sequence[Lifetime]) -> None:
        never = (-1,) * STREAMS  # a clock at which nothing has happened, not even what touches nothing
        self._born = np.array([life.born or never for life in lifetimes], np.int64).reshape(-1, STREAMS)
        self._last = np.array([life.last for life in lifetimes], np.int64).reshape(-1, STREAMS)
        self._stays = np.array([life.stays for life in lifetimes], np.bool_)

    def of(self, number: int, others: Numbers) -> Any:
        """Per entry of `others`, whether it clashes with storage `number`."""
        after = (self._last[others] <= self._born[number]).all(1) & ~self._stays[others]
        before = (self._last[number] <= self._born[others]).all(1) & ~self._stays[number]
        return ~(after | before)


def _place_in_order(lifetimes: Sequence[Lifetime], order: Sequence[int], clashes: _Clashes) -> tuple[list[int], int]:
    offsets = [0] * len(lifetimes)
    placed = np.empty((3, 0), np.int64)  # offset, end, storage; by offset
    for number in order:
        size = aligned(lifetimes[number].nbytes)
        if size:
            offset = _lowest_gap(size, placed[:2, clashes.of(number, placed[2])])
            offsets[number] = offset
            place = int(np.searchsorted(placed[0], offset))
            placed = np.insert(placed, place, (offset, offset + size, number), axis=1)
    return offsets, int(placed[1].max(initial=0))


def _lowest_gap(size: int, taken: Numbers) -> int:
    """Lowest offset with `size` free bytes; `taken` has rows of offsets, rising, and ends."""
    starts, ends = taken
    free = np.concatenate([[0], np.maximum.accumulate(ends)])  # from where on everything before is over
    fits = np.flatnonzero(starts - free[:-1] >= size)
    return int(free[fits[0]] if fits.size else free[-1])
