"""Decisions about splitting collectives into chunks, stored in the program and printed in its text form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChunkDecision:
    """The decision whether a group of equal collectives is split into chunks, and the reason (`text`).

    `exposed_seconds` is the time per step during which no kernel runs concurrently with these collectives.
    """

    what: str
    exposed_seconds: float
    is_applied: bool
    text: str
