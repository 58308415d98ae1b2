"""The choice of every site along one mesh axis, as a labelling problem: costs of labels, and their solution.

Labels at both ends of an edge tell the value's state there; if they differ the value is resharded, at the
estimated time of that. A value with several users may have one resharded copy that they share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.ir.graph import Value
from meshgen.sharding.propagation.control import MANUAL_ENDS
from meshgen.sharding.propagation.eliminate import Table, cheapest
from meshgen.sharding.propagation.labels import Label, asked_face, asks_use, is_as_asked
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import LATENCY_SECONDS, SAME_EDGE, Link, State
from meshgen.sharding.window_fetches import rows_moved

FORBIDDEN = 1e6  # seconds; finite, so that a problem without solution still has a least bad one
# Where a value must be whole unless the user asked for a partial one.
ENDS = ("input", "output", "decision", *MANUAL_ENDS)
WINDOWED = ("convolution", "reduce_window", "select_and_scatter")
BEHIND = 1 + 1e-8  # of equal choices the one that brings a value into an annotated sharding before it is made
HINT_SECONDS = 2e-6  # what keeping a hint is worth on top of the traffic that it saves
# What a use that reads a value otherwise than is required for it costs: more than any traffic, but uses may contradict each other.
USE_SECONDS = 1e3


@dataclass(frozen=True)
class AxisSolution:
    """The label of every site along an axis, and the estimated seconds of traffic and extra work."""

    labels: tuple[Label, ...]
    seconds: float
    is_exact: bool


def edges(sites: list[Site]) -> list[tuple[Value, tuple[int, int], list[tuple[int, int]]]]:
    """Per value that is used: (site, result) that makes it, [(site, operand)] that use it."""
    makers: dict[Value, tuple[int, int]] = {}
    uses: dict[Value, list[tuple[int, int]]] = {}
    for number, site in enumerate(sites):
        for i, value in enumerate(site.node.results):
            makers[value] = (number, i)
        for i, value in enumerate(site.node.operands):
            uses.setdefault(value, []).append((number, i))
    return [(value, makers[value], found) for value, found in uses.items()]


@dataclass(frozen=True)
class View:
    """What the other axes leave: bytes of each value where it is made and used, work, edges that they reshard."""

    nbytes: Callable[[Value], float]
    used_bytes: Callable[[tuple[int, int]], float]  # (site, operand)
    work: Callable[[Site], float]
    moved: frozenset[tuple[int, int]]  # (site, operand)
    reduced: Mapping[tuple[int, int], int]  # (site, operand) -> devices among which it is reduced there


def _placed(sites: list[Site]) -> set[Value]:
    """Inputs that the user placed, and what annotations make of them."""
    found: set[Value] = set()
    for site in sites:
        is_input = site.node.op == "input" or (site.node.op == "annotate" and site.node.operands[0] in found)
        if is_input and site.wish is not None and site.wish.required:
            found.add(site.value)
    return found


class AxisProblem:
    """Variables: one per site with more than one label, one per shared copy. Tables: work, wishes, edges."""

    def __init__(self, sites: list[Site], link: Link, labels: list[list[Label]], view: View) -> None:
        self.sites, self.link, self.labels, self.view = sites, link, labels, view
        self.sizes = [len(options) for options in labels]
        self.tables: list[Table] = []
        self.placed = _placed(sites)
        self.known_prices: dict[Any, dict[tuple[State, State], float]] = {}  # of edges that are priced alike

    def solve(self) -> AxisSolution:
        for number, site in enumerate(self.sites):
            self._add((number,), np.array([self._alone(site, label) for label in self.labels[number]]))
        for value, producer, uses in edges(self.sites):
            self._add_edge(value, producer, uses)
            self._add_uses(self.sites[producer[0]], uses)
        solution = cheapest(self.sizes, self.tables)
        chosen = tuple(options[solution.labels[i]] for i, options in enumerate(self.labels))
        return AxisSolution(chosen, solution.cost, solution.is_exact)

    def _alone(self, site: Site, label: Label) -> float:
        """Redundant work if the loop is not split, and what the user's wish says of the label."""
        cost = self.view.work(site)
        if label.factor is not None:
            size = site.rule.factors[label.factor].size
            cost = cost * math.ceil(size / self.link.size) / max(size, 1)
            cost += 0.0 if label.is_pick(site) else self._fetching(site, label.factor)
        if site.option is not None:
            asked = next((f for f, axes in enumerate(site.option) if self.link.axis in axes), None)
            return cost if asked == label.factor else cost + FORBIDDEN  # partial operands split no loop
        if site.is_manual(self.link.axis):
            return cost
        state = asked_face(site, label)
        if site.wish is None:
            return cost + (FORBIDDEN if site.node.op in ENDS and isinstance(state, str) else 0.0)
        if is_as_asked(site, state, self.link.axis):
            return cost
        return cost + (FORBIDDEN if site.wish.required else HINT_SECONDS)

    def _fetching(self, site: Site, factor: int) -> float:
        """Time that the op itself communicates: to fetch the rows of a window, to gather what is to be combined or the tiles' totals."""
        total = 0.0
        if (loop := site.rule.factors[factor]).kind in ("combine", "scan"):
            others = self.link.size - 1  # a row of each, or its candidates for a share of the rows and their results
            moved = others / loop.size if loop.kind == "scan" else min(others, 2 * others / self.link.size)
            nbytes = sum(self.view.nbytes(value) for value in site.node.results) * moved
            total += (nbytes / self.link.bandwidth + LATENCY_SECONDS) * site.times
        for window in site.rule.windows:
            if window.factor == factor:
                value = site.node.operands[window.operand]
                moved = rows_moved(site.rule, window, value.type.sizes[window.dim], self.link.size)
                nbytes = self.view.nbytes(value) * moved / max(value.type.sizes[window.dim], 1)
                total += (nbytes / self.link.bandwidth + LATENCY_SECONDS) * site.times if moved else 0.0
        return total

    def _add_edge(self, value: Value, producer: tuple[int, int], uses: list[tuple[int, int]]) -> None:
        made = [label.results[producer[1]] for label in self.labels[producer[0]]]
        wanted = [[label.operands[i] for label in self.labels[site]] for site, i in uses]
        states = tuple(dict.fromkeys(state for side in (made, *wanted) for state in side))
        prices = [self._prices(value, use, self.sites[producer[0]].times, states) for use in uses]
        copies = self._shared_states(made, wanted)
        weights = [self._weight(self.sites[producer[0]], use) for use in uses]
        if not copies:
            for (site, _), states, weight, seconds in zip(uses, wanted, weights, prices, strict=True):
                if any(m != w for m in made for w in states):
                    self._add((producer[0], site), np.array([[seconds[m, w] * weight for w in states] for m in made]))
            return
        copy = len(self.sizes)
        options: list[State | tuple[()]] = [(), *copies]  # (): no copy
        self.sizes.append(len(options))
        dearest = {pair: max(table[pair] for table in prices) for pair in prices[0]}
        price = [[0.0 if isinstance(c, tuple) else dearest[m, c] * max(weights) for c in options] for m in made]
        self._add((producer[0], copy), np.array(price))
        for (site, _), states, weight, seconds in zip(uses, wanted, weights, prices, strict=True):
            near = [[FORBIDDEN if isinstance(c, tuple) else seconds[c, w] * weight for c in options] for w in states]
            costs = [[[min(seconds[m, w] * weight, n) for n in near[i]] for i, w in enumerate(states)] for m in made]
            self._add((producer[0], site, copy), np.array(costs))

    def _add_uses(self, maker: Site, uses: list[tuple[int, int]]) -> None:
        """What is required of a value for its users holds where they read it."""
        for site, i in uses:
            if asks_use(maker, self.sites[site]):
                costs = [
                    0.0 if is_as_asked(maker, label.operands[i], self.link.axis) else USE_SECONDS
                    for label in self.labels[site]
                ]
                self._add((site,), np.array(costs))

    def _weight(self, maker: Site, use: tuple[int, int]) -> float:
        """How much an edge counts: what a loop changes is resharded on every trip, what it only reads once before it."""
        user = self.sites[use[0]]
        times = 1.0 if not maker.node.attrs.get("is_changed") else user.times / maker.times
        times *= BEHIND if user.node.attrs.get("as_result") else 1.0
        return times * (SAME_EDGE if use in self.view.moved else 1.0)

    def _prices(
        self, value: Value, use: tuple[int, int], times: float, states: tuple[State, ...]
    ) -> dict[tuple[State, State], float]:
        """Seconds between all states that occur at the ends of the edges of a value.

        What other axes gather on the edge counts in full and what they cut counts as cut: that is what this axis adds.
        To reduce among m devices of other axes and n of this one moves 2 (mn - 1) / mn of the bytes: a share of
        2 (n - 1) / n / m more than without this axis.
        """
        nbytes, is_argument = self.view.used_bytes(use) * times, value in self.placed and not self._is_image(use)
        key = nbytes, is_argument, self.view.reduced.get(use, 1), states
        if key not in self.known_prices:
            self.known_prices[key] = self._prices_between(*key)
        return self.known_prices[key]

    def _is_image(self, use: tuple[int, int]) -> bool:
        """Whether windows go over the operand: it is what a step works on, not a weight that stays where it is."""
        site, operand = self.sites[use[0]], use[1]
        return site.node.op in WINDOWED and any(window.operand == operand for window in site.rule.windows)

    def _prices_between(
        self, nbytes: float, is_argument: bool, together: int, states: tuple[State, ...]
    ) -> dict[tuple[State, State], float]:
        def seconds(source: State, target: State) -> float:
            share = nbytes / together if isinstance(source, str) and target is None else nbytes
            return self.link.seconds(source, target, share, is_argument=is_argument)

        return {(s, t): seconds(s, t) for s in states for t in states}

    def _shared_states(self, made: list[State], wanted: list[list[State]]) -> list[State]:
        """States that at least two users may want and the producer may not deliver."""
        if len(wanted) < 2 or (len(made) == 1 and all(set(states) == {made[0]} for states in wanted)):
            return []
        count: dict[State, int] = {}
        for states in wanted:
            for state in dict.fromkeys(states):
                count[state] = count.get(state, 0) + 1
        return [state for state, users in count.items() if users > 1 and any(m not in (state, None) for m in made)]

    def _add(self, variables: tuple[int, ...], costs: np.ndarray) -> None:
        """A table, with a site that occurs twice taken on its diagonal and the array axes in order of variable."""
        if len(variables) > 1 and variables[0] == variables[1]:
            costs = np.array([costs[i, i] for i in range(costs.shape[0])])
            variables = (variables[0], *variables[2:])
        order = sorted(range(len(variables)), key=lambda i: variables[i])
        self.tables.append(Table(tuple(variables[i] for i in order), np.transpose(costs, order)))
