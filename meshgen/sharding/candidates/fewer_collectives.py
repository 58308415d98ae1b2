"""Candidates with fewer collectives, which may move more bytes, for steps dominated by latency.

Each axis of the same program is decided once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.solve import Solved


def fewer_collectives(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program with each axis decided again, with collectives costed at their full latency."""
    del search
    if not solved.axes.waits(solved.decisions):
        return
    start = solved.start._replace(counts_latency=True)
    other = Solved(solved.axes, start, solved.axes.decide_again(start, solved.decisions))
    if other.labels != solved.labels and not other.faults:
        yield Candidate(other)


def choose_shorter(search: Search, solved: Solved, candidates: Iterable[Candidate]) -> Solved:
    """Return the first candidate whose step, latencies included, is clearly shorter than that of `solved`, or else
    `solved`.
    """
    shorter = (
        candidate.solved
        for candidate in candidates
        if search.seconds(candidate.solved).is_shorter(search.seconds(solved))
    )
    return next(shorter, solved)
