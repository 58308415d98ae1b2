"""The protocol of engines, which execute collectives, with the inputs and outputs of a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from meshgen.benchmarks.collectives.cases import Case, Layout


@dataclass(frozen=True)
class Effort:
    """How often a case runs: `warm_up` calls, and then `samples` samples of `iterations` calls in a row.

    `checks` says whether results are compared with the expected ones.
    """

    warm_up: int
    iterations: int
    samples: int
    checks: bool


@dataclass(frozen=True)
class Outcome:
    """The measured times and the number of wrong elements of a case.

    Attributes:
        seconds: time per call of the slowest rank, for each sample; empty if the engine measures no times.
        wrong: number of wrong elements over all ranks; None if results were not checked.
    """

    seconds: tuple[float, ...]
    wrong: int | None


class Engine(Protocol):
    """An executor of collectives for all ranks, or only for the ranks of this process.

    Attributes:
        layout: the layout of all ranks.
        reports: whether this process writes the results of all ranks.
        facts: facts about the run that are stored with the results, such as the version of the library.
    """

    layout: Layout
    reports: bool
    facts: Mapping[str, Any]

    def measure(self, case: Case, in_place: bool, effort: Effort) -> Outcome | None:
        """Measure a case, or return None if the engine has no such call. All processes make the same calls in the same
        order.
        """
        ...

    def close(self, error: BaseException | None = None) -> None:
        """Release all resources. `error` is the exception that ends this process, if any: other processes are notified
        if possible.
        """
        ...
