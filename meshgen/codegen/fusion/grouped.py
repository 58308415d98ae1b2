"""The kernels of a graph: its groups as they grow, then with less traffic, then joined."""

from __future__ import annotations

from functools import lru_cache

from meshgen.codegen.fusion.groups import Grouping
from meshgen.codegen.fusion.joins import Joins
from meshgen.codegen.fusion.traffic import Traffic
from meshgen.ir.graph import Graph


@lru_cache(maxsize=1)
def grouped(graph: Graph) -> Grouping:
    """The kernels of a graph. What was found last is kept: passes that leave the graph as it is ask again."""
    grouping = Grouping(graph)
    traffic = Traffic(grouping)
    traffic.dissolve()
    traffic.recompute()
    Joins(traffic).run()
    grouping.groups = [g for g in grouping.groups if g.members]
    return grouping
