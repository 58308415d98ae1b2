"""Candidates from rewrites: one for each rewrite that changes the program, and one for all of them together.

    %h = dot_general %x, %w : f32[64,32]{x}, f32[32,96]{,x}      candidate of `slice-into-dot`:  %v = slice %w [:, 0:32]
    %q = slice %h [:, 0:32] : a third of the columns                                           %q = dot_general %x, %v

The slice on the left fetches columns of the activations from other devices, the slice on the right rows of the weight.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.compilation import Pass
from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.solve import Solved, solve_as_written
from meshgen.sharding.rewrites.passes import ALTERNATIVES


def rewritten(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program after each single rewrite that changes it, and after all of these rewrites together."""
    fired: list[Pass] = []
    fully_rewritten = solved.module
    for rewrite in filter(search.context.runs, ALTERNATIVES):
        with search.context.timed(rewrite):
            module = rewrite(solved.module, search.context)
            fully_rewritten = rewrite(fully_rewritten, search.context)
            other = None if module is solved.module else solve_as_written(module)
        if other:
            fired.append(rewrite)
            yield Candidate(other, (rewrite,))
    if len(fired) > 1:
        yield Candidate(solve_as_written(fully_rewritten), tuple(fired))
