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
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Value
from meshgen.ir.predicates import is_annotation
from meshgen.records import dataclass
from meshgen.sharding.propagation.amounts import Edge, View
from meshgen.sharding.propagation.eliminate import Table, cheapest, least_cost
from meshgen.sharding.propagation.labels import Label, asked_face, asks_use, is_as_asked
from meshgen.sharding.propagation.pseudo_ops import ENDS, is_changed_carry, is_input
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link, State
from meshgen.sharding.window_fetches import rows_moved


@dataclass(frozen=True)
class AxisSolution:
    """The label of every site along an axis, and the estimated seconds of traffic and extra work."""

    labels: tuple[Label, ...]
    seconds: float
    is_exact: bool


def _placed(sites: list[Site]) -> set[Value]:
    """Inputs with an annotation, and the results of annotations of them."""
    found: set[Value] = set()
    for site in sites:
        given = is_input(site.node) or (is_annotation(site.node) and site.node.operands[0] in found)
        if given and site.annotation is not None and site.annotation.required:
            found.add(site.value)
    return found


@dataclass(frozen=True)
class _Edge:
    """The tables of a value's edge, each over places: its maker, its uses, and a copy that they share, which has `copies` states."""

    copies: int
    tables: list[tuple[tuple[int, ...], np.ndarray]]


