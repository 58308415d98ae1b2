"""Static memory planning: buffers share bytes if the order of tasks on streams excludes a race.

Two buffers may share bytes if every access of one happens before the first write of the other. Happens-before is the
partial order of streams and events, not the issue order. It is represented by vector clocks: the clock of a point in
time is, for each stream, the number of the stream's tasks that are certainly done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from meshgen.errors import CodegenError, Diagnostic
from meshgen.printable import bytes_text
from meshgen.runtime.plan import STREAMS, aligned

# Most pairs of overlapping storages that are examined to find a smaller arena. chosen: bounds the planning time.
_PAIRS_BUDGET = 100_000

Clock = tuple[int, ...]
MOST_BYTES = (1 << 62) - 1  # Offsets are signed 64-bit numbers, and module files hold counts below 2^62.
# Most storages that `least_bytes` examines, and batch size of `interferences`. chosen: bounds time and memory.
LOOKS = 256
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Lifetime(NamedTuple):
    """The live range of one storage.

    Attributes:
        nbytes: size in bytes, without alignment.
        born: clock at the start of the task that writes the storage. None for inputs and constants, which exist before
            the step.
        last: for each stream, the 1-based position on the stream of the last task that accesses the storage; 0 without
            one.
        stays: whether the storage must outlive the step (input, constant, output).
    """

    nbytes: int
    born: Clock | None
    last: Clock
    stays: bool


def clocks(streams: Sequence[int], waits: Sequence[Sequence[int]]) -> tuple[list[Clock], list[Clock]]:
    """Return for each task in issue order its vector clock at the start and at the end.

    `waits[i]` are the earlier tasks (positions in issue order) that task i waits for by event.
    """
    start: list[Clock] = []
    end: list[Clock] = []
    stream_clocks: list[Clock] = [(0,) * STREAMS] * STREAMS
    for stream, waited in zip(streams, waits, strict=True):
        begin = join([stream_clocks[stream], *(end[w] for w in waited)])
        start.append(begin)
        stream_clocks[stream] = tuple(count + (s == stream) for s, count in enumerate(begin))
        end.append(stream_clocks[stream])
    return start, end


def join(many: Sequence[Clock]) -> Clock:
    """Return the join of vector clocks: the maximum of each component."""
    return tuple(max(counts) for counts in zip(*many, strict=True))


def place(lifetimes: Sequence[Lifetime], least: int | None = None) -> tuple[list[int], int]:
    """Return the offset of each storage, and the bytes of the arena.

    Inputs and constants come first, in order, and share no bytes. The other storages are placed in descending size,
    each at the lowest gap among the storages with which it may not share bytes. If the arena then exceeds the lower
    bound, a second heuristic fills the arena bottom-up. It is repeated, each time starting with the storages that ended
    above the lower bound (squeaky wheel optimization: Joslin and Clements, JAIR 10, 1999). The number of repetitions
    decreases with the number of overlapping pairs. The smallest arena wins.

    `least` is `least_bytes(lifetimes)`, or None if the caller has not computed it.

    Work: for n storages with c overlapping pairs, O(n log n + c log c), plus vectorized work on the storages with
    similar lifetimes.
    """
    if (total := sum(aligned(life.nbytes) for life in lifetimes)) > MOST_BYTES:
        message = f"the buffers of a device have {bytes_text(total)}, more than the address space"
        raise CodegenError(Diagnostic("MG0303", message, hint="split the tensors over more devices"))
    sizes = np.array([aligned(life.nbytes) for life in lifetimes], np.int64)
    fixed = [index for index, life in enumerate(lifetimes) if life.born is None and life.nbytes]
    movable = [index for index, life in enumerate(lifetimes) if life.born is not None and life.nbytes]
    offsets = np.zeros(len(lifetimes), np.int64)
    offsets[fixed] = np.cumsum(sizes[fixed]) - sizes[fixed]
    base = int(sizes[fixed].sum())
    conflicts = interferences(lifetimes, movable)
    by_size = sorted(movable, key=lambda index: (-lifetimes[index].nbytes, index))
    best_placement = _place_in_order(offsets, sizes, base, by_size, conflicts)
    least = least_bytes(lifetimes) if least is None else least
    pairs = sum(map(len, conflicts.values()))
    for _ in range(1 + _PAIRS_BUDGET // max(pairs, 1)):
        if best_placement[1] <= least:
            break
        placement = _place_from_bottom(offsets, sizes, base, movable, conflicts)
        best_placement = min(best_placement, placement, key=lambda plan: plan[1])
        movable.sort(key=lambda index: placement[0][index] + sizes[index] <= least)
    return best_placement


def least_bytes(lifetimes: Sequence[Lifetime]) -> int:
    """Return a lower bound of the arena size in bytes.

    It is the size of inputs and constants, plus the largest set of storages that are live at the same time. Only the
    times when one of the largest storages is written are examined.
    """
    fixed = sum(aligned(life.nbytes) for life in lifetimes if life.born is None)
    movable = sorted((life for life in lifetimes if life.born is not None), key=lambda life: -life.nbytes)
    sizes = np.array([aligned(life.nbytes) for life in movable], np.int64)
    born, last = _ends(movable)
    alive = np.ones((min(LOOKS, len(movable)), len(movable)), bool)
    for clock_counts in born.T:
        alive &= clock_counts <= clock_counts[:LOOKS, None]
    alive &= _used_after(last, born[:LOOKS])
    return fixed + int((alive @ sizes).max(initial=0))


def _ends(lifetimes: Sequence[Lifetime]) -> tuple[Numbers, Numbers]:
    """Return the clock at which each storage is written, and for each stream the position of the last task that
    accesses it.
    """
    born = np.array([life.born for life in lifetimes], np.int64).reshape(-1, STREAMS)
    last = np.array([(MOST_BYTES,) * STREAMS if life.stays else life.last for life in lifetimes], np.int64)
    return born, last.reshape(-1, STREAMS)


def _used_after(last: Numbers, born: Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return for each clock in `born` a mask of the storages that some stream accesses after this clock."""
    is_used = np.zeros((len(born), len(last)), bool)
    for ends, begin in zip(last.T, born.T, strict=True):
        is_used |= ends > begin[:, None]
    return is_used


