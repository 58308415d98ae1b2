"""Passes with names: what a pass is, and the manager that runs them, leaves some out and notes what each did.

A pass takes a program to one that computes the same. `meshgen/passes.py` lists all of them in pipeline order; the stages run
theirs through a manager, so that each can be left out (`--skip`), shown (`--print-after`) and accounted for (`compile --timing`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import field
from typing import Literal
from weakref import WeakKeyDictionary

from meshgen.ir.definitions import require_defined
from meshgen.ir.graph import Module
from meshgen.records import dataclass

Applies = Literal["always", "if cheaper", "unless dearer"]
Show = Callable[[str, Module], None]


@dataclass(frozen=True)
class Pass:
    """One change of a program, by name.

    Attributes:
        name: as on the command line: words joined by dashes, MLIR's and XLA's where they have one.
        run: from a program to the changed one; the very same module where there is nothing to change.
        stages: of the programs that it takes.
        applies: `always`, or where the changed program costs less (`if cheaper`) or no more (`unless dearer`), as its stage counts.
    """

    name: str
    run: Callable[[Module], Module]
    stages: tuple[str, ...]
    applies: Applies

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
class PassManager:
    """Runs passes, and notes what each did.

    Attributes:
        skip: names of passes that are left out.
        show: called with a pass's name and the program after it, where it changed something.
        records: by name, in the order in which passes first ran.
        tell: called with a pass's name when it begins.
    """

    skip: frozenset[str] = frozenset()
    show: Show | None = None
    records: dict[str, PassRecord] = field(default_factory=dict[str, PassRecord])
    tell: Callable[[str], None] | None = None

    def trial(self) -> PassManager:
        """A manager for programs that are only compared: it leaves out the same passes, and its records are not shown."""
        return PassManager(self.skip)

    def record(self, name: str) -> PassRecord:
        """The record of a pass, to which its next change is added."""
        return self.records.setdefault(name, PassRecord(name))

    def add(self, records: Mapping[str, PassRecord]) -> None:
        """Count what another manager's passes did."""
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
                found = each.run(module)
                if found is module:
                    continue
                require_defined(found, each.name)
                if cost is None or each.applies == "always":
                    known = None
                    record.note(kept=True)
                else:
                    before = cost(module) if known is None else known
                    known = cost(found)
                    kept = known < before or (known == before and each.applies == "unless dearer")
                    record.note(kept=kept, before=before, after=known, unit=unit)
                    if not kept:
                        known = before
                        continue
            module = found
            self.changed(each.name, module)
        return module


_Made = tuple[Module, Mapping[str, PassRecord]]


class Kept:
    """What runs of passes made of programs, and what they did; kept as long as the program is that they took."""

    def __init__(self) -> None:
        self._known: MutableMapping[Module, dict[tuple[frozenset[str], str], _Made]] = WeakKeyDictionary()

    def of(
        self, module: Module, manager: PassManager, run: Callable[[PassManager], Module], option: str = ""
    ) -> Module:
        """What a run makes of the module with this option, once; the manager's records count it each time."""
        key = manager.skip, option
        found = self._known.get(module, {}).get(key)
        if found is None or manager.show:
            inner = PassManager(manager.skip, manager.show, tell=manager.tell)
            found = run(inner), inner.records
            if found[0] is not module:
                self._known.setdefault(module, {})[key] = found
        manager.add(found[1])
        return found[0]

    def take(self, module: Module, other: Module, run: Callable[[Module], Module]) -> None:
        """Let what is known of a module hold for another one, changed alike."""
        self._known[module] = {key: (run(made), records) for key, (made, records) in self._known[other].items()}


def named(*passes: Pass) -> dict[str, Pass]:
    """Passes by name."""
    return {each.name: each for each in passes}
