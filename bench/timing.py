"""Timing on a stream with events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WARM_UP, REPEATS = 10, 30


def timed(cupy: Any, launch: Callable[[], object], before: Callable[[], object] | None = None) -> dict[str, float]:
    """Median microseconds of a launch on the current stream, and the spread of the runs.

    Args:
        before: runs on the stream before each launch, and is not counted: what empties caches.
    """
    for _ in range(WARM_UP):
        launch()
    starts, ends = ([cupy.cuda.Event() for _ in range(REPEATS)] for _ in range(2))
    for start, end in zip(starts, ends, strict=True):
        if before is not None:
            before()
        start.record()
        launch()
        end.record()
    ends[-1].synchronize()
    times = sorted(cupy.cuda.get_elapsed_time(a, b) * 1e3 for a, b in zip(starts, ends, strict=True))
    median = times[len(times) // 2]
    return {"us": round(median, 2), "spread": round((times[-1] - times[0]) / median, 3) if median else 0.0}
