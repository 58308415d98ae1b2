"""Build the labelling problem of a search: a strategy for every cluster of sites, over all mesh axes, and memory for what stays.

Example, `%h = dot_general %x, %w` on x=2, y=2, nothing annotated:

    variables       input %x, input %w (a strategy is the state of the value along each axis), the dot, output %h
    tables          work of the dot, by strategy; between %x and the dot, %w and the dot, the dot and %h seconds to reshard
    memory          bytes of %x, %w and %h on a device, by strategy

A value that is read by several sites is a variable of its own: it is resharded once to what its users read, or to what they slice it from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.codegen.targets import DEFAULT_TARGET, predicted_on
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import Module, Value
from meshgen.ops.classes import CONTRACTIONS
from meshgen.search.clusters import clusters_of
from meshgen.search.strategies import Strategies, StrategyLists
from meshgen.search.work import Placing, tile_of
from meshgen.sharding.propagation.amounts import Whole, view_of
from meshgen.sharding.propagation.choices import Alike, AxisProblem
from meshgen.sharding.propagation.network import Array, Table
from meshgen.sharding.propagation.pseudo_ops import is_changed_carry, is_input, is_output
from meshgen.sharding.propagation.sites import Site, sites_of
from meshgen.sharding.propagation.solve import named_axes
from meshgen.sharding.propagation.states import Link, State
from meshgen.spec import Sharding


@dataclass(frozen=True)
class Problem:
    """Variables by number, the first ones of clusters: `clusters[site]`. `memory` has bytes per device of what arguments and results take.

    Costs of `tables` are seconds.
    """

    sites: list[Site]
    axes: tuple[str, ...]
    clusters: list[int]
    strategies: list[Strategies]
    sizes: list[int]
    tables: list[Table]
    memory: Mapping[int, Array]

    def axes_of(self, cluster: int, label: int) -> frozenset[str]:
        """The axes that a label of a cluster of inputs or outputs splits their values over."""
        return frozenset(axis for axis, state in self._states(cluster, label) if isinstance(state, int))

    def without(self, cluster: int, label: int) -> Table:
        """A table that forbids a label of a cluster of inputs or outputs, and those that split their values less."""
        now = {*self._states(cluster, label)}
        less = [
            all(state is None or (axis, state) in now for axis, state in self._states(cluster, other))
            for other in range(self.sizes[cluster])
        ]
        return Table((cluster,), np.where(less, DEFAULT.propagation.forbidden_seconds, 0.0))

    def exchanged(self, chosen: Sequence[int], pair: tuple[str, str]) -> list[Table]:
        """Tables that forbid arguments to be split otherwise than a labelling does it with two axes in each other's place."""
        places = [self.axes.index({pair[0]: pair[1], pair[1]: pair[0]}.get(axis, axis)) for axis in self.axes]
        found: list[Table] = []
        for cluster in dict.fromkeys(
            c for site, c in zip(self.sites, self.clusters, strict=True) if is_input(site.node)
        ):
            placings = self.strategies[cluster].of_result(0)
            asked = tuple(placings[chosen[cluster]][place] for place in places)
            if asked in placings:
                forbidden = DEFAULT.propagation.forbidden_seconds
                found.append(Table((cluster,), np.where([each == asked for each in placings], 0.0, forbidden)))
        return found

    def _states(self, cluster: int, label: int) -> list[tuple[str, State]]:
        each = self.strategies[cluster].labels[label]
        ends = [(*labels.operands, *labels.results)[0] for labels in each]
        return list(zip(self.axes, ends, strict=True))

    def priced(self, seconds: float) -> list[Table]:
        """Tables in which every byte of memory takes some seconds."""
        return [Table((cluster,), bytes_ * seconds) for cluster, bytes_ in self.memory.items()]

    def reweighted(self, times: float) -> list[Table]:
        """Tables that make resharding cost so many times what it does, those of the problem included."""
        return [Table(scope, costs * (times - 1)) for scope, costs in self.tables if len(scope) > 1]

    def shardings(self, chosen: Sequence[int]) -> list[Sharding]:
        """The sharding of each input under a labelling."""
        found: list[Sharding] = []
        for site, cluster in zip(self.sites, self.clusters, strict=True):
            if is_input(site.node):
                placing = self.strategies[cluster].of_result(0)[chosen[cluster]]
                found.append(_sharding_of_placing(placing, self.axes, site.value.type.rank))
        return found

    def products(self, chosen: Sequence[int]) -> dict[int, Sharding]:
        """The sharding of the result of each product that is split, by the value's id."""
        found: dict[int, Sharding] = {}
        for site, cluster in zip(self.sites, self.clusters, strict=True):
            if site.node.op in CONTRACTIONS:
                placing = self.strategies[cluster].of_result(0)[chosen[cluster]]
                sharding = _sharding_of_placing(placing, self.axes, site.node.results[0].type.rank)
                if any(sharding.dims):
                    found[site.node.results[0].id] = sharding
        return found


