"""The search of propagation: candidates are solved, planned and compared; the cost of each is computed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from meshgen.compilation import Compilation, Pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module, Node
from meshgen.sharding.propagation.annotate import annotated
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.rewrites.compare import Seconds, planned_seconds


@dataclass(frozen=True)
class Candidate:
    """A solved program, and the passes that made it; none where it is the same program, solved otherwise."""

    solved: Solved
    passes: tuple[Pass, ...] = ()


@dataclass(frozen=True)
class Generator:
    """One way to improve a solved program.

    Attributes:
        name: by which `Search.best` can stop before it.
        candidates: returns candidates for a program; their annotations may be violated (`Solved.faults`).
        choose: returns the best candidate if it is clearly better than the program, else the program itself.
        rounds: the generator runs again on its choice, at most so often.
    """

    name: str
    candidates: Callable[[Search, Solved], Iterable[Candidate]]
    choose: Callable[[Search, Solved, Iterable[Candidate]], Solved]
    rounds: int = 1


@dataclass(eq=False)
class Search:
    """Tries generators of candidates in order.

    Attributes:
        context: runs the passes that make and plan candidates.
        generators: the table of generators.
    """

    context: Compilation
    generators: tuple[Generator, ...]
    _costs: dict[Solved, Seconds] = field(default_factory=dict[Solved, Seconds])
    _estimates: dict[Solved, tuple[float, float]] = field(default_factory=dict[Solved, "tuple[float, float]"])
    _written: dict[Solved, Module] = field(default_factory=dict[Solved, Module])

    def best(self, solved: Solved, before: str = "") -> Solved:
        """Return the best program that the generators find from this one; `before` names the first one that is not tried."""
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
        """Return the program with its decisions; what stages made of it is kept as long as the search is."""
        if solved not in self._written:
            self._written[solved] = annotated(solved)
        return self._written[solved]

    def seconds(self, solved: Solved) -> Seconds:
        """Return the cost of the program planned up to partitioning."""
        if solved not in self._costs:
            self._costs[solved] = planned_seconds(solved, self.written(solved), self.context.trial())
        return self._costs[solved]

    def estimate(self, solved: Solved) -> float:
        """Return the estimated seconds of traffic and work, without planning the program."""
        return sum(self._parts(solved))

    def cheapest(self, first: Solved, candidates: Iterable[Candidate]) -> Solved:
        """Return the cheapest candidate that keeps the required annotations, if it is clearly cheaper than the first program.

        Notes for each pass what its candidate costs.
        """
        tried = list(candidates)
        # Others than sound ones do not keep a required annotation: they have no plan, and no cost.
        sound = [each for each in tried if not each.solved.faults]
        likely = [each for each in sound if self._promises(each.solved, first)]
        best = self.worth(first, likely)
        taken = next((each.passes for each in likely if each.solved is best), ())
        for each in tried:
            by, *more = each.passes
            if more:
                continue
            if each.solved.faults:
                self.context.record(by.name).note(kept=False)
                continue
            is_planned = any(each is other for other in likely)
            with self.context.timed(by) as record:
                cost = (lambda solved: self.seconds(solved).total) if is_planned else self.estimate
                record.note(kept=by in taken, before=cost(first), after=cost(each.solved), unit="s")
        for each in taken:
            self.context.changed(each.name, best.module)
        return best

    def worth(self, first: Solved, candidates: Iterable[Candidate]) -> Solved:
        """Return the cheapest candidate if it is clearly cheaper than the first program; all of them are planned."""
        others = [each.solved for each in candidates]
        if not others:
            return first
        usual = self.seconds(first)
        worth = [other for other in others if self.seconds(other).is_worth(usual)]
        return min(worth, key=self.seconds, default=first)

    def _promises(self, other: Solved, first: Solved) -> bool:
        """Whether a rewritten program may be clearly cheaper; if not, it is not planned.

        It is so if its estimate, or that of its traffic, is below that of the first. Estimates do not see all that partitioning saves, but it saves at most
        what the operations take that the rewrite replaced.
        """
        there, here = self._parts(other), self._parts(first)
        pairs = (sum(there), sum(here)), (there[0], here[0])
        if any(after < before and not math.isclose(after, before) for after, before in pairs):
            return True
        kept = {_form(site.node) for site in other.sites}
        gone = {number for number, site in enumerate(first.sites) if _form(site.node) not in kept}
        traffic, work = first.axes.estimate_at(first.decisions, gone)
        least = 1 - DEFAULT.rewriting.worth
        return traffic + work > least * sum(here) or traffic > least * here[0]

    def _parts(self, solved: Solved) -> tuple[float, float]:
        """Estimated seconds of traffic and of work."""
        if solved not in self._estimates:
            self._estimates[solved] = solved.axes.estimate(solved.decisions)
        return self._estimates[solved]


def solved_from(solved: Solved, others: Iterable[Solved]) -> Sequence[Solved]:
    """Return those solutions that differ from this one and from each other, and keep the required annotations."""
    distinct = [solved]
    for other in others:
        is_new = all(other.labels != known.labels or other.orders != known.orders for known in distinct)
        if is_new and not other.faults:
            distinct.append(other)
    return distinct[1:]


def _form(node: Node) -> object:
    """What two nodes have alike that compute the same of the same values."""
    return node.op, tuple(node.operands), tuple(node.results), id(node.attrs)
