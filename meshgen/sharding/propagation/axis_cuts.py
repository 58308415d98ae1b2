"""Find where a mesh axis should be cut in two: it splits a dim of several factors, and is longer than the first of them.

Example: `reshape f32[64,16] -> f32[64,2,8]` (16 heads as 2 groups of 8) on tp=8, heads split over tp. Cut into `tp:(1)2` and
`tp:(2)4`, 2 parts split the groups and 4 the heads of each: [{}, {tp:(1)2}, {tp:(2)4}], and no data moves.
`reshape f32[64,10,64] -> f32[64,640]` on tp=4: `tp:(1)2` splits the 10 heads, and only the other part of size 2 their 64 columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from meshgen.ir.graph import Value
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.classes import REGROUPING
from meshgen.sharding.propagation.reach import Origins
from meshgen.sharding.propagation.sites import Site


def axis_cuts(sites: Iterable[Site], origins: Mapping[str, Mapping[Value, Origins]], mesh: Mesh) -> list[str]:
    """Parts of axes, such as `tp:(1)2`, at which reshapes make it useful to cut axes.

    Args:
        origins: per axis, or part of one, the states that annotations reach.
    """
    found: dict[str, None] = {}
    taken: dict[str, set[int]] = {}  # sizes of the major parts, each of which divides the next
    for site in sites:
        if site.node.op not in REGROUPING:
            continue
        for axis, table in origins.items():
            size = mesh.axis_size(axis)
            for factors in _reached(site, table):
                common, others = math.gcd(_major(site, factors), size), taken.setdefault(axis, set())
                nests = all(common % other == 0 or other % common == 0 for other in others)
                if 1 < common < size and nests:
                    others.add(common)
                    name, before, _ = split_ref(axis)
                    found[f"{name}:({before}){common}"] = None
    return list(found)


def _reached(site: Site, table: Mapping[Value, Origins]) -> list[tuple[int, ...]]:
    """The factors of each dim, on both sides of a reshape, that share a factor with a dim that annotations reach."""
    ends = [(site.node.operands[0], site.rule.operands[0]), (site.node.results[0], site.rule.results[0])]
    parts = {
        factor
        for value, dims in ends
        for state in table.get(value, {})
        if isinstance(state, int)
        for factor in dims[state]
    }
    return [factors for _, dims in ends for factors in dims if parts & {*factors}]


def _major(site: Site, factors: tuple[int, ...]) -> int:
    """Size of the first factor of a dim that has several; 1 for a dim of one."""
    sizes = [site.rule.factors[f].size for f in factors]
    return next((size for size in sizes if size > 1), 1) if len(factors) > 1 else 1
