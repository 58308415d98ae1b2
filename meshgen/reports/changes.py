"""A change of a program's annotations that is worth trying, and what the step is with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.ir.graph import Module
from meshgen.reports.interface import Compiled

FIGURES = ("ring_bytes", "step_seconds", "peak_memory_bytes")


@dataclass(frozen=True)
class Change:
    """One that is worth trying.

    Attributes:
        kind: `drop` a required annotation, `annotate` a value, or `reorder` what is stored.
        text: what to do, in a user's words.
        value: the value that it is about; empty where that has no name.
        group: changes of one group exclude each other.
        seconds: of a step, which it could save at most.
        program: the program with it; None where it cannot be made.
        then: the sharding of the value in a program that was compiled with it, as text and as --spec and --what-if take it.
    """

    kind: str
    text: str
    value: str
    group: str
    seconds: float
    program: Callable[[], Module | None]
    then: Callable[[Compiled], tuple[str, str]]


@dataclass(frozen=True)
class Advice:
    """A change that was tried and pays: the sharding that the value has then, and figures of a step before and after."""

    kind: str  # as of the change
    change: str
    value: str
    instead: str
    spec: str  # the same as --spec and --what-if take it; empty where it has no name
    before: dict[str, float]
    after: dict[str, float]

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def figures_of(executable: Compiled) -> dict[str, float]:
    """What changes are compared by."""
    record = executable.record()
    return {name: float(record[name]) for name in FIGURES}
