"""Writers of the bytes of a storage: one item all of them, or several items a part each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from meshgen.errors import Diagnostic
from meshgen.runtime.plan import MOST_PARTS, Buffer, Schedule

UNWRITTEN = ("input", "constant", "given")  # buffers that nothing in the step writes


class Write(NamedTuple):
    """Bytes [start, stop) of the arena that an item writes, and as which buffer."""

    start: int
    stop: int
    item: int
    buffer: int


Writes = Mapping[int, Sequence[Write]]  # by storage, in the order of their bytes


def writes_of(plan: Schedule) -> Writes:
    found: dict[int, list[Write]] = {}
    for number, item in enumerate(plan.items):
        for b in item.writes:
            buffer = plan.buffers[b]
            found.setdefault(buffer.storage, []).append(Write(buffer.offset, buffer.end, number, b))
    return {storage: sorted(writes, key=lambda write: (write.start, write.item)) for storage, writes in found.items()}


def write_faults(plan: Schedule, writes: Writes, carried: frozenset[int]) -> Iterator[Diagnostic]:
    """Faults: writes of buffers that are in place before the step, overlapping writes, and too many parts.

    `carried`: given buffers that may be overwritten.
    """
    for storage, found in writes.items():
        for write in found:
            item, buffer = plan.items[write.item], plan.buffers[write.buffer]
            if buffer.kind in UNWRITTEN and not (buffer.kind == "given" and buffer.storage in carried):
                yield _write_fault(
                    f"item {write.item} '{item.label}' overwrites {buffer.kind} {write.buffer} '{buffer.name}'"
                )
        for first, second in itertools.pairwise(found):
            if second.start < first.stop or second.start == first.start:
                label, name = plan.items[second.item].label, plan.buffers[second.buffer].name
                yield _write_fault(
                    f"items {first.item} and {second.item} '{label}' both write buffer {second.buffer} '{name}'"
                )
        if len(found) > MOST_PARTS:
            name = plan.buffers[storage].name
            yield _write_fault(f"buffer {storage} '{name}' is written in {len(found)} parts; the limit is {MOST_PARTS}")


def makers(buffer: Buffer, writes: Writes) -> tuple[list[int], int]:
    """The items that write bytes of a buffer, and the number of unwritten bytes."""
    found = writes.get(buffer.storage, ())[:MOST_PARTS]
    if len(found) == 1 and found[0].start <= buffer.offset and buffer.end <= found[0].stop:
        return [found[0].item], 0
    parts = [(min(w.stop, buffer.end) - max(w.start, buffer.offset), w.item) for w in found]
    there = [(nbytes, item) for nbytes, item in parts if nbytes > 0]
    return [item for _, item in there], max(0, buffer.type.nbytes - sum(nbytes for nbytes, _ in there))


def _write_fault(text: str) -> Diagnostic:
    return Diagnostic("MG0402", text)
