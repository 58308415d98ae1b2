"""Kernels beside collectives: which run at once, and how much longer the kernels take.

While n collectives run beside a kernel, it takes 1 + n * overlap_slowdown times as long. Collectives are not slowed down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.runtime.plan import COMPUTE, STREAMS, Item

Array = np.ndarray[Any, Any]
Interval = tuple[Array, Array]  # start and end on each rank


def issue_order(items: Sequence[Item]) -> list[Item]:
    """Return the items in an order in which all that may run beside a kernel is issued before it.

    A collective comes right after the last kernel that it depends on. It can run beside all later kernels, but its start does not
    depend on how long these take. The order on each stream does not change.
    """
    issued, last, recorded = 0, dict[int, int](), dict[int, int]()
    kernels_before: list[int] = []  # of each item, the kernels and control flow that it depends on, itself included
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


def stretched(start: Array, seconds: Array, beside: Sequence[Interval], slowdown: float) -> Array:
    """Return the end of a kernel on each rank.

    Args:
        seconds: how long it takes with nothing beside it.
        beside: the collectives that may run meanwhile.
    """
    latest = start + seconds * (1 + slowdown * STREAMS)  # a stream runs one collective at a time
    beside = [(began, end) for began, end in beside if (began < latest).any()]
    if not beside:
        return start + seconds
    begins, ends = (np.clip(np.array(sides), start, None) for sides in zip(*beside, strict=True))
    cuts = np.sort(np.concatenate([begins, ends]), axis=0)
    now, left = start, seconds
    for cut in cuts:
        factor = 1 + slowdown * ((begins <= now) & (now < ends)).sum(axis=0)
        done = np.minimum(left, (cut - now) / factor)
        now, left = np.where(done < left, cut, now + done * factor), left - done
    return now + left
