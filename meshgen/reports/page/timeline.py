"""What the page draws over time: launches on the streams of each mesh, and bytes of memory with the largest buffers."""

from __future__ import annotations

from typing import Any

from meshgen.reports.interface import Compiled
from meshgen.reports.memory import lifetimes, live_bytes
from meshgen.runtime.plan import NETWORK, Schedule

LARGEST = 24  # buffers that are drawn
_DIGITS = 4  # of times in microseconds, enough for a step of a second
_MICROSECONDS = 1e6
STREAM_NAMES = ("computes", "communicates", "network")


def stream_names(plan: Schedule) -> tuple[str, ...]:
    """Names of the streams of a step, in order: of the network's only where something runs on it."""
    has_network = any(item.stream == NETWORK for item in plan.items)
    return STREAM_NAMES if has_network else STREAM_NAMES[:NETWORK]


def lanes(executable: Compiled) -> list[dict[str, Any]]:
    """A lane per mesh and stream, each with its spans: start and duration in microseconds, label, place, operands of the launch.

    Labels and places are numbers in `labels` of the lane: most launches share them.
    """
    several = len(executable.parts) > 1
    found: list[dict[str, Any]] = []
    for number, part in enumerate(executable.parts):
        head = f"@{part.mesh.name} " if several else ""
        names = [f"{head}{name}" for name in stream_names(part.plan)]
        rows: list[dict[str, Any]] = [{"name": name, "labels": [], "spans": []} for name in names]
        known: list[dict[str, int]] = [{} for _ in rows]
        for start, item in zip(executable.started(number), part.plan.items, strict=True):
            text = f"{item.label}\n{item.source}" if item.source else item.label
            label = known[item.stream].setdefault(text, len(known[item.stream]))
            span = [_microseconds(start), _microseconds(item.seconds), label, int(item.is_collective)]
            rows[item.stream]["spans"].append(span)
        for row, labels in zip(rows, known, strict=True):
            row["labels"] = list(labels)
        found += rows
    return found


def memory(executable: Compiled) -> list[dict[str, Any]]:
    """Per mesh the bytes that are alive from each time on (microseconds), and the largest buffers with their spans."""
    found: list[dict[str, Any]] = []
    for number, part in enumerate(executable.parts):
        plan, starts = part.plan, list(executable.started(number))
        ends = [*starts[1:], executable.cost.step_seconds] if starts else []
        order = sorted(lifetimes(plan), key=lambda each: (-each.buffer.type.nbytes, each.first))
        totals = live_bytes(plan)
        buffers = [
            {
                "name": each.buffer.name,
                "type": str(each.buffer.type),
                "kind": each.buffer.kind,
                "bytes": each.buffer.type.nbytes,
                "source": each.buffer.source,
                "from": _microseconds(starts[each.first]) if starts else 0,
                "to": _microseconds(ends[min(each.last, len(ends) - 1)]) if ends else 0,
            }
            for each in order[:LARGEST]
        ]
        curve = [[_microseconds(start), total] for start, total in zip(starts, totals, strict=False)]
        found.append({"mesh": part.mesh.name, "curve": curve, "peak": plan.arena_bytes, "buffers": buffers})
    return found


def _microseconds(seconds: float) -> float:
    return round(seconds * _MICROSECONDS, _DIGITS)
