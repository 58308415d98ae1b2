"""What the page draws over time: launches on the streams of each mesh, and bytes of memory with the largest buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from meshgen.reports.interface import Compiled
from meshgen.reports.memory import lifetimes, live_bytes
from meshgen.runtime.plan import NETWORK, Item

LARGEST = 24  # buffers that are drawn
_DIGITS = 4  # of times in microseconds, enough for a step of a second
_MICROSECONDS = 1e6
STREAM_NAMES = ("computes", "communicates", "network")


def streams(executable: Compiled) -> Iterator[tuple[str, list[tuple[float, float, Item]]]]:
    """The streams of all meshes by name, each with its launches and when they start and end in a step, in seconds.

    The stream of the network is left out where nothing runs on it.
    """
    several = len(executable.parts) > 1
    for number, part in enumerate(executable.parts):
        head, items = f"@{part.mesh.name} " if several else "", part.plan.items
        spans = [(at, at + item.seconds, item) for at, item in zip(executable.started(number), items, strict=True)]
        for stream, name in enumerate(STREAM_NAMES):
            launches = [span for span in spans if span[2].stream == stream]
            if launches or stream != NETWORK:
                yield f"{head}{name}", launches


def lanes(executable: Compiled) -> list[dict[str, Any]]:
    """A lane per mesh and stream, each with its spans: start and duration in microseconds, label, and whether it communicates.

    Labels with their places are numbers in `labels` of the lane: most launches share them.
    """
    found: list[dict[str, Any]] = []
    for name, launches in streams(executable):
        labels: dict[str, int] = {}
        spans: list[list[float]] = []
        for start, _, item in launches:
            text = f"{item.label}\n{item.source}" if item.source else item.label
            label = labels.setdefault(text, len(labels))
            spans.append([_microseconds(start), _microseconds(item.seconds), label, int(item.is_collective)])
        found.append({"name": name, "labels": list(labels), "spans": spans})
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
