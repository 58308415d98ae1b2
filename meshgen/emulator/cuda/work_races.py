"""Race detection between work items: unordered accesses to the same bytes, at least one of which is a write.

An unordered pair is reported even if the executed order is harmless, because another legal order may be harmful.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.emulator.cuda.timeline import Work
from meshgen.emulator.faults import DeviceFault

Array = np.ndarray[Any, Any]
Ranges = np.ndarray[Any, np.dtype[np.int64]]  # [n, 2]: addresses [start, stop), sorted and disjoint
READ, WRITE = 0, 1


def one_range(address: int, nbytes: int) -> Ranges:
    return np.array([[address, address + nbytes]], np.int64)


def common(left: Ranges, right: Ranges) -> tuple[int, int] | None:
    """Return the first bytes that are in both range lists, or None if they are disjoint."""
    # index of the first range in `right` that ends after the start
    candidate = np.searchsorted(right[:, 1], left[:, 0], side="right")
    inside = np.minimum(candidate, len(right) - 1)
    hits = np.flatnonzero((candidate < len(right)) & (right[inside, 0] < left[:, 1]))
    if not len(hits):
        return None
    left_range, right_range = left[hits[0]], right[inside[hits[0]]]
    return int(max(left_range[0], right_range[0])), int(min(left_range[1], right_range[1]))


def merged(ranges: Ranges) -> Ranges:
    """Return the ranges sorted and merged, so that they are disjoint."""
    if len(ranges) < 2:
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([ranges[first, 0], ends[last]], 1)


class Accesses:
    """The reads and writes of one kernel execution."""

    def __init__(self) -> None:
        self._ranges_by_kind: tuple[list[Ranges], list[Ranges]] = [], []

    def add(self, addresses: Array, nbytes: int, write: bool) -> None:
        """Record an access to `nbytes` at each address."""
        starts = np.unique(addresses).astype(np.int64)
        self._ranges_by_kind[WRITE if write else READ].append(merged(np.stack([starts, starts + nbytes], 1)))

    def ranges(self, kind: int) -> Ranges:
        """Return the ranges of all accesses of `kind` (`READ` or `WRITE`)."""
        recorded = self._ranges_by_kind[kind]
        return merged(np.concatenate(recorded)) if recorded else np.empty((0, 2), np.int64)


class History:
    """The accesses to each allocation since the host last waited for all work, for the detection of races."""

    def __init__(self, name_of: Callable[[int, int], str]) -> None:
        self._name_of = name_of
        self._works: dict[int, Work] = {}
        # (allocation, kind, index of the work item) -> ranges
        self._ranges: dict[tuple[int, int, int], list[Ranges]] = defaultdict(list)
        # (allocation, kind) -> bit set of the work items with such accesses
        self._masks: dict[tuple[int, int], int] = defaultdict(int)

    def clear(self) -> None:
        self._works.clear()
        self._ranges.clear()
        self._masks.clear()

    def add(self, work: Work, kind: int, allocation: int, ranges: Ranges) -> None:
        """Record an access of the running work item. Raises DeviceFault "race" if no order exists between it and an
        earlier conflicting access.
        """
        if not len(ranges):
            return
        ordered = work.before | 1 << work.number
        for other_kind in (WRITE,) if kind == READ else (READ, WRITE):
            unordered = self._masks[allocation, other_kind] & ~ordered
            while unordered:
                number = (unordered & -unordered).bit_length() - 1
                unordered &= unordered - 1
                self._compare(work, kind, ranges, allocation, other_kind, number)
        self._works[work.number] = work
        self._masks[allocation, kind] |= 1 << work.number
        self._ranges[allocation, kind, work.number].append(ranges)

    def _compare(self, work: Work, kind: int, ranges: Ranges, allocation: int, other_kind: int, number: int) -> None:
        for other in self._ranges[allocation, other_kind, number]:
            if conflict := common(ranges, other):
                verbs = ("reads", "writes")
                raise DeviceFault(
                    "race",
                    f"{self._works[number].label} {verbs[other_kind]} and {work.label} {verbs[kind]} "
                    f"{self._name_of(*conflict)}, and no stream, event or graph edge orders them",
                )
