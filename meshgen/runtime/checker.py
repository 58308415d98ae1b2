"""Proof that a schedule has no race and no deadlock. It knows nothing of how the schedule was made.

Happens-before is the transitive closure of stream order and events, kept as one bit set per item: bit j of
`before[i]` says that item j is surely done when item i starts. Shown are
  (i)   every read comes after the one write of what it reads,
  (ii)  two accesses of overlapping bytes, one of them a write, are ordered, and nothing that is still to be
        read is overwritten,
  (iii) the collectives form one chain, which is the same on all ranks: over all communicators and for each,
  (iv)  every event that is waited for was recorded before.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from meshgen.ccl.between import BETWEEN, Ends
from meshgen.ccl.cost import TRANSFERS
from meshgen.errors import Diagnostic, ScheduleError, ShardingError
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ir.infer.inference import verify_node
from meshgen.mesh import Mesh
from meshgen.runtime.plan import ALIGNMENT, COLLECTIVES, KINDS, STREAMS, Item, Schedule, aligned
from meshgen.spec import Sharding

MAX_FAULTS = 20  # of one kind in one error


def check(plan: Schedule, mesh: Mesh) -> None:
    """Raise ScheduleError (MG0401 deadlock, MG0402 race) with all faults unless the schedule is proven right."""
    faults = structure_faults(plan, mesh)
    if not faults:
        before, faults = happens_before(plan.items)
        faults += chain_faults(plan.items, before)
        faults += _race_faults(plan, before)
    if faults:
        raise ScheduleError(*faults)


def structure_faults(plan: Schedule, mesh: Mesh) -> list[Diagnostic]:
    """Numbers out of range, buffers outside the arena, bad views, unknown ops: checked before anything is used."""
    texts = _buffer_faults(plan)
    texts += [f"item {n}: {text}" for n, item in enumerate(plan.items) for text in _item_faults(item, plan, mesh)]
    texts += _signature_faults(plan)
    return [Diagnostic("MG0402", text) for text in texts[:MAX_FAULTS]]


def _signature_faults(plan: Schedule) -> list[str]:
    count = len(plan.buffers)
    found = [f"the step has no buffer {n}" for n in (*plan.inputs, *plan.outputs) if not 0 <= n < count]
    wrong = [n for n in plan.inputs if 0 <= n < count and plan.buffers[n].kind != "input"]
    wrong += [n for n in plan.outputs if 0 <= n < count and plan.buffers[n].kind == "temporary"]
    return found + [
        f"buffer {n} '{plan.buffers[n].name}' of kind '{plan.buffers[n].kind}' is in the signature" for n in wrong
    ]


def _buffer_faults(plan: Schedule) -> list[str]:
    found: list[str] = []
    for number, buffer in enumerate(plan.buffers):
        name = f"buffer {number} '{buffer.name}'"
        if buffer.kind not in KINDS:
            found.append(f"{name} is of unknown kind '{buffer.kind}'")
        if buffer.offset < 0 or buffer.offset % ALIGNMENT or buffer.end > plan.arena_bytes:
            found.append(
                f"{name} lies at bytes {buffer.offset} to {buffer.end} of an arena of {plan.arena_bytes}; an offset is a multiple of {ALIGNMENT}"
            )
        if not 0 <= buffer.storage < len(plan.buffers):
            found.append(f"{name} views buffer {buffer.storage}, which does not exist")
            continue
        storage = plan.buffers[buffer.storage]
        if (storage.storage, storage.offset, storage.kind) != (buffer.storage, buffer.offset, buffer.kind):
            found.append(f"{name} views buffer {buffer.storage} '{storage.name}', but does not lie where it lies")
        if storage.type.nbytes != buffer.type.nbytes or storage.type.dtype != buffer.type.dtype:
            found.append(f"{name} of type {buffer.type} cannot view '{storage.name}' of type {storage.type}")
    most = sum(aligned(b.type.nbytes) for b in plan.buffers)
    if plan.arena_bytes > most:
        found.append(f"the arena has {plan.arena_bytes} bytes, but all buffers together need only {most}")
    return found


def _item_faults(item: Item, plan: Schedule, mesh: Mesh) -> list[str]:
    if any(not 0 <= n < len(plan.buffers) for n in (*item.inputs, *item.outputs)):
        return [f"'{item.label}' uses a buffer that does not exist"]
    if not 0 <= item.stream < STREAMS:
        return [f"'{item.label}' is on stream {item.stream}, but there are {STREAMS}"]
    if item.op == "kernel":
        return _kernel_faults(item, plan)
    if item.op not in COLLECTIVES:
        return [f"unknown op '{item.op}'"]
    return _collective_faults(item, plan, mesh)


def _collective_faults(item: Item, plan: Schedule, mesh: Mesh) -> list[str]:
    """Attributes and local types make sense on this mesh."""
    inputs, outputs = ([Value(plan.buffers[n].type) for n in numbers] for numbers in (item.inputs, item.outputs))
    try:
        faults = verify_node(Node(item.op, inputs, outputs, dict(item.attrs)), mesh)
        if not faults and item.op in BETWEEN:
            return _between_faults(item, inputs, outputs, mesh)
        if not faults and item.op in TRANSFERS:
            return _transfer_faults(item, [inputs[0].type, outputs[0].type], mesh)
    except ShardingError as error:
        return [f"'{item.op}': {error.diagnostics[0].message}"]
    return [f"'{item.op}': {fault.message}" for fault in faults]


def _transfer_faults(item: Item, types: Sequence[TensorType], mesh: Mesh) -> list[str]:
    """Both ends of a transfer are shardings of the same tensor, with these types as shards."""
    shape = tuple(item.attrs["shape"])
    if item.op == "update_halo":
        after = item.attrs["sharding"]
        before = after if types[0] == types[1] else replace(after, halo=())
        ends = {"sharding without halo": before, "sharding": after}
    else:
        ends = {name: item.attrs[name] for name in ("source", "target")}
    for (name, sharding), kind in zip(ends.items(), types, strict=True):
        if not isinstance(sharding, Sharding) or sharding.rank != len(shape):
            return [f"'{item.op}': {name} is no sharding of a tensor of shape {list(shape)}"]
        if sharding.local_shape(shape, mesh) != kind.shape:
            return [f"'{item.op}': {name} {sharding} of shape {list(shape)} does not give shards of type {kind}"]
    return []


def _between_faults(item: Item, inputs: Sequence[Value], outputs: Sequence[Value], mesh: Mesh) -> list[str]:
    """Both ends of a transfer between meshes are shardings of its tensor, and this side's shards have its type."""
    sends = item.op == "transfer_send"
    if not all(isinstance(item.attrs.get(name), Sharding) for name in ("source", "target")):
        return [f"'{item.op}': it does not say how the value lies on both meshes"]
    ends = Ends.of(item.op, item.attrs, mesh)
    if faults := ends.faults():
        return [f"'{item.op}': {fault}" for fault in faults]
    kind, sharding = (inputs[0].type, ends.source) if sends else (outputs[0].type, ends.target)
    if sharding.local_shape(ends.shape, mesh) != kind.shape:
        return [f"'{item.op}': {sharding} of shape {list(ends.shape)} does not give shards of type {kind}"]
    return []


