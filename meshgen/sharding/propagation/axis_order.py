"""Choose the order of several mesh axes on one dim: annotations fix it and spread along ties; else mesh order holds.

Example, on x=2, y=2, both of which split dim 0 of `%a : f32[64,32]` and of `%y = tanh %a`:

    %a annotated [{y, x}, {}]   %y gets [{y, x}, {}] too, so no rows move
    no annotation               [{x, y}, {}], the order of the mesh
"""

from __future__ import annotations

from collections import deque

from meshgen.ir.graph import Value
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.sites import Site

Orders = dict[Site, dict[int, tuple[str, ...]]]


def axis_orders(sites: list[Site], chosen: dict[Site, dict[str, Label]], axes: list[str]) -> Orders:
    """Return, for each site and factor, the axes that split the factor, major to minor.

    Annotations fix the order at their values. From there the order spreads breadth-first to factors with the same axes
    on the same dim, from larger annotated values first, so that few values change order.
    """
    splitting_axes: Orders = {}
    for site in sites:
        table = splitting_axes[site] = dict[int, tuple[str, ...]]()
        labels = chosen[site]
        for axis in axes:
            if axis in labels and (factor := labels[axis].factor) is not None:
                table[factor] = (*table.get(factor, ()), axis)
    settled: Orders = {
        site: {f: axes_of_factor for f, axes_of_factor in table.items() if len(axes_of_factor) == 1}
        for site, table in splitting_axes.items()
    }
    queue = deque(_fixed(sites, splitting_axes))
    users = _users(sites) if queue else {}
    while queue:
        site, factor, order = queue.popleft()
        if factor in settled[site]:
            continue
        settled[site][factor] = order
        for value, dim in _dims(site, factor):
            for neighbor, dim_and_factor in users[value]:
                if dim_and_factor[0] == dim and set(splitting_axes[neighbor].get(dim_and_factor[1], ())) == set(order):
                    queue.append((neighbor, dim_and_factor[1], order))
    for site, table in splitting_axes.items():
        for factor, axes_of_factor in table.items():
            settled[site].setdefault(factor, axes_of_factor)
    return settled


def _fixed(sites: list[Site], splitting_axes: Orders) -> list[tuple[Site, int, tuple[str, ...]]]:
    """Return the axis orders that annotations and options fix, those of the largest values first.

    Axes that an annotation does not name come last in its order.
    """
    fixed_orders: list[tuple[int, int, Site, int, tuple[str, ...]]] = []
    for index, site in enumerate(sites):
        axes_by_factor = dict(enumerate(site.option or ()))
        if site.annotation:
            maps = (site.rule.operands if site.annotates_operand else site.rule.results)[0]
            axes_by_factor = {
                factors[0]: axes for factors, axes in zip(maps, site.annotation.sharding.dims, strict=True) if factors
            }
        for factor, named in axes_by_factor.items():
            axes_of_factor = splitting_axes[site].get(factor, ())
            order = tuple(axis for axis in named if axis in axes_of_factor)  # leaves out axes of size 1
            if order and len(axes_of_factor) > 1:
                order += tuple(axis for axis in axes_of_factor if axis not in order)
                fixed_orders.append((-site.value.type.nbytes, index, site, factor, order))
    return [item[2:] for item in sorted(fixed_orders, key=lambda item: item[:2])]


def _users(sites: list[Site]) -> dict[Value, list[tuple[Site, tuple[int, int]]]]:
    """Return the sites that produce or read each value, each with the (dim, factor) pairs of the value."""
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
