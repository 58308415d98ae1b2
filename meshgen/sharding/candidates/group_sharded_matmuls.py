"""Candidates with ragged matmuls sharded by groups, so that the values between two of them need no all-reduce.

    %h = ragged_dot %x, %up       partial (sum) along ep
    %a = tanh %h
    %y = ragged_dot %a, %down     partial (sum) along ep

The decision along one axis does not see whether the next ragged matmul is sharded by groups too, so the search plans
the candidate to find out.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.sharding.candidates.search import Candidate, Search, solved_from
from meshgen.sharding.propagation.solve import Solved


def own_rows(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program with shardings decided as if all ragged matmuls were sharded by groups.

    Yields nothing unless one ragged matmul uses the rows of another.
    """
    del search
    if any(end.is_own for joint in solved.axes.whole.joints for end in joint.ends):
        start = solved.start._replace(sharded_by_groups=True)
        other = Solved(solved.axes, start, solved.axes.decide(start))
        yield from map(Candidate, solved_from(solved, [other]))
