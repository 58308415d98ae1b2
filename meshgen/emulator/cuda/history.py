"""Finds accesses to the same bytes that nothing orders, at least one of them a write.

Whether they conflict in the order that happens to run does not matter: it is enough that some order would make them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.emulator.cuda.timeline import Work
from meshgen.emulator.faults import DeviceFault

Array = np.ndarray[Any, Any]
Ranges = np.ndarray[Any, np.dtype[np.int64]]  # [n, 2]: addresses [start, stop), ascending and apart
READ, WRITE = 0, 1


def one_range(address: int, nbytes: int) -> Ranges:
    return np.array([[address, address + nbytes]], np.int64)


def common(left: Ranges, right: Ranges) -> tuple[int, int] | None:
    """The first bytes that are in both; None where there are none."""
    place = np.searchsorted(right[:, 1], left[:, 0], side="right")  # the first range that ends behind the start
    inside = np.minimum(place, len(right) - 1)
    hits = np.flatnonzero((place < len(right)) & (right[inside, 0] < left[:, 1]))
    if not len(hits):
        return None
    own, other = left[hits[0]], right[inside[hits[0]]]
    return int(max(own[0], other[0])), int(min(own[1], other[1]))


def merged(ranges: Ranges) -> Ranges:
    """The same bytes as ranges that ascend and are apart."""
    if len(ranges) < 2:
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([ranges[first, 0], ends[last]], 1)


class Accesses:
    """The reads and writes of a kernel while it runs."""

    def __init__(self) -> None:
        self._found: tuple[list[Ranges], list[Ranges]] = [], []

    def add(self, addresses: Array, nbytes: int, write: bool) -> None:
        """`nbytes` at each address."""
        starts = np.unique(addresses).astype(np.int64)
        self._found[WRITE if write else READ].append(merged(np.stack([starts, starts + nbytes], 1)))

    def ranges(self, kind: int) -> Ranges:
        """All that was read, or written."""
        found = self._found[kind]
        return merged(np.concatenate(found)) if found else np.empty((0, 2), np.int64)


class History:
    """Accesses to bytes since the host last waited for everything, by allocation."""

    def __init__(self, name_of: Callable[[int, int], str]) -> None:
        self._name_of = name_of
        self._works: dict[int, Work] = {}
        self._ranges: dict[tuple[int, int, int], list[Ranges]] = defaultdict(list)  # by allocation, kind, number
        self._masks: dict[tuple[int, int], int] = defaultdict(int)  # by allocation and kind: bits of who did it

    def clear(self) -> None:
        self._works.clear()
        self._ranges.clear()
        self._masks.clear()

    def add(self, work: Work, kind: int, allocation: int, ranges: Ranges) -> None:
        """An access, when it happens. Raises DeviceFault: it races with an earlier one."""
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
