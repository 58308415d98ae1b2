"""The NCCL communicators of a module: one of all ranks, and one per replica group along each list of mesh axes in use."""

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
    """The NCCL communicators of a module.

    All ranks create them in the same order, before the first step.

    The rank of a device in a communicator is its index in the replica group.
    """

    def __init__(
        self,
        api: Api,
        devices: Mapping[int, Device],
        calls: Iterable[tuple[Mesh, int, Axes]],
        world: World | None = None,
    ) -> None:
        """Create the communicators, together with all other processes.

        Args:
            devices: the devices of this process, by rank.
            calls: (mesh, world rank of the mesh's first device, axes) of each NCCL call of any rank.
            world: the ranks if this process runs one of them, or None if it runs all ranks.
        Raises:
            RuntimeFailure: MG0604, NCCL fails.
            MissingError: MG0602, NCCL is missing.
        """
        self._api = api
        size = world.size if world else len(devices)
        self.world: dict[int, Any] = (
            self._init_all_ranks(devices, size, world) if size > 1 else {}
        )  # a single device needs no communicator
        self._by_axes: dict[tuple[Axes, int], Any] = {}
        for mesh, first, axes in calls:
            self._by_axes |= {(axes, rank): comm for rank, comm in self._split(mesh, first, axes, devices)}

    def of(self, axes: Axes, rank: int) -> Any:
        """Return the communicator of the replica group along `axes` that contains `rank`."""
        return self._by_axes[axes, rank]

    def fault(self) -> str:
        """Return NCCL's report of a lost peer, or an empty text if no peer is lost."""
        for comm in self._all():
            result = Result(self._api.comm("ncclCommGetAsyncError", comm))
            if result not in (Result.ncclSuccess, Result.ncclInProgress):
                return f"NCCL lost a peer: {self._api.nccl.ncclGetErrorString(result)}"
        return ""

    def close(self) -> None:
        for comm in self._all():
            self._api.comm("ncclCommDestroy", comm)

    def abort(self) -> None:
        """Abort pending operations. The communicators cannot be used afterwards."""
        for comm in self._all():
            self._api.comm("ncclCommAbort", comm)

    def _all(self) -> list[Any]:
        return [*self._by_axes.values(), *self.world.values()]

    def _init_all_ranks(self, devices: Mapping[int, Device], size: int, world: World | None) -> dict[int, Any]:
        """Initialize the communicator of all ranks with the id that rank 0 created."""
        id_ = b"" if world and world.rank else self._api.comm("ncclGetUniqueId")
        if world:
            with world.doing(lambda: "the exchange of NCCL's id"):
                id_ = bytes(world.all_gather("unique id", id_)[0])
        self._api.comm("ncclGroupStart")
        communicators: dict[int, Any] = {}
        for rank, device in devices.items():
            device.use()
            communicators[rank] = self._api.comm("ncclCommInitRank", size, id_, rank, "all ranks")
        self._api.comm("ncclGroupEnd")
        return communicators

    def _split(self, mesh: Mesh, first: int, axes: Axes, devices: Mapping[int, Device]) -> list[tuple[int, Any]]:
        """Create the communicators of a mesh's replica groups by splitting the communicator of all ranks.

        The color of a group is the rank of its first device, and the key is a device's index in the group.
        Ranks of other meshes must take part too, without a color.
        """
        communicators: list[tuple[int, Any]] = []
        self._api.comm("ncclGroupStart")
        for rank, device in devices.items():
            device.use()
            if not first <= rank < first + mesh.size:
                self._api.comm("ncclCommSplit", self.world[rank], NO_COLOR, 0, "")
                continue
            members = [first + member for member in group_of(mesh, rank - first, axes)]
            name = f"axes {', '.join(axes)}, group of rank {members[0]}"
            comm = self._api.comm("ncclCommSplit", self.world[rank], members[0], members.index(rank), name)
            communicators.append((rank, comm))
        self._api.comm("ncclGroupEnd")
        return communicators
