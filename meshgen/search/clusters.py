"""Group the sites of a program that are to be sharded alike: the layers of a model share one choice.

Example, three layers `x = x + tanh(x @ w)` with weights of one shape. Sites that look alike within `ROUNDS` ops around
them share a cluster:

    w.0, w.1, w.2                one cluster, as the matmuls that read them are alike
    dot, tanh, add of each       one cluster each

Near both ends of the program the surroundings differ, so the first and the last few ops are clusters of their own.
Sites of one cluster have one rule, equal types and equal annotations, so they have the same strategies. Source:
Weisfeiler and Leman, Nauchno-Technicheskaya Informatsiya 2(9), 1968 (color refinement).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from meshgen.ir.graph import Value
from meshgen.sharding.propagation.edges import Edge
from meshgen.sharding.propagation.sites import Site

# Distance in ops up to which the surroundings of two sites must be alike for one cluster (chosen: with more, layers
# near both ends of a program would differ).
ROUNDS = 4


def clusters_of(sites: Sequence[Site], joints: Sequence[Edge], rounds: int = ROUNDS) -> list[int]:
    """Return the cluster of each site. Clusters are numbered from 0 in the order of their first sites."""
    producers = {value: producer for value, producer, _ in joints}
    users: dict[Value, list[tuple[int, int]]] = {value: uses for value, _, uses in joints}
    colors = _numbered([_site_kind(site) for site in sites])
    for _ in range(rounds):
        finer = _numbered([_neighborhood(index, site, colors, producers, users) for index, site in enumerate(sites)])
        if max(finer, default=0) == max(colors, default=0):
            break
        colors = finer
    return colors


def _site_kind(site: Site) -> Hashable:
    """Return a key of everything that a site's strategies and their costs depend on."""
    annotation = site.annotation and (
        str(site.annotation.sharding),
        site.annotation.required,
        site.annotation.open_dims,
    )
    types = tuple(value.type for value in site.values)
    return site.node.op, site.rule, types, annotation, site.option, site.times, site.manual, site.seconds


def _neighborhood(
    index: int,
    site: Site,
    colors: Sequence[int],
    producers: Mapping[Value, tuple[int, int]],
    users: Mapping[Value, list[tuple[int, int]]],
) -> Hashable:
    """Return a key of the colors around a site: its own, and those of the producers of its operands and users of its
    results.

    The number of users of a result does not matter.
    """
    ends = (producers.get(value) for value in site.node.operands)  # None for splats, which have no producer
    producer_colors = tuple(end and (colors[end[0]], end[1]) for end in ends)
    user_colors = tuple(
        tuple(sorted({(colors[user], i) for user, i in users.get(value, ())})) for value in site.node.results
    )
    return colors[index], producer_colors, user_colors


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
