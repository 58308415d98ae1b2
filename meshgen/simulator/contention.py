"""Contention of kernels with collectives: which of them run concurrently, and how much this slows the kernels down.

While n collectives run, a kernel takes 1 + n * overlap_slowdown times as long. Collectives are not slowed down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.runtime.plan import COMPUTE, STREAMS, Item

Array = np.ndarray[Any, Any]
Interval = tuple[Array, Array]  # start times and end times, per rank


def issue_order(items: Sequence[Item]) -> list[Item]:
    """Return the items in an order in which every collective that may overlap a kernel is issued before the kernel.

    A collective is issued right after the last kernel on which it depends. The collective can overlap all later
    kernels, but its start does not depend on their duration. The order within each stream does not change.
    """
    issued, last, recorded = 0, dict[int, int](), dict[int, int]()
    # for each item, the number of kernels and control flow items on which it depends, including itself
    kernels_before: list[int] = []
    for item in items:
        if item.stream == COMPUTE:
            issued += 1
            after = issued
        else:
            after = max([last.get(item.stream, 0), *(recorded[event] for event in item.waits)])
        last[item.stream] = after
        if item.records is not None:
            recorded[item.records] = after
        kernels_before.append(after)
    return [items[number] for number in sorted(range(len(items)), key=lambda n: kernels_before[n])]


def stretched(start: Array, seconds: Array, collectives: Sequence[Interval], slowdown: float) -> Array:
    """Return the end time of a kernel on each rank, including the slowdown by collectives.

    Args:
        seconds: duration of the kernel without overlapping collectives.
        collectives: the collectives that may overlap the kernel.
    """
    # upper bound of the end time, because each stream runs one collective at a time
    latest = start + seconds * (1 + slowdown * STREAMS)
    collectives = [(began, end) for began, end in collectives if (began < latest).any()]
    if not collectives:
        return start + seconds
    begins, ends = (np.clip(np.array(sides), start, None) for sides in zip(*collectives, strict=True))
    boundaries = np.sort(np.concatenate([begins, ends]), axis=0)
    time, remaining = start, seconds
    for boundary in boundaries:
        factor = 1 + slowdown * ((begins <= time) & (time < ends)).sum(axis=0)
        done = np.minimum(remaining, (boundary - time) / factor)
        time, remaining = np.where(done < remaining, boundary, time + done * factor), remaining - done
    return time + remaining
