"""The engine of each name."""

from __future__ import annotations

from meshgen.benchmarks.collectives.engines import Engine
from meshgen.errors import Diagnostic, UsageError
from meshgen.machine.profiles import Machine

ENGINES = ("nccl", "mpi", "simulated", "emulated")


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
