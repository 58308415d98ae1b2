"""What runs collectives: the protocol of engines, and what they are asked and give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from meshgen.benchmarks.collectives.cases import Case, Layout


@dataclass(frozen=True)
class Effort:
    """How often a case runs: `warm_up` times, and then `samples` times `iterations` in a row. `checks`: compare the results."""

    warm_up: int
    iterations: int
    samples: int
    checks: bool


@dataclass(frozen=True)
class Outcome:
    """Seconds of one call in each sample, of the slowest rank (none: the engine has no times), and wrong elements (None: not checked)."""

    seconds: tuple[float, ...]
    wrong: int | None


class Engine(Protocol):
    """All ranks, or those of this process.

    Attributes:
        layout: all ranks.
        reports: whether this process writes the results of all.
        facts: of the run, such as the library's version.
    """

    layout: Layout
    reports: bool
    facts: Mapping[str, Any]

    def measured(self, case: Case, in_place: bool, effort: Effort) -> Outcome | None:
        """None where the engine has no such call. All processes make the same calls in the same order."""
        ...

    def close(self, error: BaseException | None = None) -> None:
        """`error`: what this process ends with; others, which may wait for it, are notified as far as the engine can."""
        ...
