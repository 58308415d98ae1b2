"""Proof that a schedule has no race and no deadlock, independent of the scheduler.

Happens-before is the transitive closure of stream order and events. When an item starts, the items that are done on a
stream are all items of this stream up to some index. One index per stream and item (a vector clock) therefore
represents the relation, and the proof takes time proportional to the size of the schedule. It shows the following.
  (i)   Every read happens after the write of its buffer, or after the writes of all its parts.
  (ii)  Two accesses of overlapping bytes are ordered if one of them is a write, and no write destroys bytes that are
  read
        later. Inputs are not overwritten, unless they are donated to the result that has their bytes. A launch may
        overwrite its own operand if its op allows it (`runtime/in_place.py`) and nothing else reads the operand later.
  (iii) The collectives of a communicating stream, and control flow that communicates, form one chain, equal on all
  ranks.
        Collectives of two streams start in item order (`Api.order_collectives`), so the first unfinished one has
        started
        on all ranks.
  (iv)  Every event is recorded before an item waits for it.
Regions are steps, which are proven separately.

Source: Mattern, "Virtual Time and Global States of Distributed Systems", 1989.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from meshgen.errors import Diagnostic, ScheduleError
from meshgen.ir.predicates import is_scan
from meshgen.mesh import Mesh
from meshgen.runtime.in_place import updates
from meshgen.runtime.plan import COMMUNICATION, MOST_PARTS, NETWORK, STREAMS, Buffer, Item, Schedule
from meshgen.runtime.validation.overlaps import Clock, Use, conflicts
from meshgen.runtime.validation.structure import MAX_FAULTS, structure_faults
from meshgen.runtime.writes import UNWRITTEN, Writes, makers, write_faults, writes_of

AT_ONCE = (COMMUNICATION, NETWORK)  # streams that communicate: at any time, each of them may run one collective


def check(plan: Schedule, mesh: Mesh) -> None:
    """Raise ScheduleError with all errors if the schedule can deadlock (MG0401) or have a race (MG0402)."""
    if faults := structure_faults(plan, mesh) or _order_faults(plan):
        raise ScheduleError(*faults)


def carried_by(item: Item, region: Schedule) -> frozenset[int]:
    """Return the inputs that a scan's body may overwrite: carried values, and rows of results."""
    pairs = zip(region.inputs, region.outputs, strict=False) if is_scan(item) else ()
    return frozenset(buffer for buffer, result in pairs if region.buffers[result].storage == buffer)


def _order_faults(plan: Schedule, carried: frozenset[int] = frozenset()) -> list[Diagnostic]:
    """Return errors for possible deadlocks and races in a step and in its regions.

    Each region is proven as a step.

    Args:
        carried: buffers of the region that it may overwrite, if `plan` is the body of a scan.
    """
    order, faults = happens_before(plan.items)
    faults += chain_faults(plan.items, order)
    faults += _race_faults(plan, order, carried)
    for item in plan.items:
        for region in item.regions:
            inside = _order_faults(region, carried_by(item, region))
            faults += [replace(f, message=f"in '{item.label}': {f.message}") for f in inside]
    return faults[:MAX_FAULTS]


class Order(NamedTuple):
    """The happens-before relation of a step, as a vector clock per item.

    When an item starts, all items up to `done[item][stream]` of each stream are done. The index -1 means no item.
    """

    streams: Sequence[int]
    done: Sequence[Clock]

    def is_before(self, first: int, second: int) -> bool:
        """Whether item `first` is always done when item `second` starts."""
        return self.done[second][self.streams[first]] >= first


