"""The communicators of a module's ranks: one of all of them, and one per group of each list of axes that a call of NCCL names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from meshgen.ccl.collective import group_of
from meshgen.ccl.nccl_types import NO_COLOR, Result
from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.mesh import Mesh
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.device import Device

Axes = tuple[str, ...]


class Communicators:
    """Made before the first step, in one order on all ranks. The rank of a device in a group is its place in it."""

    def __init__(self, api: Api, devices: Sequence[Device], calls: Iterable[tuple[Mesh, int, Axes]]) -> None:
        """`calls`: of all calls of NCCL the mesh, the rank of its first device, and the axes.

        Raises:
            RuntimeFailure: MG0604, NCCL fails.
            MissingError: MG0602, there is no NCCL.
        """
        self._api = api
        self.world: list[Any] = self._made(devices) if len(devices) > 1 else []  # a device alone needs none
        self._by_axes: dict[tuple[Axes, int], Any] = {}
        for mesh, first, axes in calls:
            self._by_axes |= {(axes, rank): comm for rank, comm in self._split(mesh, first, axes, devices)}

    def of(self, axes: Axes, rank: int) -> Any:
        """The communicator of a rank's group along the axes."""
        return self._by_axes[axes, rank]

    def look(self) -> None:
        """Raises RuntimeFailure MG0604 where NCCL has noticed that a peer is lost; what is under way is ended then."""
        for comm in self._all():
            result = Result(self._api.comm("ncclCommGetAsyncError", comm))
            if result not in (Result.ncclSuccess, Result.ncclInProgress):
                self.abort()
                raise RuntimeFailure(
                    Diagnostic("MG0604", f"NCCL has lost a peer: {self._api.nccl.ncclGetErrorString(result)}")
                )

    def close(self) -> None:
        for comm in self._all():
            self._api.comm("ncclCommDestroy", comm)

    def abort(self) -> None:
        """End what is under way; nothing else may be called then."""
        for comm in self._all():
            self._api.comm("ncclCommAbort", comm)

    def _all(self) -> list[Any]:
        return [*self._by_axes.values(), *self.world]

    def _made(self, devices: Sequence[Device]) -> list[Any]:
        id_ = self._api.comm("ncclGetUniqueId")
        self._api.comm("ncclGroupStart")
        found: list[Any] = []
        for rank, device in enumerate(devices):
            device.use()
            found.append(self._api.comm("ncclCommInitRank", len(devices), id_, rank, "all ranks"))
        self._api.comm("ncclGroupEnd")
        return found

    def _split(self, mesh: Mesh, first: int, axes: Axes, devices: Sequence[Device]) -> list[tuple[int, Any]]:
        """Of the ranks of a mesh: the color of a group is its first device, the key a device's place in it. All ranks take part."""
        found: list[tuple[int, Any]] = []
        self._api.comm("ncclGroupStart")
        for rank, device in enumerate(devices):
            device.use()
            if not first <= rank < first + mesh.size:
                self._api.comm("ncclCommSplit", self.world[rank], NO_COLOR, 0, "")
                continue
            members = [first + each for each in group_of(mesh, rank - first, axes)]
            name = f"axes {', '.join(axes)}, group of rank {members[0]}"
            comm = self._api.comm("ncclCommSplit", self.world[rank], members[0], members.index(rank), name)
            found.append((rank, comm))
        self._api.comm("ncclGroupEnd")
        return found
