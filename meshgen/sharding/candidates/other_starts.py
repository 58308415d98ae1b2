"""The same program solved from other starts, where the estimate is clearly less and the plan moves no more."""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.candidates.search import Candidate, Search, solved_from
from meshgen.sharding.propagation.solve import Solved


def other_starts(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the solutions from other starts that promise a shorter step without more traffic."""
    starts = solved.axes.starts(solved.start, solved.decisions)
    others = solved_from(solved, (Solved(solved.axes, start, solved.axes.decide(start)) for start in starts))
    limit = DEFAULT.rewriting.worth * search.estimate(solved)
    likely = [other for other in others if search.estimate(other) < limit]
    links = search.seconds(solved).links if likely else 0.0
    yield from (Candidate(other) for other in likely if search.seconds(other).links <= links)
