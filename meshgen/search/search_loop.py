"""Search the shardings of a program's arguments for the shortest step: solve, plan the solution, compare, and repeat.

Example, a transformer block on dp=2, tp=4 with memory for a quarter of the weights:

    solve       wq, wk, wv, w1 by columns over tp, wo, w2 by rows; estimated 118 us, proven optimal within 20 GB
    plan        20.8 GB at the peak: activations take 0.8 GB
    solve       within 0.8 GB less than that solution took
    plan        19.9 GB, fits: the result, unless the original program takes less time

The solver chooses among all shardings at once by an estimate; the compiled plans decide between its solutions. Every
candidate keeps the program's annotations, and the original program is one of the candidates.
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
from meshgen.search.problem import Problem, problem_of
from meshgen.search.result import Found
from meshgen.search.solve import Solution, bytes_of, cost_of, solve
from meshgen.sharding.propagation.network import Table
from meshgen.sharding.rewrites.passes import SIMPLIFICATIONS
from meshgen.sizes.program import input_names
from meshgen.spec import Sharding

Plan = Callable[[Module, Options, Timing], Compiled]
SECONDS = 10.0  # Default time limit of a search, in seconds (chosen: interactive use).
# Communication is reweighted by the ratio of plan to estimate if they differ by more than this fraction (chosen: above
# the usual error).
FAR = 0.1
# Number of arguments, largest first, for which a sharding other than the first solution's is tried (chosen: bounds the
# number of plans).
MUTATIONS = 4
# Maximal number of solutions under a memory cap. Each plan lowers the next cap by its excess (chosen: bounds the number
# of plans).
ROUNDS = 4
# Fraction by which a planned step usually differs from its estimate (chosen: effects outside of the cost model).
LEAST_DOUBT = 0.03


def search(
    module: Module, options: Options, plan: Plan, *, seconds: float = SECONDS, progress: Progress | None = None
) -> Found:
    """Return the sharding of the arguments with the shortest planned step.

    The step must fit into `options.memory_limit` bytes per device if that is set.

    Args:
        module: at stage import, on one mesh of known sizes; its annotations are kept.
        plan: compiles a program to its schedule, as `meshgen.api.plan_module`.
        seconds: time limit; planning the first solution may exceed it.
    Raises:
        UsageError: MG0001, the program cannot be searched.
        CodegenError: MG0303, no candidate fits into the memory.
    """
    _refuse(module, options)
    return _Search(module, options, plan, time.monotonic() + seconds, progress).best()


def _refuse(module: Module, options: Options) -> None:
    """Raise UsageError for programs that leave no choice of shardings, or have unknown sizes."""
    text = ""
    if module.stage != "import":
        text = f"the program entered at stage '{module.stage}', after its shardings were chosen"
    elif len(module.meshes) > 1:
        text = "the program is on several meshes, and a search is for one"
    elif not module.mesh.is_static:
        text = f"the sizes of {module.mesh} are not known"
    elif options.strict:
        text = "a search cannot be strict: every candidate would have to do without gathers"
    if text:
        raise UsageError(Diagnostic("MG0001", text))


@dataclass(frozen=True)
class _Candidate:
    """A planned program, with the solution that its annotations come from.

    `solution` is None for the original program.
    """

    module: Module
    planned: Compiled
    solution: Solution | None = None
    arguments: Sequence[Sharding] = ()
    products: Mapping[int, Sharding] = field(default_factory=dict[int, Sharding])

    @property
    def rank(self) -> tuple[float, int, int]:
        """Return the sort key: step time, then memory, then the number of annotations."""
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
        candidates = list(self._candidates(problem))
        limit = self.options.memory_limit
        fitting = [
            candidate for candidate in candidates if limit is None or candidate.planned.plan.arena_bytes <= limit
        ]
        if not fitting:
            least = min((candidate.planned.plan.arena_bytes for candidate in candidates), default=0)
            raise _does_not_fit(limit or 0, least, is_cut_short=self._left() <= 0)
        best = min(fitting, key=lambda candidate: candidate.rank)
        solution = next((candidate.solution for candidate in fitting if candidate.solution), None)
        estimate_and_gap = (solution.seconds, solution.gap) if solution else (0.0, 0.0)
        shardings = dict(
            zip(input_names(self.module.graph), best.planned.stages["partition"].in_shardings, strict=True)
        )
        return Found(best.module, best.planned, shardings, *estimate_and_gap, best.solution is None)

    def _candidates(self, problem: Problem) -> Iterator[_Candidate]:
        """Yield the original program, solutions that fit the memory limit, and variations of the last solution."""
        if any(self.module.in_annotations) and (original := self._plan_module(self.module)):
            yield original
        limit = self.options.memory_limit
        caps: list[float | None] = [limit]
        cap, last = caps[0], None
        for _ in range(ROUNDS):
            solutions = ((memory_cap, self._solve(problem, memory_cap)) for memory_cap in caps)
            cap, solution = next((pair for pair in solutions if pair[1]), (cap, None))
            candidate = solution and self._new(problem, solution)
            if solution is None or candidate is None:
                break
            yield (last := candidate)
            if limit is None or cap is None or (excess_bytes := candidate.planned.plan.arena_bytes - limit) <= 0:
                break
            caps = [min(cap, bytes_of(problem.memory, solution.labels)) - excess_bytes, cap - excess_bytes]
        if last is not None:
            yield from self._near(problem, last, cap)
        elif limit is None and not any(self.module.in_annotations) and (original := self._plan_module(self.module)):
            # Without a solution that can be planned, the original program is the only candidate, or cannot be planned
            # either.
            yield original

    def _near(self, problem: Problem, first: _Candidate, cap: float | None) -> Iterator[_Candidate]:
        """Yield the first solution with only its arguments annotated, and likewise solutions of changed problems.

        A solution is planned only if its estimate is near the first estimate: within the difference between the first
        estimate and its plan, and at least within the fraction `LEAST_DOUBT`.
        """
        yield from self._with_arguments_only(first)
        if first.solution is None:
            return
        estimated, planned = first.solution.seconds, first.planned.plan.step_seconds
        largest_estimate = estimated + max(abs(planned - estimated), LEAST_DOUBT * estimated)
        for change in self._changes(problem, first.solution, planned / estimated if estimated else 1.0):
            if self._left() <= 0:
                break
            solution = self._solve(problem, cap, change)
            if (
                solution
                and cost_of(problem.tables, solution.labels) <= largest_estimate
                and (candidate := self._new(problem, solution))
            ):
                yield candidate
                yield from self._with_arguments_only(candidate)

    def _with_arguments_only(self, candidate: _Candidate) -> list[_Candidate]:
        """Plan a candidate with only its arguments annotated.

        Returns an empty list if these annotations were planned before, cannot be planned, or no time is left.
        """
        is_new = self._left() > 0 and self._is_new(candidate.arguments, {})
        planned = self._plan_module(self._annotated(candidate.arguments, {})) if is_new else None
        return [replace(planned, solution=candidate.solution, arguments=candidate.arguments)] if planned else []

    def _annotated(self, arguments: Sequence[Sharding], products: Mapping[int, Sharding]) -> Module:
        values = values_by_id(self.module.graph)
        annotated_products = {values[id]: sharding for id, sharding in products.items() if id in values}
        return annotated_values(_annotated(self.module, arguments), annotated_products)

    def _changes(self, problem: Problem, first: Solution, plan_ratio: float) -> Iterator[list[Table]]:
        """Yield tables to add to the problem, each of which leads to other solutions.

        They exchange two axes, scale the cost of communication by `plan_ratio` (plan to estimate), or forbid an
        argument's present sharding. Arguments are grouped by the axes that split them, and the largest of each group
        goes first.
        """
        for pair in itertools.combinations(problem.axes, 2):
            if exchanged := problem.exchanged(first.labels, pair):
                yield exchanged
        if abs(plan_ratio - 1) > FAR:
            yield problem.reweighted(plan_ratio)
        groups: dict[frozenset[str], list[int]] = {}
        for cluster in sorted(problem.memory, key=lambda index: (-float(problem.memory[index].max()), index)):
            groups.setdefault(problem.axes_of(cluster, first.labels[cluster]), []).append(cluster)
        by_group = itertools.chain.from_iterable(itertools.zip_longest(*groups.values()))
        for cluster in itertools.islice((index for index in by_group if index is not None), MUTATIONS):
            yield [problem.without(cluster, first.labels[cluster])]

    def _solve(self, problem: Problem, cap: float | None, change: Sequence[Table] = ()) -> Solution | None:
        """Return the solution of the problem. A changed problem is solved only by its linear program."""
        self._tell("solve")
        tables, seconds = [*problem.tables, *change], max(self._left(), 1.0)
        return solve(problem.sizes, tables, problem.memory, cap, seconds, relaxed_only=bool(change))

    def _new(self, problem: Problem, solution: Solution) -> _Candidate | None:
        """Plan a solution, or return None if it was planned before.

        Annotations on matmul results are dropped if the compiler refuses them.
        """
        arguments, products = problem.shardings(solution.labels), problem.products(solution.labels)
        if not self._is_new(arguments, products):
            return None
        for annotated_products in (products, {}):
            if candidate := self._plan_module(self._annotated(arguments, annotated_products)):
                return replace(candidate, solution=solution, arguments=arguments, products=annotated_products)
        return None

    def _is_new(self, arguments: Sequence[Sharding], products: Mapping[int, Sharding]) -> bool:
        """Whether no solution with these shardings was seen before. Records the shardings as seen."""
        shardings = [*arguments], dict(products)
        is_new = shardings not in self._seen
        self._seen.extend([shardings] * is_new)
        return is_new

    def _plan_module(self, module: Module) -> _Candidate | None:
        """Plan a program. Returns None if it cannot be planned.

        A program that does not fit is planned without the memory limit, to find out how much it needs.
        """
        self._tell("plan")
        start_time = time.monotonic()
        limits = [self.options.memory_limit, *([None] if self.options.memory_limit is not None else [])]
        for limit in limits:
            try:
                candidate = _Candidate(module, self.plan(module, replace(self.options, memory_limit=limit), Timing()))
                self._seconds.append(time.monotonic() - start_time)
                return candidate
            except MeshgenError:
                if module is self.module and limit is None:
                    raise
        return None

    def _left(self) -> float:
        """Return the seconds left for more candidates: until the deadline, less the longest planning time so far."""
        return self.deadline - time.monotonic() - max(self._seconds, default=0.0)

    def _tell(self, phase: str) -> None:
        if self.progress:
            self.progress(phase, 0, 1)


def _does_not_fit(limit: int, least_bytes: int, *, is_cut_short: bool) -> CodegenError:
    text = f"no sharding that was found fits into {bytes_text(limit)} per device"
    text += f": the smallest needs {bytes_text(least_bytes)}" if least_bytes else ""
    hint = "give more memory, or a mesh of more devices"
    hint = f"the search was cut short: give it more time (--seconds), or {hint}" if is_cut_short else hint
    return CodegenError(Diagnostic("MG0303", text, hint=hint))


def _annotated(module: Module, shardings: Sequence[Sharding]) -> Module:
    """Return the program with required annotations on the sharded inputs that had none.

    Propagation decides the other inputs.
    """
    original = [*module.in_annotations, *[None] * (len(shardings) - len(module.in_annotations))]
    annotations = [
        annotation or (Annotation(sharding, True, (False,) * sharding.rank, value.loc) if any(sharding.dims) else None)
        for annotation, sharding, value in zip(original, shardings, module.graph.inputs, strict=True)
    ]
    return replace(module, in_annotations=annotations)
