"""Control flow on GPUs: items that can be issued without a decision of the host, and parallel copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from meshgen.ir.predicates import is_control, is_scan
from meshgen.runtime.control_flow import Move
from meshgen.runtime.cuda.frames import Frame
from meshgen.runtime.plan import Item, Schedule, aligned


class Copy(NamedTuple):
    """A copy of bytes within each device, with source and target addresses by rank."""

    source: Mapping[int, int]
    target: Mapping[int, int]
    nbytes: int


def is_decided(item: Item) -> bool:
    """Whether an item can be issued without reading a value from the device: scans can, loops and branches cannot."""
    return not is_control(item) or is_scan(item)


def streams_of(plan: Schedule) -> set[int]:
    """Return the indices of the streams that the items of a schedule and of its regions use."""
    inner = (streams_of(region) for item in plan.items for region in item.regions)
    return {item.stream for item in plan.items}.union(*inner)


def staged_bytes(plan: Schedule) -> int:
    """Return the bytes of the largest parallel copy in a schedule: all results of a loop's body or of a branch."""
    most_bytes = 0
    for item in plan.items:
        if is_control(item):
            carried_bytes = sum(
                aligned(region.buffers[n].type.nbytes) for region in item.regions[-1:] for n in region.outputs
            )
            most_bytes = max(most_bytes, carried_bytes, *map(staged_bytes, item.regions))
    return most_bytes


def copies_of(move: Move[Frame]) -> list[Copy]:
    """Return the device copies that implement a `Move` instruction."""
    source, target = move.source, move.target
    pairs = zip(move.sources, move.targets, strict=True)
    return [Copy(source.addresses(a), target.addresses(b), target.plan.buffers[b].type.nbytes) for a, b in pairs]


def next_values(frame: Frame) -> list[Copy]:
    """Return the copies that store the next value of each persistent donated input in the input's memory.

    A result that shares the bytes of its input needs no copy.
    """
    plan = frame.plan
    pairs = [
        (argument, result)
        for argument, result in plan.donated.items()
        if plan.buffers[argument].storage in frame.external
    ]
    return [
        Copy(frame.addresses(result), frame.addresses(argument), plan.buffers[argument].type.nbytes)
        for argument, result in pairs
        if frame.addresses(result) != frame.addresses(argument) and plan.buffers[argument].type.nbytes
    ]


def overwritten_results(frame: Frame) -> list[int]:
    """Return the output buffers in the memory of a donated argument that the end of a step overwrites.

    The end of a step writes the argument's next value to this memory, so these outputs must be copied out before.
    """
    written = [copy.target for copy in next_values(frame)]
    storages = {
        frame.plan.buffers[argument].storage for argument in frame.plan.donated if frame.addresses(argument) in written
    }
    return [buffer for buffer in dict.fromkeys(frame.plan.outputs) if frame.plan.buffers[buffer].storage in storages]


def in_order(copies: Sequence[Copy], rank: int, staging: int) -> Iterator[tuple[int, int, int]]:
    """Yield copies (source, target, bytes) of one rank that, in this order, have the effect of a parallel copy.

    If a copy overwrites the source of another copy, all copies go through the memory at `staging`.
    """
    rank_copies = [(source[rank], target[rank], nbytes) for source, target, nbytes in copies if nbytes]
    pending = [copy for copy in rank_copies if copy[0] != copy[1]]
    if not any(_is_read_by_another(pending, index) for index in range(len(pending))):
        yield from pending
        return
    staged: list[int] = []
    for source, _, nbytes in pending:
        staged.append(staging)
        yield source, staging, nbytes
        staging += aligned(nbytes)
    for staged_source, (_, target, nbytes) in zip(staged, pending, strict=True):
        yield staged_source, target, nbytes


def _is_read_by_another(copies: Sequence[tuple[int, int, int]], index: int) -> bool:
    """Whether the target of a copy overlaps the source of another copy."""
    _, target, nbytes = copies[index]
    other_copies = (copy for position, copy in enumerate(copies) if position != index)
    return any(source < target + nbytes and target < source + size for source, _, size in other_copies)
