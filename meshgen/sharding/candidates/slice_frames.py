"""Candidates in which slices keep the row numbering of the full dim, so that shifts of rows become halo exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.solve import Solved, solve_as_written
from meshgen.sharding.rewrites.slice_to_halo import in_frames, slice_to_halo


def framed(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program in which slices of dims that annotations may split keep the row numbering of the full dim (its
    frame).

    Annotations may reach more values in the new program, so the search runs this generator again on it.
    """
    if not search.context.runs(slice_to_halo):
        return
    with search.context.timed(slice_to_halo):
        graph = in_frames(solved.module.graph, solved.parts_of)
        other = solve_as_written(replace(solved.module, graph=graph)) if graph else None
    if other:
        yield Candidate(other, (slice_to_halo,))
