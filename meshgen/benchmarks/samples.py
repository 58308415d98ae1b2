"""Statistics of repeated measurements: medians, because a few samples that something else delayed do not move them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# McGill, Tukey, Larsen, "Variations of box plots", The American Statistician 32(1), 1978: half the notch of a median, at 95 %
NOTCH = 1.57


def summary(seconds: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Median and least microseconds of samples, their interquartile range over the median, and how many there are.

    The names are `us`, `least_us`, `spread` and `samples`, each after the prefix (the last without).
    """
    median = statistics.median(seconds)
    return {
        f"{prefix}us": _micros(median),
        f"{prefix}least_us": _micros(min(seconds)),
        f"{prefix}spread": round(quartile_range(seconds) / median, 4) if median else 0.0,
        "samples": len(seconds),
    }


def quartile_range(values: Sequence[float]) -> float:
    """Third quartile less the first; of one value 0."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


def median_interval(median: float, spread: float, samples: int) -> tuple[float, float]:
    """The notch of a median: where those of two sets of samples do not overlap, the medians differ (95 %).

    Args:
        spread: interquartile range over the median.
    """
    half = NOTCH * spread * median / math.sqrt(max(samples, 1))
    return median - half, median + half


def _micros(seconds: float) -> float:
    return round(seconds * 1e6, 3)
