"""Execution of lowered steps for all ranks of a mesh in one process.

Each rank runs its local steps until it communicates; then all ranks communicate together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshgen.ccl.host import Bytes, HostBuffers, reduced_bytes
from meshgen.ccl.message_queues import Wires
from meshgen.ccl.steps import Group, Lowered, Messages
from meshgen.ccl.transport import Launch, launches
from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.mesh import Mesh


@dataclass(frozen=True)
class Pending:
    """The next communicating step of a rank that runs a collective, and the buffers of this collective.

    Attributes:
        label: the collective's name in error messages.
    """

    launch: Launch
    memory: HostBuffers
    label: str = ""


def run_lowered(
    lowered: Sequence[Lowered], buffers: Sequence[HostBuffers], mesh: Mesh, wires: Wires, first_rank: int = 0
) -> None:
    """Run one collective on all ranks of a mesh.

    Args:
        lowered, buffers: the steps and the buffers of each rank, in order of rank.
        first_rank: world rank of the mesh's first device.
    Raises:
        RuntimeFailure: MG0604, the ranks deadlock.
    """
    running = [launches(steps, memory) for steps, memory in zip(lowered, buffers, strict=True)]
    while any(now := [next(steps, None) for steps in running]):
        pending = [Pending(launch, memory) if launch else None for launch, memory in zip(now, buffers, strict=True)]
        communicate(pending, mesh, wires, first_rank)


def communicate(now: Sequence[Pending | None], mesh: Mesh, wires: Wires, first_rank: int = 0) -> None:
    """Run the next communicating step of all ranks of a mesh.

    Args:
        now: the communicating step of each rank, or None for a rank that has finished.
    Raises:
        RuntimeFailure: MG0604, the ranks deadlock.
    """
    rank_launches, buffers = (
        [pending and pending.launch for pending in now],
        [pending.memory for pending in now if pending],
    )
    messages = [launch for launch in rank_launches if isinstance(launch, Messages)]
    if len(messages) == len(now):
        _deliver(messages, buffers, wires, first_rank)
        return
    for calls in zip(*_agreed(rank_launches), strict=True):
        for members in mesh.groups(calls[0].axes):
            _run_group([calls[rank] for rank in members], [buffers[rank] for rank in members])


def _agreed(now: Sequence[Launch | None]) -> list[tuple[Group, ...]]:
    """Return the NCCL calls of each rank.

    Raises RuntimeFailure MG0604 if ranks call NCCL differently, which would deadlock.
    """
    calls = [launch for launch in now if isinstance(launch, tuple)]
    signatures = {
        tuple((c.kind, c.reduction, c.dtype, c.count, c.axes, c.root) for c in rank_calls) for rank_calls in calls
    }
    if len(calls) < len(now) or len(signatures) > 1:
        raise RuntimeFailure(Diagnostic("MG0604", "ranks take part in different calls of NCCL; they would deadlock"))
    return calls


def _run_group(steps: Sequence[Group], buffers: Sequence[HostBuffers]) -> None:
    """Run one NCCL call on all members of a group. All results are computed before the first one is written."""
    parts = [memory.bytes_of(step.source) for step, memory in zip(steps, buffers, strict=True)]
    results = group_results(steps[0], parts)
    for step, memory, content in zip(steps, buffers, results, strict=True):
        if content is not None:
            memory.bytes_of(step.target)[...] = content


def group_results(step: Group, parts: Sequence[Bytes]) -> list[Bytes | None]:
    """Return the result of each member of a group as bytes, or None for members without a result.

    Args:
        parts: the operands of all members, in group order.
    """
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
            return [total if index == step.root else None for index in range(count)]


def _deliver(steps: Sequence[Messages], buffers: Sequence[HostBuffers], wires: Wires, first_rank: int) -> None:
    """Run all sends, then all receives."""
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
