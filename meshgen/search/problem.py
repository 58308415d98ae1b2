"""Build the labeling problem of a search: a strategy over all mesh axes for every cluster of sites.

Example, `%h = dot_general %x, %w` on x=2, y=2, nothing annotated:

    variables       input %x, input %w (a strategy is the state of the value along each axis), the dot, output %h
    tables          work of the dot, by strategy; reshard seconds between %x and the dot, %w and the dot, the dot and %h
    memory          bytes of %x, %w and %h on a device, by strategy

A value with several users has a variable of its own: it is resharded once, to the state that its users read or slice.
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
from meshgen.search.tile_time import Placing, tile_of
from meshgen.sharding.propagation.choices import AxisProblem, ProblemCaches
from meshgen.sharding.propagation.network import Array, Table
from meshgen.sharding.propagation.pseudo_ops import is_changed_carry, is_input, is_output
from meshgen.sharding.propagation.sites import Site, sites_of
from meshgen.sharding.propagation.solve import named_axes
from meshgen.sharding.propagation.states import Link, State
from meshgen.sharding.propagation.unsplit_program import UnsplitProgram, view_of
from meshgen.spec import Sharding


@dataclass(frozen=True)
class Problem:
    """The labeling problem. The first variables belong to clusters: `clusters[site]` is the variable of a site.

    Costs in `tables` are seconds. `memory` has bytes per device of the arguments and results, by label.
    """

    sites: list[Site]
    axes: tuple[str, ...]
    clusters: list[int]
    strategies: list[Strategies]
    sizes: list[int]
    tables: list[Table]
    memory: Mapping[int, Array]

    def axes_of(self, cluster: int, label: int) -> frozenset[str]:
        """Return the axes over which a label of an input or output cluster splits its values."""
        return frozenset(axis for axis, state in self._states(cluster, label) if isinstance(state, int))

    def without(self, cluster: int, label: int) -> Table:
        """Return a table that forbids a label of an input or output cluster, and all labels that split less."""
        present_states = {*self._states(cluster, label)}
        is_forbidden = [
            all(state is None or (axis, state) in present_states for axis, state in self._states(cluster, candidate))
            for candidate in range(self.sizes[cluster])
        ]
        return Table((cluster,), np.where(is_forbidden, DEFAULT.propagation.forbidden_seconds, 0.0))

    def exchanged(self, chosen: Sequence[int], pair: tuple[str, str]) -> list[Table]:
        """Return tables that force each argument to its strategy in `chosen` with the axes of `pair` exchanged."""
        exchanged_axes = [self.axes.index({pair[0]: pair[1], pair[1]: pair[0]}.get(axis, axis)) for axis in self.axes]
        tables: list[Table] = []
        for cluster in dict.fromkeys(
            c for site, c in zip(self.sites, self.clusters, strict=True) if is_input(site.node)
        ):
            placings = self.strategies[cluster].of_result(0)
            exchanged = tuple(placings[chosen[cluster]][axis_index] for axis_index in exchanged_axes)
            if exchanged in placings:
                forbidden = DEFAULT.propagation.forbidden_seconds
                tables.append(
                    Table((cluster,), np.where([placing == exchanged for placing in placings], 0.0, forbidden))
                )
        return tables

    def _states(self, cluster: int, label: int) -> list[tuple[str, State]]:
        strategy = self.strategies[cluster].labels[label]
        ends = [(*labels.operands, *labels.results)[0] for labels in strategy]
        return list(zip(self.axes, ends, strict=True))

    def priced(self, seconds: float) -> list[Table]:
        """Return tables that add a cost of `seconds` per byte of memory."""
        return [Table((cluster,), bytes_ * seconds) for cluster, bytes_ in self.memory.items()]

    def reweighted(self, times: float) -> list[Table]:
        """Return tables that multiply the cost of resharding by `times` when added to the problem's tables."""
        return [Table(scope, costs * (times - 1)) for scope, costs in self.tables if len(scope) > 1]

    def shardings(self, chosen: Sequence[int]) -> list[Sharding]:
        """Return the sharding of each input under the labeling `chosen`."""
        shardings: list[Sharding] = []
        for site, cluster in zip(self.sites, self.clusters, strict=True):
            if is_input(site.node):
                placing = self.strategies[cluster].of_result(0)[chosen[cluster]]
                shardings.append(_sharding_of_placing(placing, self.axes, site.value.type.rank))
        return shardings

    def products(self, chosen: Sequence[int]) -> dict[int, Sharding]:
        """Return the sharding of each matmul result that is split, by the id of the value."""
        shardings: dict[int, Sharding] = {}
        for site, cluster in zip(self.sites, self.clusters, strict=True):
            if site.node.op in CONTRACTIONS:
                placing = self.strategies[cluster].of_result(0)[chosen[cluster]]
                sharding = _sharding_of_placing(placing, self.axes, site.node.results[0].type.rank)
                if any(sharding.dims):
                    shardings[site.node.results[0].id] = sharding
        return shardings