def _kernel_faults(item: Item, plan: Schedule) -> list[str]:
    """The kernel exists and its body takes and gives what the buffers hold."""
    body = plan.kernels.get(item.kernel)
    if body is None:
        return [f"kernel '{item.kernel}' does not exist"]
    have = [plan.buffers[n].type for n in (*item.inputs, *item.outputs)]
    want = [v.type for v in (*body.inputs, *body.outputs)]
    if have != want or len(item.inputs) != len(body.inputs):
        return [f"kernel '{item.kernel}' is ({', '.join(map(str, want))}), but gets ({', '.join(map(str, have))})"]
    return []


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
    chain = [n for n, item in enumerate(items) if item.is_collective]
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
        for b in (*item.inputs, *item.outputs):
            root = plan.buffers[b].storage
            touched[root] = touched.get(root, 0) | 1 << number
        faults += [fault for b in item.inputs if (fault := _read_fault(plan, before, writers, number, b))]
    faults += [
        Diagnostic("MG0402", f"output buffer {n} '{plan.buffers[n].name}' is never written")
        for n in plan.outputs
        if plan.buffers[n].kind not in ("input", "constant") and plan.buffers[n].storage not in writers
    ]
    uses = [
        _Use(n, b.offset, b.end, writers.get(n), touched.get(n, 0), b.kind != "temporary")
        for n, b in enumerate(plan.buffers)
        if b.storage == n and b.end > b.offset
    ]
    faults += _overlap_faults(plan, before, sorted(uses, key=lambda use: (use.start, use.number)))
    return faults[:MAX_FAULTS]


def _writers(plan: Schedule, faults: list[Diagnostic]) -> dict[int, int]:
    """The item that writes each storage; two writers, or one for an input or constant, are faults."""
    writers: dict[int, int] = {}
    for number, item in enumerate(plan.items):
        for b in item.outputs:
            buffer = plan.buffers[b]
            if buffer.kind in ("input", "constant"):
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
    if buffer.kind in ("input", "constant"):
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
