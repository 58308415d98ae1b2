"""The static memory plan: buffers share bytes where stream order excludes a race.

Two buffers may share bytes if every access of one happens before the write of the other: before in the
partial order that streams and events give, not in the list. That order is kept as one clock per task: for
each stream, how many of its tasks are surely done when the task starts.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.errors import CodegenError, Diagnostic
from meshgen.records import dataclass
from meshgen.runtime.plan import STREAMS, aligned

Clock = tuple[int, ...]
MOST_BYTES = (1 << 62) - 1  # offsets are signed numbers of 64 bits, and modules hold counts below 2^62
LOOKS = 256  # storages at whose writes `least_bytes` counts
Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Lifetime:
    """The live range of one storage.

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
    """The join of vector clocks."""
    return tuple(max(counts) for counts in zip(*many, strict=True))


def place(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Offset of each storage, and the bytes of the arena.

    What is in place before the step comes first, in order, and shares nothing. The rest goes to the lowest gap among the storages that
    it may not share bytes with, biggest first. Where that may take fewer bytes, it goes from the bottom up, and again with those first
    that ended above the lower bound (squeaky wheel optimization: Joslin and Clements, JAIR 10, 1999), a number of times that falls with
    the number of pairs. The smallest arena wins.
    Work: for n storages, c pairs of which are alive together, O(n log n + c log c).
    """
    if (total := sum(aligned(life.nbytes) for life in lifetimes)) > MOST_BYTES:
        message = f"the buffers of a device have {total:.3g} bytes, more than the address space"
        raise CodegenError(Diagnostic("MG0303", message, hint="split the tensors over more devices"))
    sizes = np.array([aligned(life.nbytes) for life in lifetimes], np.int64)
    fixed = [n for n, life in enumerate(lifetimes) if life.born is None and life.nbytes]
    rest = [n for n, life in enumerate(lifetimes) if life.born is not None and life.nbytes]
    offsets = np.zeros(len(lifetimes), np.int64)
    offsets[fixed] = np.cumsum(sizes[fixed]) - sizes[fixed]
    base = int(sizes[fixed].sum())
    apart = interferences(lifetimes, rest)
    by_size = sorted(rest, key=lambda n: (-lifetimes[n].nbytes, n))
    best, least = _place_in_order(offsets, sizes, base, by_size, apart), least_bytes(lifetimes)
    pairs = sum(map(len, apart.values()))
    for _ in range(1 + DEFAULT.scheduling.placed_pairs // max(pairs, 1)):
        if best[1] <= least:
            break
        found = _place_from_bottom(offsets, sizes, base, rest, apart)
        best = min(best, found, key=lambda plan: plan[1])
        rest.sort(key=lambda n: found[0][n] + sizes[n] <= least)
    return best


def least_bytes(lifetimes: Sequence[Lifetime]) -> int:
    """Bytes that no arena is below: what is in place before the step, and the most that is alive when one of the largest storages is written.

    What is written by then and used after it may share no bytes with each other.
    """
    fixed = sum(aligned(life.nbytes) for life in lifetimes if life.born is None)
    rest = sorted((life for life in lifetimes if life.born is not None), key=lambda life: -life.nbytes)
    sizes = np.array([aligned(life.nbytes) for life in rest], np.int64)
    born = np.array([life.born for life in rest], np.int64).reshape(-1, STREAMS)
    ends = [(MOST_BYTES,) * STREAMS if life.stays else life.last for life in rest]
    last = np.array(ends, np.int64).reshape(-1, STREAMS)
    looked_at = born[:LOOKS, None]
    alive = (born <= looked_at).all(axis=2) & (last > looked_at).any(axis=2)
    return fixed + int((alive @ sizes).max(initial=0))


def interferences(lifetimes: Sequence[Lifetime], numbers: Sequence[int]) -> dict[int, Numbers]:
    """For each storage of `numbers`, all of which a task writes: those of them that it may not share bytes with.

    Storages come up in an order in which none follows one that is written after its end. So what an earlier one
    does in common with a new one is a question of its end alone: whether on some stream it comes after the new one's
    birth. That is the tail of a list that is sorted by end.
    """
    found: dict[int, list[int]] = {n: [] for n in numbers}
    by_last: list[list[tuple[float, int]]] = [[] for _ in range(STREAMS)]
    for number in sorted(numbers, key=lambda n: sum(lifetimes[n].born or ())):
        life = lifetimes[number]
        assert life.born is not None
        alive = {n for ends, begin in zip(by_last, life.born, strict=True) for n in _after(ends, begin)}
        found[number] += alive
        for other in alive:
            found[other].append(number)
        for ends, last in zip(by_last, life.last, strict=True):
            bisect.insort(ends, (math.inf if life.stays else last, number))
    return {number: np.array(near, np.int64) for number, near in found.items()}


def _after(ends: Sequence[tuple[float, int]], begin: int) -> list[int]:
    """The storages that end after the first `begin` tasks; `ends` is sorted."""
    return [number for _, number in ends[bisect.bisect(ends, (begin, math.inf)) :]]


def _place_in_order(
    fixed: Numbers, sizes: Numbers, base: int, order: Sequence[int], apart: Mapping[int, Numbers]
) -> tuple[list[int], int]:
    """Offsets and arena with the storages of `order` placed consecutively after the first `base` bytes."""
    offsets = fixed.copy()
    ends = np.full_like(offsets, base)  # of what is placed; before that it takes no room
    offsets[order] = base
    for number in order:
        near = apart[number]
        near = near[np.argsort(offsets[near], kind="stable")]
        offsets[number] = _lowest_gap(int(sizes[number]), base, offsets[near], ends[near])
        ends[number] = offsets[number] + sizes[number]
    return offsets.tolist(), int(ends.max(initial=base))


def _place_from_bottom(
    fixed: Numbers, sizes: Numbers, base: int, order: Sequence[int], apart: Mapping[int, Numbers]
) -> tuple[list[int], int]:
    """Offsets and arena where the storage that can be lowest is placed next, after the first `base` bytes; of several the first in order."""
    offsets, size, top = fixed.tolist(), sizes.tolist(), base
    near = {number: apart[number].tolist() for number in order}
    lowest = dict.fromkeys(order, base)  # of those that are not placed: the end of what is below
    waiting = [(base, rank, number) for rank, number in enumerate(order)]
    rank_of = {number: rank for rank, number in enumerate(order)}
    while waiting:
        offset, _, number = heapq.heappop(waiting)
        if lowest.get(number) != offset:
            continue  # placed, or moved up
        offsets[number], end = offset, offset + size[number]
        del lowest[number]
        top = max(top, end)
        for other in near[number]:
            if lowest.get(other, end) < end:
                lowest[other] = end
                heapq.heappush(waiting, (end, rank_of[other], other))
    return offsets, top


def _lowest_gap(size: int, base: int, starts: Numbers, ends: Numbers) -> int:
    """Lowest offset from `base` on with `size` free bytes; `starts` rise."""
    free = np.concatenate([[base], np.maximum.accumulate(ends)])  # from where on everything before is over
    fits = np.flatnonzero(starts - free[:-1] >= size)
    return int(free[fits[0]] if fits.size else free[-1])