def _sharding_of_placing(placing: Placing, axes: Sequence[str], rank: int) -> Sharding:
    pairs = list(zip(axes, placing, strict=True))
    return Sharding(tuple(tuple(axis for axis, state in pairs if state == dim) for dim in range(rank)))


def problem_of(module: Module, target: str = DEFAULT_TARGET) -> Problem:
    """Build the problem of a program at stage import, for the devices of `target` or of the mesh's machine.

    Raises:
        ShardingError: lists all faults of the program's annotations.
    """
    parts = AxisParts.of(module.mesh, named_axes(module, only_options=False))
    sites = sites_of(module, parts)
    whole = UnsplitProgram.of(sites)
    joints = whole.edges
    axes = [axis for axis in parts.all() if (module.mesh.axis_size(axis) or 1) > 1]
    links = [Link.of(module.mesh, axis, pins=False, counts_latency=True) for axis in axes]
    view = view_of(whole, {}, module.mesh)
    problems = [AxisProblem(sites, link, [], view, ProblemCaches()) for link in links]
    clusters = clusters_of(sites, joints)
    strategy_lists = StrategyLists(sites, links, problems, device_of(predicted_on(target, None, module.mesh)[0]))
    first_sites = {cluster: site for site, cluster in zip(reversed(sites), reversed(clusters), strict=True)}
    strategies = [strategy_lists.of(first_sites[cluster]) for cluster in range(len(first_sites))]
    tables = _Tables(sites, clusters, strategies, links)
    for value, producer, uses in joints:
        tables.add_edge(value, producer, uses)
    memory = _memory(sites, clusters, strategies, links)
    problem = Problem(
        sites, tuple(axes), clusters, strategies, tables.sizes, tables.all(), memory
    )  # fmt: skip
    return replace(problem, tables=[*problem.tables, *problem.priced(DEFAULT.propagation.held_seconds)])


def _memory(
    sites: Sequence[Site], clusters: Sequence[int], strategies: Sequence[Strategies], links: Sequence[Link]
) -> dict[int, Array]:
    """Return the bytes per device of inputs and outputs, by strategy.

    An output that is the next value of a donated input has no site of its own, so it is not counted.
    """
    bytes_by_cluster: dict[int, Array] = {}
    for site, cluster in zip(sites, clusters, strict=True):
        if is_output(site.node):
            placings = strategies[cluster].of_operand(0)
        elif is_input(site.node):
            placings = strategies[cluster].of_result(0)
        else:
            continue
        tiles = [tile_of(site.value.type, placing, links).nbytes for placing in placings]
        bytes_by_cluster[cluster] = bytes_by_cluster.get(cluster, 0.0) + np.array(tiles, float)
    return bytes_by_cluster


