"""Recording of a step on the host: when each rank ran each kernel and collective, by the clock of this process.

    with measured() as spans:
        module.run(args)

Ranks in one process run one after the other, so the times describe this host, not GPUs.
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
    """The time in which a rank ran an item, in seconds since the start of the recording.

    A collective ends when the rank has its results.
    """

    mesh: str
    rank: int
    item: Item
    start: float
    end: float


_SPANS: ContextVar[list[Span] | None] = ContextVar("spans", default=None)


@contextmanager
def measured() -> Generator[list[Span]]:
    """Record the items that the reference device and the interpreter run in this context."""
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
    """Record the run of an item, if a `measured` context is active."""
    begin = time.perf_counter()
    yield
    if (spans := _SPANS.get()) is not None:
        spans.append(Span(mesh, rank, item, begin, time.perf_counter()))
