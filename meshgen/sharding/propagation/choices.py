"""The choice of every site along one mesh axis, as a labelling problem: labels, costs and their solution.

A site's label says which of its loops the axis splits, or that partial operands stay partial, or neither.
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
from meshgen.sharding.propagation.eliminate import Table, cheapest
from meshgen.sharding.propagation.reach import Covered, Origins, fits, picks_of, usable_factor
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import LATENCY_SECONDS, SAME_EDGE, Link, State, state_of
from meshgen.sharding.rules import Linear
from meshgen.sharding.windows import rows_moved

FORBIDDEN = 1e6  # seconds; finite, so that a problem without solution still has a least bad one
# Where a value must be whole unless the user asked for a partial one.
ENDS = ("input", "output", "decision", "manual_operand", "manual_result")
BEHIND = 1 + 1e-8  # of equal choices the one that brings a value into an annotated sharding before it is made
HINT_SECONDS = 2e-6  # what keeping a hint is worth on top of the traffic that it saves
# What a use that reads a value otherwise than is required for it costs: more than any traffic, but uses may contradict each other.
USE_SECONDS = 1e3


@dataclass(frozen=True)
class Label:
    """States of a site's operands and results along the axis; `factor` or `way` says why."""

    factor: int | None
    way: Linear | None
    operands: tuple[State, ...]
    results: tuple[State, ...]

    def is_pick(self, site: Site) -> bool:
        """Whether the op leaves rows of the loop partial instead of fetching them."""
        is_window = self.factor is not None and site.rule.factors[self.factor].kind == "window"
        return is_window and isinstance(self.results[0], str)


def labels_of(
    site: Site, link: Link, origins: dict[Value, Origins], covered: Covered, others: Callable[[Site, int], int]
) -> list[Label]:
    """The labels that the annotations reach, sharded ones first."""
    found: list[Label] = []
    rule, node = site.rule, site.node
    if site.is_manual(link.axis):
        return [_manual_label(site, link.axis)]
    for factor, loop in enumerate(rule.factors):
        if (
            loop.kind == "whole"
            or not _is_reached(site, factor, origins)
            or not _is_splittable(site, factor, link, others)
        ):
            continue
        operands, results = rule.places(factor)
        ends: tuple[State, ...] = tuple(loop.reduction if loop.kind == "reduce" else d for d in results)
        label = Label(factor, None, tuple(operands), ends)
        if _is_expressible(site, factor, covered):
            found.append(label)
    found += _picked(site, link, origins, others)
    found += _instead_of_sums(site, link, found, covered, others)
    kinds = {state for v in node.operands for state in origins.get(v, {}) if isinstance(state, str)}
    for way in rule.linear:
        for kind in sorted(kinds & set(way.kinds)):
            if any(kind in origins.get(node.operands[i], {}) for i in way.operands):
                operands_ = tuple(kind if i in way.operands else None for i in range(len(node.operands)))
                found.append(Label(None, way, operands_, (kind,) * len(node.results)))
    asked = site.wish and state_of(site.wish.sharding, link.axis)
    if isinstance(asked, int) and site.wish and site.wish.required and not _has(site, found, asked):
        factor = (rule.results or rule.operands)[0][asked][0]  # of a single row: nothing else is split by it
        operands, results = rule.places(factor)
        found.append(Label(factor, None, tuple(operands), tuple(results)))
    if isinstance(asked, str) and all(asked not in (*label.operands, *label.results) for label in found):
        found.append(Label(None, None, (asked,) * len(node.operands), (asked,) * len(node.results)))
    found.append(Label(None, None, (None,) * len(node.operands), (None,) * len(node.results)))
    return found


def _manual_label(site: Site, axis: str) -> Label:
    """Along a manual axis a body is whole; what its ends take and give outside lies as they declare."""
    operands, results = (None,) * len(site.node.operands), (None,) * len(site.node.results)
    if site.wish is None or site.node.op not in ("manual_operand", "manual_result"):
        return Label(None, None, operands, results)
    said = state_of(site.wish.sharding, axis)
    return Label(None, None, (said,), results) if site.asks_operand else Label(None, None, operands, (said,))


def asked_face(site: Site, label: Label) -> State:
    """The state of the value that a site's wish is about."""
    return label.operands[0] if site.asks_operand else label.results[0]


def is_as_asked(site: Site, state: State, axis: str) -> bool:
    """Whether a state along an axis is what a site's wish asks for, or what it leaves open."""
    assert site.wish is not None, "it asks"
    asked, opened = state_of(site.wish.sharding, axis), site.wish.open_dims
    return state == asked or (asked is None and isinstance(state, int) and state < len(opened) and opened[state])


