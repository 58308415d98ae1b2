"""A transport in host memory for ranks in separate processes, which exchange data in messages of `World`.

All element types are sent as bytes. Reductions gather all operands and reduce them in group order, so results have the
same bits as ranks that are simulated in one process. The transport is for correctness only: an all_reduce moves as many
bytes as an all_gather.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshgen.ccl.collective import group_of
from meshgen.ccl.host import Bytes, HostBuffers
from meshgen.ccl.local_transport import group_results
from meshgen.ccl.steps import Group, Messages
from meshgen.ccl.world import World
from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.mesh import Mesh

# Bytes of the header before the elements of a call. The header is a text that describes the call, padded with blanks.
_HEADER_BYTES = 256


class Processes:
    """The `Transport` of this process's rank.

    Attributes:
        mesh, rank: the mesh to which this process belongs, and the rank of this process in the mesh.
    """

    def __init__(self, world: World, meshes: Sequence[Mesh]) -> None:
        """Map the rank of this process to a device of `meshes`, which must be all meshes of the program."""
        self.world = world
        self.first_rank: dict[str, int] = {}
        total = 0
        for mesh in meshes:
            self.first_rank[mesh.name] = total
            total += mesh.size
        assert total == world.size, "the number of processes is checked when a module is loaded"
        self.mesh = next(m for m in reversed(meshes) if self.first_rank[m.name] <= world.rank)
        self.rank = world.rank - self.first_rank[self.mesh.name]

    @property
    def ranks(self) -> range:
        """Return the world ranks of all devices of this process's mesh."""
        first = self.first_rank[self.mesh.name]
        return range(first, first + self.mesh.size)

    def groups(self, calls: Sequence[Group], memory: HostBuffers) -> None:
        """Run NCCL calls in order."""
        for call in calls:
            members = [self.ranks[member] for member in group_of(self.mesh, self.rank, call.axes)]
            index = members.index(self.world.rank)
            result = group_results(call, self._gathered(call, members, memory.bytes_of(call.source)))[index]
            if result is not None:
                memory.bytes_of(call.target)[...] = result

    def messages(self, step: Messages, memory: HostBuffers) -> None:
        """Send all messages of the step, then wait for all receives."""
        for message in step.sends:
            self.world.send(message.peer, "message", memory.bytes_of(message.box).tobytes())
        contents = self.world.receive([(message.peer, "message") for message in step.receives])
        for message, content in zip(step.receives, contents, strict=True):
            target = memory.bytes_of(message.box)
            if len(content) != target.size:
                text = f"rank {message.peer} sends {len(content)} bytes to rank {self.world.rank}, which expects {target.size}"
                raise RuntimeFailure(Diagnostic("MG0604", text))
            target[...] = np.frombuffer(content, np.uint8)

    def choices(self, number: int) -> list[int]:
        """Exchange one integer between all ranks of the mesh, and return the integer of each rank.

        Args:
            number: the integer of this rank.
        """
        contents = self.world.all_gather(f"choice/{self.mesh.name}", str(number).encode(), self.ranks)
        return [int(content) for content in contents]

    def _gathered(self, call: Group, members: Sequence[int], source: Bytes) -> list[Bytes]:
        """Return the operand of each member as bytes. Raises RuntimeFailure MG0604 if the members' calls differ."""
        header = f"{call.kind} {call.reduction} {call.count} {call.dtype} {call.root}".encode().ljust(_HEADER_BYTES)
        name = f"group/{self.mesh.name}/{','.join(call.axes)}"
        contents = self.world.all_gather(name, header + source.tobytes(), members)
        headers = {rank: bytes(content[:_HEADER_BYTES]) for rank, content in zip(members, contents, strict=True)}
        if len(set(headers.values())) > 1:
            raise RuntimeFailure(Diagnostic("MG0604", f"ranks call NCCL differently: {_headers_text(headers)}"))
        return [np.frombuffer(content, np.uint8, offset=_HEADER_BYTES) for content in contents]


def _headers_text(texts: Mapping[int, bytes]) -> str:
    return "; ".join(f"rank {rank}: {text.decode().strip()}" for rank, text in texts.items())
