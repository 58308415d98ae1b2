"""Choose the order of several mesh axes on one dim: that of annotations, spread along ties, else the mesh's.

Example, on x=2, y=2, both of which split dim 0 of `%a : f32[64,32]` and of `%y = tanh %a`:

    %a annotated [{y, x}, {}]   %y gets [{y, x}, {}] too, so no rows move
    none annotated              [{x, y}, {}], the order of the mesh
"""

from __future__ import annotations

from collections import deque

from meshgen.ir.graph import Value
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.sites import Site

Orders = dict[Site, dict[int, tuple[str, ...]]]


def axis_orders(sites: list[Site], chosen: dict[Site, dict[str, Label]], axes: list[str]) -> Orders:
    """Per site and factor the axes that split it, major to minor.

    Annotations fix the order at their values; from there it spreads breadth-first to factors with the
    same axes on the same dim, from larger annotated values first, so that few values change order.
    """
    wanted: Orders = {}
    for site in sites:
        table = wanted[site] = dict[int, tuple[str, ...]]()
        labels = chosen[site]
        for axis in axes:
            if axis in labels and (factor := labels[axis].factor) is not None:
                table[factor] = (*table.get(factor, ()), axis)
    settled: Orders = {site: {f: on for f, on in table.items() if len(on) == 1} for site, table in wanted.items()}
    queue = deque(_fixed(sites, wanted))
    users = _users(sites) if queue else {}
    while queue:
        site, factor, order = queue.popleft()
        if factor in settled[site]:
            continue
        settled[site][factor] = order
        for value, dim in _dims(site, factor):
            for other, its_factor in users[value]:
                if its_factor[0] == dim and set(wanted[other].get(its_factor[1], ())) == set(order):
                    queue.append((other, its_factor[1], order))
    for site, table in wanted.items():
        for factor, on in table.items():
            settled[site].setdefault(factor, on)
    return settled


def _fixed(sites: list[Site], wanted: Orders) -> list[tuple[Site, int, tuple[str, ...]]]:
    """Orders from annotations and per-op options, the largest values first; axes that they leave open come last."""
    found: list[tuple[int, int, Site, int, tuple[str, ...]]] = []
    for number, site in enumerate(sites):
        stated = dict(enumerate(site.option or ()))
        if site.annotation:
            maps = (site.rule.operands if site.asks_operand else site.rule.results)[0]
            stated = {
                factors[0]: axes for factors, axes in zip(maps, site.annotation.sharding.dims, strict=True) if factors
            }
        for factor, named in stated.items():
            on = wanted[site].get(factor, ())
            order = tuple(axis for axis in named if axis in on)  # not those of size 1
            if order and len(on) > 1:
                order += tuple(axis for axis in on if axis not in order)
                found.append((-site.value.type.nbytes, number, site, factor, order))
    return [item[2:] for item in sorted(found, key=lambda item: item[:2])]


def _users(sites: list[Site]) -> dict[Value, list[tuple[Site, tuple[int, int]]]]:
    """Sites that touch each value, with (dim, factor) of each of its factors."""
    table: dict[Value, list[tuple[Site, tuple[int, int]]]] = {}
    for site in sites:
        for factor in range(len(site.rule.factors)):
            for value, dim in _dims(site, factor):
                table.setdefault(value, []).append((site, (dim, factor)))
    return table


def _dims(site: Site, factor: int) -> list[tuple[Value, int]]:
    operands, results = site.rule.places(factor)
    pairs = [*zip(site.node.operands, operands, strict=True), *zip(site.node.results, results, strict=True)]
    return [(value, dim) for value, dim in pairs if dim is not None]
