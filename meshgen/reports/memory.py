"""Device memory of a compiled program: its buffers, and which of them are alive at the peak."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from meshgen.reports.alike import joined, skeleton
from meshgen.reports.tables import Table, bytes_text, render, table_of
from meshgen.runtime.plan import Buffer, Schedule


class Resident(NamedTuple):
    """A buffer: what it holds, how many bytes of the arena it takes, and the line of the program that makes it."""

    name: str
    type: str
    kind: str
    bytes: int
    offset: int
    source: str


@dataclass(frozen=True)
class Memory:
    """Device memory of one rank.

    `largest` are the distinct buffers, largest first. At launch `peak_at` the most bytes are alive at once:
    `live_bytes`, in the buffers `live_at_peak` (largest first); the arena's `peak_bytes` are these and the gaps.
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
        """What notebooks show."""
        return render(memory_table(self), html=True)


def memory_of(plan: Schedule) -> Memory:
    """The buffers of a schedule; views share their storage's bytes and are left out."""
    owners = [b for n, b in enumerate(plan.buffers) if b.storage == n]
    at, live = _peak(plan)
    return Memory(
        plan.arena_bytes,
        sum(b.type.nbytes for b in live),
        tuple(_residents(live)),
        plan.items[at].label if plan.items else "",
        sum(b.type.nbytes for b in owners if b.kind == "input"),
        sum(b.type.nbytes for b in owners if b.kind == "output"),
        tuple(_residents(owners)),
    )


def _residents(buffers: Iterable[Buffer]) -> Iterator[Resident]:
    for b in sorted(buffers, key=lambda b: (-b.type.nbytes, b.offset)):
        yield Resident(b.name, str(b.type), b.kind, b.type.nbytes, b.offset, b.source)


class Lifetime(NamedTuple):
    """A buffer, and the first and last launch in the order of issue at which it is alive."""

    buffer: Buffer
    first: int
    last: int


def lifetimes(plan: Schedule) -> list[Lifetime]:
    """The buffers that own their bytes. Inputs and constants are alive all along, outputs until the end."""
    stays = {b.storage for b in plan.buffers if b.kind in ("input", "constant")}
    born: dict[int, int] = dict.fromkeys(stays, 0)
    last: dict[int, int] = {n: len(plan.items) for n, b in enumerate(plan.buffers) if b.kind != "temporary"}
    for number, item in enumerate(plan.items):
        for buffer in (*item.inputs, *item.writes):
            storage = plan.buffers[buffer].storage
            born.setdefault(storage, number)
            last[storage] = max(last.get(storage, 0), number)
    for result, operand in plan.replaced.items():  # where one ends the other begins: they are the same bytes
        last[operand] = max(born[operand] - 1, born[plan.buffers[result].storage] - 1)
    return [Lifetime(plan.buffers[storage], start, last[storage]) for storage, start in born.items()]


def live_bytes(plan: Schedule) -> list[int]:
    """Bytes that are alive at each launch, in the order of issue."""
    change = [0] * (len(plan.items) + 2)
    for each in lifetimes(plan):
        change[each.first] += each.buffer.type.nbytes
        change[each.last + 1] -= each.buffer.type.nbytes
    return list(itertools.accumulate(change))[: max(len(plan.items), 1)]


def _peak(plan: Schedule) -> tuple[int, list[Buffer]]:
    """The launch at which most bytes are alive in the order of issue, and the buffers that are."""
    totals = live_bytes(plan)
    at = max(range(len(totals)), key=lambda number: (totals[number], -number))
    return at, [each.buffer for each in lifetimes(plan) if each.first <= at <= each.last]


def memory_record(memory: Memory, most: int = 20) -> dict[str, Any]:
    """For `--json`: peaks, and the largest buffers that are alive at the peak."""
    return {
        "peak_memory_bytes": memory.peak_bytes,
        "live_peak_bytes": memory.live_bytes,
        "peak_at": memory.peak_at,
        "live_at_peak": [b._asdict() for b in memory.live_at_peak[:most]],
    }


def residents_alike(memory: Memory) -> list[list[Resident]]:
    """The buffers that are alive at the peak, those that layers repeat together: most bytes first."""
    alike: dict[tuple[str, str, str, str], list[Resident]] = {}
    for each in memory.live_at_peak:
        key = (each.type, each.kind, skeleton(f"'{each.name}'"), skeleton(f"({each.source})"))
        alike.setdefault(key, []).append(each)
    return sorted(alike.values(), key=lambda group: -sum(each.bytes for each in group))


def alike_table(memory: Memory, most: int = 24) -> Table:
    """Where the memory at the peak goes: a row per group of equal buffers."""
    rows: list[tuple[object, ...]] = []
    for group in residents_alike(memory)[:most]:
        total, first = sum(each.bytes for each in group), group[0]
        share = f"{100 * total / memory.live_bytes:.1f} %" if memory.live_bytes else ""
        names = (joined([each.name for each in group]), joined([each.source for each in group]))
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
