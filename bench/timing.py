"""Timing on a stream with events."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

WARM_UP, REPEATS = 10, 30


def timed(cupy: Any, launch: Callable[[], object]) -> dict[str, float]:
    """Median microseconds of a launch on the current stream, and the spread of the runs."""
    for _ in range(WARM_UP):
        launch()
    events = [cupy.cuda.Event() for _ in range(REPEATS + 1)]
    events[0].record()
    for event in events[1:]:
        launch()
        event.record()
    events[-1].synchronize()
    times = sorted(cupy.cuda.get_elapsed_time(a, b) * 1e3 for a, b in pairwise(events))
    median = times[len(times) // 2]
    return {"us": round(median, 2), "spread": round((times[-1] - times[0]) / median, 3) if median else 0.0}
