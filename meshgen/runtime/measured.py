"""Times of a step on the host: when each rank ran each kernel and collective, by the clock of this process.

    with measured() as spans:
        module.run(args)

Ranks in one process run one after the other, so their times say what this machine did, not what GPUs would take.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from meshgen.runtime.plan import Item


@dataclass(frozen=True)
class Span:
    """An item on a rank of a mesh, in seconds since the first began. A collective ends when the rank has what it needs of it."""

    mesh: str
    rank: int
    item: Item
    start: float
    end: float


_SPANS: ContextVar[list[Span] | None] = ContextVar("spans", default=None)


@contextmanager
def measured() -> Generator[list[Span]]:
    """Record the items that the reference device and the interpreter run inside."""
    spans: list[Span] = []
    token = _SPANS.set(spans)
    begin = time.perf_counter()
    try:
        yield spans
    finally:
        _SPANS.reset(token)
        spans[:] = [Span(s.mesh, s.rank, s.item, s.start - begin, s.end - begin) for s in spans]


@contextmanager
def timed(mesh: str, rank: int, item: Item) -> Generator[None]:
    """Record an item, if anybody measures."""
    begin = time.perf_counter()
    yield
    if (spans := _SPANS.get()) is not None:
        spans.append(Span(mesh, rank, item, begin, time.perf_counter()))
