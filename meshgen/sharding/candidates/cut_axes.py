"""Candidates whose shardings are decided over parts of mesh axes (sub-axes)."""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.axis_cuts import axis_cuts
from meshgen.sharding.propagation.solve import Solved, solve_as_written


def cut_axes(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program with shardings over sub-axes: an axis is cut in two where a reshape splits or merges dims."""
    del search
    origins = {axis: decision.origins for axis, decision in solved.decisions.items()}
    cuts = axis_cuts(solved.sites, origins, solved.module.mesh)
    if cuts and not (cut := solve_as_written(solved.module, cuts)).faults:
        yield Candidate(cut)