def interferences(lifetimes: Sequence[Lifetime], storages: Sequence[int]) -> dict[int, Numbers]:
    """Return, for each storage in `storages`, the other storages with which it may not share bytes. Tasks write all of
    them.

    The algorithm visits storages in an order in which none comes before a storage that is dead when it is written. An
    earlier storage thus conflicts with a new storage exactly if some stream accesses the earlier one after the new one
    is written. Storages that are dead at all later writes are dropped.
    """
    in_order = np.array(sorted(storages, key=lambda n: sum(lifetimes[n].born or ())), np.int64)
    born, last = _ends([lifetimes[n] for n in in_order])
    later_births = np.minimum.accumulate(born[::-1])[::-1]
    pairs: list[Numbers] = []
    active = np.zeros(0, np.int64)
    for start in range(0, len(in_order), LOOKS):
        batch = np.arange(start, min(start + LOOKS, len(in_order)))
        active = np.concatenate([active, batch])
        later, earlier = np.nonzero(_used_after(last[active], born[batch]) & (active < batch[:, None]))
        pairs.append(np.stack([batch[later], active[earlier]]))
        if batch[-1] + 1 < len(in_order):
            active = active[(last[active] > later_births[batch[-1] + 1]).any(axis=1)]
    return _by_storage(in_order, np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0), np.int64))


def _by_storage(storages: Numbers, pairs: Numbers) -> dict[int, Numbers]:
    """Map each storage in `storages` to the storages that it is paired with. `pairs` holds positions in `storages`."""
    owners, partners = np.concatenate([pairs, pairs[::-1]], axis=1)
    order = np.argsort(owners, kind="stable")
    parts = np.split(storages[partners[order]], np.cumsum(np.bincount(owners, minlength=len(storages)))[:-1])
    return dict(zip(storages.tolist(), parts, strict=False))


def _place_in_order(
    fixed: Numbers, sizes: Numbers, base: int, order: Sequence[int], conflicts: Mapping[int, Numbers]
) -> tuple[list[int], int]:
    """Place the storages of `order` one by one after the first `base` bytes. Return all offsets and the arena size."""
    offsets = fixed.copy()
    ends = np.full_like(offsets, base)  # end of each placed storage; a storage that is not placed yet has size 0
    offsets[order] = base
    for storage in order:
        conflicting = conflicts[storage]
        conflicting = conflicting[np.argsort(offsets[conflicting], kind="stable")]
        offsets[storage] = _lowest_gap(int(sizes[storage]), base, offsets[conflicting], ends[conflicting])
        ends[storage] = offsets[storage] + sizes[storage]
    return offsets.tolist(), int(ends.max(initial=base))


def _place_from_bottom(
    fixed: Numbers, sizes: Numbers, base: int, order: Sequence[int], conflicts: Mapping[int, Numbers]
) -> tuple[list[int], int]:
    """Place the storages of `order` after `base`, the lowest possible offset first. Return all offsets and the arena
    size.

    Of storages with the same lowest possible offset, the one that comes first in `order` is placed.
    """
    offsets, ordered_sizes, top = fixed.tolist(), sizes[list(order)].tolist(), base
    rank_of = np.zeros(len(fixed), np.int64)
    rank_of[list(order)] = np.arange(len(order))
    # for each position in `order`, the end of the placed storages that the storage must not overlap
    lowest = np.full(len(order), base, np.int64)
    placed = np.iinfo(np.int64).max
    for _ in order:
        rank = int(lowest.argmin())
        storage, offset = order[rank], int(lowest[rank])
        offsets[storage], end = offset, offset + ordered_sizes[rank]
        top = max(top, end)
        conflicting = rank_of[conflicts[storage]]
        lowest[conflicting] = np.maximum(lowest[conflicting], end)
        lowest[rank] = placed
    return offsets, top


def _lowest_gap(size: int, base: int, starts: Numbers, ends: Numbers) -> int:
    """Return the lowest offset, at least `base`, of `size` free bytes between occupied ranges. `starts` are ascending."""
    # the offset from which on all earlier storages have ended
    free = np.concatenate([[base], np.maximum.accumulate(ends)])
    fits = np.flatnonzero(starts - free[:-1] >= size)
    return int(free[fits[0]] if fits.size else free[-1])
