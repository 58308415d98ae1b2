"""Where every buffer lies: a static plan that lets buffers share bytes when streams cannot make them race.

Two buffers may share bytes if every access of one happens before the write of the other: before in the
partial order that streams and events give, not in the list. That order is kept as one clock per task: for
each stream, how many of its tasks are surely done when the task starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshgen.runtime.plan import STREAMS, aligned

Clock = tuple[int, ...]


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

    def is_over_before(self, other: Lifetime) -> bool:
        """Whether every access happens before the other storage is written."""
        if self.stays or other.born is None:
            return False
        return all(mine <= done for mine, done in zip(self.last, other.born, strict=True))


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
    plans = [_place_in_order(lifetimes, fixed + order) for order in (by_size, rest)]
    return min(plans, key=lambda plan: plan[1])


def _place_in_order(lifetimes: Sequence[Lifetime], order: Sequence[int]) -> tuple[list[int], int]:
    offsets = [0] * len(lifetimes)
    placed: list[tuple[int, int, int]] = []  # (offset, end, storage), sorted
    for number in order:
        size = aligned(lifetimes[number].nbytes)
        offset = _lowest_gap(size, [p for p in placed if _clash(lifetimes[p[2]], lifetimes[number])])
        offsets[number] = offset
        if size:
            placed.append((offset, offset + size, number))
            placed.sort()
    return offsets, max((end for _, end, _ in placed), default=0)


def _clash(left: Lifetime, right: Lifetime) -> bool:
    return not (left.is_over_before(right) or right.is_over_before(left))


def _lowest_gap(size: int, taken: Sequence[tuple[int, int, int]]) -> int:
    """Lowest offset with `size` free bytes; `taken` is sorted by offset."""
    offset = 0
    for start, end, _ in taken:
        if offset + size <= start:
            break
        offset = max(offset, end)
    return offset
