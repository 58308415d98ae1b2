"""The same program with splits of work that all devices of an axis would repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.solve import Solved


def shared_work(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program with repeated work split, if its estimate is clearly less: with pinned arguments first, then without."""
    repeated = solved.axes.repeated(solved.decisions)
    if not repeated:
        return
    axes = solved.axes.with_offers(repeated)
    free = solved.start._replace(pins=False)  # decided first: what moves no argument is the best with pins as well
    starts = dict.fromkeys((free, solved.start))
    decided = {start: axes.decide_again(start, solved.decisions) for start in starts}
    limit = DEFAULT.rewriting.worth * search.estimate(solved)
    for start in reversed(starts):
        other = Solved(axes, start, decided[start])
        if search.estimate(other) < limit and not other.faults:
            yield Candidate(other)


def choose_shared(search: Search, solved: Solved, candidates: Iterable[Candidate]) -> Solved:
    """Return the first candidate, whose estimate is clearly less, or the second if its plan is clearly cheaper still."""
    if not (found := list(candidates)):
        return solved
    first = found[0].solved
    return search.worth(first, [each for each in found[1:] if each.solved.labels != first.labels])
