"""Candidates with shardings of the same program decided from other starting configurations (`Start`).

A candidate must have a clearly smaller estimate and no more traffic.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.candidates.search import Candidate, Search, solved_from
from meshgen.sharding.propagation.solve import Solved


def other_starts(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the solutions from other starting configurations that promise a shorter step without more traffic."""
    starts = solved.axes.starts(solved.start, solved.decisions)
    solutions = solved_from(solved, (Solved(solved.axes, start, solved.axes.decide(start)) for start in starts))
    limit = DEFAULT.rewriting.worth * search.estimate(solved)
    promising = [solution for solution in solutions if search.estimate(solution) < limit]
    links = search.seconds(solved).links if promising else 0.0
    yield from (Candidate(solution) for solution in promising if search.seconds(solution).links <= links)
