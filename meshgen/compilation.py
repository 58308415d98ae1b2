"""Passes, and the context of a compilation that runs them.

A pass turns a program into an equivalent one. `meshgen/passes.py` lists all passes in pipeline order. Stages run their
passes through the context, so that a pass can be skipped (`--skip`), traced (`--print-after`) and measured (`compile
--timing`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from meshgen.ir.definitions import require_defined
from meshgen.ir.graph import Graph, Module

Applies = Literal["always", "if cheaper", "unless more expensive"]
DEFAULT_TARGET = "cuda:sm_90"  # the target if neither the user nor the machine determines one
Show = Callable[[str, Module], None]
P = ParamSpec("P")
T = TypeVar("T")
Subject = TypeVar("Subject", Graph, Module)


@dataclass(frozen=True)
class Pass:
    """A named rewrite of programs, declared with `module_pass`.

    Attributes:
        name: the name on the command line, with words joined by dashes. It is the name that MLIR or XLA uses, if they
            have the pass.
        run: returns the rewritten program, or the same module object if there is nothing to rewrite.
        stages: the stages whose programs the pass accepts.
        applies: `always`, or only if the cost decreases (`if cheaper`) or does not increase (`unless more expensive`).
            The stage that runs the pass defines the cost.
        requires_ops: the pass only affects programs with one of these ops; empty for any program.
        enables: describes the programs that need the pass to get GPU kernels; empty for passes that only reduce the
            cost.
    """

    name: str
    run: Callable[[Module, Compilation], Module]
    stages: tuple[str, ...]
    applies: Applies = "always"
    requires_ops: frozenset[str] = frozenset()
    enables: str = ""

    def __call__(self, module: Module, context: Compilation | None = None) -> Module:
        """Return the rewritten program, or the module itself. Without a context, a new context is created."""
        if self.requires_ops and self.requires_ops.isdisjoint(module.graph.index.ops):
            return module
        return self.run(module, context or Compilation())

    @property
    def summary(self) -> str:
        """Return the first line of the docstring of the pass's file."""
        return (sys.modules[self.run.__module__].__doc__ or "").partition("\n")[0].removesuffix(".")


@dataclass
class PassRecord:
    """Statistics of a pass over one compilation.

    Attributes:
        fired: number of times that the pass changed a program.
        kept: number of changes that were kept.
        before, after: costs of the compared programs in `unit`, summed over all changes; 0 if no costs are compared.
        unit: `B` (bytes sent per device) or `s` (predicted seconds).
        seconds: time spent in the pass, including cost comparisons.
    """

    name: str
    fired: int = 0
    kept: int = 0
    before: float = 0.0
    after: float = 0.0
    unit: str = ""
    seconds: float = 0.0

    @property
    def rejected(self) -> int:
        """Return the number of changes that were rejected because of their cost."""
        return self.fired - self.kept

    def note(self, *, kept: bool, before: float = 0.0, after: float = 0.0, unit: str = "") -> None:
        """Count one change of a program, with the costs of the program before and after it."""
        self.fired += 1
        self.kept += kept
        self.before += before
        self.after += after
        self.unit = unit or self.unit

    def add(self, other: PassRecord) -> None:
        """Add the statistics of another record of the same pass."""
        self.fired += other.fired
        self.kept += other.kept
        self.before += other.before
        self.after += other.after
        self.unit = other.unit or self.unit
        self.seconds += other.seconds


