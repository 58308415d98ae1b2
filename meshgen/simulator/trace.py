"""A simulated step in the Trace Event Format of Perfetto (ui.perfetto.dev) and chrome://tracing.

Each watched rank is a process with a track per stream, a track for control flow, and a counter of the bytes in use.
Source: "Trace Event Format", Google, 2016.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from meshgen.ir.predicates import is_control
from meshgen.mesh import Mesh
from meshgen.runtime.plan import COMMUNICATION, COMPUTE, NETWORK, STREAMS, Item
from meshgen.runtime.recording import Span as Measured
from meshgen.simulator.network import moved_bytes
from meshgen.simulator.simulation import PartTimes, Simulation
from meshgen.simulator.timeline import Span

_CONTROL = STREAMS
_TRACKS = {COMPUTE: "kernels", COMMUNICATION: "collectives", NETWORK: "network", _CONTROL: "control flow"}
_MICROSECONDS = 1e6  # microseconds per second; the Trace Event Format counts microseconds
Event = dict[str, Any]


def trace_of(simulation: Simulation) -> dict[str, Any]:
    """Return the trace as JSON values."""
    events: list[Event] = []
    first = 0
    for part in simulation.parts:
        for index, rank in enumerate(part.watched):
            name = f"rank {first + rank}" + (f" (@{part.mesh.name})" if len(simulation.parts) > 1 else "")
            events += _process(part, index, first + rank, name)
        first += part.mesh.size
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"machine": simulation.machine.name}}


def measured_trace(spans: Sequence[Measured], meshes: Sequence[Mesh]) -> dict[str, Any]:
    """Return the trace of a measured step (`meshgen/runtime/recording.py`), with names and tracks as in a predicted one."""
    ends = itertools.accumulate(mesh.size for mesh in meshes)
    firsts = {mesh.name: end - mesh.size for mesh, end in zip(meshes, ends, strict=True)}
    events: list[Event] = []
    for mesh, rank in sorted({(span.mesh, span.rank) for span in spans}):
        name = f"rank {firsts[mesh] + rank}" + (f" (@{mesh})" if len(meshes) > 1 else "")
        events += _tracks(firsts[mesh] + rank, name)
    events += [_event(span.item, firsts[span.mesh] + span.rank, span.start, span.end, {}) for span in spans]
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"machine": "this host, measured"}}


def _tracks(pid: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
    for tid, track in _TRACKS.items():
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": track}}


def _process(part: PartTimes, index: int, pid: int, name: str) -> Iterator[Event]:
    yield from _tracks(pid, name)
    for span in part.spans:
        yield _trace_slice(part, span, index, pid)
    for seconds, nbytes in memory_over_time(part, index):
        yield {"ph": "C", "pid": pid, "name": "memory", "ts": seconds * _MICROSECONDS, "args": {"bytes": nbytes}}


def _trace_slice(part: PartTimes, span: Span, index: int, pid: int) -> Event:
    item, details = span.item, Event()
    if item.is_collective:
        details = {
            "bytes": moved_bytes(item, span.plan, part.mesh),
            "waited_us": _waiting_seconds(span, index) * _MICROSECONDS,
        }
    return _event(item, pid, float(span.start[index]), float(span.end[index]), details)


def _event(item: Item, pid: int, start: float, end: float, details: Event) -> Event:
    """Return the execution of an item as an event on the track of its stream."""
    args = {"why": item.why, "source": item.source} | details
    return {
        "ph": "X",
        "pid": pid,
        "tid": _CONTROL if is_control(item) else item.stream,
        "name": item.label,
        "cat": "kernel" if item.kernel else item.op,
        "ts": start * _MICROSECONDS,
        "dur": (end - start) * _MICROSECONDS,
        "args": {key: value for key, value in args.items() if value != ""},
    }


def _waiting_seconds(span: Span, index: int) -> float:
    """Return the seconds for which the watched rank `index` waited for the last rank of its group."""
    return float(span.start[index] - span.ready[index])


def memory_over_time(part: PartTimes, index: int = 0) -> list[tuple[float, int]]:
    """Return the bytes in use on a watched rank as (seconds, bytes) at each change.

    A buffer is in use from the start of its first writer to the end of its last reader. Inputs, constants and outputs
    are in use until the end of the step. The memory of control flow regions is the scratch buffer of their item.
    """
    plan, end = part.plan, float(part.end[part.watched[index]])
    begins: dict[int, float] = {b.storage: 0.0 for b in plan.buffers if b.kind in ("input", "constant")}
    ends: dict[int, float] = {b.storage: end for b in plan.buffers if b.kind != "temporary"}
    for span in (span for span in part.spans if span.plan is plan):
        for buffer in (*span.item.inputs, *span.item.writes):
            storage = plan.buffers[buffer].storage
            begins[storage] = min(begins.get(storage, math.inf), float(span.start[index]))
            ends[storage] = max(ends.get(storage, 0.0), float(span.end[index]))
    for result, operand in plan.replaced.items():
        ends[operand] = max(begins[operand], begins[plan.buffers[result].storage])
    return _totals({n: plan.buffers[n].type.nbytes for n in begins}, begins, ends)


def _totals(
    sizes: Mapping[int, int], begins: Mapping[int, float], ends: Mapping[int, float]
) -> list[tuple[float, int]]:
    changes = [(begins[n], size) for n, size in sizes.items()] + [(ends[n], -size) for n, size in sizes.items()]
    curve: list[tuple[float, int]] = []
    total = 0
    for seconds, group in itertools.groupby(sorted(changes), key=lambda change: change[0]):
        total += sum(size for _, size in group)
        curve.append((seconds, total))
    return curve


def peak_of(curve: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """Return the time of the peak of a memory curve, and the bytes in use at that time."""
    return max(curve, key=lambda point: (point[1], -point[0]), default=(0.0, 0))
