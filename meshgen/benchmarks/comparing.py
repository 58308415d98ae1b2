"""Two runs of the same measurements: which figures differ, and by more than their noise.

A time differs where the notches of both medians do not overlap (`samples.median_interval`); a figure that was not sampled (bytes, launches,
predicted times) differs where it is not equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from meshgen.benchmarks.records import IDENTITY, Record, Run, identity
from meshgen.benchmarks.samples import median_interval
from meshgen.errors import Diagnostic, UsageError
from meshgen.reports.growth import Limit

_LIMIT = re.compile(r"(?P<name>[a-z_]+):\+(?P<number>\d+(?:\.\d+)?)(?P<unit>%|)")
_TIMES = ("us", "in_us", "cold_us")  # sampled: each has its own spread
_NO_FIGURES = (
    "samples",
    "spread",
    "least_us",
    "algbw",
    "busbw",
    "iterations",
)  # said by others, or not a figure of merit
SAME, SLOWER, FASTER = "same", "slower", "faster"


@dataclass(frozen=True)
class Difference:
    """A figure of both runs. `verdict`: `same` (within the noise), `slower`, `faster`, `more` or `less`."""

    record: Record
    figure: str
    before: float
    after: float
    verdict: str

    @property
    def growth(self) -> float:
        """Share by which it grew; infinite from 0."""
        return self.after / self.before - 1 if self.before else math.inf * (self.after > 0) if self.after else 0.0

    @property
    def is_worse(self) -> bool:
        return self.verdict in (SLOWER, "more")

    def exceeds(self, limit: Limit) -> bool:
        """Whether it grew by more than is allowed, and more than noise explains."""
        is_named = limit.name == self.figure or (limit.name == "time" and self.figure in _TIMES)
        return is_named and self.is_worse and self.after > limit.most(self.before)


def limit_of(text: str) -> Limit:
    """A limit as written: `time:+5%`, `launches:+0`, `wrong:+0`. Raises UsageError MG0001."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        hint = "write FIGURE:+NUMBER, with % for a share: time:+5% for all measured times, or a column, such as launches:+0"
        raise UsageError(Diagnostic("MG0001", f"'{text:.40}' does not limit a figure", hint=hint))
    number = float(match["number"])
    return Limit(match["name"], number / 100, 0.0) if match["unit"] else Limit(match["name"], 0.0, number)


def compared(before: Run, after: Run) -> Iterator[Difference]:
    """The figures of records that both runs have, in the order of the second."""
    known = {identity(record): record for record in before.records}
    for record in after.records:
        if (old := known.get(identity(record))) is not None:
            yield from _of_record(old, record)


def only_in(run: Run, other: Run) -> list[Record]:
    """Records of what the other run has not measured."""
    known = {identity(record) for record in other.records}
    return [record for record in run.records if identity(record) not in known]


def _of_record(old: Record, new: Record) -> Iterator[Difference]:
    for key in new:
        pair = old.get(key), new[key]
        if key in IDENTITY or key.endswith(_NO_FIGURES) or any(type(each) not in (int, float) for each in pair):
            continue
        yield Difference(new, key, *pair, _verdict(key, old, new))  # type: ignore[arg-type]


def _verdict(key: str, old: Record, new: Record) -> str:
    if key not in _TIMES:
        return SAME if old[key] == new[key] else "more" if new[key] > old[key] else "less"
    spread = f"{key.removesuffix('us')}spread"
    (low, high), (least, most) = (
        median_interval(each[key], each.get(spread, 0.0), each.get("samples", 1)) for each in (old, new)
    )
    if least <= high and low <= most:
        return SAME
    return SLOWER if least > high else FASTER


def limits_exceeded(differences: Sequence[Difference], limits: Sequence[Limit]) -> list[Difference]:
    return [each for each in differences if any(each.exceeds(limit) for limit in limits)]
