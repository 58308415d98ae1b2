"""The device memory of a compiled program: its buffers, and which of them are live at the peak."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from meshgen.reports.merged_reasons import joined, skeleton
from meshgen.reports.tables import Table, bytes_text, render, table_of
from meshgen.runtime.plan import Buffer, Schedule


class Resident(NamedTuple):
    """A buffer: name, type and kind, bytes and offset in the arena, and the source line that produces its value."""

    name: str
    type: str
    kind: str
    bytes: int
    offset: int
    source: str


@dataclass(frozen=True)
class Memory:
    """Device memory of one rank.

    Attributes:
        peak_bytes: size of the arena, including the gaps between buffers.
        live_bytes: the most bytes that are live at once.
        live_at_peak: the buffers that are live at that time, largest first.
        peak_at: label of the launch at which the most bytes are live.
        largest: the distinct buffers, largest first.
    """

    peak_bytes: int
    live_bytes: int
    live_at_peak: tuple[Resident, ...]
    peak_at: str
    input_bytes: int
    output_bytes: int
    largest: tuple[Resident, ...]

    def __str__(self) -> str:
        return render(memory_table(self))

    def _repr_html_(self) -> str:
        """Return the memory table as HTML, for notebooks."""
        return render(memory_table(self), html=True)


def memory_of(plan: Schedule) -> Memory:
    """Return the memory use of a schedule. Views are left out because they share the bytes of their storage."""
    owners = [b for n, b in enumerate(plan.buffers) if b.storage == n]
    peak_index, live = _peak(plan)
    return Memory(
        plan.arena_bytes,
        sum(b.type.nbytes for b in live),
        tuple(_residents(live)),
        plan.items[peak_index].label if plan.items else "",
        sum(b.type.nbytes for b in owners if b.kind == "input"),
        sum(b.type.nbytes for b in owners if b.kind == "output"),
        tuple(_residents(owners)),
    )


def _residents(buffers: Iterable[Buffer]) -> Iterator[Resident]:
    for b in sorted(buffers, key=lambda b: (-b.type.nbytes, b.offset)):
        yield Resident(b.name, str(b.type), b.kind, b.type.nbytes, b.offset, b.source)


class Lifetime(NamedTuple):
    """A buffer with the indices, in issue order, of the first and last launch at which it is live."""

    buffer: Buffer
    first: int
    last: int


def lifetimes(plan: Schedule) -> list[Lifetime]:
    """Return the lifetimes of all buffers except views, which share the bytes of another buffer.

    Inputs and constants are live throughout, outputs until the end.
    """
    permanent = {b.storage for b in plan.buffers if b.kind in ("input", "constant")}
    first: dict[int, int] = dict.fromkeys(permanent, 0)
    last: dict[int, int] = {n: len(plan.items) for n, b in enumerate(plan.buffers) if b.kind != "temporary"}
    for index, item in enumerate(plan.items):
        for buffer in (*item.inputs, *item.writes):
            storage = plan.buffers[buffer].storage
            first.setdefault(storage, index)
            last[storage] = max(last.get(storage, 0), index)
    # After an in-place update, the bytes of the operand belong to the result, from the first write on.
    for result, operand in plan.replaced.items():
        last[operand] = max(first[operand] - 1, first[plan.buffers[result].storage] - 1)
    return [Lifetime(plan.buffers[storage], start, last[storage]) for storage, start in first.items()]


def live_bytes(plan: Schedule) -> list[int]:
    """Return the bytes that are live at each launch, in issue order."""
    change = [0] * (len(plan.items) + 2)
    for lifetime in lifetimes(plan):
        change[lifetime.first] += lifetime.buffer.type.nbytes
        change[lifetime.last + 1] -= lifetime.buffer.type.nbytes
    return list(itertools.accumulate(change))[: max(len(plan.items), 1)]


def _peak(plan: Schedule) -> tuple[int, list[Buffer]]:
    """Return the index of the launch at which the most bytes are live, and the buffers that are live there."""
    totals = live_bytes(plan)
    peak_index = max(range(len(totals)), key=lambda index: (totals[index], -index))
    return peak_index, [
        lifetime.buffer for lifetime in lifetimes(plan) if lifetime.first <= peak_index <= lifetime.last
    ]


def memory_record(memory: Memory, most: int = 20) -> dict[str, Any]:
    """Return the peak figures and the largest buffers that are live at the peak, for `--json`."""
    return {
        "peak_memory_bytes": memory.peak_bytes,
        "live_peak_bytes": memory.live_bytes,
        "peak_at": memory.peak_at,
        "live_at_peak": [b._asdict() for b in memory.live_at_peak[:most]],
    }


def resident_groups(memory: Memory) -> list[list[Resident]]:
    """Group equal buffers that are live at the peak, such as those of repeated layers, and order the groups by
    bytes.
    """
    groups: dict[tuple[str, str, str, str], list[Resident]] = {}
    for resident in memory.live_at_peak:
        key = (resident.type, resident.kind, skeleton(f"'{resident.name}'"), skeleton(f"({resident.source})"))
        groups.setdefault(key, []).append(resident)
    return sorted(groups.values(), key=lambda group: -sum(resident.bytes for resident in group))


def peak_memory_table(memory: Memory, most: int = 24) -> Table:
    """Return a table of the memory at the peak, with a row per group of equal buffers."""
    rows: list[tuple[object, ...]] = []
    for group in resident_groups(memory)[:most]:
        total, first = sum(resident.bytes for resident in group), group[0]
        share = f"{100 * total / memory.live_bytes:.1f} %" if memory.live_bytes else ""
        names = (joined([resident.name for resident in group]), joined([resident.source for resident in group]))
        rows.append((bytes_text(total), share, len(group), names[0], first.type, first.kind, names[1]))
    title = f"Memory: {bytes_text(memory.peak_bytes)} per device, {bytes_text(memory.live_bytes)} alive at {memory.peak_at or 'the start'}"
    return table_of(
        title,
        ("bytes", "share", "count", "buffer", "type", "kind", "from"),
        rows,
        left=("buffer", "type", "kind", "from"),
    )


def memory_table(memory: Memory, most: int = 8) -> Table:
    rows = [(b.name, b.type, b.kind, bytes_text(b.bytes), b.source) for b in memory.live_at_peak[:most]]
    peak = f"{bytes_text(memory.live_bytes)} alive at {memory.peak_at or 'the start'}"
    title = f"Memory: {bytes_text(memory.peak_bytes)} per device, {peak} in {len(memory.live_at_peak)} buffers; the largest:"
    return table_of(title, ("buffer", "type", "kind", "bytes", "from"), rows, left=("type", "kind", "from"))