def happens_before(items: Sequence[Item]) -> tuple[Order, list[Diagnostic]]:
    """Return the happens-before relation of items, and errors in their events (rule iv)."""
    streams = [item.stream for item in items]
    done: list[Clock] = []
    faults: list[Diagnostic] = []
    recorded: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, item in enumerate(items):
        sources = [last[item.stream]] if item.stream in last else []
        sources += [recorded[event] for event in item.waits if event in recorded]
        unknown = (event for event in item.waits if event not in recorded)
        faults += [
            _unrecorded_event(items, index, event) for event in itertools.islice(unknown, MAX_FAULTS - len(faults))
        ]
        clock = [-1] * STREAMS
        for source in sources:
            clock = list(map(max, clock, done[source]))
            clock[streams[source]] = max(clock[streams[source]], source)
        done.append(tuple(clock))
        last[item.stream] = index
        if item.records is not None:
            if item.records in recorded and len(faults) < MAX_FAULTS:
                faults.append(_repeated_event(items, recorded[item.records], index))
            recorded[item.records] = index
    return Order(streams, done), faults[:MAX_FAULTS]


def _repeated_event(items: Sequence[Item], first: int, second: int) -> Diagnostic:
    event = f"event {items[second].records} is recorded by item {first} '{items[first].label}'"
    return Diagnostic("MG0401", f"{event} and again by item {second} '{items[second].label}'")


def _unrecorded_event(items: Sequence[Item], number: int, event: int) -> Diagnostic:
    later = next((n for n, item in enumerate(items) if item.records == event), None)
    where = (
        "no item records" if later is None else f"only item {later} '{items[later].label}' records, which comes later"
    )
    return Diagnostic("MG0401", f"item {number} '{items[number].label}' waits for event {event}, which {where}")


def chain_faults(items: Sequence[Item], order: Order) -> list[Diagnostic]:
    """Return an error for each pair of collectives whose order the schedule does not fix (rule iii).

    Two ranks could run the pair in different orders.
    """
    chains = [
        [n for n, item in enumerate(items) if item.communicates and item.stream != other_stream]
        for other_stream in AT_ONCE
    ]
    pairs = dict.fromkeys(pair for chain in chains for pair in itertools.pairwise(chain))
    return [
        Diagnostic(
            "MG0401",
            f"nothing orders collective {right} '{items[right].label}' after collective {left} '{items[left].label}': two ranks may start them in different orders and deadlock",
        )
        for left, right in pairs
        if not order.is_before(left, right)
    ][:MAX_FAULTS]


def _race_faults(plan: Schedule, order: Order, carried: frozenset[int]) -> list[Diagnostic]:
    writes = writes_of(plan)
    faults = list(itertools.islice(write_faults(plan, writes, carried), MAX_FAULTS))
    faults += itertools.islice(_update_faults(plan, order, writes, carried), MAX_FAULTS)
    faults += _in_place_faults(plan)
    touched: dict[int, list[int]] = {}
    for number, item in enumerate(plan.items):
        for b in (*item.inputs, *item.writes):
            touched.setdefault(plan.buffers[b].storage, [-1] * STREAMS)[item.stream] = number
        faults += [fault for b in item.inputs if (fault := _read_fault(plan, order, writes, number, b))]
    faults += [
        Diagnostic("MG0402", f"output buffer {n} '{plan.buffers[n].name}' is never written")
        for n in plan.outputs
        if plan.buffers[n].kind not in UNWRITTEN and not _is_written(plan.buffers[n], writes)
    ]
    pairs = itertools.islice(conflicts(list(_uses(plan, writes, touched)), order.done), MAX_FAULTS)
    faults += [_overlap_fault(plan, left, right) for left, right in pairs]
    return faults[:MAX_FAULTS]


def _update_faults(plan: Schedule, order: Order, writes: Writes, carried: frozenset[int]) -> Iterator[Diagnostic]:
    """Yield an error for each read of a carried buffer that is not ordered with the write that replaces it (rule ii).

    A read of the old value must end before the write, and a read of the new value must wait for the write.
    """
    for number, item in enumerate(plan.items):
        for b in item.inputs:
            storage = plan.buffers[b].storage
            for write in writes.get(storage, ())[:MOST_PARTS] if storage in carried else ():
                is_own = write.item == number and plan.replaced.get(write.buffer) == storage
                is_before, is_after = order.is_before(number, write.item), order.is_before(write.item, number)
                if not (is_own or (is_before and b != write.buffer) or (is_after and b != storage)):
                    text = f"item {number} '{item.label}' reads buffer {b} '{plan.buffers[b].name}'"
                    writer = f"item {write.item} '{plan.items[write.item].label}'"
                    yield Diagnostic("MG0402", f"{text}, but nothing orders that and {writer}, which overwrites it")


