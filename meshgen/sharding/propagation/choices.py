"""Choose a label for every site along one mesh axis: build the labelling problem, with its costs, and solve it.

Example, on x=4 with `%a : f32[64,32]{x}` annotated and `%w : f32[32,96]` not:

    %h = dot_general %a, %w -> f32[64,96]   labels: loop a (64) split, or whole
    %y = tanh %h                            labels: split, or whole
    edge %h                                 both split, or both whole: 0 s; split -> whole: an all-gather of 24 kB
    chosen                                  split, split: a quarter of the work of whole, whole

The labels at both ends of an edge give the value's state there; if they differ the value is resharded, which costs the
estimated time of that. A value with several users may have one resharded copy that they share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.propagation.amounts import View
from meshgen.sharding.propagation.edge_tables import EdgeTables, edge_tables
from meshgen.sharding.propagation.eliminate import Table, cheapest, least_cost
from meshgen.sharding.propagation.joints import End, Joint
from meshgen.sharding.propagation.labels import Label, asked_face, is_as_asked
from meshgen.sharding.propagation.pseudo_ops import ENDS
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link, State
from meshgen.sharding.window_fetches import rows_moved


class AxisSolution(NamedTuple):
    """The label of every site along an axis, and the estimated seconds of traffic and extra work."""

    labels: tuple[Label, ...]
    seconds: float
    is_exact: bool


@dataclass(frozen=True)
class Alike:
    """What the problems of one axis share, whatever the other axes split: keys say all that each entry depends on."""

    labels: dict[object, list[Label]] = field(default_factory=dict)
    costs: dict[Any, np.ndarray] = field(default_factory=dict)  # of equal sites
    prices: dict[Any, dict[tuple[State, State], float]] = field(default_factory=dict)  # of edges with equal costs
    edges: dict[Any, EdgeTables] = field(default_factory=dict)  # between equal choices


class AxisProblem:
    """Variables: one per site with more than one label, one per shared copy. Tables: work, annotations, edges.

    `labels` of sites that are alike are one list, which `alike` keeps as long as what it knows of them.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        link: Link,
        labels: list[list[Label]],
        view: View,
        alike: Alike,
    ) -> None:
        self.sites, self.link, self.labels, self.view, self.alike = sites, link, labels, view, alike

    @cached_property
    def sizes(self) -> list[int]:
        """The number of labels of each site, then that of states of each shared copy."""
        return self._network[0]

    @cached_property
    def tables(self) -> list[Table]:
        """The costs."""
        return self._network[1]

    @cached_property
    def _network(self) -> tuple[list[int], list[Table]]:
        ids, sizes, tables = list(map(id, self.labels)), list(map(len, self.labels)), list[Table]()
        certain = 0.0
        for number, costs in enumerate(self._costs_alone(ids)):
            if sizes[number] > 1:
                tables.append(Table((number,), costs))
            else:
                certain += costs.item()
        for number, joint in enumerate(self.view.whole.joints):
            edge = self._edge_of(number, joint, ids)
            certain += edge.seconds
            if edge.copies:
                sizes.append(edge.copies)
            if edge.tables:
                numbers = *joint.scope, len(sizes) - 1
                tables += [Table(tuple([numbers[p] for p in places]), costs) for places, costs in edge.tables]
            for use in joint.asking:
                tables.append(Table((use[0],), self._asked(joint, use)))
        tables.append(Table((), np.array(certain)))
        return sizes, tables

    def solve(self, guess: Sequence[Label] = ()) -> AxisSolution:
        """The cheapest labels, as far as they can be found; `guess` has those of a similar problem, a label for each site, if there was one."""
        solution = cheapest(self.sizes, self.tables, lambda: self._numbers(guess))
        chosen = tuple(options[solution.labels[i]] for i, options in enumerate(self.labels))
        return AxisSolution(chosen, solution.cost, solution.is_exact)

    def edge_seconds(self, numbers: Sequence[int], labels: Sequence[Label]) -> float:
        """What reshards on these edges take in all with these labels, one of each site."""
        ids, found = list(map(id, self.labels)), 0.0
        for number in numbers:
            joint = self.view.whole.joints[number]
            places = [self.labels[site].index(labels[site]) for site in joint.scope]
            found += self._edge_of(number, joint, ids).at(places)
        return found

    def _numbers(self, guess: Sequence[Label]) -> list[int]:
        """The guess as numbers of labels; shared copies have none."""
        pairs = zip(self.labels, guess, strict=True) if guess else ()
        found = [options.index(label) if label in options else -1 for options, label in pairs]
        return found + [-1] * (len(self.sizes) - len(found))

    @property
    def least_seconds(self) -> float:
        """Seconds that no solution is below."""
        return least_cost(self.sizes, self.tables)

    def _costs_alone(self, ids: Sequence[int]) -> Iterator[np.ndarray]:
        """Per site the cost of each label that does not depend on other sites."""
        view, known = self.view, self.alike.costs
        values, local, seconds = view.whole.values, view.local, view.seconds
        for number, site in enumerate(self.sites):
            key = site.like, ids[number], seconds[number], site.times, *[local[value] for value in values[number]]
            if (costs := known.get(key)) is None:
                costs = known[key] = np.array([self.alone(site, label) for label in self.labels[number]])
            yield costs

    def alone(self, site: Site, label: Label) -> float:
        """The cost of redundant work if the loop is not split, and of labels that a hint or required annotation rules out."""
        cost, weights = self.view.work(site) * self.share(site, label), DEFAULT.propagation
        cost += self._fetching(site, label) + self._masking(site, label)
        if site.option is not None:
            asked = next((f for f, axes in enumerate(site.option) if self.link.axis in axes), None)
            return cost if asked == label.factor else cost + weights.forbidden_seconds  # partial operands split no loop
        if site.is_manual(self.link.axis):
            return cost
        state = asked_face(site, label)
        if site.annotation is None:
            return cost + (weights.forbidden_seconds if site.node.op in ENDS and isinstance(state, str) else 0.0)
        if is_as_asked(site, state, self.link.axis):
            return cost
        return cost + (weights.forbidden_seconds if site.annotation.required else weights.hint_seconds)

    def share(self, site: Site, label: Label) -> float:
        """The share of a site's work that is left to a device, of what the other axes leave; it counts the rows of the largest tile."""
        if label.factor is None:
            return 1.0
        size, parts = site.rule.factors[label.factor].size, self.view.parts(site, label.factor)
        return site.left(label.factor, math.ceil(size / (parts * self.link.size)) / max(math.ceil(size / parts), 1))

    def _fetching(self, site: Site, label: Label) -> float:
        """Seconds of communication of the op itself."""
        return site.times * sum(
            nbytes / self.link.bandwidth + self.link.latency for nbytes in self.fetched(site, label)
        )

    def _masking(self, site: Site, label: Label) -> float:
        """Seconds to make the splats that are read as partial sums, which one device has and the others zeros."""
        count = sum(isinstance(label.operands[number], str) for number in site.splats)
        return count * site.times * DEFAULT.propagation.slice_seconds

    def fetched(self, site: Site, label: Label) -> list[float]:
        """Bytes of each message of the op itself: rows of a window, candidates, or totals of tiles."""
        if label.factor is None or label.is_pick(site):
            return []
        factor, found = label.factor, list[float]()
        if (loop := site.rule.factors[factor]).kind in ("combine", "scan"):
            others = self.link.size - 1  # a row of each, or its candidates for a share of the rows and their results
            moved = others / loop.size if loop.kind == "scan" else min(others, 2 * others / self.link.size)
            places = zip(site.node.results, site.rule.places(factor)[1], strict=True)
            made = [value for value, dim in places if loop.kind == "scan" or dim is None]
            found.append(sum(map(self.view.nbytes, made)) * moved)
        for window in site.rule.windows:
            if window.factor == factor:
                value = site.node.operands[window.operand]
                size = value.type.sizes[window.dim]
                if moved := rows_moved(site.rule, window, size, self.link.size):
                    found.append(self.view.nbytes(value) * moved / max(size, 1))
        return found

    def _edge_of(self, number: int, joint: Joint, ids: Sequence[int]) -> EdgeTables:
        """The tables of an edge: each use reads the value as it is made, resharded for that use alone, or from a shared copy."""
        view, used = self.view, self.view.used
        state = (
            tuple([(use in view.moved, view.reduced.get(use, 1)) for use in joint.uses])
            if number in view.moving
            else ()
        )
        kind = joint.kind if self.link.pins or not joint.has_argument else ~joint.kind
        key = kind, state, *[ids[site] for site in joint.scope], *[used[site][i] for site, i in joint.uses]
        if (edge := self.alike.edges.get(key)) is None:
            edge = self.alike.edges[key] = self._tables(joint)
        return edge

    def _tables(self, joint: Joint) -> EdgeTables:
        made = [label.results[joint.maker[1]] for label in self.labels[joint.maker[0]]]
        wanted = [[label.operands[i] for label in self.labels[site]] for site, i in joint.uses]
        states = tuple(dict.fromkeys(state for side in (made, *wanted) for state in side))
        ends = list(zip(joint.uses, joint.ends, strict=True))
        prices = [self._prices(use, end, states) for use, end in ends]
        weights, barriers = [self._weight(use, end) for use, end in ends], [end.is_barrier for end in joint.ends]
        return edge_tables(joint.scope, made, wanted, prices, weights, barriers)

    def _asked(self, joint: Joint, use: tuple[int, int]) -> np.ndarray:
        """A cost that keeps an annotation for users where they read the value."""
        maker, far = self.sites[joint.maker[0]], DEFAULT.propagation.use_seconds
        states = [label.operands[use[1]] for label in self.labels[use[0]]]
        return np.array([0.0 if is_as_asked(maker, state, self.link.axis) else far for state in states])

    def _weight(self, use: tuple[int, int], end: End) -> float:
        """The weight of an end: an edge that another axis reshards as well costs less."""
        return end.weight * (DEFAULT.propagation.same_edge if use in self.view.moved else 1.0)

    def _prices(self, use: tuple[int, int], end: End, states: tuple[State, ...]) -> dict[tuple[State, State], float]:
        """Seconds between all states that occur at the ends of the edges of a value.

        Bytes are those after what other axes gather and slice on the edge, so the cost is what this axis adds.
        To reduce among m devices of other axes and n of this one moves 2 (mn - 1) / mn of the bytes: a share of
        2 (n - 1) / n / m more than without this axis.
        """
        nbytes, together = self.view.used_bytes(use), self.view.reduced.get(use, 1)
        keeps_rows = self.link.keeps_rows and end.is_own
        key = nbytes, end.times, end.is_argument, self.link.pins, keeps_rows, together, states

        def seconds(source: State, target: State) -> float:
            if keeps_rows and (source, target) == ("sum", None):
                return 0.0
            share = nbytes / together if isinstance(source, str) and target is None else nbytes
            return end.times * self.link.seconds(source, target, share, is_argument=end.is_argument)

        if key not in self.alike.prices:
            self.alike.prices[key] = {(s, t): seconds(s, t) for s in states for t in states}
        return self.alike.prices[key]
