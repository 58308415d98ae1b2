"""Choose a label for every site along one mesh axis: build the labeling problem with its costs, and solve it.

Example, on x=4 with `%a : f32[64,32]{x}` annotated and `%w : f32[32,96]` not:

    %h = dot_general %a, %w -> f32[64,96]   labels: loop a (64) split, or replicated
    %y = tanh %h                            labels: split, or replicated
    edge %h                                 equal labels: 0 s; split -> replicated: an all-gather of 24 kB
    chosen                                  split, split: a quarter of the work of replicated, replicated

The labels at both ends of an edge give the value's state there. If the states differ, the value is resharded, at the
estimated time of the collective. A value with several users may have one resharded copy that they share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.propagation.edge_tables import EdgeTables, edge_tables
from meshgen.sharding.propagation.edges import End, Joint
from meshgen.sharding.propagation.eliminate import Table, cheapest, least_cost
from meshgen.sharding.propagation.labels import Label, annotated_value_state, follows_annotation
from meshgen.sharding.propagation.pseudo_ops import ENDS
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link, State
from meshgen.sharding.propagation.unsplit_program import View
from meshgen.sharding.window_fetches import rows_moved


class AxisSolution(NamedTuple):
    """The chosen label of every site along an axis, and the estimated seconds of traffic and work in total."""

    labels: tuple[Label, ...]
    seconds: float
    is_exact: bool


@dataclass(frozen=True)
class ProblemCaches:
    """Caches shared by all labeling problems of one mesh axis.

    Each key contains everything that its entry depends on, so entries stay valid when other axes change.
    """

    labels: dict[object, list[Label]] = field(default_factory=dict)
    costs: dict[Any, np.ndarray] = field(default_factory=dict)  # cost of each label, per site structure
    # seconds to reshard between any two states of an edge, shared by edges of equal cost
    prices: dict[Any, dict[tuple[State, State], float]] = field(default_factory=dict)
    edges: dict[Any, EdgeTables] = field(default_factory=dict)  # tables of an edge, per combination of label lists


class AxisProblem:
    """The labeling problem of one axis.

    Its variables are the sites with several labels, and the shared copies of values. Its tables hold the costs of work,
    annotations and edges. Sites of equal structure share one list in `labels`. The keys of `caches` contain the
    identities of these lists, so `caches` keeps the lists alive.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        link: Link,
        labels: list[list[Label]],
        view: View,
        caches: ProblemCaches,
    ) -> None:
        self.sites, self.link, self.labels, self.view, self.caches = sites, link, labels, view, caches

    @cached_property
    def sizes(self) -> list[int]:
        """Return the number of labels of each site, then the number of states of each shared copy."""
        return self._network[0]

    @cached_property
    def tables(self) -> list[Table]:
        """Return the cost tables of the problem."""
        return self._network[1]

    @cached_property
    def _network(self) -> tuple[list[int], list[Table]]:
        ids, sizes, tables = list(map(id, self.labels)), list(map(len, self.labels)), list[Table]()
        constant = 0.0
        for index, costs in enumerate(self._costs_alone(ids)):
            if sizes[index] > 1:
                tables.append(Table((index,), costs))
            else:
                constant += costs.item()
        for index, joint in enumerate(self.view.whole.joints):
            edge = self._edge_of(index, joint, ids)
            constant += edge.seconds
            if edge.copies:
                sizes.append(edge.copies)
            if edge.tables:
                variables = *joint.scope, len(sizes) - 1
                tables += [Table(tuple([variables[p] for p in positions]), costs) for positions, costs in edge.tables]
            for use in joint.constrained_uses:
                tables.append(Table((use[0],), self._use_penalties(joint, use)))
        tables.append(Table((), np.array(constant)))
        return sizes, tables

    def solve(self, guess: Sequence[Label] = ()) -> AxisSolution:
        """Return the cheapest labels that the solver finds.

        `guess` has one label per site from the solution of a similar problem, or is empty.
        """
        solution = cheapest(self.sizes, self.tables, lambda: self._guess_indices(guess))
        labels = tuple(options[solution.labels[i]] for i, options in enumerate(self.labels))
        return AxisSolution(labels, solution.cost, solution.is_exact)

    def edge_seconds(self, edges: Sequence[int], labels: Sequence[Label]) -> float:
        """Return the total seconds of reshards on some edges, given the label of each site."""
        ids, seconds = list(map(id, self.labels)), 0.0
        for edge in edges:
            joint = self.view.whole.joints[edge]
            positions = [self.labels[site].index(labels[site]) for site in joint.scope]
            seconds += self._edge_of(edge, joint, ids).at(positions)
        return seconds

    def _guess_indices(self, guess: Sequence[Label]) -> list[int]:
        """Convert the guess to label indices; shared copies and labels that no longer exist get -1."""
        pairs = zip(self.labels, guess, strict=True) if guess else ()
        indices = [options.index(label) if label in options else -1 for options, label in pairs]
        return indices + [-1] * (len(self.sizes) - len(indices))

    @property
    def least_seconds(self) -> float:
        """Return a lower bound on the seconds of every solution."""
        return least_cost(self.sizes, self.tables)

    def _costs_alone(self, ids: Sequence[int]) -> Iterator[np.ndarray]:
        """Yield the costs of each site's labels, excluding reshards on edges."""
        view, cached_costs = self.view, self.caches.costs
        values, local, seconds = view.whole.values, view.local, view.seconds
        for index, site in enumerate(self.sites):
            key = site.like, ids[index], seconds[index], site.times, *[local[value] for value in values[index]]
            if (costs := cached_costs.get(key)) is None:
                costs = cached_costs[key] = np.array([self.alone(site, label) for label in self.labels[index]])
            yield costs

    def alone(self, site: Site, label: Label) -> float:
        """Return the cost of a label without reshards: the work per device, plus penalties for violated annotations."""
        cost, weights = self.view.work(site) * self.share(site, label), DEFAULT.propagation
        cost += self._fetching(site, label) + self._masking(site, label)
        if site.option is not None:
            option_factor = next((f for f, axes in enumerate(site.option) if self.link.axis in axes), None)
            # A linear op on partial operands splits no loop.
            return cost if option_factor == label.factor else cost + weights.forbidden_seconds
        if site.is_manual(self.link.axis):
            return cost
        state = annotated_value_state(site, label)
        if site.annotation is None:
            return cost + (weights.forbidden_seconds if site.node.op in ENDS and isinstance(state, str) else 0.0)
        if follows_annotation(site, state, self.link.axis):
            return cost
        return cost + (weights.forbidden_seconds if site.annotation.required else weights.hint_seconds)

    def share(self, site: Site, label: Label) -> float:
        """Return the share of a site's work that each device keeps, relative to the work that the other axes leave.

        Uneven tiles count with the size of the largest tile.
        """
        if label.factor is None:
            return 1.0
        size, parts = site.rule.factors[label.factor].size, self.view.parts(site, label.factor)
        return site.left(label.factor, math.ceil(size / (parts * self.link.size)) / max(math.ceil(size / parts), 1))

    def _fetching(self, site: Site, label: Label) -> float:
        """Return the seconds per step of communication inside the op under `label`, such as halo exchanges."""
        return site.times * sum(
            nbytes / self.link.bandwidth + self.link.latency for nbytes in self.fetched(site, label)
        )

    def _masking(self, site: Site, label: Label) -> float:
        """Return the seconds for masking splats that `label` uses as partial sums: all devices but one need zeros."""
        count = sum(isinstance(label.operands[operand], str) for operand in site.splats)
        return count * site.times * DEFAULT.propagation.slice_seconds

    def fetched(self, site: Site, label: Label) -> list[float]:
        """Return the bytes of each message inside the op, per device: halos of windows, top-k candidates, or carries of
        scans.
        """
        if label.factor is None or label.is_pick(site):
            return []
        factor, message_bytes = label.factor, list[float]()
        if (loop := site.rule.factors[factor]).kind in ("combine", "scan"):
            # a scan sends one carry per other device; a combine sends candidates for its share of the rows, and results
            other_devices = self.link.size - 1
            moved_rows = (
                other_devices / loop.size
                if loop.kind == "scan"
                else min(other_devices, 2 * other_devices / self.link.size)
            )
            result_dims = zip(site.node.results, site.rule.places(factor)[1], strict=True)
            sent_values = [value for value, dim in result_dims if loop.kind == "scan" or dim is None]
            message_bytes.append(sum(map(self.view.nbytes, sent_values)) * moved_rows)
        for window in site.rule.windows:
            if window.factor == factor:
                value = site.node.operands[window.operand]
                size = value.type.sizes[window.dim]
                if moved_rows := rows_moved(site.rule, window, size, self.link.size):
                    message_bytes.append(self.view.nbytes(value) * moved_rows / max(size, 1))
        return message_bytes

    def _edge_of(self, index: int, joint: Joint, ids: Sequence[int]) -> EdgeTables:
        """Return the cost tables of an edge, cached.

        Each use reads the value as produced, or a reshard of it for that use alone, or a copy shared with other uses.
        """
        view, used = self.view, self.view.used
        state = (
            tuple([(use in view.moved, view.reduced.get(use, 1)) for use in joint.uses]) if index in view.moving else ()
        )
        kind = joint.kind if self.link.pins or not joint.has_argument else ~joint.kind
        key = kind, state, *[ids[site] for site in joint.scope], *[used[site][i] for site, i in joint.uses]
        if (edge := self.caches.edges.get(key)) is None:
            edge = self.caches.edges[key] = self._tables(joint)
        return edge

    def _tables(self, joint: Joint) -> EdgeTables:
        produced_states = [label.results[joint.producer[1]] for label in self.labels[joint.producer[0]]]
        used_states = [[label.operands[i] for label in self.labels[site]] for site, i in joint.uses]
        states = tuple(dict.fromkeys(state for side in (produced_states, *used_states) for state in side))
        ends = list(zip(joint.uses, joint.ends, strict=True))
        prices = [self._prices(use, end, states) for use, end in ends]
        weights, barriers = [self._weight(use, end) for use, end in ends], [end.is_barrier for end in joint.ends]
        return edge_tables(joint.scope, produced_states, used_states, prices, weights, barriers)

    def _use_penalties(self, joint: Joint, use: tuple[int, int]) -> np.ndarray:
        """Return the penalty for each label of a user: positive if the label violates the annotation on the value's
        uses.
        """
        producer, penalty = self.sites[joint.producer[0]], DEFAULT.propagation.use_seconds
        states = [label.operands[use[1]] for label in self.labels[use[0]]]
        return np.array([0.0 if follows_annotation(producer, state, self.link.axis) else penalty for state in states])

    def _weight(self, use: tuple[int, int], end: End) -> float:
        """Return the factor on the reshard costs of a use. It is lower if another axis reshards the value for the same
        use.
        """
        return end.weight * (DEFAULT.propagation.same_edge if use in self.view.moved else 1.0)

    def _prices(self, use: tuple[int, int], end: End, states: tuple[State, ...]) -> dict[tuple[State, State], float]:
        """Return the seconds to reshard a use from any of `states` to any other.

        Bytes are counted after other axes gather and slice on the edge, so the cost is what this axis adds.
        To reduce among m devices of other axes and n of this one moves 2 (mn - 1) / mn of the bytes: a share of
        2 (n - 1) / n / m more than without this axis.
        """
        nbytes, reducing_devices = self.view.used_bytes(use), self.view.reduced.get(use, 1)
        sharded_by_groups = self.link.sharded_by_groups and end.is_own
        key = nbytes, end.times, end.is_argument, self.link.pins, sharded_by_groups, reducing_devices, states

        def reshard_seconds(source: State, target: State) -> float:
            if sharded_by_groups and (source, target) == ("sum", None):
                return 0.0
            share = nbytes / reducing_devices if isinstance(source, str) and target is None else nbytes
            return end.times * self.link.seconds(source, target, share, is_argument=end.is_argument)

        if key not in self.caches.prices:
            self.caches.prices[key] = {(s, t): reshard_seconds(s, t) for s in states for t in states}
        return self.caches.prices[key]
