"""The collectives of an MPI library, on host memory, by mpi4py: a rank per process of mpiexec or srun."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from meshgen.benchmarks.collectives.cases import GROUPS, Case, layout_of, operand, wrong
from meshgen.benchmarks.collectives.engines import Effort, Outcome
from meshgen.benchmarks.environment import mpi_library
from meshgen.ccl.mpi import processes
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import DTYPES

_REDUCTIONS = {"sum": "SUM", "product": "PROD", "min": "MIN", "max": "MAX"}
_NARROW = ("f16", "bf16")  # MPI has no such types


class MpiEngine:
    """See `Engine`."""

    def __init__(self) -> None:
        """Raises MissingError MG0602 without mpi4py or an MPI library."""
        self._all: Any = processes()
        from mpi4py import MPI

        self._mpi: Any = MPI
        self._rank = int(self._all.rank)
        hosts: list[str] = self._all.allgather(MPI.Get_processor_name())
        self.layout, self.reports = layout_of(hosts), self._rank == 0
        self.facts: Mapping[str, Any] = {
            "mpi": mpi_library(),
            "hosts": len(set(hosts)),
        }
        mesh = self.layout.mesh
        self._members = {group: mesh.index(self._rank, GROUPS[group]) for group in self.layout.groups}
        self._comms: dict[str, Any] = {}
        for group, member in self._members.items():
            members = next(each for each in mesh.groups(GROUPS[group]) if self._rank in each)
            self._comms[group] = self._all.Split(members[0], member)

    def measured(self, case: Case, in_place: bool, effort: Effort) -> Outcome | None:
        """Raises UsageError MG0001 for a reduction in a type that MPI does not have."""
        if case.reduction and case.dtype in _NARROW:
            text = f"MPI reduces no {case.dtype}"
            raise UsageError(Diagnostic("MG0001", text, hint="leave it out of -d, or use another engine"))
        if case.kind == "broadcast" and not in_place:
            return None  # MPI's has one buffer
        comm = self._comms[case.group]
        memory = _Memory(case, self._members[case.group], in_place)
        call = self._call(case, comm, memory, in_place)
        for _ in range(effort.warm_up):
            call()
        samples = np.array([self._sample(call, effort.iterations) for _ in range(effort.samples)])
        self._all.Allreduce(self._mpi.IN_PLACE, samples, self._mpi.MAX)
        found: int | None = None
        if effort.checks:
            memory.fill()
            call()
            found = int(self._all.allreduce(wrong(case, memory.result, self._members[case.group])))
        return Outcome(tuple(samples.tolist()), found)

    def _sample(self, call: Callable[[], object], iterations: int) -> float:
        """Seconds of one call, of several in a row that all ranks begin together."""
        self._all.Barrier()
        begin = time.perf_counter()
        for _ in range(iterations):
            call()
        return (time.perf_counter() - begin) / iterations

    def _call(self, case: Case, comm: Any, memory: _Memory, in_place: bool) -> Callable[[], object]:
        given: Any = self._mpi.IN_PLACE if in_place else _typed(memory.operand)
        made: Any = _typed(memory.result)
        op = getattr(self._mpi, _REDUCTIONS.get(case.reduction, "SUM"))
        match case.kind:
            case "all_reduce":
                return lambda: comm.Allreduce(given, made, op)
            case "all_gather":
                return lambda: comm.Allgather(given, made)
            case "reduce_scatter":
                whole = _typed(memory.operand)
                if in_place:  # the result is at the start of the operand, not in its place
                    memory.result = memory.operand[: case.result_count]
                    return lambda: comm.Reduce_scatter_block(self._mpi.IN_PLACE, whole, op)
                return lambda: comm.Reduce_scatter_block(whole, made, op)
            case "broadcast":
                return lambda: comm.Bcast(made, case.root)
            case "reduce":
                is_root = comm.rank == case.root
                source = given if is_root else _typed(memory.operand)
                return lambda: comm.Reduce(source, made if is_root else None, op, case.root)
            case "all_to_all":
                return lambda: comm.Alltoall(given, made)
            case _:
                after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
                return lambda: comm.Sendrecv(given, after, recvbuf=made, source=before)

    def close(self, error: BaseException | None = None) -> None:
        """After a failure of this process alone MPI is not finalized, which would wait for the others: the launcher ends all."""
        if error and not isinstance(error, UsageError):
            return
        for comm in self._comms.values():
            comm.Free()
        self._mpi.Finalize()


class _Memory:
    """Operand and result of this rank; in place they share one buffer."""

    def __init__(self, case: Case, member: int, in_place: bool) -> None:
        dtype = DTYPES[case.dtype]
        size = max(case.operand_count, case.result_count)
        self._buffer, self._values = np.zeros(size, dtype), operand(case, member)
        source, target = case.offsets(member) if in_place else (0, 0)
        self.operand = self._buffer[source : source + case.operand_count]
        self.result = (
            self._buffer[target : target + case.result_count] if in_place else np.zeros(case.result_count, dtype)
        )
        self.fill()

    def fill(self) -> None:
        """The rank's values, where a call may have overwritten them."""
        self.operand[...] = self._values


def _typed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What MPI takes: elements of types that it does not have, which are the narrow floats, as bytes."""
    return array.view(np.uint8) if array.itemsize == 2 else array
