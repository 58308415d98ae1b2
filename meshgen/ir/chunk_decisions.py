"""What was decided about running collectives in chunks; a program that is in chunks keeps it, also in its text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChunkDecision:
    """The decision for equal collectives that are exposed for `exposed_seconds` of the step, and why."""

    what: str
    exposed_seconds: float
    is_applied: bool
    text: str
