"""Comparison of two runs of the same measurements: which figures differ by more than their noise.

A time differs if the notches of the two medians do not overlap (`samples.median_interval`). A figure without samples
(bytes, launches,
predicted times) differs if it is not equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from meshgen.benchmarks.records import IDENTITY, Record, Run, identity
from meshgen.benchmarks.samples import median_interval
from meshgen.errors import Diagnostic, UsageError
from meshgen.reports.growth_limits import Limit

_LIMIT = re.compile(r"(?P<name>[a-z_]+):\+(?P<number>\d+(?:\.\d+)?)(?P<unit>%|)")
_TIMES = ("us", "in_us", "cold_us")  # sampled times, each with its own spread
_NO_FIGURES = (
    "samples",
    "spread",
    "least_us",
    "algbw",
    "busbw",
    "iterations",
)  # fields that follow from other fields, or that do not measure performance
SAME, SLOWER, FASTER = "same", "slower", "faster"


@dataclass(frozen=True)
class Difference:
    """The values of one figure in two runs. `verdict`: `same` (within the noise), `slower`, `faster`, `more` or `less`."""

    record: Record
    figure: str
    before: float
    after: float
    verdict: str

    @property
    def growth(self) -> float:
        """Return the relative growth of the figure, or infinity if it was 0 before."""
        return self.after / self.before - 1 if self.before else math.inf * (self.after > 0) if self.after else 0.0

    @property
    def is_worse(self) -> bool:
        return self.verdict in (SLOWER, "more")

    def exceeds(self, limit: Limit) -> bool:
        """Whether the figure grew by more than `limit` allows, and by more than its noise."""
        is_named = limit.name == self.figure or (limit.name == "time" and self.figure in _TIMES)
        return is_named and self.is_worse and self.after > limit.most(self.before)


def limit_of(text: str) -> Limit:
    """Parse a limit such as `time:+5%`, `launches:+0` or `wrong:+0`. Raises UsageError MG0001 for other texts."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        hint = "write FIGURE:+NUMBER, with % for a share: time:+5% for all measured times, or a column, such as launches:+0"
        raise UsageError(Diagnostic("MG0001", f"'{text:.40}' does not limit a figure", hint=hint))
    number = float(match["number"])
    return Limit(match["name"], number / 100, 0.0) if match["unit"] else Limit(match["name"], 0.0, number)


def compare_runs(before: Run, after: Run) -> Iterator[Difference]:
    """Yield a difference for each figure of each record that both runs have, in the order of `after`."""
    records_before = {identity(record): record for record in before.records}
    for record in after.records:
        if (old := records_before.get(identity(record))) is not None:
            yield from _of_record(old, record)


def only_in(run: Run, other: Run) -> list[Record]:
    """Return the records of `run` whose measurements are missing in `other`."""
    other_identities = {identity(record) for record in other.records}
    return [record for record in run.records if identity(record) not in other_identities]


def _of_record(old: Record, new: Record) -> Iterator[Difference]:
    for key in new:
        pair = old.get(key), new[key]
        if key in IDENTITY or key.endswith(_NO_FIGURES) or any(type(value) not in (int, float) for value in pair):
            continue
        yield Difference(new, key, *pair, _verdict(key, old, new))  # type: ignore[arg-type]


def _verdict(key: str, old: Record, new: Record) -> str:
    if key not in _TIMES:
        return SAME if old[key] == new[key] else "more" if new[key] > old[key] else "less"
    spread = f"{key.removesuffix('us')}spread"
    (old_low, old_high), (new_low, new_high) = (
        median_interval(record[key], record.get(spread, 0.0), record.get("samples", 1)) for record in (old, new)
    )
    if new_low <= old_high and old_low <= new_high:
        return SAME
    return SLOWER if new_low > old_high else FASTER


def limits_exceeded(differences: Sequence[Difference], limits: Sequence[Limit]) -> list[Difference]:
    return [difference for difference in differences if any(difference.exceeds(limit) for limit in limits)]
