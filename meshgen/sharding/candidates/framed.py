"""Candidates with slices expressed in the frames of dims that annotations may split: shifts of rows become halos."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.solve import Solved, solve_as_written
from meshgen.sharding.rewrites.slice_to_halo import in_frames, slice_to_halo


def framed(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program in frames.

    Annotations may reach values in it that they did not reach before, so the search runs this generator again.
    """
    if not search.context.runs(slice_to_halo):
        return
    with search.context.timed(slice_to_halo):
        graph = in_frames(solved.module.graph, solved.parts_of)
        other = solve_as_written(replace(solved.module, graph=graph)) if graph else None
    if other:
        yield Candidate(other, (slice_to_halo,))
