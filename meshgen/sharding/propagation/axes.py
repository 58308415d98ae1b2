"""Decide the axes of a program one after the other, in two rounds, each with what the other axes split.

Example, on x=2, y=2 with `%a : f32[64,32]{x}` and `%w : f32[32,96]{,y}` annotated:

    round 1, x   %h = dot_general %a, %w -> [{x}, {}]      of half the work: y is not decided yet
    round 1, y   %h -> [{x}, {y}]                          of the tiles f32[32,96] that x leaves
    round 2      x again, given that y splits columns; then y: nothing changes

The result depends on the order, so there are several starts, and the finished plans are compared. As a rule a weight is
best left where the user placed it; of two axes that could split the same dim, the one decided first gets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from meshgen.ccl.links import rate_along
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import Module, Value
from meshgen.sharding.propagation.amounts import Whole, parts_of, view_of, work_left
from meshgen.sharding.propagation.choices import Alike, AxisProblem, AxisSolution
from meshgen.sharding.propagation.covered import covers, splits, without_uncovered
from meshgen.sharding.propagation.joints import Edge
from meshgen.sharding.propagation.labels import Label, labels_of
from meshgen.sharding.propagation.reach import Covered, Origins, Reached, Steps, reach
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link


class Decision(NamedTuple):
    """The decision along one axis, and the annotation that each state comes from."""

    solution: AxisSolution
    origins: dict[Value, Origins]
    problem: AxisProblem  # the labels and costs that it was chosen from
    steps: Steps  # the ties over which annotations reached the states


class Start(NamedTuple):
    """A start of the decisions.

    Args:
        is_last_first: decide the last axis of the mesh first; it is then major on a dim unless annotations say otherwise.
        pins: arguments with an annotation keep their sharding unless moving them saves much.
        is_hurried: collectives count with all of their latency, so there are fewer of them.
        keeps_rows: products of groups of rows are taken to be split by groups, so that each device has the rows that it reads.
    """

    is_last_first: bool = False
    pins: bool = True
    is_hurried: bool = False
    keeps_rows: bool = False

    def in_order(self, axes: Sequence[str]) -> list[str]:
        """The axes of the mesh in the order in which they are decided."""
        return list(reversed(axes) if self.is_last_first else axes)


USUAL = Start()
_Split = dict[str, tuple[Label, ...]]


@dataclass(frozen=True)
class Axes:
    """The sites of a program and the axes, or parts of axes, that may split them; decisions are cached.

    `offers` has per axis sites, by number, whose loops it may split without an annotation that reaches them.
    """

    module: Module
    sites: list[Site]
    parts: AxisParts
    whole: Whole  # the amounts that no axis has split yet
    is_cut: bool
    offers: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    _known: dict[tuple[str, Start], list[tuple[_Split, Decision]]] = field(default_factory=dict)
    _alike: dict[Link, Alike] = field(default_factory=dict[Link, Alike])
    _latest: dict[str, tuple[Label, ...]] = field(
        default_factory=dict[str, tuple[Label, ...]]
    )  # decided along each axis
    _reached: dict[object, Reached] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        """The axes, or parts of axes, in the order of the mesh."""
        return self.parts.all()

    @property
    def edges(self) -> list[Edge]:
        """The values that are used, each with its producer and its uses."""
        return self.whole.edges

    def alike(self, link: Link) -> Alike:
        """What the problems along an axis share; their keys say whether a price is that of a pinned argument."""
        return self._alike.setdefault(link._replace(pins=True), Alike())

    def reached(self, axis: str, covered: Covered) -> Reached:
        """The states that annotations and offers reach along an axis, found once where the other axes split as much."""
        joined = [site for site in self.sites if site.is_joined]
        split = [covered(site, factor) for site in joined for factor in range(len(site.rule.factors))]
        key = axis, *split
        if key not in self._reached:
            self._reached[key] = reach(self.sites, axis, self.module.mesh.axis_size(axis), covered)
        offers = self.offers.get(axis, ())
        if offers and (offers, key) not in self._reached:
            self._reached[offers, key] = self._reached[key].with_offers(offers)
        return self._reached[(offers, key) if offers else key]

    def starts(self, start: Start, decisions: dict[str, Decision]) -> Iterator[Start]:
        """The other starts that may lead to other decisions; none if no axis depends on the others and no argument could move."""
        pinned = (True, False) if any(map(self._moves_arguments, decisions.values())) else (True,)
        orders = (False, True) if self._depends_on_order(start) else (False,)
        return (other for pins in pinned for last in orders if (other := Start(last, pins)) != start)

    def _depends_on_order(self, start: Start) -> bool:
        """Whether an axis was decided differently once the others were: else another order finds the same."""
        of_axes = (self._known.get((axis, start), []) for axis in self.names)
        return any(each.solution.labels != known[0][1].solution.labels for known in of_axes for _, each in known)

    def _moves_arguments(self, decision: Decision) -> bool:
        labels = decision.solution.labels
        placed = ((maker, uses) for value, maker, uses in self.edges if value in self.whole.placed)
        return any(
            isinstance(made := labels[maker].results[result], int) and labels[user].operands[i] != made
            for (maker, result), uses in placed
            for user, i in uses
        )

    def repeated(self, decisions: dict[str, Decision]) -> dict[str, tuple[int, ...]]:
        """Per axis that splits anything the sites whose work all of its devices repeat, where that takes long: most work first."""
        found: dict[str, tuple[int, ...]] = {}
        for axis, decision in decisions.items():
            others = {other: each for other, each in decisions.items() if other != axis}
            work = work_left(self.whole, parts_of(labels_of_axes(others), self.module.mesh))
            labels = decision.solution.labels
            share = 1 - 1 / self.module.mesh.axis_size(axis)
            wasted = {
                number: work[number] * share
                for number, site in enumerate(self.sites)
                if labels[number].factor is None and site.option is None and not site.is_manual(axis) and site.is_firm
            }
            long = [number for number, seconds in wasted.items() if seconds > DEFAULT.search.repeated_seconds]
            if long and any(label.factor is not None for label in labels):
                found[axis] = tuple(sorted(long, key=lambda number: -wasted[number]))
        return found

    def with_offers(self, offers: Mapping[str, tuple[int, ...]]) -> Axes:
        """These axes with offers; decisions along others stay known."""
        known = {key: found for key, found in self._known.items() if key[0] not in offers}
        return replace(self, offers=offers, _known=known)

    def seconds(self, decisions: dict[str, Decision]) -> float:
        """Estimated seconds of traffic and of a device's work, as the axes add up."""
        return sum(self.estimate(decisions))

    def estimate(self, decisions: dict[str, Decision]) -> tuple[float, float]:
        """Estimated seconds of traffic, and of a device's work."""
        work = [1.0] * len(self.sites)
        traffic = 0.0
        for decision in decisions.values():
            problem, left = decision.problem, decision.problem.view.seconds
            traffic += decision.solution.seconds - sum(left)
            for number, label in enumerate(decision.solution.labels):
                if label.factor is not None:
                    share = problem.share(self.sites[number], label)
                    traffic += left[number] * (1 - share)
                    work[number] *= share
        return traffic, sum(seconds * share for seconds, share in zip(self.whole.work, work, strict=True))

    def estimate_at(self, decisions: dict[str, Decision], sites: AbstractSet[int]) -> tuple[float, float]:
        """Estimated seconds of traffic of these sites, by number, and of the edges that they make or use, and of a device's work at them."""
        joints = [n for n, joint in enumerate(self.whole.joints) if not sites.isdisjoint(joint.scope)]
        work = {number: self.whole.work[number] for number in sites}
        traffic = 0.0
        for decision in decisions.values():
            problem, labels = decision.problem, decision.solution.labels
            traffic += problem.edge_seconds(joints, labels)
            for number in sorted(sites):
                site, label = self.sites[number], labels[number]
                share = problem.share(site, label)
                traffic += problem.alone(site, label) - problem.view.seconds[number] * share
                work[number] *= share
        return traffic, sum(work[number] for number in sorted(sites))

    def waits(self, decisions: dict[str, Decision]) -> bool:
        """Whether latencies of reshards take a large part of the estimated step, so that fewer collectives may be better."""
        latencies = self.latencies(decisions)
        step = latencies + self.seconds(decisions)
        return latencies > max(DEFAULT.search.latencies * step, DEFAULT.rewriting.saved_seconds)

    def latencies(self, decisions: dict[str, Decision]) -> float:
        """Seconds of all latencies of reshards in a step."""
        rates = {axis: rate_along(self.module.mesh, (axis,)).latency for axis in decisions}
        return sum(count * rates[axis] for axis, count in self._reshards(decisions))

    def _reshards(self, decisions: dict[str, Decision]) -> Iterator[tuple[str, float]]:
        """Each axis, with how often values are resharded, or rows fetched, along it in a step."""
        for axis, decision in decisions.items():
            labels, count = decision.solution.labels, 0.0
            for _, (maker, result), uses in self.edges:
                made = labels[maker].results[result]
                wanted = {labels[user].operands[i] for user, i in uses} - {made}
                count += len(wanted) * self.sites[maker].times if made is not None else 0
            for site, label in zip(self.sites, labels, strict=True):
                count += len(decision.problem.fetched(site, label)) * site.times
            yield axis, count

    def decide(self, start: Start) -> dict[str, Decision]:
        """The decision along each axis, in the order of the mesh."""
        decisions: dict[str, Decision] = {}
        for axis in start.in_order(self.names) * DEFAULT.search.axis_rounds:
            decisions[axis] = self._decision(axis, self._others(axis, decisions), start)
        return self._covered({axis: decisions[axis] for axis in self.names})

    def decide_again(self, start: Start, decisions: dict[str, Decision]) -> dict[str, Decision]:
        """The decisions after each axis was decided once more, those with offers first, given what is decided along the others."""
        found = dict(decisions)
        for axis in sorted(start.in_order(self.names), key=lambda axis: axis not in self.offers):
            found[axis] = self._decision(axis, self._others(axis, found), start)
        return self._covered(found)

    def _others(self, axis: str, decisions: dict[str, Decision]) -> dict[str, Decision]:
        return {other: decisions[other] for other in self.names if other in decisions and other != axis}

    def _covered(self, decisions: dict[str, Decision]) -> dict[str, Decision]:
        """The decisions; sites whose split needs another one that was not taken in the end are whole."""
        kept = without_uncovered(self.sites, labels_of_axes(decisions), self.module.mesh)
        return {a: d._replace(solution=d.solution._replace(labels=kept[a])) for a, d in decisions.items()}

    def _decision(self, axis: str, others: dict[str, Decision], start: Start) -> Decision:
        split = labels_of_axes(others)
        known = self._known.setdefault((axis, start._replace(is_last_first=False)), [])  # the order shows in `split`
        found = next((decision for seen, decision in known if seen == split), None)
        if found is None:
            link = Link.of(
                self.module.mesh, axis, is_cut=self.is_cut, pins=start.pins, is_hurried=start.is_hurried,
                keeps_rows=start.keeps_rows,
            )  # fmt: skip
            alike, free = self._with_split(axis, split), self._without_pins(axis, split, start)
            guess = self._latest.get(axis, ())
            found = free
            if found is None:
                found = _decide(self, link, others, guess) if alike is None else _decide_alike(self, link, alike, guess)
            known.append((split, found))
            self._latest[axis] = found.solution.labels
        return found

    def _without_pins(self, axis: str, split: _Split, start: Start) -> Decision | None:
        """The decision without pins, if it costs as much with them: they make no other one cheaper."""
        free = start._replace(is_last_first=False, pins=False)
        known = self._known.get((axis, free), []) if start.pins else []
        found = next((decision for seen, decision in known if seen == split), None)
        if found is None:
            return None
        pinned = _problem(self, found.problem.link._replace(pins=True), found)
        numbers = [number for number, joint in enumerate(self.whole.joints) if joint.has_argument]
        sides = (problem.edge_seconds(numbers, found.solution.labels) for problem in (found.problem, pinned))
        return found._replace(problem=pinned) if next(sides) == next(sides) else None

    def _with_split(self, axis: str, split: _Split) -> Decision | None:
        """The decision from another start that had the same labels to choose from, as the other axes split the same."""
        of_axis = (decisions for (other, _), decisions in self._known.items() if other == axis)
        return next((decision for each in of_axis for seen, decision in each if seen == split), None)


