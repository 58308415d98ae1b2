"""Decisions about splitting collectives into chunks, stored in the program and printed in its text form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChunkDecision:
    """The decision, with its reason, for a group of equal collectives that are exposed for `exposed_seconds` per step."""

    what: str
    exposed_seconds: float
    is_applied: bool
    text: str
