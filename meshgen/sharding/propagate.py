"""Propagate a few annotations to a sharding of every value and an option of every operation.

Mesh axes are solved one after the other, in two rounds, so that each is solved with the others' splits (`propagation/axes`). Along one
axis `reach` finds the states that annotations can reach, and `choices` picks among these, by variable elimination, those that
take the least time to move and to compute: required annotations are kept, hints may lose. The result does not
depend on the order of traversal or of the program's ops: they are taken in canonical order
(`ir/canonical.py`), which decides between equal costs. `propagation/order` takes the order of several axes
on one dim from the annotations.

This is done for the program as written, for equivalent programs (`ALTERNATIVES`), for other parts of axes and from other starts:
each candidate is planned up to partitioning (from other starts only where the estimate is clearly less), and the cheapest is taken if it is clearly cheaper. An example on x=4:

    %h = dot_general %x, %w : f32[64,32]{x}, f32[32,96]{,x}      candidate `slice-into-dot`:  %v = slice %w [:, 0:32]
    %q = slice %h [:, 0:32] : a third of the columns                                        %q = dot_general %x, %v

The slice on the left takes columns of the activations from other devices, that on the right rows of the weight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

from meshgen.compilation import Compilation, Decisions, Pass
from meshgen.cost_model.model import DEFAULT
from meshgen.errors import ShardingError
from meshgen.ir.graph import Module, Node
from meshgen.ops.manual_tiles import manual_faults
from meshgen.records import dataclass
from meshgen.sharding.propagation.annotate import annotated
from meshgen.sharding.propagation.axes import Start
from meshgen.sharding.propagation.axis_cuts import axis_cuts
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved, solve_as_written
from meshgen.sharding.rewrites.compare import Seconds, planned_seconds, step_seconds
from meshgen.sharding.rewrites.fft_to_pencils import fft_to_pencils
from meshgen.sharding.rewrites.passes import ALTERNATIVES, SIMPLIFICATIONS
from meshgen.sharding.rewrites.slice_to_halo import in_frames, slice_to_halo
from meshgen.sharding.unknown import at_nominal_sizes


@at_nominal_sizes
def propagate(module: Module, context: Compilation | None = None) -> Module:
    """The module with `sharding` on every node and shardings of its inputs and outputs.

    Required annotations and options are kept exactly (law 2), or refused (MG0206). The cheapest equivalent program is taken.
    Raises ShardingError with all faults of the annotations, ProgramError for an op without a rule.
    """
    context = context or Compilation()
    search = _Search(context)
    solved = search.solve(module)
    found = search.written(solved)
    context.decide("propagate", found.graph, Propagation(module, solved))
    return found


@dataclass(frozen=True)
class Propagation:
    """The input of propagation, and its decisions."""

    entered: Module
    solved: Solved


def decisions_of(propagated: Module, decisions: Decisions) -> Propagation | None:
    """The decisions that made a program at stage propagate; None for one that was read at this stage."""
    return decisions.get("propagate", {}).get(propagated.graph)


def solve(module: Module, context: Compilation | None = None) -> Solved:
    """The cheapest program with its decisions; all sizes must be known. Raises as `propagate` does."""
    return _Search(context or Compilation()).solve(module)


@dataclass(frozen=True)
class _Candidate:
    """A solved program, and the passes that made it from the one that it is compared with."""

    solved: Solved
    passes: tuple[Pass, ...]


@dataclass
class _Search:
    """Candidates, planned and compared; the cost of each is found once."""

    context: Compilation
    _costs: dict[Solved, Seconds] = field(default_factory=dict[Solved, Seconds])
    _estimates: dict[Solved, tuple[float, float]] = field(default_factory=dict[Solved, "tuple[float, float]"])
    _written: dict[Solved, Module] = field(default_factory=dict[Solved, Module])

    def solve(self, module: Module) -> Solved:
        """The cheapest program with its decisions. Raises ShardingError, ProgramError."""
        if wrong := list(manual_faults(module.graph, module.meshes or (module.mesh,))):
            raise ShardingError(*wrong)
        solved = solve_as_written(self.context.apply(module, SIMPLIFICATIONS))
        if faults := solved.faults:
            raise ShardingError(*faults)
        return self.best(solved)

    def written(self, solved: Solved) -> Module:
        """The program with the decisions; what stages made of it is kept as long as the search is."""
        if solved not in self._written:
            self._written[solved] = annotated(solved)
        return self._written[solved]

    def best(self, first: Solved) -> Solved:
        """The cheapest of this program and all candidates that are tried from it."""
        return self._in_pencils(self._best(first))

    def _in_pencils(self, whole: Solved) -> Solved:
        """The same program with transforms along one dim at a time, if its predicted step is clearly shorter.

        Launches and latencies decide as much as bytes do, so both are planned to the end.
        """
        has_transforms = any(site.node.op == "fft" for site in whole.sites)
        if not has_transforms or not self.context.runs(fft_to_pencils) or not any(self._long_transforms(whole)):
            return whole
        with self.context.timed(fft_to_pencils) as record:
            module = fft_to_pencils(whole.module, self.context)
            found = whole if module is whole.module else self._best(solve_as_written(module))
            if found is whole or found.faults:
                return whole
            before, after = (step_seconds(self.written(each), self.context.trial()) for each in (whole, found))
            is_taken = after < DEFAULT.rewriting.worth * before
            record.note(kept=is_taken, before=before, after=after, unit="s")
        if is_taken:
            self.context.changed(fft_to_pencils.name, found.module)
        return found if is_taken else whole

    def _long_transforms(self, solved: Solved) -> Iterator[Site]:
        """The transforms that all devices of an axis repeat and of which a run takes longer than the exchanges that a split one needs."""
        if not any(site.node.op == "fft" for site in solved.sites):
            return
        for number in itertools.chain.from_iterable(solved.axes.repeated(solved.decisions).values()):
            site = solved.sites[number]
            if site.node.op == "fft" and site.seconds > DEFAULT.search.repeated_seconds * site.times:
                yield site

    def _best(self, first: Solved) -> Solved:
        """The same, with transforms as they are."""
        found = self._cheapest(first, self._alternatives(first))
        for _ in range(
            DEFAULT.search.frames
        ):  # in programs with frames annotations may reach values that they did not reach before
            before = found
            found = self._cheapest(found, self._in_frames(found))
            if found is before:
                break
        found = self._with_cut_axes(found) or self._from_best_start(found)
        return self._with_fewer_collectives(self._with_work_shared(found))

    def _alternatives(self, solved: Solved) -> Iterator[_Candidate]:
        """A candidate for each rewrite that changes something, and one for all of them together."""
        fired: list[Pass] = []
        whole = solved.module
        for each in filter(self.context.runs, ALTERNATIVES):
            with self.context.timed(each):
                found = each(solved.module, self.context)
                whole = each(whole, self.context)
                if found is not solved.module:
                    fired.append(each)
                    yield _Candidate(solve_as_written(found), (each,))
        if len(fired) > 1:
            yield _Candidate(solve_as_written(whole), tuple(fired))

    def _in_frames(self, solved: Solved) -> Iterator[_Candidate]:
        if not self.context.runs(slice_to_halo):
            return
        with self.context.timed(slice_to_halo):
            framed = in_frames(solved.module.graph, solved.parts_of)
            if framed:
                yield _Candidate(solve_as_written(replace(solved.module, graph=framed)), (slice_to_halo,))

    def _cheapest(self, first: Solved, others: Iterable[_Candidate]) -> Solved:
        """The first, or the cheapest of the others that keep the required annotations, if it is clearly cheaper."""
        tried = list(others)
        # Others than sound ones do not keep a required annotation: they have no plan, and no cost.
        sound = [each for each in tried if not each.solved.faults]
        likely = [each for each in sound if self._promises(each.solved, first)]
        best = self._worth(first, [each.solved for each in likely])
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
                cost = (lambda solved: self._seconds(solved).total) if is_planned else self._estimate
                record.note(kept=by in taken, before=cost(first), after=cost(each.solved), unit="s")
        for each in taken:
            self.context.changed(each.name, best.module)
        return best

    def _worth(self, first: Solved, others: Sequence[Solved]) -> Solved:
        if not others:
            return first
        usual = self._seconds(first)
        worth = [other for other in others if self._seconds(other).is_worth(usual)]
        return min(worth, key=self._seconds, default=first)

    def _with_cut_axes(self, solved: Solved) -> Solved | None:
        """The same program over further parts of axes, from its best start; None if that is not clearly cheaper."""
        origins = {axis: decision.origins for axis, decision in solved.decisions.items()}
        cuts = axis_cuts(solved.sites, origins, solved.module.mesh)
        if not cuts:
            return None
        cut = solve_as_written(solved.module, cuts)
        is_taken = not cut.faults and self._worth(solved, [cut]) is cut
        return self._from_best_start(cut) if is_taken else None

    def _from_best_start(self, solved: Solved) -> Solved:
        """The program solved from the start with the shortest step, among starts that are clearly cheaper and move no more than this one."""
        others = self._from_starts(solved, solved.axes.starts(solved.start, solved.decisions))
        limit = DEFAULT.rewriting.worth * self._estimate(solved)
        found = [other for other in others if self._estimate(other) < limit]
        links = self._seconds(solved).links if found else 0.0
        return self._worth(solved, [other for other in found if self._seconds(other).links <= links])

    def _with_work_shared(self, solved: Solved) -> Solved:
        """The same program with splits of work that all devices of an axis would repeat, if that is clearly cheaper."""
        repeated = solved.axes.repeated(solved.decisions)
        if not repeated:
            return solved
        axes = solved.axes.with_offers(repeated)
        free = replace(solved.start, pins=False)  # decided first: what moves no argument is the best with pins as well
        starts = dict.fromkeys((free, solved.start))
        decided = {start: axes.decide_again(start, solved.decisions) for start in starts}
        others = [Solved(axes, start, decided[start]) for start in reversed(starts)]
        limit = DEFAULT.rewriting.worth * self._estimate(solved)
        found = [other for other in others if self._estimate(other) < limit and not other.faults]
        if len(found) < 2 or found[0].labels == found[1].labels:
            return found[0] if found else solved
        return self._worth(found[0], found[1:])

    def _with_fewer_collectives(self, solved: Solved) -> Solved:
        """Each axis decided once more for few collectives, which may move more, where latencies are a large part of the step."""
        if not solved.axes.waits(solved.decisions):
            return solved
        start = replace(solved.start, is_hurried=True)
        other = Solved(solved.axes, start, solved.axes.decide_again(start, solved.decisions))
        if other.labels == solved.labels or other.faults:
            return solved
        return other if self._seconds(other).is_shorter(self._seconds(solved)) else solved

    def _from_starts(self, solved: Solved, starts: Iterable[Start]) -> list[Solved]:
        """The solutions from other starts that differ from this one and keep the required annotations."""
        found = [solved]
        for start in starts:
            other = Solved(solved.axes, start, solved.axes.decide(start))
            is_new = all(other.labels != known.labels or other.orders != known.orders for known in found)
            if is_new and not other.faults:
                found.append(other)
        return found[1:]

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

    def _estimate(self, solved: Solved) -> float:
        return sum(self._parts(solved))

    def _parts(self, solved: Solved) -> tuple[float, float]:
        """Estimated seconds of traffic and of work."""
        if solved not in self._estimates:
            self._estimates[solved] = solved.axes.estimate(solved.decisions)
        return self._estimates[solved]

    def _seconds(self, solved: Solved) -> Seconds:
        if solved not in self._costs:
            self._costs[solved] = planned_seconds(solved, self.written(solved), self.context.trial())
        return self._costs[solved]


def _form(node: Node) -> object:
    """What two nodes have alike that compute the same of the same values."""
    return node.op, tuple(node.operands), tuple(node.results), id(node.attrs)
