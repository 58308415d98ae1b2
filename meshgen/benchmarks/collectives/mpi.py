"""The collectives of an MPI library on host memory, called through mpi4py: one rank per process of mpiexec or srun."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from meshgen.benchmarks.collectives.cases import GROUPS, Case, count_wrong, layout_of, random_operand
from meshgen.benchmarks.collectives.engines import Effort, Outcome
from meshgen.benchmarks.environment import mpi_library
from meshgen.ccl.mpi import processes
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import DTYPES

_REDUCTIONS = {"sum": "SUM", "product": "PROD", "min": "MIN", "max": "MAX"}
_NARROW = ("f16", "bf16")  # types that MPI does not have


class MpiEngine:
    """An `Engine` that measures the MPI library."""

    def __init__(self) -> None:
        """Raises MissingError MG0602 if mpi4py or an MPI library is missing."""
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
            members = next(ranks for ranks in mesh.groups(GROUPS[group]) if self._rank in ranks)
            self._comms[group] = self._all.Split(members[0], member)

    def measure(self, case: Case, in_place: bool, effort: Effort) -> Outcome | None:
        """Raises UsageError MG0001 for a reduction in a type that MPI does not have."""
        if case.reduction and case.dtype in _NARROW:
            text = f"MPI reduces no {case.dtype}"
            raise UsageError(Diagnostic("MG0001", text, hint="leave it out of -d, or use another engine"))
        if case.kind == "broadcast" and not in_place:
            return None  # unsupported: MPI_Bcast has one buffer, so it is always in place
        comm = self._comms[case.group]
        memory = _Memory(case, self._members[case.group], in_place)
        call = self._call(case, comm, memory, in_place)
        for _ in range(effort.warm_up):
            call()
        samples = np.array([self._sample(call, effort.iterations) for _ in range(effort.samples)])
        self._all.Allreduce(self._mpi.IN_PLACE, samples, self._mpi.MAX)
        wrong_count: int | None = None
        if effort.checks:
            memory.fill()
            call()
            wrong_count = int(self._all.allreduce(count_wrong(case, memory.result, self._members[case.group])))
        return Outcome(tuple(samples.tolist()), wrong_count)

    def _sample(self, call: Callable[[], object], iterations: int) -> float:
        """Return the seconds per call for `iterations` consecutive calls, which all ranks begin together."""
        self._all.Barrier()
        begin = time.perf_counter()
        for _ in range(iterations):
            call()
        return (time.perf_counter() - begin) / iterations

    def _call(self, case: Case, comm: Any, memory: _Memory, in_place: bool) -> Callable[[], object]:
        send_buffer: Any = self._mpi.IN_PLACE if in_place else _typed(memory.operand)
        receive_buffer: Any = _typed(memory.result)
        op = getattr(self._mpi, _REDUCTIONS.get(case.reduction, "SUM"))
        match case.kind:
            case "all_reduce":
                return lambda: comm.Allreduce(send_buffer, receive_buffer, op)
            case "all_gather":
                return lambda: comm.Allgather(send_buffer, receive_buffer)
            case "reduce_scatter":
                full_operand = _typed(memory.operand)
                if in_place:  # MPI writes the result to the start of the operand, not to this rank's offset
                    memory.result = memory.operand[: case.result_count]
                    return lambda: comm.Reduce_scatter_block(self._mpi.IN_PLACE, full_operand, op)
                return lambda: comm.Reduce_scatter_block(full_operand, receive_buffer, op)
            case "broadcast":
                return lambda: comm.Bcast(receive_buffer, case.root)
            case "reduce":
                is_root = comm.rank == case.root
                source = send_buffer if is_root else _typed(memory.operand)
                return lambda: comm.Reduce(source, receive_buffer if is_root else None, op, case.root)
            case "all_to_all":
                return lambda: comm.Alltoall(send_buffer, receive_buffer)
            case _:
                after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
                return lambda: comm.Sendrecv(send_buffer, after, recvbuf=receive_buffer, source=before)

    def close(self, error: BaseException | None = None) -> None:
        """Free the communicators and finalize MPI.

        If this process alone failed, MPI is not finalized because that would wait for the other processes. The launcher
        ends them.
        """
        if error and not isinstance(error, UsageError):
            return
        for comm in self._comms.values():
            comm.Free()
        self._mpi.Finalize()


class _Memory:
    """Operand and result of this rank; in-place calls share one buffer."""

    def __init__(self, case: Case, member: int, in_place: bool) -> None:
        dtype = DTYPES[case.dtype]
        size = max(case.operand_count, case.result_count)
        self._buffer, self._values = np.zeros(size, dtype), random_operand(case, member)
        source, target = case.offsets(member) if in_place else (0, 0)
        self.operand = self._buffer[source : source + case.operand_count]
        self.result = (
            self._buffer[target : target + case.result_count] if in_place else np.zeros(case.result_count, dtype)
        )
        self.fill()

    def fill(self) -> None:
        """Restore the operand, which a call may have overwritten."""
        self.operand[...] = self._values


def _typed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """View an array of narrow floats, which MPI does not have, as bytes. Returns other arrays unchanged."""
    return array.view(np.uint8) if array.itemsize == 2 else array
