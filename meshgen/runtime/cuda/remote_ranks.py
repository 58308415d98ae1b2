"""The interface of an executor to the ranks of other processes: their branch decisions, progress and failures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from meshgen.ccl.collective import group_of
from meshgen.ccl.steps import Group, Messages
from meshgen.ccl.world import World, ranks_text
from meshgen.mesh import Mesh
from meshgen.runtime.cuda.collectives import RankWork
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.progress import Progress
from meshgen.runtime.plan import Item


class RemoteRanks:
    """The ranks of all other processes. This process runs one rank, a device of `mesh`."""

    def __init__(self, world: World, mesh: Mesh, first: int, device: Device) -> None:
        """`first` is the global rank of the mesh's first device."""
        self._world, self._mesh, self._first = world, mesh, first
        self._progress = Progress(device)
        self._since, self._last = time.monotonic(), ""

    def note(self, item: Item, works: Mapping[int, RankWork]) -> None:
        """Enqueue a record that this rank has reached the collective `item` in the collective's stream.

        `works` has the lowered steps of each rank.
        """
        work = works[self._world.rank]
        steps = (step for step in work.lowered.steps if isinstance(step, (Group, Messages)))
        self._progress.note(self._label(item, next((step.axes for step in steps), ())), work.stream)

    def choices(self, item: Item, choice: int) -> list[int]:
        """Return the branch that each rank of the mesh chose for `item`; `choice` is the branch of this rank."""
        ranks = range(self._first, self._first + self._mesh.size)
        with self._world.doing(lambda: f"the choice of '{item.located()}'"):
            replies = self._world.all_gather(f"choice/{self._mesh.name}", str(choice).encode(), ranks)
        return [int(reply) for reply in replies]

    def begin(self) -> None:
        """Record that a step begins, which restarts the time-out."""
        self._since, self._last = time.monotonic(), ""

    def look(self, fault: str) -> None:
        """Raise RuntimeFailure MG0609 if a rank is lost.

        A rank is lost if another rank or NCCL (`fault`) reports it, or if the time-out has passed without progress.
        """
        self._world.listen()
        self._world.look()
        label = self._progress.label
        if label != self._last:
            self._since, self._last = time.monotonic(), label
        if time.monotonic() - self._since > self._world.time_out:
            fault = fault or f"it did not end within {self._world.time_out:g} s"
        if fault:
            raise self._world.failure(fault)

    @property
    def label(self) -> str:
        """Return the label of the last collective that this rank has reached."""
        return self._progress.label

    def close(self) -> None:
        self._progress.close()

    def _label(self, item: Item, axes: Sequence[str]) -> str:
        mesh_rank = self._world.rank - self._first
        members = [self._first + rank for rank in group_of(self._mesh, mesh_rank, axes)]
        peers = [rank for rank in members if rank != self._world.rank]
        return f"{item.located(axes)}{f' with {ranks_text(peers)}' if peers else ''}"