def asks_use(maker: Site, user: Site) -> bool:
    """Whether an annotation says how a user of its result must read it: one for users, unless the user is one that has its own."""
    is_bound = maker.node.op == "annotate" and maker.wish is not None and maker.wish.required
    return (
        is_bound
        and not maker.node.attrs.get("as_result", True)
        and not (user.wish is not None and user.asks_operand)
        and user.node.op != "annotate"
    )


def _picked(site: Site, link: Link, origins: dict[Value, Origins], others: Callable[[Site, int], int]) -> list[Label]:
    """Labels that leave rows of a split dim partial; the dim is split over no other axis."""
    return [
        Label(pick.window.factor, None, (state,), (pick.kind,))
        for value in site.node.operands
        for state in origins.get(value, {})
        if site.rule.picks and isinstance(state, int)
        for pick in picks_of(site, 0, state, link.size)
        if others(site, pick.window.factor) == 1
    ]


def _instead_of_sums(
    site: Site, link: Link, labels: list[Label], covered: Covered, others: Callable[[Site, int], int]
) -> list[Label]:
    """For a product that sums over a split dim, and makes more than it takes: a dim of the larger operand instead.

    Annotations do not reach it. But exchanging the operands then moves less than reducing partial sums.
    """
    rule, node = site.rule, site.node
    known = {label.factor for label in labels if label.factor is not None}
    is_summed = any(rule.factors[factor].kind == "reduce" for factor in known)
    given = [value.type.nbytes for value in node.operands]
    if node.op != "dot_general" or not is_summed or sum(given) > node.result.type.nbytes:
        return []
    larger = given.index(max(given))
    free = [
        factor
        for factor, loop in enumerate(rule.factors)
        if loop.kind == "parallel" and factor not in known
        if rule.places(factor)[0][larger] is not None and rule.places(factor)[0][1 - larger] is None
        if _is_splittable(site, factor, link, others) and _is_expressible(site, factor, covered)
    ]
    best = max(free, key=lambda factor: (rule.factors[factor].size, -factor), default=None)
    if best is None:
        return []
    operands, results = rule.places(best)
    return [Label(best, None, tuple(operands), tuple(results))]


def _has(site: Site, labels: list[Label], state: State) -> bool:
    """Whether a label puts the value of an end of the program, or of an annotation, in a state."""
    return any(asked_face(site, label) == state for label in labels)


def _is_reached(site: Site, factor: int, origins: dict[Value, Origins]) -> bool:
    operands, results = site.rule.places(factor)
    pairs = [*zip(site.node.operands, operands, strict=True), *zip(site.node.results, results, strict=True)]
    if site.node.op == "propagation_barrier":  # its result lies as what may flow to that says
        pairs = pairs[1:]
    return any(dim is not None and dim in origins.get(value, {}) for value, dim in pairs)


def _is_splittable(site: Site, factor: int, link: Link, others: Callable[[Site, int], int]) -> bool:
    """Not where another axis leaves its rows partial; evenly, or the factor is a dim of its own and tiles need not nest in those that other axes make."""
    loop, split = site.rule.factors[factor], others(site, factor)
    if not split:
        return False
    if loop.size % (link.size * split) == 0:
        return True
    return not (split > 1 and link.nests) and fits(site.rule, factor, loop.size + 1)


def _is_expressible(site: Site, factor: int, covered: Covered) -> bool:
    """Whether the factor is the usable one of every dim that has it."""
    rule = site.rule
    return all(
        usable_factor(rule, dims, d, site, covered) == factor
        for dims in (*rule.operands, *rule.results)
        for d, part in enumerate(dims)
        if factor in part
    )


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
        prices = [self._prices(value, use, self.sites[producer[0]].times, [made, *wanted]) for use in uses]
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
            near = [[FORBIDDEN if isinstance(c, tuple) else seconds[c, w] for c in options] for w in states]
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
        self, value: Value, use: tuple[int, int], times: float, ends: list[list[State]]
    ) -> dict[tuple[State, State], float]:
        """Seconds between all states that occur at the ends of an edge.

        What other axes gather on the edge counts in full and what they cut counts as cut: that is what this axis adds.
        To reduce among m devices of other axes and n of this one moves 2 (mn - 1) / mn of the bytes: a share of
        2 (n - 1) / n / m more than without this axis.
        """
        nbytes, is_argument = self.view.used_bytes(use) * times, value in self.placed
        states = tuple(dict.fromkeys(state for side in ends for state in side))
        key = nbytes, is_argument, self.view.reduced.get(use, 1), states
        if key not in self.known_prices:
            self.known_prices[key] = self._prices_between(*key)
        return self.known_prices[key]

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
