"""All ranks of a mesh in one process, on lowered steps: each runs until it communicates, then all of them do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshgen.ccl.host import Bytes, HostBuffers, reduced_bytes
from meshgen.ccl.steps import Group, Lowered, Messages
from meshgen.ccl.transport import Launch, launches
from meshgen.ccl.wires import Wires
from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.mesh import Mesh


@dataclass(frozen=True)
class Pending:
    """The next communication of a rank, in the buffers of one of its collectives; `label` is for messages."""

    launch: Launch
    memory: HostBuffers
    label: str = ""


def run_lowered(
    lowered: Sequence[Lowered], buffers: Sequence[HostBuffers], mesh: Mesh, wires: Wires, first_rank: int = 0
) -> None:
    """One collective on all ranks of a mesh, by rank.

    Args:
        first_rank: world rank of the mesh's first device.
    Raises:
        RuntimeFailure: MG0604, ranks deadlock.
    """
    running = [launches(each, memory) for each, memory in zip(lowered, buffers, strict=True)]
    while any(now := [next(each, None) for each in running]):
        pending = [Pending(launch, memory) if launch else None for launch, memory in zip(now, buffers, strict=True)]
        communicate(pending, mesh, wires, first_rank)


def communicate(now: Sequence[Pending | None], mesh: Mesh, wires: Wires, first_rank: int = 0) -> None:
    """Run the next communication of all ranks of a mesh, by rank; None: nothing. As `run_lowered`."""
    planned, buffers = [each and each.launch for each in now], [each.memory for each in now if each]
    messages = [launch for launch in planned if isinstance(launch, Messages)]
    if len(messages) == len(now):
        _deliver(messages, buffers, wires, first_rank)
        return
    for calls in zip(*_agreed(planned), strict=True):
        for members in mesh.groups(calls[0].axes):
            _run_group([calls[rank] for rank in members], [buffers[rank] for rank in members])


def _agreed(now: Sequence[Launch | None]) -> list[tuple[Group, ...]]:
    """The NCCL calls at which all ranks are. Raises RuntimeFailure MG0604 if they differ, which would deadlock."""
    calls = [launch for launch in now if isinstance(launch, tuple)]
    said = {tuple((c.kind, c.reduction, c.dtype, c.count, c.axes, c.root) for c in each) for each in calls}
    if len(calls) < len(now) or len(said) > 1:
        raise RuntimeFailure(Diagnostic("MG0604", "ranks take part in different calls of NCCL; they would deadlock"))
    return calls


def _run_group(steps: Sequence[Group], buffers: Sequence[HostBuffers]) -> None:
    """One call on the members of a group; all results are computed before any is written."""
    parts = [memory.bytes_of(step.source) for step, memory in zip(steps, buffers, strict=True)]
    found = group_results(steps[0], parts)
    for step, memory, content in zip(steps, buffers, found, strict=True):
        if content is not None:
            memory.bytes_of(step.target)[...] = content


def group_results(step: Group, parts: Sequence[Bytes]) -> list[Bytes | None]:
    """The result bytes of each member of a group, from the operands of all; None if it has no result."""
    count = len(parts)
    match step.kind:
        case "broadcast":
            return [parts[step.root].copy()] * count
        case "all_gather":
            return [np.concatenate(parts)] * count
        case "all_to_all":
            return list(np.concatenate([part.reshape(count, -1) for part in parts], axis=1))
        case "all_reduce":
            return [reduced_bytes(parts, step)] * count
        case "reduce_scatter":
            return list(reduced_bytes(parts, step).reshape(count, -1))
        case "reduce":
            total = reduced_bytes(parts, step)
            return [total if number == step.root else None for number in range(count)]


def _deliver(steps: Sequence[Messages], buffers: Sequence[HostBuffers], wires: Wires, first_rank: int) -> None:
    """All sends, then all receives."""
    for rank, step in enumerate(steps):
        for message in step.sends:
            wires.send(first_rank + rank, message.peer, buffers[rank].bytes_of(message.box))
    for rank, step in enumerate(steps):
        for message in step.receives:
            target = buffers[rank].bytes_of(message.box)
            content = wires.receive(message.peer, first_rank + rank)
            if content.size != target.size:
                text = f"rank {message.peer} sends {content.size} bytes to rank {first_rank + rank}, which expects {target.size}"
                raise RuntimeFailure(Diagnostic("MG0604", text))
            target[...] = content
