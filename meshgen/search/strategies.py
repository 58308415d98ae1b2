"""List the strategies of a site: a label per mesh axis, all axes at once, and what each costs by itself.

Example, `%h = dot_general %x, %w : f32[64,32], f32[32,96]` on x=2, y=2, loops a = 64, b = 96, c = 32 (summed): each axis may
split a, b, c or nothing, so there are 16 strategies. In seconds of one device's work

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
from meshgen.search.work import Placing, TileWork
from meshgen.sharding.propagation.choices import AxisProblem
from meshgen.sharding.propagation.labels import Label, labels_of
from meshgen.sharding.propagation.network import Array
from meshgen.sharding.propagation.reach import Origins
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link


@dataclass(frozen=True)
class Strategies:
    """What a site may do: a label per axis each, and the seconds that it takes by itself."""

    labels: list[tuple[Label, ...]]
    seconds: Array

    def of_operand(self, number: int) -> list[Placing]:
        """How each strategy reads an operand."""
        return [tuple(label.operands[number] for label in each) for each in self.labels]

    def of_result(self, number: int) -> list[Placing]:
        """How each strategy makes a result."""
        return [tuple(label.results[number] for label in each) for each in self.labels]


class StrategyLists:
    """The strategies of any site of a program; `problems` has what labels cost along each axis if no other axis splits anything."""

    def __init__(
        self, sites: Sequence[Site], links: Sequence[Link], problems: Sequence[AxisProblem], device: Device
    ) -> None:
        self.sites, self.links, self.problems = sites, links, problems
        self.work = TileWork(links, device)

    @cached_property
    def origins(self) -> Mapping[Value, Origins]:
        """Every state in which a value may be: split on any dim, partial if a sum makes it or an op that is linear in it."""
        found: dict[Value, Origins] = {}
        for _ in range(2):  # what a loop carries is made after it is read
            for site in self.sites:
                kinds = {loop.reduction for loop in site.rule.factors if loop.kind == "reduce"}
                read = {state for value in site.node.operands for state in found.get(value, {})}
                kinds |= {kind for way in site.rule.linear for kind in way.kinds if kind in read}
                for value in site.values:
                    found.setdefault(value, {}).update(dict.fromkeys(range(value.type.rank), ""))
                for value in site.node.results:
                    found[value].update(dict.fromkeys(sorted(kinds), ""))
        return found

    def of(self, site: Site) -> Strategies:
        """The strategies that annotations and options allow; those with the least work where there are very many."""
        lists = [self._allowed(site, link, problem) for link, problem in zip(self.links, self.problems, strict=True)]
        joint = list(itertools.product(*lists))
        joint = [labels for labels in joint if self._is_even(site, labels)] or joint
        seconds = np.array([self._seconds(site, labels) for labels in joint])
        if len(joint) > (most := DEFAULT.search.strategies):
            kept = sorted(np.argsort(seconds, kind="stable")[:most])
            joint, seconds = [joint[number] for number in kept], seconds[kept]
        return Strategies(joint, seconds)

    def _allowed(self, site: Site, link: Link, problem: AxisProblem) -> list[Label]:
        """The labels along an axis that nothing forbids; all of them where everything is forbidden, which planning will refuse."""
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
        """Work that is left to a device, and what an op fetches of the tiles that the other axes leave."""
        pairs = list(zip(self.problems, labels, strict=True))
        shares = [problem.share(site, label) for problem, label in pairs]
        others = [
            problem.alone(site, label) - site.seconds * share
            for (problem, label), share in zip(pairs, shares, strict=True)
        ]
        placings = list(zip(*[(*label.operands, *label.results) for label in labels], strict=True))
        return self.work.seconds(site, placings, math.prod(shares)) + sum(others)


def _never(site: Site, factor: int) -> bool:
    return False


def _one(site: Site, factor: int) -> int:
    return 1
