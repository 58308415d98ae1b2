"""Candidates that split work that all devices of an axis would otherwise repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.solve import Solved


def shared_work(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield solutions that split work which all devices of an axis would repeat, if their estimate is clearly less.

    The solution in which annotated arguments keep their shardings (`Start.pins`) comes first, then the one without
    pins.
    """
    repeated = solved.axes.repeated(solved.decisions)
    if not repeated:
        return
    axes = solved.axes.with_offers(repeated)
    # The start without pins is decided first: if it moves no argument, its decision is optimal with pins as well.
    unpinned = solved.start._replace(pins=False)
    starts = dict.fromkeys((unpinned, solved.start))
    decided = {start: axes.decide_again(start, solved.decisions) for start in starts}
    limit = DEFAULT.rewriting.worth * search.estimate(solved)
    for start in reversed(starts):
        other = Solved(axes, start, decided[start])
        if search.estimate(other) < limit and not other.faults:
            yield Candidate(other)


def choose_shared(search: Search, solved: Solved, candidates: Iterable[Candidate]) -> Solved:
    """Return the first candidate, or the second if its plan is clearly cheaper still, or else `solved`."""
    if not (options := list(candidates)):
        return solved
    first = options[0].solved
    return search.cheapest_planned(
        first, [candidate for candidate in options[1:] if candidate.solved.labels != first.labels]
    )
