"""Candidates that solve the same program over more sub-axes."""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.axis_cuts import axis_cuts
from meshgen.sharding.propagation.solve import Solved, solve_as_written


def cut_axes(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program solved with mesh axes cut where a reshape splits or merges dims."""
    del search
    origins = {axis: decision.origins for axis, decision in solved.decisions.items()}
    cuts = axis_cuts(solved.sites, origins, solved.module.mesh)
    if cuts and not (cut := solve_as_written(solved.module, cuts)).faults:
        yield Candidate(cut)