def _sharding_of_placing(placing: Placing, axes: Sequence[str], rank: int) -> Sharding:
    pairs = list(zip(axes, placing, strict=True))
    return Sharding(tuple(tuple(axis for axis, state in pairs if state == dim) for dim in range(rank)))


def problem_of(module: Module, target: str = DEFAULT_TARGET) -> Problem:
    """The problem of a program at stage import, on the devices of a target or of its mesh's machine. Raises ShardingError with all faults of its annotations."""
    parts = AxisParts.of(module.mesh, named_axes(module, only_options=False))
    sites = sites_of(module, parts)
    whole = Whole.of(sites)
    joints = whole.edges
    names = [axis for axis in parts.all() if (module.mesh.axis_size(axis) or 1) > 1]
    links = [Link.of(module.mesh, axis, pins=False, is_hurried=True) for axis in names]
    view = view_of(whole, {}, module.mesh)
    problems = [AxisProblem(sites, link, [], view, Alike()) for link in links]
    clusters = clusters_of(sites, joints)
    lists = StrategyLists(sites, links, problems, device_of(predicted_on(target, None, module.mesh)[0]))
    first = {cluster: site for site, cluster in zip(reversed(sites), reversed(clusters), strict=True)}
    strategies = [lists.of(first[cluster]) for cluster in range(len(first))]
    tables = _Tables(sites, clusters, strategies, links)
    for value, maker, uses in joints:
        tables.add_edge(value, maker, uses)
    memory = _memory(sites, clusters, strategies, links)
    found = Problem(
        sites, tuple(names), clusters, strategies, tables.sizes, tables.all(), memory
    )  # fmt: skip
    return replace(found, tables=[*found.tables, *found.priced(DEFAULT.propagation.held_seconds)])


def _memory(
    sites: Sequence[Site], clusters: Sequence[int], strategies: Sequence[Strategies], links: Sequence[Link]
) -> dict[int, Array]:
    """Bytes per device by strategy, of inputs and of outputs; the next value of a donated input has no site of its own."""
    found: dict[int, Array] = {}
    for site, cluster in zip(sites, clusters, strict=True):
        if is_output(site.node):
            placings = strategies[cluster].of_operand(0)
        elif is_input(site.node):
            placings = strategies[cluster].of_result(0)
        else:
            continue
        tiles = [tile_of(site.value.type, placing, links).nbytes for placing in placings]
        found[cluster] = found.get(cluster, 0.0) + np.array(tiles, float)
    return found


