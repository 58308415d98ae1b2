"""Find where to cut a mesh axis in two: the axis splits a dim of several factors and is longer than the first of them.

Example: `reshape f32[64,16] -> f32[64,2,8]` (16 heads as 2 groups of 8) on tp=8, heads split over tp. Cut into
`tp:(1)2` and `tp:(2)4`, the first part splits the groups and the second the heads of each group:
[{}, {tp:(1)2}, {tp:(2)4}]. No data moves.
`reshape f32[64,10,64] -> f32[64,640]` on tp=4: `tp:(1)2` splits the 10 heads, and only the other part of size 2 splits
their 64 columns.
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
    """Return the sub-axes, such as `tp:(1)2`, at which reshapes make it useful to cut axes.

    Args:
        origins: the states that annotations reach, per axis or sub-axis.
    """
    cuts: dict[str, None] = {}
    major_sizes: dict[str, set[int]] = {}  # sizes of the major sub-axes; each divides the next
    for site in sites:
        if site.node.op not in REGROUPING:
            continue
        for axis, table in origins.items():
            size = mesh.axis_size(axis)
            for factors in _reached(site, table):
                major_size, axis_sizes = math.gcd(_major(site, factors), size), major_sizes.setdefault(axis, set())
                nests = all(major_size % other == 0 or other % major_size == 0 for other in axis_sizes)
                if 1 < major_size < size and nests:
                    axis_sizes.add(major_size)
                    name, before, _ = split_ref(axis)
                    cuts[f"{name}:({before}){major_size}"] = None
    return list(cuts)


def _reached(site: Site, table: Mapping[Value, Origins]) -> list[tuple[int, ...]]:
    """Return the factors of each dim, on either side of a reshape, that has a factor which annotations reach."""
    ends = [(site.node.operands[0], site.rule.operands[0]), (site.node.results[0], site.rule.results[0])]
    reached_factors = {
        factor
        for value, dims in ends
        for state in table.get(value, {})
        if isinstance(state, int)
        for factor in dims[state]
    }
    return [factors for _, dims in ends for factors in dims if reached_factors & {*factors}]


def _major(site: Site, factors: tuple[int, ...]) -> int:
    """Return the size of the first non-unit factor of a dim, or 1 if the dim has only one factor."""
    sizes = [site.rule.factors[f].size for f in factors]
    return next((size for size in sizes if size > 1), 1) if len(factors) > 1 else 1
