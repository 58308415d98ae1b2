"""Search the shardings of a program's arguments for the shortest step: solve, plan what was found, judge, and solve again.

Example, a transformer block on dp=2, tp=4 with room for a quarter of the weights:

    solve       wq, wk, wv, w1 by columns over tp, wo, w2 by rows; estimated 118 us, proven the best within 20 GB
    plan        20.8 GB at the peak: activations take 0.8 GB
    solve       within what it takes less 0.8 GB
    plan        19.9 GB, fits: the result, unless the program as given takes less time

The estimate chooses among all shardings at once; what compiling gives is judged by the plan. Annotations of the program are
kept in every candidate; the program as given is one of them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meshgen.compilation import Compilation
from meshgen.errors import CodegenError, Diagnostic, MeshgenError, UsageError
from meshgen.ir.graph import Annotation, Module
from meshgen.pipeline import Options, Progress, Timing
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import bytes_text
from meshgen.reports.what_if import annotated_values, values_by_id
from meshgen.search.found import Found
from meshgen.search.problem import Problem, problem_of
from meshgen.search.solve import Solution, bytes_of, cost_of, solve
from meshgen.sharding.propagation.network import Table
from meshgen.sharding.rewrites.passes import SIMPLIFICATIONS
from meshgen.sizes.program import input_names
from meshgen.spec import Sharding

Plan = Callable[[Module, Options, Timing], Compiled]
SECONDS = 10.0  # of a search, by default
FAR = 0.1  # share by which a plan and its estimate differ, from which communication is weighted by that
MUTATIONS = 4  # arguments, those of most bytes, that are tried elsewhere than the first solution has them
ROUNDS = 4  # solutions under a cap that is lowered each time by what a plan took above it
LEAST_DOUBT = 0.03  # share of an estimate by which plans differ from it for reasons that it does not see


def search(
    module: Module, options: Options, plan: Plan, *, seconds: float = SECONDS, progress: Progress | None = None
) -> Found:
    """The sharding of the arguments with the shortest planned step, within `options.memory_limit` bytes per device if that is given.

    Args:
        module: at stage import, on one mesh of known sizes; its annotations are kept.
        plan: from a program to its schedule, as `meshgen.api.plan_module`.
        seconds: time limit; planning the first solution may exceed it.
    Raises:
        UsageError: MG0001, the program cannot be searched.
        CodegenError: MG0303, nothing that was found fits into the memory.
    """
    _refuse(module, options)
    return _Search(module, options, plan, time.monotonic() + seconds, progress).best()


def _refuse(module: Module, options: Options) -> None:
    """Raise UsageError for programs without a choice of shardings, and for open sizes."""
    text = ""
    if module.stage != "import":
        text = f"the program entered at stage '{module.stage}', after its shardings were chosen"
    elif len(module.meshes) > 1:
        text = "the program is on several meshes, and a search is for one"
    elif not module.mesh.is_static:
        text = f"the sizes of {module.mesh} are not known"
    elif options.strict:
        text = "a search and strict exclude each other: every candidate would have to be without gathers"
    if text:
        raise UsageError(Diagnostic("MG0001", text))


@dataclass(frozen=True)
class _Candidate:
    """A program that was planned: the solution that it is from, None for the program as given, and the annotations of that."""

    module: Module
    planned: Compiled
    solution: Solution | None = None
    arguments: Sequence[Sharding] = ()
    products: Mapping[int, Sharding] = field(default_factory=dict[int, Sharding])

    @property
    def rank(self) -> tuple[float, int, int]:
        """Of equal ones that with the fewest annotations is the best."""
        return self.planned.plan.step_seconds, self.planned.plan.arena_bytes, len(self.products)


@dataclass(frozen=True)
class _Search:
    module: Module
    options: Options
    plan: Plan
    deadline: float
    progress: Progress | None
    _seconds: list[float] = field(default_factory=list[float])
    _seen: list[tuple[list[Sharding], dict[int, Sharding]]] = field(
        default_factory=list[tuple[list[Sharding], dict[int, Sharding]]]
    )

    def best(self) -> Found:
        simplified = Compilation(frozenset(self.options.skip)).apply(self.module, SIMPLIFICATIONS)
        problem = problem_of(simplified, self.options.target)
        found = list(self._candidates(problem))
        limit = self.options.memory_limit
        fitting = [each for each in found if limit is None or each.planned.plan.arena_bytes <= limit]
        if not fitting:
            least = min((each.planned.plan.arena_bytes for each in found), default=0)
            raise _does_not_fit(limit or 0, least, is_cut_short=self._left() <= 0)
        best = min(fitting, key=lambda each: each.rank)
        solution = next((each.solution for each in fitting if each.solution), None)
        figures = (solution.seconds, solution.gap) if solution else (0.0, 0.0)
        shardings = dict(
            zip(input_names(self.module.graph), best.planned.stages["partition"].in_shardings, strict=True)
        )
        return Found(best.module, best.planned, shardings, *figures, best.solution is None)

    def _candidates(self, problem: Problem) -> Iterator[_Candidate]:
        """The program as given, solutions within the memory, and what is found near the last of them."""
        if any(self.module.in_annotations) and (given := self._planned(self.module)):
            yield given
        limit = self.options.memory_limit
        caps: list[float | None] = [limit]
        cap, last = caps[0], None
        for _ in range(ROUNDS):
            solutions = ((each, self._solved(problem, each)) for each in caps)
            cap, solution = next((pair for pair in solutions if pair[1]), (cap, None))
            candidate = solution and self._new(problem, solution)
            if solution is None or candidate is None:
                break
            yield (last := candidate)
            if limit is None or cap is None or (over := candidate.planned.plan.arena_bytes - limit) <= 0:
                break
            caps = [min(cap, bytes_of(problem.memory, solution.labels)) - over, cap - over]
        if last is not None:
            yield from self._near(problem, last, cap)
        elif limit is None and not any(self.module.in_annotations) and (given := self._planned(self.module)):
            yield given  # no solution can be planned: neither can the program, or it is all that there is

    def _near(self, problem: Problem, first: _Candidate, cap: float | None) -> Iterator[_Candidate]:
        """The first solution with its arguments alone annotated, and solutions of problems that are changed a little, likewise.

        Estimates are trusted as far as the first one agrees with its plan, but never to less than `LEAST_DOUBT`: what is estimated to take longer by
        more than that is not planned.
        """
        yield from self._placed(first)
        if first.solution is None:
            return
        estimated, planned = first.solution.seconds, first.planned.plan.step_seconds
        most = estimated + max(abs(planned - estimated), LEAST_DOUBT * estimated)
        for change in self._changes(problem, first.solution, planned / estimated if estimated else 1.0):
            if self._left() <= 0:
                break
            solution = self._solved(problem, cap, change)
            if (
                solution
                and cost_of(problem.tables, solution.labels) <= most
                and (found := self._new(problem, solution))
            ):
                yield found
                yield from self._placed(found)

    def _placed(self, given: _Candidate) -> list[_Candidate]:
        """A candidate without annotated products, if that is new, there is time for it and it can be planned."""
        is_new = self._left() > 0 and self._is_new(given.arguments, {})
        found = self._planned(self._annotated(given.arguments, {})) if is_new else None
        return [replace(found, solution=given.solution, arguments=given.arguments)] if found else []

    def _annotated(self, arguments: Sequence[Sharding], products: Mapping[int, Sharding]) -> Module:
        values = values_by_id(self.module.graph)
        placed = {values[id]: sharding for id, sharding in products.items() if id in values}
        return annotated_values(_annotated(self.module, arguments), placed)

    def _changes(self, problem: Problem, first: Solution, longer: float) -> Iterator[list[Table]]:
        """Tables that change the problem: all but two axes in each other's place is forbidden; communication costs as much more as the plan took
        `longer`; an argument as it is is forbidden, of each that the same axes split the largest first."""
        for pair in itertools.combinations(problem.axes, 2):
            if exchanged := problem.exchanged(first.labels, pair):
                yield exchanged
        if abs(longer - 1) > FAR:
            yield problem.reweighted(longer)
        groups: dict[frozenset[str], list[int]] = {}
        for cluster in sorted(problem.memory, key=lambda each: (-float(problem.memory[each].max()), each)):
            groups.setdefault(problem.axes_of(cluster, first.labels[cluster]), []).append(cluster)
        turns = itertools.chain.from_iterable(itertools.zip_longest(*groups.values()))
        for cluster in itertools.islice((each for each in turns if each is not None), MUTATIONS):
            yield [problem.without(cluster, first.labels[cluster])]

    def _solved(self, problem: Problem, cap: float | None, change: Sequence[Table] = ()) -> Solution | None:
        """The solution of the problem; of one that is changed only if its linear program finds it."""
        self._tell("solve")
        tables, seconds = [*problem.tables, *change], max(self._left(), 1.0)
        return solve(problem.sizes, tables, problem.memory, cap, seconds, relaxed_only=bool(change))

    def _new(self, problem: Problem, solution: Solution) -> _Candidate | None:
        """A solution planned with annotated products, or without where these cannot be kept; None for one that was planned before."""
        arguments, products = problem.shardings(solution.labels), problem.products(solution.labels)
        if not self._is_new(arguments, products):
            return None
        for kept in (products, {}):
            if found := self._planned(self._annotated(arguments, kept)):
                return replace(found, solution=solution, arguments=arguments, products=kept)
        return None

    def _is_new(self, arguments: Sequence[Sharding], products: Mapping[int, Sharding]) -> bool:
        """Whether it is the first time that these shardings are asked about."""
        one = [*arguments], dict(products)
        is_new = one not in self._seen
        self._seen.extend([one] * is_new)
        return is_new

    def _planned(self, module: Module) -> _Candidate | None:
        """None for a program that cannot be planned; one that does not fit is planned without the limit, which tells what it takes."""
        self._tell("plan")
        began = time.monotonic()
        limits = [self.options.memory_limit, *([None] if self.options.memory_limit is not None else [])]
        for limit in limits:
            try:
                found = _Candidate(module, self.plan(module, replace(self.options, memory_limit=limit), Timing()))
                self._seconds.append(time.monotonic() - began)
                return found
            except MeshgenError:
                if module is self.module and limit is None:
                    raise
        return None

    def _left(self) -> float:
        """Seconds for more candidates: until the deadline, less what planning one takes."""
        return self.deadline - time.monotonic() - max(self._seconds, default=0.0)

    def _tell(self, what: str) -> None:
        if self.progress:
            self.progress(what, 0, 1)


def _does_not_fit(limit: int, least: int, *, is_cut_short: bool) -> CodegenError:
    text = f"no sharding that was found fits into {bytes_text(limit)} per device"
    text += f": the least is {bytes_text(least)}" if least else ""
    hint = "give more memory, or a mesh of more devices"
    hint = f"the search was cut short: give it more time (--seconds), or {hint}" if is_cut_short else hint
    return CodegenError(Diagnostic("MG0303", text, hint=hint))


def _annotated(module: Module, shardings: Sequence[Sharding]) -> Module:
    """The program with required annotations on the inputs that are split and have none; the others are left to propagation."""
    given = [*module.in_annotations, *[None] * (len(shardings) - len(module.in_annotations))]
    found = [
        own or (Annotation(sharding, True, (False,) * sharding.rank, value.loc) if any(sharding.dims) else None)
        for own, sharding, value in zip(given, shardings, module.graph.inputs, strict=True)
    ]
    return replace(module, in_annotations=found)