def _in_place_faults(plan: Schedule) -> Iterator[Diagnostic]:
    """Yield an error for each result that is updated in place but does not share the bytes of the updated operand."""
    updated = {name: updates(body) for name, body in plan.kernels.items()}
    for number, item in enumerate(plan.items):
        for position, (first, *_) in updated.get(item.kernel, {}).items():
            operand = item.inputs[plan.kernels[item.kernel].inputs.index(first.operands[0])]
            result = item.outputs[position]
            if plan.replaced.get(result) != plan.buffers[operand].storage:
                names = f"buffer {result} '{plan.buffers[result].name}' in place, but it does not have the bytes of buffer {operand} '{plan.buffers[operand].name}'"
                yield Diagnostic("MG0402", f"item {number} '{item.label}' updates {names}")


def _is_written(buffer: Buffer, writes: Writes) -> bool:
    writers, missing = makers(buffer, writes)
    return not missing and bool(writers or buffer.storage in writes)


def _uses(plan: Schedule, writes: Writes, touched: Mapping[int, Sequence[int]]) -> Iterator[Use]:
    """Yield a `Use` for each storage. If several items write parts of a storage, yield one `Use` per part.

    The bytes of a part may belong to another storage until the part is written.
    """
    never = [-1] * STREAMS
    for n, b in enumerate(plan.buffers):
        if b.storage != n or b.end <= b.offset or b.kind == "given":
            continue
        last, stays = tuple(touched.get(n, never)), b.kind != "temporary" and n not in plan.overwritten_inputs
        parts = writes.get(n, ())
        if not parts:
            yield Use(n, b.offset, b.end, None, last, stays)
        elif len(parts) == 1:
            yield Use(n, b.offset, b.end, parts[0].item, last, stays, plan.replaced.get(parts[0].buffer))
        else:
            nonempty = (w for w in parts if w.start < w.stop)
            yield from (Use(n, w.start, w.stop, w.item, last, stays, plan.replaced.get(w.buffer)) for w in nonempty)


def _read_fault(plan: Schedule, order: Order, writes: Writes, number: int, b: int) -> Diagnostic | None:
    """Return the error of a read of buffer `b` (rule i), or None if it is ordered after all writes of `b`."""
    buffer, item = plan.buffers[b], plan.items[number]
    if buffer.kind in UNWRITTEN:
        return None
    writers, missing = makers(buffer, writes)
    if buffer.storage not in writes or not (writers or not buffer.type.nbytes):
        return Diagnostic(
            "MG0402", f"item {number} '{item.label}' reads buffer {b} '{buffer.name}', which no item writes"
        )
    if missing:
        text = f"item {number} '{item.label}' reads buffer {b} '{buffer.name}', of which no item writes {missing} bytes"
        return Diagnostic("MG0402", text)
    unordered = [writer for writer in writers if not order.is_before(writer, number)]
    if not unordered:
        return None
    return Diagnostic(
        "MG0402",
        f"item {number} '{item.label}' reads buffer {b} '{buffer.name}' without waiting for item {unordered[0]} '{plan.items[unordered[0]].label}', which writes it",
        hint=f"stream {item.stream} must wait for an event that item {unordered[0]} records on stream {plan.items[unordered[0]].stream}",
    )


def _overlap_fault(plan: Schedule, left: Use, right: Use) -> Diagnostic:
    def text(use: Use) -> str:
        writer = "before the step" if use.writer is None else f"by item {use.writer} '{plan.items[use.writer].label}'"
        return (
            f"buffer {use.number} '{plan.buffers[use.number].name}' (bytes {use.start} to {use.end}, written {writer})"
        )

    return Diagnostic("MG0402", f"{text(left)} and {text(right)} share bytes, but may be in use at the same time")
