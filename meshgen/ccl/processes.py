"""Lowered steps of one rank in a process of its own, in host memory; data of others arrives in messages.

Elements travel as bytes, so every element type does; what is reduced is gathered and reduced in group order, so the bits are those
of ranks that are simulated in one process. It is for correctness only: an all_reduce moves as many bytes as an all_gather.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshgen.ccl.collective import group_of
from meshgen.ccl.host import Bytes, HostBuffers
from meshgen.ccl.local import group_results
from meshgen.ccl.steps import Group, Messages
from meshgen.ccl.world import World
from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.mesh import Mesh

_SAID_BYTES = 256  # before the elements of a call: what is called, filled up with blanks


class Processes:
    """The `Transport` of this process's rank.

    Attributes:
        mesh, rank: the mesh of the process, and its number in it.
    """

    def __init__(self, world: World, meshes: Sequence[Mesh]) -> None:
        """`meshes`: all of the program, with as many devices as there are ranks."""
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
        """World ranks of the mesh."""
        first = self.first_rank[self.mesh.name]
        return range(first, first + self.mesh.size)

    def groups(self, calls: Sequence[Group], memory: HostBuffers) -> None:
        """One call after the other."""
        for call in calls:
            members = [self.ranks[each] for each in group_of(self.mesh, self.rank, call.axes)]
            number = members.index(self.world.rank)
            result = group_results(call, self._gathered(call, members, memory.bytes_of(call.source)))[number]
            if result is not None:
                memory.bytes_of(call.target)[...] = result

    def messages(self, step: Messages, memory: HostBuffers) -> None:
        """All sends, then all receives."""
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
        """The choices of all ranks of the mesh; `number` is this one's."""
        found = self.world.all_gather(f"choice/{self.mesh.name}", str(number).encode(), self.ranks)
        return [int(each) for each in found]

    def _gathered(self, call: Group, members: Sequence[int], source: Bytes) -> list[Bytes]:
        """The operands of all members. Raises RuntimeFailure MG0604 if their calls differ."""
        said = f"{call.kind} {call.reduction} {call.count} {call.dtype} {call.root}".encode().ljust(_SAID_BYTES)
        name = f"group/{self.mesh.name}/{','.join(call.axes)}"
        found = self.world.all_gather(name, said + source.tobytes(), members)
        texts = {rank: bytes(each[:_SAID_BYTES]) for rank, each in zip(members, found, strict=True)}
        if len(set(texts.values())) > 1:
            raise RuntimeFailure(Diagnostic("MG0604", f"ranks call NCCL differently: {_views(texts)}"))
        return [np.frombuffer(each, np.uint8, offset=_SAID_BYTES) for each in found]


def _views(texts: Mapping[int, bytes]) -> str:
    return "; ".join(f"rank {rank}: {text.decode().strip()}" for rank, text in texts.items())
