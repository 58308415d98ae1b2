"""Group the sites of a program that are to be sharded alike: what its layers repeat shares one choice.

Example, three layers `x = x + tanh(x @ w)` with weights of one shape: sites that look alike within `ROUNDS` ops around them

    w.0, w.1, w.2                one cluster, as their products are alike
    dot, tanh, add of each       one cluster each

Near both ends of the program the surroundings differ, so the first and the last few ops are clusters of their own. Sites of
one cluster have one rule, equal types and equal annotations, so they have the same strategies. Source: Weisfeiler and Leman,
Nauchno-Technicheskaya Informatsiya 2(9), 1968 (colour refinement).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from meshgen.ir.graph import Value
from meshgen.sharding.propagation.joints import Edge
from meshgen.sharding.propagation.sites import Site

ROUNDS = 4  # ops around a site that tell it from others; more would make layers near both ends of a program differ


def clusters_of(sites: Sequence[Site], joints: Sequence[Edge], rounds: int = ROUNDS) -> list[int]:
    """The cluster of each site, numbered from 0 in the order of their first sites."""
    makers = {value: maker for value, maker, _ in joints}
    users: dict[Value, list[tuple[int, int]]] = {value: uses for value, _, uses in joints}
    colours = _numbered([_site_kind(site) for site in sites])
    for _ in range(rounds):
        finer = _numbered([_seen(number, site, colours, makers, users) for number, site in enumerate(sites)])
        if max(finer, default=0) == max(colours, default=0):
            break
        colours = finer
    return colours


def _site_kind(site: Site) -> Hashable:
    """What its strategies and their costs depend on."""
    asked = site.annotation and (str(site.annotation.sharding), site.annotation.required, site.annotation.open_dims)
    types = tuple(value.type for value in site.values)
    return site.node.op, site.rule, types, asked, site.option, site.times, site.manual, site.seconds


def _seen(
    number: int,
    site: Site,
    colours: Sequence[int],
    makers: Mapping[Value, tuple[int, int]],
    users: Mapping[Value, list[tuple[int, int]]],
) -> Hashable:
    """The colours of a site, of what makes its operands and of what uses its results; how many uses there are does not matter."""
    ends = (makers.get(value) for value in site.node.operands)  # none for splats
    made = tuple(end and (colours[end[0]], end[1]) for end in ends)
    used = tuple(tuple(sorted({(colours[user], i) for user, i in users.get(value, ())})) for value in site.node.results)
    return colours[number], made, used


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
