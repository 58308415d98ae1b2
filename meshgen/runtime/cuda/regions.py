"""Control flow on GPUs: items that can be issued without the host's decision, and parallel copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from meshgen.ir.predicates import is_control, is_scan
from meshgen.runtime.control_flow import Move
from meshgen.runtime.cuda.frames import Frame
from meshgen.runtime.plan import Item, Schedule, aligned


class Copy(NamedTuple):
    """Bytes from one place of a device to another: addresses by rank."""

    source: Mapping[int, int]
    target: Mapping[int, int]
    nbytes: int


def is_decided(item: Item) -> bool:
    """Whether an item is static: no control flow except scans."""
    return not is_control(item) or is_scan(item)


def streams_of(plan: Schedule) -> set[int]:
    """The streams that its items run on."""
    inner = (streams_of(region) for item in plan.items for region in item.regions)
    return {item.stream for item in plan.items}.union(*inner)


def staged_bytes(plan: Schedule) -> int:
    """The most bytes that one parallel copy of control flow moves: of what a loop or scan carries, which it also reads."""
    found = 0
    for item in plan.items:
        if is_control(item):
            own = sum(aligned(region.buffers[n].type.nbytes) for region in item.regions[-1:] for n in region.outputs)
            found = max(found, own, *map(staged_bytes, item.regions))
    return found


def copies_of(move: Move[Frame]) -> list[Copy]:
    """Sources and targets, with the bytes of the targets."""
    source, target = move.source, move.target
    pairs = zip(move.sources, move.targets, strict=True)
    return [Copy(source.addresses(a), target.addresses(b), target.plan.buffers[b].type.nbytes) for a, b in pairs]


def next_values(frame: Frame) -> list[Copy]:
    """Copies of results to the inputs donated to them, for the next step, where they do not share bytes."""
    plan = frame.plan
    pairs = [(own, other) for own, other in plan.donated.items() if plan.buffers[own].storage in frame.external]
    return [
        Copy(frame.addresses(other), frame.addresses(own), plan.buffers[own].type.nbytes)
        for own, other in pairs
        if frame.addresses(other) != frame.addresses(own) and plan.buffers[own].type.nbytes
    ]


def overwritten_results(frame: Frame) -> list[int]:
    """The results, by buffer, in the memory of an argument to which the end of a step copies its next value."""
    written = [copy.target for copy in next_values(frame)]
    storages = {frame.plan.buffers[own].storage for own in frame.plan.donated if frame.addresses(own) in written}
    return [number for number in dict.fromkeys(frame.plan.outputs) if frame.plan.buffers[number].storage in storages]


def in_order(copies: Sequence[Copy], rank: int, staging: int) -> Iterator[tuple[int, int, int]]:
    """A sequence of copies (source, target, bytes) on a rank with the effect of a parallel copy.

    They go through `staging` where one writes what another one reads.
    """
    own = [(source[rank], target[rank], nbytes) for source, target, nbytes in copies if nbytes]
    moved = [copy for copy in own if copy[0] != copy[1]]
    if not any(_is_read_by_another(moved, number) for number in range(len(moved))):
        yield from moved
        return
    places: list[int] = []
    for source, _, nbytes in moved:
        places.append(staging)
        yield source, staging, nbytes
        staging += aligned(nbytes)
    for place, (_, target, nbytes) in zip(places, moved, strict=True):
        yield place, target, nbytes


def _is_read_by_another(copies: Sequence[tuple[int, int, int]], number: int) -> bool:
    """Whether the target of a copy has bytes of the source of another one."""
    _, target, nbytes = copies[number]
    others = (copy for place, copy in enumerate(copies) if place != number)
    return any(source < target + nbytes and target < source + size for source, _, size in others)
