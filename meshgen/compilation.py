"""Passes, and the context of a compilation that runs them.

A pass takes a program to one that computes the same. `meshgen/passes.py` lists all of them in pipeline order. The stages run
theirs through the context, so that each can be left out (`--skip`), shown (`--print-after`) and accounted for (`compile --timing`).
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
DEFAULT_TARGET = "cuda:sm_90"  # where neither the user nor a machine says one
Show = Callable[[str, Module], None]
P = ParamSpec("P")
T = TypeVar("T")
Subject = TypeVar("Subject", Graph, Module)


@dataclass(frozen=True)
class Pass:
    """One change of a program, by name; `module_pass` declares it.

    Attributes:
        name: the name on the command line: words joined by dashes, MLIR's and XLA's where they have one.
        run: returns the changed program, or the very same module where there is nothing to change.
        stages: the stages whose programs the pass takes.
        applies: `always`, or where the changed program costs less (`if cheaper`) or no more (`unless more expensive`), as its stage counts.
        requires_ops: the pass changes only programs that have one of these ops; empty: any program.
        enables: the programs that have no kernels for GPUs without the pass; empty: the pass makes programs cheaper, and none needs it.
    """

    name: str
    run: Callable[[Module, Compilation], Module]
    stages: tuple[str, ...]
    applies: Applies = "always"
    requires_ops: frozenset[str] = frozenset()
    enables: str = ""

    def __call__(self, module: Module, context: Compilation | None = None) -> Module:
        """Return the changed program, or the module itself; without a context the pass runs in one of its own."""
        if self.requires_ops and self.requires_ops.isdisjoint(module.graph.index.ops):
            return module
        return self.run(module, context or Compilation())

    @property
    def summary(self) -> str:
        """What it does in one line: the first of its file."""
        return (sys.modules[self.run.__module__].__doc__ or "").partition("\n")[0].removesuffix(".")


@dataclass
class PassRecord:
    """What a pass did to a program.

    Attributes:
        fired: how often it changed the program, or a part of it.
        kept: how often the change was taken.
        before, after: costs of the programs that were compared, summed over all changes; in `unit`, 0 where none is compared.
        unit: `B` (bytes that a device sends) or `s` (predicted).
        seconds: spent in the pass, comparing included.
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
        """How often the program was changed, and the change was not taken."""
        return self.fired - self.kept

    def note(self, *, kept: bool, before: float = 0.0, after: float = 0.0, unit: str = "") -> None:
        """Count one change; costs are those of the programs before and after it."""
        self.fired += 1
        self.kept += kept
        self.before += before
        self.after += after
        self.unit = unit or self.unit

    def add(self, other: PassRecord) -> None:
        """Count another record's changes as well."""
        self.fired += other.fired
        self.kept += other.kept
        self.before += other.before
        self.after += other.after
        self.unit = other.unit or self.unit
        self.seconds += other.seconds


