"""The same program with each axis decided once more for few collectives, which may move more, where latencies are a large part of the step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.solve import Solved


def fewer_collectives(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program decided as if latencies counted for more."""
    del search
    if not solved.axes.waits(solved.decisions):
        return
    start = solved.start._replace(is_hurried=True)
    other = Solved(solved.axes, start, solved.axes.decide_again(start, solved.decisions))
    if other.labels != solved.labels and not other.faults:
        yield Candidate(other)


def choose_shorter(search: Search, solved: Solved, candidates: Iterable[Candidate]) -> Solved:
    """Return a candidate whose step, latencies included, is clearly shorter; else the program itself."""
    shorter = (each.solved for each in candidates if search.seconds(each.solved).is_shorter(search.seconds(solved)))
    return next(shorter, solved)
