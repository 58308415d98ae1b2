"""The time axis of the HTML page: launches on the streams of each mesh, and memory in use with the largest buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from meshgen.reports.interface import Compiled
from meshgen.reports.memory import lifetimes, live_bytes
from meshgen.runtime.plan import NETWORK, Item

LARGEST = 24  # chosen: number of buffers that are drawn, the largest
_DIGITS = 4  # chosen: digits of times in microseconds, which suffice for a step of a second
_MICROSECONDS = 1e6
STREAM_NAMES = ("computes", "communicates", "network")


def streams(executable: Compiled) -> Iterator[tuple[str, list[tuple[float, float, Item]]]]:
    """Yield the name and the launches of each stream, for all meshes. The start and the end of a launch are in seconds
    from the start of the step.

    The network stream is left out if it has no launches.
    """
    has_several_meshes = len(executable.parts) > 1
    for index, part in enumerate(executable.parts):
        prefix, items = f"@{part.mesh.name} " if has_several_meshes else "", part.plan.items
        spans = [(at, at + item.seconds, item) for at, item in zip(executable.started(index), items, strict=True)]
        for stream, name in enumerate(STREAM_NAMES):
            launches = [span for span in spans if span[2].stream == stream]
            if launches or stream != NETWORK:
                yield f"{prefix}{name}", launches


def lanes(executable: Compiled) -> list[dict[str, Any]]:
    """Return a lane per mesh and stream, with spans of start, duration, label, and whether it communicates.

    Times are in microseconds. A span refers to its label by an index into the lane's `labels`, because most launches
    share labels.
    """
    drawn_lanes: list[dict[str, Any]] = []
    for name, launches in streams(executable):
        labels: dict[str, int] = {}
        spans: list[list[float]] = []
        for start, _, item in launches:
            text = f"{item.label}\n{item.source}" if item.source else item.label
            label = labels.setdefault(text, len(labels))
            spans.append([_microseconds(start), _microseconds(item.seconds), label, int(item.is_collective)])
        drawn_lanes.append({"name": name, "labels": list(labels), "spans": spans})
    return drawn_lanes


def memory(executable: Compiled) -> list[dict[str, Any]]:
    """Return for each mesh the live bytes over time (in microseconds), and the largest buffers with their lifetimes."""
    records: list[dict[str, Any]] = []
    for index, part in enumerate(executable.parts):
        plan, starts = part.plan, list(executable.started(index))
        ends = [*starts[1:], executable.cost.step_seconds] if starts else []
        order = sorted(lifetimes(plan), key=lambda lifetime: (-lifetime.buffer.type.nbytes, lifetime.first))
        totals = live_bytes(plan)
        buffers = [
            {
                "name": lifetime.buffer.name,
                "type": str(lifetime.buffer.type),
                "kind": lifetime.buffer.kind,
                "bytes": lifetime.buffer.type.nbytes,
                "source": lifetime.buffer.source,
                "from": _microseconds(starts[lifetime.first]) if starts else 0,
                "to": _microseconds(ends[min(lifetime.last, len(ends) - 1)]) if ends else 0,
            }
            for lifetime in order[:LARGEST]
        ]
        curve = [[_microseconds(start), total] for start, total in zip(starts, totals, strict=False)]
        records.append({"mesh": part.mesh.name, "curve": curve, "peak": plan.arena_bytes, "buffers": buffers})
    return records


def _microseconds(seconds: float) -> float:
    return round(seconds * _MICROSECONDS, _DIGITS)