def labels_of_axes(decisions: Mapping[str, Decision]) -> dict[str, tuple[Label, ...]]:
    """The label of every site along each axis."""
    return {axis: decision.solution.labels for axis, decision in decisions.items()}


def _decide(axes: Axes, link: Link, others: dict[str, Decision], guess: Sequence[Label]) -> Decision:
    sites, module = axes.sites, axes.module
    split = splits(sites, labels_of_axes(others), module.mesh)

    def count(site: Site, factor: int) -> int:
        return split.get(site, {}).get(factor, 1)

    covered = covers(split)
    reached = axes.reached(link.axis, covered)
    origins = reached.table
    alike = axes.alike(link)

    states = [tuple(origins.get(value, ())) for value in axes.whole.numbers]

    def of(number: int, site: Site) -> list[Label]:
        """The labels of a site; sites that are alike and whose values can be in the same states share one list."""
        reached = tuple([states[value] for value in axes.whole.values[number]])
        key = site.like, reached, tuple(split[site].items()) if site in split else ()
        if (found := alike.labels.get(key)) is None:
            found = alike.labels[key] = labels_of(site, link, origins, covered, count)
        return found

    labels = [of(number, site) for number, site in enumerate(sites)]
    problem = AxisProblem(sites, link, labels, view_of(axes.whole, labels_of_axes(others), module.mesh), alike)
    return Decision(problem.solve(guess), origins, problem, reached.steps)


def _decide_alike(axes: Axes, link: Link, alike: Decision, guess: Sequence[Label]) -> Decision:
    """The decision along another link from the labels of an earlier one."""
    problem = _problem(axes, link, alike)
    return Decision(problem.solve(guess), alike.origins, problem, alike.steps)


def _problem(axes: Axes, link: Link, alike: Decision) -> AxisProblem:
    """The problem along another link with the labels of an earlier decision."""
    return AxisProblem(axes.sites, link, alike.problem.labels, alike.problem.view, axes.alike(link))
