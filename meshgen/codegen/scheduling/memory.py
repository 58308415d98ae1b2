"""The static memory plan: buffers share bytes where stream order excludes a race.

Two buffers may share bytes if every access of one happens before the write of the other: before in the
partial order that streams and events give, not in the list. That order is kept as one clock per task: for
each stream, how many of its tasks are surely done when the task starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from meshgen.errors import CodegenError, Diagnostic
from meshgen.printable import bytes_text
from meshgen.runtime.plan import STREAMS, aligned

# Pairs of storages alive together that are examined to find a smaller arena.
_PLACED_PAIRS = 100_000

Clock = tuple[int, ...]
MOST_BYTES = (1 << 62) - 1  # offsets are signed numbers of 64 bits, and modules hold counts below 2^62
LOOKS = 256  # storages at whose writes `least_bytes` counts, and that `interferences` compares with others at a time
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Lifetime(NamedTuple):
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


def place(lifetimes: Sequence[Lifetime], least: int | None = None) -> tuple[list[int], int]:
    """Offset of each storage, and the bytes of the arena.

    What is in place before the step comes first, in order, and shares nothing. The rest goes to the lowest gap among the storages that
    it may not share bytes with, biggest first. Where that may take fewer bytes, it goes from the bottom up, and again with those first
    that ended above the lower bound (squeaky wheel optimization: Joslin and Clements, JAIR 10, 1999), a number of times that falls with
    the number of pairs. The smallest arena wins. `least` is `least_bytes` where that is known.
    Work: for n storages, c pairs of which are alive together, O(n log n + c log c), and numpy's for the storages near each in time.
    """
    if (total := sum(aligned(life.nbytes) for life in lifetimes)) > MOST_BYTES:
        message = f"the buffers of a device have {bytes_text(total)}, more than the address space"
        raise CodegenError(Diagnostic("MG0303", message, hint="split the tensors over more devices"))
    sizes = np.array([aligned(life.nbytes) for life in lifetimes], np.int64)
    fixed = [n for n, life in enumerate(lifetimes) if life.born is None and life.nbytes]
    rest = [n for n, life in enumerate(lifetimes) if life.born is not None and life.nbytes]
    offsets = np.zeros(len(lifetimes), np.int64)
    offsets[fixed] = np.cumsum(sizes[fixed]) - sizes[fixed]
    base = int(sizes[fixed].sum())
    apart = interferences(lifetimes, rest)
    by_size = sorted(rest, key=lambda n: (-lifetimes[n].nbytes, n))
    best = _place_in_order(offsets, sizes, base, by_size, apart)
    least = least_bytes(lifetimes) if least is None else least
    pairs = sum(map(len, apart.values()))
    for _ in range(1 + _PLACED_PAIRS // max(pairs, 1)):
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
    born, last = _ends(rest)
    alive = np.ones((min(LOOKS, len(rest)), len(rest)), bool)
    for own in born.T:
        alive &= own <= own[:LOOKS, None]
    alive &= _used_after(last, born[:LOOKS])
    return fixed + int((alive @ sizes).max(initial=0))


def _ends(lifetimes: Sequence[Lifetime]) -> tuple[Numbers, Numbers]:
    """When storages are written, and after how many tasks of each stream nothing touches them."""
    born = np.array([life.born for life in lifetimes], np.int64).reshape(-1, STREAMS)
    last = np.array([(MOST_BYTES,) * STREAMS if life.stays else life.last for life in lifetimes], np.int64)
    return born, last.reshape(-1, STREAMS)


def _used_after(last: Numbers, born: Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each birth, the storages that are used after it on some stream."""
    found = np.zeros((len(born), len(last)), bool)
    for ends, begin in zip(last.T, born.T, strict=True):
        found |= ends > begin[:, None]
    return found


def interferences(lifetimes: Sequence[Lifetime], numbers: Sequence[int]) -> dict[int, Numbers]:
    """For each storage of `numbers`, all of which a task writes: those of them that it may not share bytes with.

    Storages come up in an order in which none follows one that is written after its end. So what an earlier one
    does in common with a new one is a question of its end alone: whether on some stream it comes after the new one's
    birth. What has ended at the births of all that are to come is asked no more.
    """
    in_order = np.array(sorted(numbers, key=lambda n: sum(lifetimes[n].born or ())), np.int64)
    born, last = _ends([lifetimes[n] for n in in_order])
    to_come = np.minimum.accumulate(born[::-1])[::-1]
    pairs: list[Numbers] = []
    active = np.zeros(0, np.int64)
    for start in range(0, len(in_order), LOOKS):
        new = np.arange(start, min(start + LOOKS, len(in_order)))
        active = np.concatenate([active, new])
        later, earlier = np.nonzero(_used_after(last[active], born[new]) & (active < new[:, None]))
        pairs.append(np.stack([new[later], active[earlier]]))
        if new[-1] + 1 < len(in_order):
            active = active[(last[active] > to_come[new[-1] + 1]).any(axis=1)]
    return _neighbours(in_order, np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0), np.int64))


def _neighbours(numbers: Numbers, pairs: Numbers) -> dict[int, Numbers]:
    """By number, the numbers with which each is in a pair; pairs are of places in `numbers`."""
    owners, others = np.concatenate([pairs, pairs[::-1]], axis=1)
    order = np.argsort(owners, kind="stable")
    parts = np.split(numbers[others[order]], np.cumsum(np.bincount(owners, minlength=len(numbers)))[:-1])
    return dict(zip(numbers.tolist(), parts, strict=False))


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
    offsets, own, top = fixed.tolist(), sizes[list(order)].tolist(), base
    rank_of = np.zeros(len(fixed), np.int64)
    rank_of[list(order)] = np.arange(len(order))
    lowest = np.full(len(order), base, np.int64)  # by rank, the end of what is below
    placed = np.iinfo(np.int64).max
    for _ in order:
        rank = int(lowest.argmin())
        number, offset = order[rank], int(lowest[rank])
        offsets[number], end = offset, offset + own[rank]
        top = max(top, end)
        near = rank_of[apart[number]]
        lowest[near] = np.maximum(lowest[near], end)
        lowest[rank] = placed
    return offsets, top


def _lowest_gap(size: int, base: int, starts: Numbers, ends: Numbers) -> int:
    """Lowest offset from `base` on with `size` free bytes; `starts` rise."""
    free = np.concatenate([[base], np.maximum.accumulate(ends)])  # from where on everything before is over
    fits = np.flatnonzero(starts - free[:-1] >= size)
    return int(free[fits[0]] if fits.size else free[-1])
