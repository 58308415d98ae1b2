"""Decide the mesh axes of a program one after the other, in two rounds.

Each decision depends on the splits by the other axes.

Example, on x=2, y=2 with `%a : f32[64,32]{x}` and `%w : f32[32,96]{,y}` annotated:

    round 1, x   %h = dot_general %a, %w -> [{x}, {}]      of half the work: y is not decided yet
    round 1, y   %h -> [{x}, {y}]                          of the tiles f32[32,96] that x leaves
    round 2      x again, given that y splits columns; then y: nothing changes

The result depends on the order, so there are several starts, and the planner compares their finished plans. As a rule a
weight best stays where the user sharded it. If two axes could split the same dim, the one decided first gets it.
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
from meshgen.sharding.propagation.choices import AxisProblem, AxisSolution, ProblemCaches
from meshgen.sharding.propagation.edges import Edge
from meshgen.sharding.propagation.factor_coverage import covers, splits, without_uncovered_splits
from meshgen.sharding.propagation.labels import Label, labels_of
from meshgen.sharding.propagation.reach import Covered, Origins, Reached, Steps, reach
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import Link
from meshgen.sharding.propagation.unsplit_program import UnsplitProgram, parts_of, view_of, work_left


class Decision(NamedTuple):
    """The decision along one axis, and for each state of a value the annotation that led to it (`origins`)."""

    solution: AxisSolution
    origins: dict[Value, Origins]
    problem: AxisProblem  # the labels and costs that the solution was chosen from
    steps: Steps  # the ties through which annotations reached the states


class Start(NamedTuple):
    """A starting configuration of the decision process.

    Args:
        is_last_first: decide the last axis of the mesh first; that axis is then major on a dim.
        pins: annotated arguments keep their sharding unless moving them saves much.
        counts_latency: count the full latency of collectives, so that the solver uses fewer of them.
        sharded_by_groups: assume that ragged matmuls are sharded by groups, so that each device has the rows that it reads.
    """

    is_last_first: bool = False
    pins: bool = True
    counts_latency: bool = False
    sharded_by_groups: bool = False

    def in_order(self, axes: Sequence[str]) -> list[str]:
        """Return the axes of the mesh in the order in which they are decided."""
        return list(reversed(axes) if self.is_last_first else axes)


USUAL = Start()
_Split = dict[str, tuple[Label, ...]]


@dataclass(frozen=True)
class Axes:
    """The sites of a program, the axes or sub-axes that may split them, and a cache of decisions.

    `offers` maps an axis to indices of sites whose loops the axis may split although no annotation reaches them.
    """

    module: Module
    sites: list[Site]
    parts: AxisParts
    whole: UnsplitProgram  # sizes if no axis splits anything
    is_resizing_bitcast: bool
    offers: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    _history: dict[tuple[str, Start], list[tuple[_Split, Decision]]] = field(default_factory=dict)
    _caches: dict[Link, ProblemCaches] = field(default_factory=dict[Link, ProblemCaches])
    # the latest labels along each axis, used as the first guess of the solver
    _latest: dict[str, tuple[Label, ...]] = field(default_factory=dict[str, tuple[Label, ...]])
    _reached: dict[object, Reached] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        """Return the axes and sub-axes, in the order of the mesh."""
        return self.parts.all()

    @property
    def edges(self) -> list[Edge]:
        """Return the values that have users, each with its producer and its uses."""
        return self.whole.edges

    def caches(self, link: Link) -> ProblemCaches:
        """Return the caches shared by all problems along an axis, with and without pins."""
        return self._caches.setdefault(link._replace(pins=True), ProblemCaches())

    def reached(self, axis: str, covered: Covered) -> Reached:
        """Return the states that annotations and offers reach along an axis, cached by the splits of the other axes."""
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
        """Return the other starting configurations that may lead to other decisions.

        There are none if no axis depends on the others and no argument could move.
        """
        pinned = (True, False) if any(map(self._moves_arguments, decisions.values())) else (True,)
        orders = (False, True) if self._depends_on_order(start) else (False,)
        return (other for pins in pinned for last in orders if (other := Start(last, pins)) != start)

    def _depends_on_order(self, start: Start) -> bool:
        """Whether the decision along some axis changed between rounds. If not, the order of axes does not matter."""
        histories = (self._history.get((axis, start), []) for axis in self.names)
        return any(
            decision.solution.labels != history[0][1].solution.labels
            for history in histories
            for _, decision in history
        )

    def _moves_arguments(self, decision: Decision) -> bool:
        """Whether the decision reshards an annotated argument for one of its uses."""
        labels = decision.solution.labels
        pinned_edges = ((producer, uses) for value, producer, uses in self.edges if value in self.whole.placed)
        return any(
            isinstance(produced_state := labels[producer].results[result], int)
            and labels[user].operands[i] != produced_state
            for (producer, result), uses in pinned_edges
            for user, i in uses
        )

    def repeated(self, decisions: dict[str, Decision]) -> dict[str, tuple[int, ...]]:
        """Return, for each axis, the indices of sites whose expensive work all devices of the axis repeat, most work
        first.

        Axes without such sites are absent.
        """
        repeated_sites: dict[str, tuple[int, ...]] = {}
        for axis, decision in decisions.items():
            other_decisions = {other: decision_along for other, decision_along in decisions.items() if other != axis}
            work = work_left(self.whole, parts_of(labels_of_axes(other_decisions), self.module.mesh))
            labels = decision.solution.labels
            share = 1 - 1 / self.module.mesh.axis_size(axis)
            wasted = {
                index: work[index] * share
                for index, site in enumerate(self.sites)
                if labels[index].factor is None and site.option is None and not site.is_manual(axis) and site.is_firm
            }
            expensive = [index for index, seconds in wasted.items() if seconds > DEFAULT.search.repeated_seconds]
            if expensive and any(label.factor is not None for label in labels):
                repeated_sites[axis] = tuple(sorted(expensive, key=lambda index: -wasted[index]))
        return repeated_sites

    def with_offers(self, offers: Mapping[str, tuple[int, ...]]) -> Axes:
        """Return these axes with `offers`; cached decisions along axes without offers stay valid."""
        decided = {key: decisions for key, decisions in self._history.items() if key[0] not in offers}
        return replace(self, offers=offers, _history=decided)

    def seconds(self, decisions: dict[str, Decision]) -> float:
        """Return the estimated seconds of traffic plus work per device and step, summed over the axes."""
        return sum(self.estimate(decisions))

    def estimate(self, decisions: dict[str, Decision]) -> tuple[float, float]:
        """Return the estimated seconds of traffic, and the estimated seconds of work, per device and step."""
        work = [1.0] * len(self.sites)
        traffic = 0.0
        for decision in decisions.values():
            problem, remaining_seconds = decision.problem, decision.problem.view.seconds
            traffic += decision.solution.seconds - sum(remaining_seconds)
            for index, label in enumerate(decision.solution.labels):
                if label.factor is not None:
                    share = problem.share(self.sites[index], label)
                    traffic += remaining_seconds[index] * (1 - share)
                    work[index] *= share
        return traffic, sum(seconds * share for seconds, share in zip(self.whole.work, work, strict=True))

    def estimate_at(self, decisions: dict[str, Decision], sites: AbstractSet[int]) -> tuple[float, float]:
        """Return the estimated seconds of traffic and of work per device at some sites.

        The traffic includes all edges whose producer or user is one of `sites`, which are site indices.
        """
        joints = [n for n, joint in enumerate(self.whole.joints) if not sites.isdisjoint(joint.scope)]
        work = {index: self.whole.work[index] for index in sites}
        traffic = 0.0
        for decision in decisions.values():
            problem, labels = decision.problem, decision.solution.labels
            traffic += problem.edge_seconds(joints, labels)
            for index in sorted(sites):
                site, label = self.sites[index], labels[index]
                share = problem.share(site, label)
                traffic += problem.alone(site, label) - problem.view.seconds[index] * share
                work[index] *= share
        return traffic, sum(work[index] for index in sorted(sites))

    def waits(self, decisions: dict[str, Decision]) -> bool:
        """Whether reshard latencies dominate the estimated step, so that fewer collectives may be faster."""
        latencies = self.latencies(decisions)
        step = latencies + self.seconds(decisions)
        return latencies > max(DEFAULT.search.latencies * step, DEFAULT.rewriting.saved_seconds)

    def latencies(self, decisions: dict[str, Decision]) -> float:
        """Return the sum of all reshard latencies in a step, in seconds."""
        rates = {axis: rate_along(self.module.mesh, (axis,)).latency for axis in decisions}
        return sum(count * rates[axis] for axis, count in self._reshards(decisions))

    def _reshards(self, decisions: dict[str, Decision]) -> Iterator[tuple[str, float]]:
        """Yield each axis with the number of reshards and op-internal messages along it in a step."""
        for axis, decision in decisions.items():
            labels, count = decision.solution.labels, 0.0
            for _, (producer, result), uses in self.edges:
                produced_state = labels[producer].results[result]
                used_states = {labels[user].operands[i] for user, i in uses} - {produced_state}
                count += len(used_states) * self.sites[producer].times if produced_state is not None else 0
            for site, label in zip(self.sites, labels, strict=True):
                count += len(decision.problem.fetched(site, label)) * site.times
            yield axis, count

    def decide(self, start: Start) -> dict[str, Decision]:
        """Return the decision along each axis, in the order of the mesh."""
        decisions: dict[str, Decision] = {}
        for axis in start.in_order(self.names) * DEFAULT.search.axis_rounds:
            decisions[axis] = self._decision(axis, self._others(axis, decisions), start)
        return self._covered({axis: decisions[axis] for axis in self.names})

    def decide_again(self, start: Start, decisions: dict[str, Decision]) -> dict[str, Decision]:
        """Decide each axis once more, given the decisions along the others. Axes in `offers` go first."""
        updated = dict(decisions)
        for axis in sorted(start.in_order(self.names), key=lambda axis: axis not in self.offers):
            updated[axis] = self._decision(axis, self._others(axis, updated), start)
        return self._covered(updated)

    def _others(self, axis: str, decisions: dict[str, Decision]) -> dict[str, Decision]:
        return {other: decisions[other] for other in self.names if other in decisions and other != axis}

    def _covered(self, decisions: dict[str, Decision]) -> dict[str, Decision]:
        """Return the decisions, after replicating sites whose split needs a major factor that no other axis splits."""
        labels = without_uncovered_splits(self.sites, labels_of_axes(decisions), self.module.mesh)
        return {a: d._replace(solution=d.solution._replace(labels=labels[a])) for a, d in decisions.items()}

    def _decision(self, axis: str, other_decisions: dict[str, Decision], start: Start) -> Decision:
        split = labels_of_axes(other_decisions)
        # The order of axes shows in `split`, so starts that differ only in order share a history.
        history = self._history.setdefault((axis, start._replace(is_last_first=False)), [])
        decision = next(
            (earlier_decision for earlier_split, earlier_decision in history if earlier_split == split), None
        )
        if decision is None:
            link = Link.of(
                self.module.mesh, axis, is_resizing_bitcast=self.is_resizing_bitcast, pins=start.pins, counts_latency=start.counts_latency,
                sharded_by_groups=start.sharded_by_groups,
            )  # fmt: skip
            same_split, unpinned = self._with_split(axis, split), self._without_pins(axis, split, start)
            guess = self._latest.get(axis, ())
            decision = unpinned
            if decision is None:
                decision = (
                    _decide(self, link, other_decisions, guess)
                    if same_split is None
                    else _decide_with_labels(self, link, same_split, guess)
                )
            history.append((split, decision))
            self._latest[axis] = decision.solution.labels
        return decision

    def _without_pins(self, axis: str, split: _Split, start: Start) -> Decision | None:
        """Return the cached decision without pins, or None if it is missing or pins would raise its cost.

        If pins do not raise the cost, the decision is optimal with pins as well.
        """
        unpinned_start = start._replace(is_last_first=False, pins=False)
        history = self._history.get((axis, unpinned_start), []) if start.pins else []
        unpinned = next((decision for earlier_split, decision in history if earlier_split == split), None)
        if unpinned is None:
            return None
        pinned = _problem(self, unpinned.problem.link._replace(pins=True), unpinned)
        edges = [index for index, joint in enumerate(self.whole.joints) if joint.has_argument]
        edge_seconds = (problem.edge_seconds(edges, unpinned.solution.labels) for problem in (unpinned.problem, pinned))
        return unpinned._replace(problem=pinned) if next(edge_seconds) == next(edge_seconds) else None

    def _with_split(self, axis: str, split: _Split) -> Decision | None:
        """Return a decision from another start under the same labels of the other axes, or None if there is none."""
        of_axis = (decisions for (other, _), decisions in self._history.items() if other == axis)
        return next(
            (decision for history in of_axis for earlier_split, decision in history if earlier_split == split), None
        )


def labels_of_axes(decisions: Mapping[str, Decision]) -> dict[str, tuple[Label, ...]]:
    """Return the label of every site along each axis."""
    return {axis: decision.solution.labels for axis, decision in decisions.items()}


def _decide(axes: Axes, link: Link, other_decisions: dict[str, Decision], guess: Sequence[Label]) -> Decision:
    sites, module = axes.sites, axes.module
    split = splits(sites, labels_of_axes(other_decisions), module.mesh)

    def count(site: Site, factor: int) -> int:
        return split.get(site, {}).get(factor, 1)

    covered = covers(split)
    reached = axes.reached(link.axis, covered)
    origins = reached.table
    caches = axes.caches(link)

    states = [tuple(origins.get(value, ())) for value in axes.whole.value_indices]

    def cached_labels(index: int, site: Site) -> list[Label]:
        """Return the labels of a site.

        Sites of equal structure share one list if their values have the same reachable states.
        """
        reached = tuple([states[value] for value in axes.whole.values[index]])
        key = site.like, reached, tuple(split[site].items()) if site in split else ()
        if (site_labels := caches.labels.get(key)) is None:
            site_labels = caches.labels[key] = labels_of(site, link, origins, covered, count)
        return site_labels

    labels = [cached_labels(index, site) for index, site in enumerate(sites)]
    problem = AxisProblem(
        sites, link, labels, view_of(axes.whole, labels_of_axes(other_decisions), module.mesh), caches
    )
    return Decision(problem.solve(guess), origins, problem, reached.steps)


def _decide_with_labels(axes: Axes, link: Link, earlier: Decision, guess: Sequence[Label]) -> Decision:
    """Decide the axis of `link` again, choosing among the labels of an earlier decision.

    The costs are those of `link`.
    """
    problem = _problem(axes, link, earlier)
    return Decision(problem.solve(guess), earlier.origins, problem, earlier.steps)


def _problem(axes: Axes, link: Link, earlier: Decision) -> AxisProblem:
    """Return the labeling problem with the costs of `link`, and with the labels of an earlier decision."""
    return AxisProblem(axes.sites, link, earlier.problem.labels, earlier.problem.view, axes.caches(link))
