"""The search for the cheapest equivalent program: solve, plan and compare candidates, with cached costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from meshgen.compilation import Compilation, Pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module, Node
from meshgen.sharding.propagation.annotate import annotated
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.rewrites.program_cost import Seconds, planned_seconds


@dataclass(frozen=True)
class Candidate:
    """A program with its decided shardings, and the passes that rewrote the program.

    `passes` is empty if only the shardings differ from those of the user's program.
    """

    solved: Solved
    passes: tuple[Pass, ...] = ()


@dataclass(frozen=True)
class Generator:
    """A generator of candidates that may improve a solved program, and the rule that chooses among them.

    Attributes:
        name: lets `Search.best` stop before this generator.
        candidates: returns candidates for a program. A candidate may violate required annotations (`Solved.faults`).
        choose: returns the best candidate if it is clearly better than the program, else the program itself.
        rounds: maximal number of runs; each further run starts from the generator's previous choice.
    """

    name: str
    candidates: Callable[[Search, Solved], Iterable[Candidate]]
    choose: Callable[[Search, Solved, Iterable[Candidate]], Solved]
    rounds: int = 1


@dataclass(eq=False)
class Search:
    """Improves a solved program by the generators of candidates, in their order.

    Attributes:
        context: runs the passes that rewrite and plan candidates.
        generators: the table of generators.
    """

    context: Compilation
    generators: tuple[Generator, ...]
    _costs: dict[Solved, Seconds] = field(default_factory=dict[Solved, Seconds])
    _estimates: dict[Solved, tuple[float, float]] = field(default_factory=dict[Solved, "tuple[float, float]"])
    _written: dict[Solved, Module] = field(default_factory=dict[Solved, Module])

    def best(self, solved: Solved, before: str = "") -> Solved:
        """Return the best program that the generators find from `solved`.

        The search stops before the generator named `before`.
        """
        for generator in self.generators:
            if generator.name == before:
                break
            for _ in range(generator.rounds):
                first = solved
                solved = generator.choose(self, first, generator.candidates(self, first))
                if solved is first:
                    break
        return solved

    def written(self, solved: Solved) -> Module:
        """Return the module with the decided shardings written into it, cached as long as the search lives."""
        if solved not in self._written:
            self._written[solved] = annotated(solved)
        return self._written[solved]

    def seconds(self, solved: Solved) -> Seconds:
        """Return the predicted cost of the program, after planning it up to stage `partition`."""
        if solved not in self._costs:
            self._costs[solved] = planned_seconds(solved, self.written(solved), self.context.trial())
        return self._costs[solved]

    def estimate(self, solved: Solved) -> float:
        """Return the estimated seconds of traffic and work per device, without planning the program."""
        return sum(self._parts(solved))

    def cheapest(self, first: Solved, candidates: Iterable[Candidate]) -> Solved:
        """Return the cheapest candidate that keeps the required annotations, if it is clearly cheaper than `first`.

        Otherwise returns `first`. Records the cost of each rewrite's candidate with the pass.
        """
        tried = list(candidates)
        # Candidates with faults violate a required annotation: they have no plan, and so no cost.
        valid = [candidate for candidate in tried if not candidate.solved.faults]
        promising = [candidate for candidate in valid if self._may_be_cheaper(candidate.solved, first)]
        best = self.cheapest_planned(first, promising)
        chosen_passes = next((candidate.passes for candidate in promising if candidate.solved is best), ())
        for candidate in tried:
            rewrite, *other_passes = candidate.passes
            if other_passes:
                continue
            if candidate.solved.faults:
                self.context.record(rewrite.name).note(kept=False)
                continue
            is_planned = any(candidate is other for other in promising)
            with self.context.timed(rewrite) as record:
                cost = (lambda solved: self.seconds(solved).total) if is_planned else self.estimate
                record.note(kept=rewrite in chosen_passes, before=cost(first), after=cost(candidate.solved), unit="s")
        for candidate in chosen_passes:
            self.context.changed(candidate.name, best.module)
        return best

    def cheapest_planned(self, first: Solved, candidates: Iterable[Candidate]) -> Solved:
        """Return the cheapest candidate if it is clearly cheaper than `first`, or else `first`.

        Plans all candidates.
        """
        solutions = [candidate.solved for candidate in candidates]
        if not solutions:
            return first
        first_seconds = self.seconds(first)
        cheaper = [other for other in solutions if self.seconds(other).justifies_change(first_seconds)]
        return min(cheaper, key=self.seconds, default=first)

    def _may_be_cheaper(self, other: Solved, first: Solved) -> bool:
        """Whether `other`, a rewrite of `first`, may be clearly cheaper than `first`. If not, the search does not plan
        it.

        True if the estimated time of its step or of its traffic is below that of `first`. Estimates miss some savings
        of partitioning. These savings are at most the cost of the operations that the rewrite replaced.
        """
        other_costs, first_costs = self._parts(other), self._parts(first)
        pairs = (sum(other_costs), sum(first_costs)), (other_costs[0], first_costs[0])
        if any(after < before and not math.isclose(after, before) for after, before in pairs):
            return True
        other_forms = {_form(site.node) for site in other.sites}
        replaced = {index for index, site in enumerate(first.sites) if _form(site.node) not in other_forms}
        traffic, work = first.axes.estimate_at(first.decisions, replaced)
        least_gain = 1 - DEFAULT.rewriting.worth
        return traffic + work > least_gain * sum(first_costs) or traffic > least_gain * first_costs[0]

    def _parts(self, solved: Solved) -> tuple[float, float]:
        """Return the estimated seconds of traffic and of work per device, as two numbers."""
        if solved not in self._estimates:
            self._estimates[solved] = solved.axes.estimate(solved.decisions)
        return self._estimates[solved]


def solved_from(solved: Solved, solutions: Iterable[Solved]) -> Sequence[Solved]:
    """Return the solutions in `solutions` that differ from `solved` and from each other, and keep the required
    annotations.
    """
    distinct = [solved]
    for other in solutions:
        is_new = all(other.labels != previous.labels or other.orders != previous.orders for previous in distinct)
        if is_new and not other.faults:
            distinct.append(other)
    return distinct[1:]


def _form(node: Node) -> object:
    """Return a key that is equal for nodes with the same op, operands, results and attributes."""
    return node.op, tuple(node.operands), tuple(node.results), id(node.attrs)
