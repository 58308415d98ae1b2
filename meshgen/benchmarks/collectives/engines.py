"""What runs collectives: a protocol, and the engine of each name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from meshgen.benchmarks.collectives.cases import Case, Layout
from meshgen.errors import Diagnostic, UsageError
from meshgen.machine.profiles import Machine
from meshgen.records import dataclass

ENGINES = ("nccl", "mpi", "simulated", "emulated")


@dataclass(frozen=True)
class Effort:
    """How often a case runs: `warm_up` times, and then `samples` times `iterations` in a row. `checks`: compare the results."""

    warm_up: int
    iterations: int
    samples: int
    checks: bool


@dataclass(frozen=True)
class Outcome:
    """Seconds of one call in each sample, of the slowest rank (none: the engine has no times), and wrong elements (None: not checked)."""

    seconds: tuple[float, ...]
    wrong: int | None


class Engine(Protocol):
    """All ranks, or those of this process.

    Attributes:
        layout: all ranks.
        reports: whether this process writes the results of all.
        facts: of the run, such as the library's version.
    """

    layout: Layout
    reports: bool
    facts: Mapping[str, Any]

    def measured(self, case: Case, in_place: bool, effort: Effort) -> Outcome | None:
        """None where the engine has no such call. All processes make the same calls in the same order."""
        ...

    def close(self) -> None: ...


def engine_of(name: str, ranks: int | None, machine: Machine | None, arch: str, most_bytes: int) -> Engine:
    """The engine of a name.

    Args:
        ranks: of the ranks of this process; None: all GPUs, or the processes of the launcher, or 8.
        machine: what the simulated engine predicts for; None: the default.
        arch: of emulated GPUs.
        most_bytes: of any operand or result.
    Raises:
        UsageError: MG0001, a launcher has started several processes of an engine that has all ranks in one, or `ranks` is given to one that has one.
        MissingError: MG0602, MG0603, what it needs is missing.
    """
    if name == "mpi":
        from meshgen.benchmarks.collectives.mpi import MpiEngine

        if ranks is not None:
            text = "-g is the number of ranks in one process; MPI's are processes"
            raise UsageError(Diagnostic("MG0001", text, hint="mpiexec -n 8 meshgen bench collectives --engine mpi"))
        return MpiEngine()
    if name == "simulated":
        from meshgen.benchmarks.collectives.simulated import SimulatedEngine

        return SimulatedEngine(ranks or 8, machine)
    from meshgen.benchmarks.collectives.nccl import nccl_engine

    return nccl_engine(name == "emulated", ranks, arch, most_bytes)
