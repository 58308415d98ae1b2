"""The communicators of a module's ranks: one of all of them, and one per group of each list of axes of an NCCL call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from meshgen.ccl.collective import group_of
from meshgen.ccl.nccl_types import NO_COLOR, Result
from meshgen.ccl.world import World
from meshgen.mesh import Mesh
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.device import Device

Axes = tuple[str, ...]


class Communicators:
    """Made before the first step, in one order on all ranks. The rank of a device in a group is its index in the group."""

    def __init__(
        self,
        api: Api,
        devices: Mapping[int, Device],
        calls: Iterable[tuple[Mesh, int, Axes]],
        world: World | None = None,
    ) -> None:
        """All processes make theirs together.

        Args:
            devices: of this process, by rank.
            calls: of all calls of NCCL of all ranks the mesh, the rank of its first device, and the axes.
            world: the ranks, one of which is this process's; None: all are.
        Raises:
            RuntimeFailure: MG0604, NCCL fails.
            MissingError: MG0602, NCCL is missing.
        """
        self._api = api
        size = world.size if world else len(devices)
        self.world: dict[int, Any] = (
            self._init_all_ranks(devices, size, world) if size > 1 else {}
        )  # a device alone needs none
        self._by_axes: dict[tuple[Axes, int], Any] = {}
        for mesh, first, axes in calls:
            self._by_axes |= {(axes, rank): comm for rank, comm in self._split(mesh, first, axes, devices)}

    def of(self, axes: Axes, rank: int) -> Any:
        """The communicator of a rank's group along the axes."""
        return self._by_axes[axes, rank]

    def fault(self) -> str:
        """NCCL's report of a lost peer; empty if there is none."""
        for comm in self._all():
            result = Result(self._api.comm("ncclCommGetAsyncError", comm))
            if result not in (Result.ncclSuccess, Result.ncclInProgress):
                return f"NCCL lost a peer: {self._api.nccl.ncclGetErrorString(result)}"
        return ""

    def close(self) -> None:
        for comm in self._all():
            self._api.comm("ncclCommDestroy", comm)

    def abort(self) -> None:
        """Abort pending operations; nothing else may be called afterwards."""
        for comm in self._all():
            self._api.comm("ncclCommAbort", comm)

    def _all(self) -> list[Any]:
        return [*self._by_axes.values(), *self.world.values()]

    def _init_all_ranks(self, devices: Mapping[int, Device], size: int, world: World | None) -> dict[int, Any]:
        """Initialise the communicator of all ranks, with rank 0's id."""
        id_ = b"" if world and world.rank else self._api.comm("ncclGetUniqueId")
        if world:
            with world.doing(lambda: "the exchange of NCCL's id"):
                id_ = bytes(world.all_gather("unique id", id_)[0])
        self._api.comm("ncclGroupStart")
        found: dict[int, Any] = {}
        for rank, device in devices.items():
            device.use()
            found[rank] = self._api.comm("ncclCommInitRank", size, id_, rank, "all ranks")
        self._api.comm("ncclGroupEnd")
        return found

    def _split(self, mesh: Mesh, first: int, axes: Axes, devices: Mapping[int, Device]) -> list[tuple[int, Any]]:
        """Of the ranks of a mesh: the color of a group is its first device, the key a device's place in it. All ranks take part."""
        found: list[tuple[int, Any]] = []
        self._api.comm("ncclGroupStart")
        for rank, device in devices.items():
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