@dataclass
class Timing:
    """Seconds per stage, in the order in which stages began, and the statistics of each pass.

    The time of a nested stage does not count for the outer stage. `clock` returns the time in seconds: wall time, or
    for example `time.process_time`.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    passes: dict[str, PassRecord] = field(default_factory=dict)
    clock: Callable[[], float] = time.perf_counter
    _around: list[str] = field(default_factory=list[str])
    _since: float = 0.0  # clock time at which the innermost stage began or resumed

    @contextmanager
    def of(self, stage: str) -> Generator[None]:
        self.seconds.setdefault(stage, 0.0)
        self._count()
        self._around.append(stage)
        try:
            yield
        finally:
            self._count()
            self._around.pop()

    def _count(self) -> None:
        """Add the time since the last call of this method to the innermost running stage."""
        now = self.clock()
        if self._around:
            self.seconds[self._around[-1]] += now - self._since
        self._since = now


class Decisions(dict[str, dict[Graph, Any]]):
    """Maps a stage and a graph to the decision of the stage that resulted in the graph.

    Pickles and deep copies are empty, because a decision refers to graphs by identity.
    """

    def __reduce__(self) -> tuple[type[Decisions], tuple[()]]:
        return Decisions, ()


@dataclass(eq=False)
class _Caches:
    """Caches of a compilation.

    Attributes:
        results: analysis results by graph or module.
        latest: the last graph and result of each analysis.
        programs: programs that passes produced, with the pass records, by input module.
    """

    results: dict[Hashable, dict[Hashable, Any]] = field(default_factory=dict[Hashable, dict[Hashable, Any]])
    latest: dict[Callable[[Graph], Any], tuple[Graph, Any]] = field(
        default_factory=dict[Callable[[Graph], Any], tuple[Graph, Any]]
    )
    programs: dict[Module, dict[tuple[str, str], tuple[Module, dict[str, PassRecord]]]] = field(
        default_factory=dict[Module, dict[tuple[str, str], tuple[Module, dict[str, PassRecord]]]]
    )


@dataclass(eq=False)
class Compilation:
    """The context of one compilation. It runs passes, records their statistics, and caches analyses and decisions.

    Cached results are dropped with the context.

    Attributes:
        skip: names of passes to leave out.
        target, memory_limit, arguments: as in `pipeline.Options`.
        show: called with the pass name and the program after each pass that changed it.
        records: pass statistics by name, in the order in which passes first ran.
        tell: called with the name of each pass when the pass begins.
        decisions: the decisions of stages, by the resulting graph.
    """

    skip: frozenset[str] = frozenset()
    target: str = DEFAULT_TARGET
    memory_limit: int | None = None
    arguments: str = "local"
    show: Show | None = None
    records: dict[str, PassRecord] = field(default_factory=dict[str, PassRecord])
    tell: Callable[[str], None] | None = None
    decisions: Decisions = field(default_factory=Decisions)
    _kept: _Caches = field(default_factory=_Caches)

    def trial(self) -> Compilation:
        """Return a context for candidate programs that are only compared. It shares the caches of this context, but has
        no records or callbacks.
        """
        return replace(self, show=None, tell=None, records={})

    def once(self, subject: Hashable, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, cached by `subject` and `key`. The subject is compared by identity."""
        results = self._kept.results.setdefault(subject, {})
        if key not in results:
            results[key] = make()
        return results[key]

    def analysis(
        self, find: Callable[Concatenate[Subject, P], T], subject: Subject, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return `find(subject, ...)`, cached by subject and arguments. The subject is compared by identity."""
        key = find, args, tuple(kwargs.items())
        return self.once(subject, key, lambda: find(subject, *args, **kwargs))

    def latest(self, find: Callable[[Graph], T], graph: Graph) -> T:
        """Return `find(graph)` like `analysis`, but cache only the last result, which may be large."""
        cached = self._kept.latest.get(find)
        return cached[1] if cached and cached[0] is graph else self.keep_latest(find, graph, find(graph))

    def keep_latest(self, find: Callable[[Graph], T], graph: Graph, result: T) -> T:
        """Store `result` as the cached result of `latest`. A pass that updates a large result together with its graph
        calls this.
        """
        self._kept.latest[find] = graph, result
        return result

    def made(self, stage: str, module: Module, run: Callable[[Compilation], Module], option: str = "") -> Module:
        """Return the result of `run` on `module`, cached. The pass statistics of `run` are added to the records on each
        call.

        Args:
            stage: cache key, together with `option`; it names what `run` does.
            run: runs passes in the context that is passed to it, which has its own records.
        """
        results = self._kept.programs.setdefault(module, {})
        result = results.get((stage, option))
        if result is None or self.show:
            inner = replace(self, records={})
            result = results[stage, option] = run(inner), inner.records
        self.add(result[1])
        return result[0]

    def take(self, module: Module, other: Module, change: Callable[[Module], Module]) -> None:
        """Reuse the cached results for `other` for `module`, which `change` computes from `other`. Cached programs are
        converted with `change`, too.
        """
        programs = self._kept.programs.setdefault(module, {})
        for key, (before, records) in self._kept.programs.get(other, {}).items():
            after = module if before is other else change(before)
            programs[key] = after, records
            self._kept.results[after] = self._kept.results.get(before, {})

    def decide(self, stage: str, graph: Graph, decision: Any) -> None:
        """Record a decision of a stage under the graph that resulted from it."""
        self.decisions.setdefault(stage, {})[graph] = decision

    def record(self, name: str) -> PassRecord:
        """Return the record of a pass, created on first use."""
        return self.records.setdefault(name, PassRecord(name))

    def add(self, records: Mapping[str, PassRecord]) -> None:
        """Add the pass statistics of another context to this one."""
        for name, record in records.items():
            self.record(name).add(record)

    def runs(self, candidate: Pass) -> bool:
        """Whether the pass is not skipped by the user's options."""
        return candidate.name not in self.skip

    @contextmanager
    def timed(self, running_pass: Pass) -> Generator[PassRecord]:
        """Return a context manager that yields the record of a pass, and adds the seconds of the block to it."""
        if self.tell:
            self.tell(running_pass.name)
        record, begin = self.record(running_pass.name), time.perf_counter()
        try:
            yield record
        finally:
            record.seconds += time.perf_counter() - begin

    def changed(self, name: str, module: Module) -> None:
        """Call `show` with the program after a pass or stage that changed it."""
        if self.show:
            self.show(name, module)

    def apply(
        self, module: Module, passes: Iterable[Pass], cost: Callable[[Module], float] | None = None, unit: str = ""
    ) -> Module:
        """Run passes one after the other and return the module.

        Args:
            cost: returns the cost of a program in `unit`. Without it, every change is kept, as for a pass that applies
                `always`.
        """
        current_cost: float | None = None  # cost of the current module; None until it is needed
        for next_pass in filter(self.runs, passes):
            with self.timed(next_pass) as record:
                rewritten = next_pass(module, self)
                if rewritten is module:
                    continue
                require_defined(rewritten, next_pass.name)
                if cost is None or next_pass.applies == "always":
                    current_cost = None
                    record.note(kept=True)
                else:
                    before = cost(module) if current_cost is None else current_cost
                    current_cost = cost(rewritten)
                    is_kept = current_cost < before or (
                        current_cost == before and next_pass.applies == "unless more expensive"
                    )
                    record.note(kept=is_kept, before=before, after=current_cost, unit=unit)
                    if not is_kept:
                        current_cost = before
                        continue
            module = rewritten
            self.changed(next_pass.name, module)
        return module


def module_pass(
    name: str, *stages: str, applies: Applies = "always", requires_ops: Iterable[str] = (), enables: str = ""
) -> Callable[[Callable[[Module, Compilation], Module]], Pass]:
    """Return a decorator that declares a function as a pass called `name`. The arguments are fields of `Pass`."""
    return lambda run: Pass(name, run, stages, applies, frozenset(requires_ops), enables)
