"""The writes to each storage: one item writes all bytes, or several items write one part each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from meshgen.errors import Diagnostic
from meshgen.runtime.plan import MOST_PARTS, Buffer, Schedule

UNWRITTEN = ("input", "constant", "given")  # kinds of buffers that are set before the step, so that no item writes them


class Write(NamedTuple):
    """A write of bytes [start, stop) of the arena by an item, as one of its result buffers."""

    start: int
    stop: int
    item: int
    buffer: int


Writes = Mapping[int, Sequence[Write]]  # storage -> its writes, in order of their byte offsets


def writes_of(plan: Schedule) -> Writes:
    by_storage: dict[int, list[Write]] = {}
    for index, item in enumerate(plan.items):
        for b in item.writes:
            buffer = plan.buffers[b]
            by_storage.setdefault(buffer.storage, []).append(Write(buffer.offset, buffer.end, index, b))
    return {
        storage: sorted(writes, key=lambda write: (write.start, write.item)) for storage, writes in by_storage.items()
    }


def write_faults(plan: Schedule, writes: Writes, carried: frozenset[int]) -> Iterator[Diagnostic]:
    """Yield errors: writes of buffers that are set before the step, overlapping writes, storages with too many parts.

    Args:
        carried: buffers of the region that it may overwrite, if `plan` is the body of a scan.
    """
    for storage, storage_writes in writes.items():
        for write in storage_writes:
            item, buffer = plan.items[write.item], plan.buffers[write.buffer]
            if buffer.kind in UNWRITTEN and not (buffer.kind == "given" and buffer.storage in carried):
                yield _write_fault(
                    f"item {write.item} '{item.label}' overwrites {buffer.kind} {write.buffer} '{buffer.name}'"
                )
        for first, second in itertools.pairwise(storage_writes):
            if second.start < first.stop or second.start == first.start:
                label, name = plan.items[second.item].label, plan.buffers[second.buffer].name
                yield _write_fault(
                    f"items {first.item} and {second.item} '{label}' both write buffer {second.buffer} '{name}'"
                )
        if len(storage_writes) > MOST_PARTS:
            name = plan.buffers[storage].name
            yield _write_fault(
                f"buffer {storage} '{name}' is written in {len(storage_writes)} parts; the limit is {MOST_PARTS}"
            )


def makers(buffer: Buffer, writes: Writes) -> tuple[list[int], int]:
    """Return the items that write bytes of a buffer, and the number of bytes that no item writes."""
    candidates = writes.get(buffer.storage, ())[:MOST_PARTS]
    if len(candidates) == 1 and candidates[0].start <= buffer.offset and buffer.end <= candidates[0].stop:
        return [candidates[0].item], 0
    parts = [(min(w.stop, buffer.end) - max(w.start, buffer.offset), w.item) for w in candidates]
    overlapping = [(nbytes, item) for nbytes, item in parts if nbytes > 0]
    return [item for _, item in overlapping], max(0, buffer.type.nbytes - sum(nbytes for nbytes, _ in overlapping))


def _write_fault(text: str) -> Diagnostic:
    return Diagnostic("MG0402", text)
