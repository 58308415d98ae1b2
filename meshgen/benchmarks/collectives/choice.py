"""Creation of engines by name."""

from __future__ import annotations

from meshgen.benchmarks.collectives.engines import Engine
from meshgen.errors import Diagnostic, UsageError
from meshgen.machine.profiles import Machine

ENGINES = ("nccl", "mpi", "simulated", "emulated")


def engine_of(name: str, ranks: int | None, machine: Machine | None, arch: str, most_bytes: int) -> Engine:
    """Create the engine called `name`.

    Args:
        ranks: number of ranks in this process; None for all GPUs, the processes of the launcher, or 8 simulated ranks.
        machine: the machine for which the simulated engine predicts times; None for the default machine.
        arch: architecture of emulated GPUs.
        most_bytes: size of the largest operand or result.
    Raises:
        UsageError: MG0001, a launcher started several processes but the engine has all its ranks in one, or `ranks` is
        given
            but the engine has one rank per process.
        MissingError: MG0602, MG0603, a package or GPU of the engine is missing.
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