class _Tables:
    """Collects cost tables. Equal tables over the same variables are stored once, with a multiplicity."""

    def __init__(
        self, sites: Sequence[Site], clusters: Sequence[int], strategies: Sequence[Strategies], links: Sequence[Link]
    ) -> None:
        self.sites, self.clusters, self.strategies, self.links = sites, clusters, strategies, links
        self.sizes = [len(site_strategies.labels) for site_strategies in strategies]
        self.alone = Counter(clusters)
        self.counts = Counter[tuple[int, int, int]]()  # (first variable, second variable, array index) -> multiplicity
        self.arrays: list[Array] = []
        self.array_indices: dict[object, int] = {}
        self.shared: dict[object, tuple[int, list[Placing]]] = {}

    def all(self) -> list[Table]:
        """Return all tables, each with its variables in rising order."""
        tables = [Table((cluster,), self.strategies[cluster].seconds * count) for cluster, count in self.alone.items()]
        for (first, second, array), count in self.counts.items():
            costs = self.arrays[array] * count
            if first == second:
                tables.append(Table((first,), costs.diagonal().copy()))
            else:
                tables.append(
                    Table((first, second), costs) if first < second else Table((second, first), costs.T.copy())
                )
        return tables

    def add_edge(self, value: Value, producer: tuple[int, int], uses: Sequence[tuple[int, int]]) -> None:
        """Add the cost of resharding a value from its producer to its users. Several users share a variable."""
        site, cluster = self.sites[producer[0]], self.clusters[producer[0]]
        produced = self.strategies[cluster].of_result(producer[1])
        readers = {(self.clusters[user], i): self.sites[user] for user, i in uses}
        source = cluster
        if len(readers) > 1:
            key = cluster, producer[1]
            if key not in self.shared:
                read = [self.strategies[user].of_operand(i) for user, i in readers]
                states = list(dict.fromkeys(placing for side in (produced, *read) for placing in side))
                self.shared[key] = len(self.sizes), states
                self.sizes.append(len(states))
            source, states = self.shared[key]
            self._add(cluster, source, value, site.times, produced, states)
            produced = states
        for (user, i), reader in readers.items():
            is_changed = is_changed_carry(site.node)
            times = reader.times if is_changed else site.times
            self._add(source, user, value, times, produced, self.strategies[user].of_operand(i))

    def _add(
        self, first: int, second: int, value: Value, times: float, produced: Sequence[Placing], read: Sequence[Placing]
    ) -> None:
        key = value.type.nbytes, times, tuple(produced), tuple(read)
        if key not in self.array_indices:
            self.array_indices[key] = len(self.arrays)
            self.arrays.append(times * reshard_seconds(self.links, value.type.nbytes, produced, read))
        self.counts[first, second, self.array_indices[key]] += 1


def reshard_seconds(
    links: Sequence[Link], nbytes: float, produced: Sequence[Placing], read: Sequence[Placing]
) -> Array:
    """Return a matrix of the seconds to reshard from each placing in `produced` to each placing in `read`.

    The value is resharded axis by axis, in the better order of the axes.
    """
    orders = {tuple(range(len(links))), tuple(reversed(range(len(links))))}
    results = [(order, _in_order(links, nbytes, produced, read, order)) for order in sorted(orders)]
    return np.minimum.reduce([seconds for _, seconds in results])


def _in_order(
    links: Sequence[Link], nbytes: float, produced: Sequence[Placing], read: Sequence[Placing], order: Sequence[int]
) -> Array:
    """Return a matrix of the seconds to reshard axis by axis in the given order.

    While an axis is resharded, earlier axes split the value as in `read`, and later axes as in `produced`.
    """
    total = np.zeros((len(produced), len(read)))
    for position, axis in enumerate(order):
        done, remaining = order[:position], order[position + 1 :]
        tiles = nbytes / np.outer(_split(produced, links, remaining), _split(read, links, done))
        rate, fixed = _prices(
            links[axis], tuple(placing[axis] for placing in produced), tuple(placing[axis] for placing in read)
        )
        total += rate * tiles + fixed
    return total


def _split(placings: Sequence[Placing], links: Sequence[Link], axes: Sequence[int]) -> Array:
    """Return the number of parts into which some axes split the value, for each placing."""
    return np.array(
        [math.prod(links[axis].size for axis in axes if isinstance(placing[axis], int)) for placing in placings], float
    )


def _prices(link: Link, produced: Sequence[State], read: Sequence[State]) -> tuple[Array, Array]:
    """Return matrices of the seconds per byte and of the fixed seconds to reshard between states along one axis."""
    sources, targets = list(dict.fromkeys(produced)), list(dict.fromkeys(read))
    fixed = np.array([[link.seconds(s, t, 0.0) for t in targets] for s in sources])
    rate = np.array([[link.seconds(s, t, 1.0) for t in targets] for s in sources]) - fixed
    cells = np.ix_([sources.index(state) for state in produced], [targets.index(state) for state in read])
    return rate[cells], fixed[cells]
