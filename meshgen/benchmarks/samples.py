"""Statistics of repeated measurements. Medians are used because a few delayed samples do not move them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# Half the width of the 95 % notch of a median, as a multiple of the interquartile range / sqrt(n). Source: McGill et
# al., Am. Statistician 32(1), 1978.
NOTCH = 1.57


def summary(seconds: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Return the median and the least of the samples in microseconds, the interquartile range relative to the median,
    and the number of samples.

    The keys are `us`, `least_us`, `spread` (each after `prefix`) and `samples`.
    """
    median = statistics.median(seconds)
    return {
        f"{prefix}us": _micros(median),
        f"{prefix}least_us": _micros(min(seconds)),
        f"{prefix}spread": round(quartile_range(seconds) / median, 4) if median else 0.0,
        "samples": len(seconds),
    }


def quartile_range(values: Sequence[float]) -> float:
    """Return the third quartile minus the first, or 0 for a single value."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


def median_interval(median: float, spread: float, samples: int) -> tuple[float, float]:
    """Return the notch of a median. Two medians differ (at 95 %) if their notches do not overlap.

    Args:
        spread: interquartile range relative to the median.
    """
    half = NOTCH * spread * median / math.sqrt(max(samples, 1))
    return median - half, median + half


def _micros(seconds: float) -> float:
    return round(seconds * 1e6, 3)
