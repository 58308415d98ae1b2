"""Candidates with attention ops expanded where annotations may split their keys.

Devices then exchange the softmax statistics of each row instead of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.solve import Solved, solve_as_written
from meshgen.sharding.rewrites.expand_attention import expand_attention, expand_split_attentions


def expanded(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program with every attention op expanded whose key dim annotations may split."""
    if not search.context.runs(expand_attention):
        return
    with search.context.timed(expand_attention):
        graph = expand_split_attentions(solved.module.graph, solved.parts_of)
        other = solve_as_written(replace(solved.module, graph=graph)) if graph else None
    if other:
        yield Candidate(other, (expand_attention,))
