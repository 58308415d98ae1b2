"""List the strategies of a site: a label per mesh axis, for all axes at once, and the cost of each strategy by itself.

Example, `%h = dot_general %x, %w : f32[64,32], f32[32,96]` on x=2, y=2, loops a = 64, b = 96, c = 32 (summed): each
axis may split a, b, c or nothing, so there are 16 strategies. As a fraction of the work on one device:

    x splits a, y splits b     a quarter       %x {x}, %w {,y}, %h {x, y}
    both split c               a quarter       %x {,x y}, %w {x y}, %h partial along both
    y splits b                 a half
    nothing                    all
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Value
from meshgen.search.tile_time import Placing, TileWork
from meshgen.sharding.propagation.choices import AxisProblem
from meshgen.sharding.propagation.labels import Label, labels_of
from meshgen.sharding.propagation.network import Array
from meshgen.sharding.propagation.reach import Origins
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link


@dataclass(frozen=True)
class Strategies:
    """The strategies of a site: each has a label per axis, and the seconds that the site takes without reshards."""

    labels: list[tuple[Label, ...]]
    seconds: Array

    def of_operand(self, index: int) -> list[Placing]:
        """Return for each strategy the state of an operand along every axis."""
        return [tuple(label.operands[index] for label in strategy) for strategy in self.labels]

    def of_result(self, index: int) -> list[Placing]:
        """Return how each strategy shards result `index`: per mesh axis a dim, a partial sum, or replicated."""
        return [tuple(label.results[index] for label in strategy) for strategy in self.labels]


class StrategyLists:
    """The strategies of all sites of a program.

    `problems` gives the cost of labels along each axis if no other axis splits anything.
    """

    def __init__(
        self, sites: Sequence[Site], links: Sequence[Link], problems: Sequence[AxisProblem], device: Device
    ) -> None:
        self.sites, self.links, self.problems = sites, links, problems
        self.work = TileWork(links, device)

    @cached_property
    def origins(self) -> Mapping[Value, Origins]:
        """Return every state that a value may have: split on any dim, or partial after a sum and linear ops."""
        states: dict[Value, Origins] = {}
        for _ in range(2):  # Two rounds: the producer of a loop-carried value comes after the users of the value.
            for site in self.sites:
                kinds = {loop.reduction for loop in site.rule.factors if loop.kind == "reduce"}
                operand_states = {state for value in site.node.operands for state in states.get(value, {})}
                kinds |= {
                    kind for linear_use in site.rule.linear for kind in linear_use.kinds if kind in operand_states
                }
                for value in site.values:
                    states.setdefault(value, {}).update(dict.fromkeys(range(value.type.rank), ""))
                for value in site.node.results:
                    states[value].update(dict.fromkeys(sorted(kinds), ""))
        return states

    def of(self, site: Site) -> Strategies:
        """Return the strategies that annotations and options allow; if these are too many, those with least work."""
        labels_by_axis = [
            self._allowed(site, link, problem) for link, problem in zip(self.links, self.problems, strict=True)
        ]
        strategies = list(itertools.product(*labels_by_axis))
        strategies = [labels for labels in strategies if self._is_even(site, labels)] or strategies
        seconds = np.array([self._seconds(site, labels) for labels in strategies])
        if len(strategies) > (limit := DEFAULT.search.strategies):
            fastest = sorted(np.argsort(seconds, kind="stable")[:limit])
            strategies, seconds = [strategies[index] for index in fastest], seconds[fastest]
        return Strategies(strategies, seconds)

    def _allowed(self, site: Site, link: Link, problem: AxisProblem) -> list[Label]:
        """Return the labels along an axis that are not forbidden.

        If all labels are forbidden, returns all of them, and planning refuses the program.
        """
        labels = list(dict.fromkeys(labels_of(site, link, dict(self.origins), _never, _one)))
        costs = {label: problem.alone(site, label) for label in labels}
        allowed = [label for label, cost in costs.items() if cost < DEFAULT.propagation.forbidden_seconds]
        return allowed or labels

    def _is_even(self, site: Site, labels: Sequence[Label]) -> bool:
        """Whether several axes that split one loop split it evenly."""
        parts: dict[int, list[int]] = {}
        for label, link in zip(labels, self.links, strict=True):
            if label.factor is not None:
                parts.setdefault(label.factor, []).append(link.size)
        return all(
            len(sizes) == 1 or site.rule.factors[factor].size % math.prod(sizes) == 0 for factor, sizes in parts.items()
        )

    def _seconds(self, site: Site, labels: Sequence[Label]) -> float:
        """Return the seconds of work per device, plus the seconds of communication inside the op."""
        pairs = list(zip(self.problems, labels, strict=True))
        shares = [problem.share(site, label) for problem, label in pairs]
        other_costs = [
            problem.alone(site, label) - site.seconds * share
            for (problem, label), share in zip(pairs, shares, strict=True)
        ]
        placings = list(zip(*[(*label.operands, *label.results) for label in labels], strict=True))
        return self.work.seconds(site, placings, math.prod(shares)) + sum(other_costs)


def _never(site: Site, factor: int) -> bool:
    return False


def _one(site: Site, factor: int) -> int:
    return 1