class _Tables:
    """Tables of costs, those over the same variables counted once with how often they occur."""

    def __init__(
        self, sites: Sequence[Site], clusters: Sequence[int], strategies: Sequence[Strategies], links: Sequence[Link]
    ) -> None:
        self.sites, self.clusters, self.strategies, self.links = sites, clusters, strategies, links
        self.sizes = [len(each.labels) for each in strategies]
        self.alone = Counter(clusters)
        self.counts = Counter[tuple[int, int, int]]()  # first variable, second variable, array
        self.arrays: list[Array] = []
        self.known: dict[object, int] = {}
        self.shared: dict[object, tuple[int, list[Placing]]] = {}

    def all(self) -> list[Table]:
        """Each with its variables in rising order."""
        found = [Table((cluster,), self.strategies[cluster].seconds * count) for cluster, count in self.alone.items()]
        for (first, second, array), count in self.counts.items():
            costs = self.arrays[array] * count
            if first == second:
                found.append(Table((first,), costs.diagonal().copy()))
            else:
                found.append(
                    Table((first, second), costs) if first < second else Table((second, first), costs.T.copy())
                )
        return found

    def add_edge(self, value: Value, maker: tuple[int, int], uses: Sequence[tuple[int, int]]) -> None:
        """What it takes to reshard a value from how it is made to how it is read; by several users through a variable of its own."""
        site, cluster = self.sites[maker[0]], self.clusters[maker[0]]
        made = self.strategies[cluster].of_result(maker[1])
        ends = {(self.clusters[user], i): self.sites[user] for user, i in uses}
        source = cluster
        if len(ends) > 1:
            key = cluster, maker[1]
            if key not in self.shared:
                read = [self.strategies[user].of_operand(i) for user, i in ends]
                states = list(dict.fromkeys(placing for side in (made, *read) for placing in side))
                self.shared[key] = len(self.sizes), states
                self.sizes.append(len(states))
            source, states = self.shared[key]
            self._add(cluster, source, value, site.times, made, states)
            made = states
        for (user, i), reader in ends.items():
            is_changed = is_changed_carry(site.node)
            times = reader.times if is_changed else site.times
            self._add(source, user, value, times, made, self.strategies[user].of_operand(i))

    def _add(
        self, first: int, second: int, value: Value, times: float, made: Sequence[Placing], read: Sequence[Placing]
    ) -> None:
        key = value.type.nbytes, times, tuple(made), tuple(read)
        if key not in self.known:
            self.known[key] = len(self.arrays)
            self.arrays.append(times * reshard_seconds(self.links, value.type.nbytes, made, read))
        self.counts[first, second, self.known[key]] += 1


def reshard_seconds(links: Sequence[Link], nbytes: float, made: Sequence[Placing], read: Sequence[Placing]) -> Array:
    """Seconds from each placing of a value to each other one: axis after axis, in the better of two orders."""
    orders = {tuple(range(len(links))), tuple(reversed(range(len(links))))}
    both = [(order, _in_order(links, nbytes, made, read, order)) for order in sorted(orders)]
    return np.minimum.reduce([seconds for _, seconds in both])


def _in_order(
    links: Sequence[Link], nbytes: float, made: Sequence[Placing], read: Sequence[Placing], order: Sequence[int]
) -> Array:
    """Axes that are done split the value as it is read, the others as it is made."""
    total = np.zeros((len(made), len(read)))
    for place, axis in enumerate(order):
        done, left = order[:place], order[place + 1 :]
        tiles = nbytes / np.outer(_split(made, links, left), _split(read, links, done))
        rate, fixed = _prices(links[axis], tuple(each[axis] for each in made), tuple(each[axis] for each in read))
        total += rate * tiles + fixed
    return total


def _split(placings: Sequence[Placing], links: Sequence[Link], axes: Sequence[int]) -> Array:
    return np.array(
        [math.prod(links[axis].size for axis in axes if isinstance(each[axis], int)) for each in placings], float
    )


def _prices(link: Link, made: Sequence[State], read: Sequence[State]) -> tuple[Array, Array]:
    """Seconds per byte and seconds besides, between states along one axis."""
    sources, targets = list(dict.fromkeys(made)), list(dict.fromkeys(read))
    fixed = np.array([[link.seconds(s, t, 0.0) for t in targets] for s in sources])
    rate = np.array([[link.seconds(s, t, 1.0) for t in targets] for s in sources]) - fixed
    places = np.ix_([sources.index(state) for state in made], [targets.index(state) for state in read])
    return rate[places], fixed[places]
