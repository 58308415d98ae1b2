"""Proof that a schedule has no race and no deadlock. It knows nothing of how the schedule was made.

Happens-before is the transitive closure of stream order and events, kept as one bit set per item: bit j of
`before[i]` says that item j is surely done when item i starts. Shown are
  (i)   every read comes after the one write of what it reads,
  (ii)  two accesses of overlapping bytes, one of them a write, are ordered, and nothing that is still to be
        read is overwritten,
  (iii) the collectives form one chain, which is the same on all ranks: over all communicators and for each,
  (iv)  every event that is waited for was recorded before.
Control flow that communicates counts as a collective; regions are steps that are proven by themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from meshgen.errors import Diagnostic, ScheduleError
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Item, Schedule
from meshgen.runtime.structure import MAX_FAULTS, structure_faults

IN_PLACE = ("input", "constant", "given")  # buffers that nothing in the step writes


def check(plan: Schedule, mesh: Mesh) -> None:
    """Raise ScheduleError (MG0401 deadlock, MG0402 race) with all faults unless the schedule is proven right."""
    if faults := structure_faults(plan, mesh) or _order_faults(plan):
        raise ScheduleError(*faults)


def _order_faults(plan: Schedule) -> list[Diagnostic]:
    """Of a step and of the regions in it: each is a step of its own, which runs while nothing else communicates."""
    before, faults = happens_before(plan.items)
    faults += chain_faults(plan.items, before)
    faults += _race_faults(plan, before)
    for item in plan.items:
        for region in item.regions:
            faults += [replace(f, message=f"in '{item.label}': {f.message}") for f in _order_faults(region)]
    return faults[:MAX_FAULTS]


def happens_before(items: Sequence[Item]) -> tuple[list[int], list[Diagnostic]]:
    """Per item the bit set of items that are done when it starts, and the faults of its events (iv)."""
    before: list[int] = []
    faults: list[Diagnostic] = []
    recorded: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, item in enumerate(items):
        done = 0
        sources = [last[item.stream]] if item.stream in last else []
        for event in item.waits:
            if event in recorded:
                sources.append(recorded[event])
            else:
                faults.append(_unrecorded(items, number, event))
        for source in sources:
            done |= before[source] | 1 << source
        before.append(done)
        last[item.stream] = number
        if item.records is not None:
            if item.records in recorded:
                faults.append(
                    Diagnostic(
                        "MG0401",
                        f"event {item.records} is recorded by item {recorded[item.records]} '{items[recorded[item.records]].label}' and again by item {number} '{item.label}'",
                    )
                )
            recorded[item.records] = number
    return before, faults[:MAX_FAULTS]


def _unrecorded(items: Sequence[Item], number: int, event: int) -> Diagnostic:
    later = next((n for n, item in enumerate(items) if item.records == event), None)
    where = "nobody records" if later is None else f"item {later} '{items[later].label}' records only later"
    return Diagnostic("MG0401", f"item {number} '{items[number].label}' waits for event {event}, which {where}")


def chain_faults(items: Sequence[Item], before: Sequence[int]) -> list[Diagnostic]:
    """Collectives that are not ordered among each other (iii): ranks could run them in different orders."""
    chain = [n for n, item in enumerate(items) if item.communicates]
    return [
        Diagnostic(
            "MG0401",
            f"nothing orders collective {right} '{items[right].label}' after collective {left} '{items[left].label}': two ranks may start them in different orders and wait for each other",
        )
        for left, right in itertools.pairwise(chain)
        if not before[right] >> left & 1
    ][:MAX_FAULTS]


@dataclass(frozen=True)
class _Use:
    """Who writes a storage (None: it is in place before the step) and who touches it, as a bit set."""

    number: int
    start: int
    end: int
    writer: int | None
    touched: int
    stays: bool


def _race_faults(plan: Schedule, before: Sequence[int]) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    writers = _writers(plan, faults)
    touched: dict[int, int] = {}
    for number, item in enumerate(plan.items):
        for b in (*item.inputs, *item.writes):
            root = plan.buffers[b].storage
            touched[root] = touched.get(root, 0) | 1 << number
        faults += [fault for b in item.inputs if (fault := _read_fault(plan, before, writers, number, b))]
    faults += [
        Diagnostic("MG0402", f"output buffer {n} '{plan.buffers[n].name}' is never written")
        for n in plan.outputs
        if plan.buffers[n].kind not in IN_PLACE and plan.buffers[n].storage not in writers
    ]
    uses = [
        _Use(n, b.offset, b.end, writers.get(n), touched.get(n, 0), b.kind != "temporary")
        for n, b in enumerate(plan.buffers)
        if b.storage == n and b.end > b.offset and b.kind != "given"
    ]
    faults += _overlap_faults(plan, before, sorted(uses, key=lambda use: (use.start, use.number)))
    return faults[:MAX_FAULTS]


def _writers(plan: Schedule, faults: list[Diagnostic]) -> dict[int, int]:
    """The item that writes each storage; two writers, or one for an input or constant, are faults."""
    writers: dict[int, int] = {}
    for number, item in enumerate(plan.items):
        for b in item.writes:
            buffer = plan.buffers[b]
            if buffer.kind in IN_PLACE:
                faults.append(
                    Diagnostic("MG0402", f"item {number} '{item.label}' overwrites {buffer.kind} {b} '{buffer.name}'")
                )
            if buffer.storage in writers:
                faults.append(
                    Diagnostic(
                        "MG0402",
                        f"items {writers[buffer.storage]} and {number} '{item.label}' both write buffer {b} '{buffer.name}'",
                    )
                )
            writers[buffer.storage] = number
    return writers


def _read_fault(
    plan: Schedule, before: Sequence[int], writers: dict[int, int], number: int, b: int
) -> Diagnostic | None:
    """Rule (i) for one operand."""
    buffer, item = plan.buffers[b], plan.items[number]
    if buffer.kind in IN_PLACE:
        return None
    writer = writers.get(buffer.storage)
    if writer is None:
        return Diagnostic(
            "MG0402", f"item {number} '{item.label}' reads buffer {b} '{buffer.name}', which nobody writes"
        )
    if before[number] >> writer & 1:
        return None
    return Diagnostic(
        "MG0402",
        f"item {number} '{item.label}' reads buffer {b} '{buffer.name}' without waiting for item {writer} '{plan.items[writer].label}', which writes it",
        hint=f"stream {item.stream} must wait for an event that item {writer} records on stream {plan.items[writer].stream}",
    )


def _overlap_faults(plan: Schedule, before: Sequence[int], uses: Sequence[_Use]) -> list[Diagnostic]:
    """Rule (ii): of two storages that share bytes, one is no longer touched when the other is written."""
    faults: list[Diagnostic] = []
    active: list[_Use] = []
    for use in uses:
        active = [other for other in active if other.end > use.start]
        for other in active:
            if not (_is_over(other, use, before) or _is_over(use, other, before)):
                faults.append(_overlap_fault(plan, other, use))
                if len(faults) == MAX_FAULTS:
                    return faults
        active.append(use)
    return faults


def _is_over(use: _Use, other: _Use, before: Sequence[int]) -> bool:
    return not use.stays and other.writer is not None and not use.touched & ~before[other.writer]


def _overlap_fault(plan: Schedule, left: _Use, right: _Use) -> Diagnostic:
    def text(use: _Use) -> str:
        writer = "before the step" if use.writer is None else f"by item {use.writer} '{plan.items[use.writer].label}'"
        return (
            f"buffer {use.number} '{plan.buffers[use.number].name}' (bytes {use.start} to {use.end}, written {writer})"
        )

    return Diagnostic("MG0402", f"{text(left)} and {text(right)} share bytes, but may be in use at the same time")
