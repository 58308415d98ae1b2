"""The same program decided as if products of groups of rows were split by groups: what is between them needs no sum over devices then.

    %h = ragged_dot %x, %up      partial (sum) along ep    %a = tanh %h    %y = ragged_dot %a, %down      partial (sum) along ep

A decision does not see whether the next product is split by groups too, so the plan tells whether that is so.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.sharding.candidates.search import Candidate, Search, solved_from
from meshgen.sharding.propagation.solve import Solved


def own_rows(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program decided so, where it has such products."""
    del search
    if any(end.is_own for joint in solved.axes.whole.joints for end in joint.ends):
        start = solved.start._replace(keeps_rows=True)
        other = Solved(solved.axes, start, solved.axes.decide(start))
        yield from map(Candidate, solved_from(solved, [other]))
