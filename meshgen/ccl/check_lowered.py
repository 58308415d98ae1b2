"""Checks that the lowered steps of all ranks match. Mismatched steps would make NCCL hang or corrupt data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from meshgen.ccl.steps import Box, Copy, Group, Lowered, Messages, Reduce, Step, read_and_written
from meshgen.mesh import Mesh

# Maps (sender, receiver) to the element type and the bytes of each message between these two ranks, in send order.
Sizes = dict[tuple[int, int], list[tuple[str, int]]]


def check_lowered(lowered: Sequence[Lowered], mesh: Mesh, first_rank: int = 0) -> list[str]:
    """Return the mismatches between the steps of all ranks of a mesh for one collective, as texts.

    An empty list proves the following:
    - all ranks have the same scratch size, and no step exceeds it;
    - all ranks have the same sequence of communicating steps (`Group` or `Messages`);
    - NCCL calls have equal arguments on all ranks, and their memory is contiguous and of the right length;
    - each send has a matching receive on the peer, and both ranks list them in the same order;
    - the sender and the receiver of a message are in the same communicator.

    Args:
        lowered: the steps of each rank, in order of rank.
        first_rank: world rank of the first device of the mesh.
    """
    sequences = [[s for s in rank_steps.steps if isinstance(s, (Group, Messages))] for rank_steps in lowered]
    faults = (
        []
        if len({rank_steps.scratch_bytes for rank_steps in lowered}) == 1
        else ["ranks have scratch of different sizes"]
    )
    faults += [text for rank, rank_steps in enumerate(lowered) for text in _memory_faults(rank, rank_steps)]
    if len({tuple(type(step) for step in sequence) for sequence in sequences}) > 1:
        return [*faults, "ranks communicate in different steps"]
    for index, steps in enumerate(zip(*sequences, strict=True)):
        calls = [step for step in steps if isinstance(step, Group)]
        step_faults = _call_faults(calls, mesh) if calls else _pair_faults(_messages(steps), mesh, first_rank)
        faults += [f"step {index}: {text}" for text in step_faults]
    return faults


def check_between(senders: Sequence[Lowered], receivers: Sequence[Lowered], first: tuple[int, int]) -> list[str]:
    """Return the mismatches between the sends of one mesh and the receives of another mesh for one transfer, as texts.

    Args:
        senders, receivers: the steps of each rank of the sending and of the receiving mesh.
        first: world rank of the first device of the sending mesh, and of the receiving mesh.
    """
    sides: list[tuple[Sizes, Sizes]] = []
    for lowered, start in zip((senders, receivers), first, strict=True):
        steps = {start + rank: step for rank, rank_steps in enumerate(lowered) for step in _messages(rank_steps.steps)}
        sides.append(_by_pair(steps))
    (sent, received_by_senders), (sent_by_receivers, received) = sides
    faults = [] if not received_by_senders and not sent_by_receivers else ["one side both sends and receives"]
    return faults + list(_unequal(sent, received))


def _messages(steps: Sequence[Step]) -> list[Messages]:
    return [step for step in steps if isinstance(step, Messages)]


def _call_faults(calls: Sequence[Group], mesh: Mesh) -> Iterator[str]:
    """Yield the mismatches between the NCCL calls of all ranks.

    All groups of a mesh have the same size, so the calls must be equal on all ranks, not only within a communicator.
    """
    signatures = {(c.kind, c.reduction, c.dtype, c.count, c.axes, c.root) for c in calls}
    if len(signatures) > 1:
        yield f"ranks call NCCL differently: {sorted(map(str, signatures))}"
    first = calls[0]
    members = mesh.group_size(first.axes)
    if not 0 <= first.root < members:
        yield f"root {first.root} is outside a group of {members} members"
    for rank, call in enumerate(calls):
        if not (call.source.is_contiguous and call.target.is_contiguous):
            yield f"rank {rank} passes non-contiguous memory to NCCL"
        if (call.source.nbytes, call.target.nbytes) != _call_bytes(call, members):
            yield f"rank {rank} passes {call.source} and {call.target} to {call.kind} of {call.count} {call.dtype}"


def _call_bytes(call: Group, members: int) -> tuple[int, int]:
    """Return the bytes that an NCCL call over `members` ranks reads, and the bytes that it writes, on each rank."""
    part = call.count * Box(call.source.buffer, call.dtype, 0, (), ()).itemsize
    return {
        "all_gather": (part, members * part),
        "reduce_scatter": (members * part, part),
        "all_to_all": (members * part, members * part),
    }.get(call.kind, (part, part))


def _pair_faults(steps: Sequence[Messages], mesh: Mesh, first_rank: int) -> Iterator[str]:
    if len({step.axes for step in steps}) > 1:
        yield "ranks send in different communicators"
    if not steps[0].axes:
        return  # The step belongs to a transfer between meshes; `check_between` compares the two sides.
    sent, received = _by_pair({first_rank + rank: step for rank, step in enumerate(steps)})
    yield from _unequal(sent, received)
    group = {first_rank + r: index for index, ranks in enumerate(mesh.groups(steps[0].axes)) for r in ranks}
    for sender, receiver in sent:
        if sender == receiver or group.get(sender) != group.get(receiver):
            yield f"rank {sender} sends to rank {receiver}, which is not another rank of its communicator"


def _by_pair(steps: Mapping[int, Messages]) -> tuple[Sizes, Sizes]:
    """Return the messages that `steps` send, and those that they expect, by (sender, receiver)."""
    sent: Sizes = defaultdict(list)
    received: Sizes = defaultdict(list)
    for rank, step in steps.items():
        for message in step.sends:
            sent[rank, message.peer].append((message.box.dtype, message.box.nbytes))
        for message in step.receives:
            received[message.peer, rank].append((message.box.dtype, message.box.nbytes))
    return sent, received


def _unequal(sent: Sizes, received: Sizes) -> Iterator[str]:
    for pair in sorted({*sent, *received}):
        if sent.get(pair) != received.get(pair):
            yield f"rank {pair[0]} sends {sent.get(pair)} to rank {pair[1]}, which expects {received.get(pair)}"


def _memory_faults(rank: int, lowered: Lowered) -> Iterator[str]:
    """Yield an error for each access outside of scratch, copy between different shapes, and write to an operand."""
    for step in lowered.steps:
        read, written = read_and_written(step)
        for box in (*read, *written):
            if box.buffer.kind == "scratch" and box.byte_end > lowered.scratch_bytes:
                yield f"rank {rank} uses {box.byte_end} bytes of {lowered.scratch_bytes} of scratch"
        if any(box.buffer.kind == "operand" for box in written):
            yield f"rank {rank} writes its operand"
        if isinstance(step, Messages) and not all(box.is_contiguous for box in (*read, *written)):
            yield f"rank {rank} sends or receives non-contiguous memory"
        if isinstance(step, (Copy, Reduce)) and any(box.shape != step.target.shape for box in read):
            yield f"rank {rank} copies or reduces views of different shapes"