@dataclass
class Timing:
    """Seconds spent per stage, in the order in which they began, and what each pass did.

    What is timed within a stage does not count as that stage's. `clock` is read for it: wall time, or `time.process_time`.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    passes: dict[str, PassRecord] = field(default_factory=dict)
    clock: Callable[[], float] = time.perf_counter
    _around: list[str] = field(default_factory=list[str])
    _since: float = 0.0  # when the innermost stage began, or went on

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
        """Give the time since the last change to the innermost stage."""
        now = self.clock()
        if self._around:
            self.seconds[self._around[-1]] += now - self._since
        self._since = now


class Decisions(dict[str, dict[Graph, Any]]):
    """What stages decided, by stage, and by the graph that the decisions made.

    Pickles and deep copies are empty: a decision refers to the search that made it, and to graphs by identity.
    """

    def __reduce__(self) -> tuple[type[Decisions], tuple[()]]:
        return Decisions, ()


@dataclass(eq=False)
class _Kept:
    """What a compilation keeps: results by the graph or module that they are of, and programs with the records of their passes.

    `latest` has the last graph of an analysis with its result.
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
    """The context of one compilation: it runs passes, records what each did, and keeps analyses and decisions.

    A result that is kept belongs to the context and is dropped with it.

    Attributes:
        skip: names of passes that are left out.
        target, memory_limit, arguments: as of `pipeline.Options`.
        show: called with a pass's name and the program after it, where it changed something.
        records: by name, in the order in which passes first ran.
        tell: called with a pass's name when it begins.
        decisions: what stages decided.
    """

    skip: frozenset[str] = frozenset()
    target: str = DEFAULT_TARGET
    memory_limit: int | None = None
    arguments: str = "local"
    show: Show | None = None
    records: dict[str, PassRecord] = field(default_factory=dict[str, PassRecord])
    tell: Callable[[str], None] | None = None
    decisions: Decisions = field(default_factory=Decisions)
    _kept: _Kept = field(default_factory=_Kept)

    def trial(self) -> Compilation:
        """Return a context for programs that are only compared: it shares what is kept, and its records are not shown."""
        return replace(self, show=None, tell=None, records={})

    def once(self, subject: Hashable, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned the first time for this graph or module, which is compared by identity, and this key."""
        known = self._kept.results.setdefault(subject, {})
        if key not in known:
            known[key] = make()
        return known[key]

    def analysis(
        self, find: Callable[Concatenate[Subject, P], T], subject: Subject, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return `find(subject, ...)`, computed once per subject, a graph or module that is compared by identity, and arguments."""
        key = find, args, tuple(kwargs.items())
        return self.once(subject, key, lambda: find(subject, *args, **kwargs))

    def latest(self, find: Callable[[Graph], T], graph: Graph) -> T:
        """Return `find(graph)`, as `analysis` does, but keep only the last result: for large ones that passes in a row share."""
        kept = self._kept.latest.get(find)
        return kept[1] if kept and kept[0] is graph else self.keep_latest(find, graph, find(graph))

    def keep_latest(self, find: Callable[[Graph], T], graph: Graph, result: T) -> T:
        """Let `result` be what `latest` returns for this graph: a pass that changed the graph has changed the result alike."""
        self._kept.latest[find] = graph, result
        return result

    def made(self, stage: str, module: Module, run: Callable[[Compilation], Module], option: str = "") -> Module:
        """Return what a run of passes makes of a module, computed once; the records count it each time.

        Args:
            stage: names what `run` does, together with the option.
            run: runs passes in the context that it is given, which has records of its own.
        """
        known = self._kept.programs.setdefault(module, {})
        found = known.get((stage, option))
        if found is None or self.show:
            inner = replace(self, records={})
            found = known[stage, option] = run(inner), inner.records
        self.add(found[1])
        return found[0]

    def take(self, module: Module, other: Module, change: Callable[[Module], Module]) -> None:
        """Let what is kept of `other` hold for `module`, into which `change` turns it; programs that passes made are changed alike."""
        programs = self._kept.programs.setdefault(module, {})
        for key, (before, records) in self._kept.programs.get(other, {}).items():
            after = module if before is other else change(before)
            programs[key] = after, records
            self._kept.results[after] = self._kept.results.get(before, {})

    def decide(self, stage: str, graph: Graph, decision: Any) -> None:
        """Record what a stage decided, by the graph that the decision made."""
        self.decisions.setdefault(stage, {})[graph] = decision

    def record(self, name: str) -> PassRecord:
        """The record of a pass, to which its next change is added."""
        return self.records.setdefault(name, PassRecord(name))

    def add(self, records: Mapping[str, PassRecord]) -> None:
        """Count what another context's passes did."""
        for name, record in records.items():
            self.record(name).add(record)

    def runs(self, each: Pass) -> bool:
        """Whether a pass is not left out."""
        return each.name not in self.skip

    @contextmanager
    def timed(self, each: Pass) -> Generator[PassRecord]:
        """The record of a pass, to which the seconds of the block are added."""
        if self.tell:
            self.tell(each.name)
        record, begin = self.record(each.name), time.perf_counter()
        try:
            yield record
        finally:
            record.seconds += time.perf_counter() - begin

    def changed(self, name: str, module: Module) -> None:
        """Show the program that a pass or stage made."""
        if self.show:
            self.show(name, module)

    def apply(
        self, module: Module, passes: Iterable[Pass], cost: Callable[[Module], float] | None = None, unit: str = ""
    ) -> Module:
        """The module after the passes, one after the other.

        Args:
            cost: of a program, in `unit`; without it every change is taken, as it is from a pass that applies `always`.
        """
        known: float | None = None  # cost of the module
        for each in filter(self.runs, passes):
            with self.timed(each) as record:
                found = each(module, self)
                if found is module:
                    continue
                require_defined(found, each.name)
                if cost is None or each.applies == "always":
                    known = None
                    record.note(kept=True)
                else:
                    before = cost(module) if known is None else known
                    known = cost(found)
                    kept = known < before or (known == before and each.applies == "unless more expensive")
                    record.note(kept=kept, before=before, after=known, unit=unit)
                    if not kept:
                        known = before
                        continue
            module = found
            self.changed(each.name, module)
        return module


def module_pass(
    name: str, *stages: str, applies: Applies = "always", requires_ops: Iterable[str] = (), enables: str = ""
) -> Callable[[Callable[[Module, Compilation], Module]], Pass]:
    """Declare a function as the pass of this name; the arguments are the fields of `Pass`."""
    return lambda run: Pass(name, run, stages, applies, frozenset(requires_ops), enables)