@dataclass(frozen=True)
class Alike:
    """What the problems of one axis share, whatever the other axes split: keys say all that each entry depends on."""

    labels: dict[object, list[Label]] = field(default_factory=dict)
    prices: dict[Any, dict[tuple[State, State], float]] = field(default_factory=dict)  # of edges with equal costs
    edges: dict[Any, _Edge] = field(default_factory=dict)  # between equal choices
    turns: dict[Any, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """Transposed tables by their source, which they keep alive."""


class AxisProblem:
    """Variables: one per site with more than one label, one per shared copy. Tables: work, annotations, edges.

    `labels` of sites that are alike are one list, which `alike` keeps as long as what it knows of them.
    """

    def __init__(
        self,
        sites: list[Site],
        link: Link,
        labels: list[list[Label]],
        view: View,
        joints: Sequence[Edge],
        alike: Alike,
    ) -> None:
        self.sites, self.link, self.labels, self.view, self.joints = sites, link, labels, view, joints
        self.alike = alike
        self.sizes = [len(options) for options in labels]
        self.tables: list[Table] = []
        self.placed = _placed(sites)
        self.known_costs: dict[Any, np.ndarray] = {}  # shared by sites that are alike

    def solve(self, guess: Sequence[Label] = ()) -> AxisSolution:
        """The cheapest labels, as far as they can be found; `guess` has those of a similar problem, a label for each site, if there was one."""
        for number, site in enumerate(self.sites):
            self._add((number,), self._costs(site, self.labels[number]))
        for value, producer, uses in self.joints:
            self._add_edge(value, producer, uses)
            self._add_uses(self.sites[producer[0]], uses)
        solution = cheapest(self.sizes, self.tables, lambda: self._numbers(guess))
        chosen = tuple(options[solution.labels[i]] for i, options in enumerate(self.labels))
        return AxisSolution(chosen, solution.cost, solution.is_exact)

    def _numbers(self, guess: Sequence[Label]) -> list[int]:
        """The guess as numbers of labels; shared copies have none."""
        pairs = zip(self.labels, guess, strict=True) if guess else ()
        found = [options.index(label) if label in options else -1 for options, label in pairs]
        return found + [-1] * (len(self.sizes) - len(found))

    @property
    def least_seconds(self) -> float:
        """Seconds that no solution is below."""
        return least_cost(self.sizes, self.tables)

    def _costs(self, site: Site, labels: list[Label]) -> np.ndarray:
        """The cost of each label that does not depend on other sites."""
        key = site.like, id(labels), self.view.work(site), site.times, *map(self.view.nbytes, site.values)
        if key not in self.known_costs:
            self.known_costs[key] = np.array([self.alone(site, label) for label in labels])
        return self.known_costs[key]

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
            found.append(sum(self.view.nbytes(value) for value in site.node.results) * moved)
        for window in site.rule.windows:
            if window.factor == factor:
                value = site.node.operands[window.operand]
                size = value.type.sizes[window.dim]
                if moved := rows_moved(site.rule, window, size, self.link.size):
                    found.append(self.view.nbytes(value) * moved / max(size, 1))
        return found

    def _add_edge(self, value: Value, producer: tuple[int, int], uses: list[tuple[int, int]]) -> None:
        """The tables of a value: each use reads it as it is made, resharded for that use alone, or from a shared copy."""
        maker, labels = self.sites[producer[0]], self.labels
        if len(labels[producer[0]]) == 1 and all(len(labels[site]) == 1 for site, _ in uses):
            made = labels[producer[0]][0].results[producer[1]]
            if all(labels[site][0].operands[i] == made for site, i in uses):
                return  # nothing is left to choose
        ends = [
            (id(labels[site]), i, self._price_key(value, (site, i), maker.times), self._weight(maker, (site, i)))
            for site, i in uses
        ]
        key = id(labels[producer[0]]), producer[1], *ends
        if (edge := self.alike.edges.get(key)) is None:
            made = [label.results[producer[1]] for label in labels[producer[0]]]
            wanted = [[label.operands[i] for label in labels[site]] for site, i in uses]
            edge = self.alike.edges[key] = self._edge(made, wanted, [end[2] for end in ends], [end[3] for end in ends])
        numbers = [producer[0], *(site for site, _ in uses), len(self.sizes)]
        if edge.copies:
            self.sizes.append(edge.copies)
        for places, costs in edge.tables:
            self._add(tuple(numbers[place] for place in places), costs)

    def _edge(
        self,
        made: list[State],
        wanted: list[list[State]],
        priced: list[tuple[float, float, bool, int]],
        weights: list[float],
    ) -> _Edge:
        """The tables of an edge from what makes a value (place 0) to its uses (1 and on), and to the shared copy (the last place)."""
        states = tuple(dict.fromkeys(state for side in (made, *wanted) for state in side))
        prices = [self._prices(*each, states) for each in priced]
        copies = self._shared_states(made, wanted)
        if not copies:
            return _Edge(0, [
                ((0, number), np.array([[seconds[m, w] * weight for w in states] for m in made]))
                for number, (states, weight, seconds) in enumerate(zip(wanted, weights, prices, strict=True), 1)
                if any(m != w for m in made for w in states)
            ])  # fmt: skip
        copy = len(wanted) + 1
        options: list[State | tuple[()]] = [(), *copies]  # (): no copy
        dearest = {pair: max(table[pair] for table in prices) for pair in prices[0]}
        price = [[0.0 if isinstance(c, tuple) else dearest[m, c] * max(weights) for c in options] for m in made]
        tables: list[tuple[tuple[int, ...], np.ndarray]] = [((0, copy), np.array(price))]
        for number, (states, weight, seconds) in enumerate(zip(wanted, weights, prices, strict=True), 1):
            near = [
                [
                    DEFAULT.propagation.forbidden_seconds if isinstance(c, tuple) else seconds[c, w] * weight
                    for c in options
                ]
                for w in states
            ]
            costs = [[[min(seconds[m, w] * weight, n) for n in near[i]] for i, w in enumerate(states)] for m in made]
            tables.append(((0, number, copy), np.array(costs)))
        return _Edge(len(options), tables)

    def _add_uses(self, maker: Site, uses: list[tuple[int, int]]) -> None:
        """A cost that keeps an annotation for users where they read the value."""
        for site, i in uses:
            if asks_use(maker, self.sites[site]):
                costs = [
                    0.0 if is_as_asked(maker, label.operands[i], self.link.axis) else DEFAULT.propagation.use_seconds
                    for label in self.labels[site]
                ]
                self._add((site,), np.array(costs))

    def _weight(self, maker: Site, use: tuple[int, int]) -> float:
        """The weight of an edge: a value that a loop changes is resharded in every trip, one that it only reads once before it."""
        user = self.sites[use[0]]
        times = user.times / maker.times if is_changed_carry(maker.node) else 1.0
        times *= DEFAULT.propagation.behind if is_annotation(user.node) and user.node.attrs.as_result else 1.0
        return times * (DEFAULT.propagation.same_edge if use in self.view.moved else 1.0)

    def _price_key(self, value: Value, use: tuple[int, int], times: float) -> tuple[float, float, bool, int]:
        """What the cost of an edge depends on besides its states: bytes, how often, whether a pinned argument is moved, and devices of other axes."""
        is_argument = self.link.pins and value in self.placed and self._is_at_rest(use)
        return self.view.used_bytes(use), times, is_argument, self.view.reduced.get(use, 1)

    def _prices(
        self, nbytes: float, times: float, is_argument: bool, together: int, states: tuple[State, ...]
    ) -> dict[tuple[State, State], float]:
        """Seconds between all states that occur at the ends of the edges of a value.

        Bytes are those after what other axes gather and slice on the edge, so the cost is what this axis adds.
        To reduce among m devices of other axes and n of this one moves 2 (mn - 1) / mn of the bytes: a share of
        2 (n - 1) / n / m more than without this axis.
        """
        key = nbytes, times, is_argument, together, states
        if key not in self.alike.prices:
            self.alike.prices[key] = self._prices_between(*key)
        return self.alike.prices[key]

    def _is_at_rest(self, use: tuple[int, int]) -> bool:
        """Whether an operand can keep its sharding: not if windows of several rows cross its tiles in every step."""
        site, operand = self.sites[use[0]], use[1]
        return not any(window.operand == operand and window.width > 1 for window in site.rule.windows)

    def _prices_between(
        self, nbytes: float, times: float, is_argument: bool, together: int, states: tuple[State, ...]
    ) -> dict[tuple[State, State], float]:
        def seconds(source: State, target: State) -> float:
            share = nbytes / together if isinstance(source, str) and target is None else nbytes
            return times * self.link.seconds(source, target, share, is_argument=is_argument)

        return {(s, t): seconds(s, t) for s in states for t in states}

    def _shared_states(self, made: list[State], wanted: list[list[State]]) -> list[State]:
        """States that at least two users may need and in which the producer may not make the value."""
        if len(wanted) < 2 or (len(made) == 1 and all(set(states) == {made[0]} for states in wanted)):
            return []
        count: dict[State, int] = {}
        for states in wanted:
            for state in dict.fromkeys(states):
                count[state] = count.get(state, 0) + 1
        return [state for state, users in count.items() if users > 1 and any(m not in (state, None) for m in made)]

    def _add(self, variables: tuple[int, ...], costs: np.ndarray) -> None:
        """A table, with a site that occurs twice taken on its diagonal and the array axes in order of variable."""
        if len(variables) == 1:
            self.tables.append(Table(variables, costs))
            return
        if variables[0] == variables[1]:
            costs = np.array([costs[i, i] for i in range(costs.shape[0])])
            variables = (variables[0], *variables[2:])
        order = tuple(sorted(range(len(variables)), key=lambda i: variables[i]))
        key = id(costs), order
        if key not in self.alike.turns:
            self.alike.turns[key] = costs, np.transpose(costs, order)
        self.tables.append(Table(tuple([variables[i] for i in order]), self.alike.turns[key][1]))
