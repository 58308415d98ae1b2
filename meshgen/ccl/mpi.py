"""Lowered steps over MPI, one rank per process, in the memory of the host.

Elements travel as bytes, so every element type does; what is reduced is gathered and reduced in group order, so the bits are those
of ranks that are simulated in one process. It is meant for correctness: two ranks that share a core wait milliseconds for each other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from meshgen.ccl.host import Bytes, HostBuffers, reduced_bytes
from meshgen.ccl.steps import Group, Messages
from meshgen.errors import Diagnostic, MissingError, RuntimeFailure
from meshgen.mesh import Mesh

if TYPE_CHECKING:
    from mpi4py import MPI

FAILURE = 4  # exit code of a run-time failure
_PAUSE_SECONDS = 20e-6  # between two looks at whether work is done: lets other ranks of the core run


def world() -> MPI.Intracomm:
    """All processes that `mpiexec` started. Raises MissingError MG0602 without mpi4py."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # mpi4py raises the latter where it finds no library
        text = "ranks in processes of their own need mpi4py and an MPI library"
        raise MissingError(Diagnostic("MG0602", text, hint="pip install 'meshgen[mpi]'")) from error
    return MPI.COMM_WORLD


class Mpi:
    """The ranks of some meshes, one mesh after the other, as the processes of a communicator.

    Attributes:
        mesh: the one that this process belongs to.
        rank: its number in it.
        first_rank: world rank of the first device of each mesh, by name.
    """

    def __init__(self, processes: MPI.Intracomm, meshes: Sequence[Mesh], time_limit: float = 60.0) -> None:
        """Args: time_limit: seconds after which a peer that does not answer is given up."""
        self._world, self._limit = processes, time_limit
        self.first_rank: dict[str, int] = {}
        total = 0
        for mesh in meshes:
            self.first_rank[mesh.name] = total
            total += mesh.size
        if total != processes.size:
            text = f"the program needs {total} ranks, but MPI has started {processes.size}"
            raise MissingError(Diagnostic("MG0603", text, hint=f"start it with mpiexec -n {total}"))
        self.mesh = next(m for m in reversed(meshes) if self.first_rank[m.name] <= processes.rank)
        self.rank = processes.rank - self.first_rank[self.mesh.name]
        self._own = processes.Split(self.first_rank[self.mesh.name], self.rank)
        self._communicators: dict[tuple[str, ...], MPI.Comm] = {}

    def connect(self, axes: Iterable[tuple[str, ...]]) -> None:
        """Make the communicators along these sets of axes; all ranks of the mesh come here together, or wait for each other."""
        for each in sorted(set(axes)):
            self._communicator(each)

    def groups(self, calls: Sequence[Group], memory: HostBuffers) -> None:
        """One call after the other."""
        for call in calls:
            source, target = memory.bytes_of(call.source), memory.bytes_of(call.target)
            self._call(call, self._communicator(call.axes), source, target)

    def messages(self, step: Messages, memory: HostBuffers) -> None:
        """All receives and sends at once."""
        pending = [self._world.Irecv(memory.bytes_of(m.box), m.peer) for m in step.receives]
        pending += [self._world.Isend(memory.bytes_of(m.box), m.peer) for m in step.sends]
        for request in pending:
            self._wait(request, "a message")

    def poll(self) -> None:
        """Work is done when its call returns; a peer that does not answer is seen there."""

    def abort(self) -> None:
        """End all processes."""
        self._world.Abort(FAILURE)

    def _communicator(self, axes: tuple[str, ...]) -> MPI.Comm:
        """Of the rank's group along the axes."""
        if axes not in self._communicators:
            index = self.mesh.index(self.rank, axes)
            color = next(n for n, group in enumerate(self.mesh.groups(axes)) if self.rank in group)
            self._communicators[axes] = self._own.Split(color, index)
        return self._communicators[axes]

    def _call(self, call: Group, members: MPI.Comm, source: Bytes, target: Bytes) -> None:
        match call.kind:
            case "broadcast":
                content = source.copy() if members.rank == call.root else np.empty_like(target)
                self._wait(members.Ibcast(content, call.root), call.kind)
                target[...] = content
            case "all_gather":
                self._wait(members.Iallgather(source, target), call.kind)
            case "all_to_all":
                self._wait(members.Ialltoall(source, target), call.kind)
            case "reduce_scatter":
                parts = np.empty((members.size, target.size), np.uint8)
                self._wait(members.Ialltoall(source, parts), call.kind)
                target[...] = reduced_bytes(list(parts), call)
            case "all_reduce":
                parts = np.empty((members.size, source.size), np.uint8)
                self._wait(members.Iallgather(source, parts), call.kind)
                target[...] = reduced_bytes(list(parts), call)
            case "reduce":
                parts = np.empty((members.size, source.size), np.uint8)
                self._wait(members.Igather(source, parts, call.root), call.kind)
                if members.rank == call.root:
                    target[...] = reduced_bytes(list(parts), call)

    def _wait(self, request: Any, what: str) -> None:
        """Until the work is done. Raises RuntimeFailure MG0604 when the time is over."""
        end = time.monotonic() + self._limit
        while not request.Test():
            if time.monotonic() > end:
                text = f"rank {self._world.rank} has waited {self._limit:g} s for {what}: a peer is lost, or does something else"
                raise RuntimeFailure(Diagnostic("MG0604", text))
            time.sleep(_PAUSE_SECONDS)
