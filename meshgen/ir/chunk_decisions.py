"""The decisions about splitting collectives into chunks; they are stored in the program and printed in its text form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChunkDecision:
    """The decision for a group of equal collectives whose exposed time is `exposed_seconds` per step, and its reason."""

    what: str
    exposed_seconds: float
    is_applied: bool
    text: str
