"""The predicted step: when each task starts on its stream, and how much communication hides.

A stream runs its tasks one after the other in issue order; a task also waits for the tasks it depends on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter

from meshgen.ir.graph import Graph, Node
from meshgen.mesh import Mesh
from meshgen.records import dataclass
from meshgen.runtime.plan import COMPUTE, STREAMS, Exposure, Item


@dataclass(frozen=True)
class Costs:
    """Predicted seconds of a kernel with this body, of a collective node on a mesh, and of a copy of so many bytes on a device."""

    kernel: Callable[[Graph], float]
    collective: Callable[[Node, Mesh], float]
    copy: Callable[[int], float]


@dataclass(frozen=True)
class Task:
    """A node to place: its stream, duration, and the numbers of the tasks whose results it reads."""

    stream: int
    seconds: float
    needs: tuple[int, ...]


def start_times(tasks: Sequence[Task], order: Sequence[int]) -> tuple[list[float], float]:
    """Start of each task (by task number) when issued in `order`, and the end of the step."""
    free = [0.0] * STREAMS
    start, end = [0.0] * len(tasks), [0.0] * len(tasks)
    for number in order:
        task = tasks[number]
        start[number] = max([free[task.stream], *(end[need] for need in task.needs)])
        end[number] = free[task.stream] = start[number] + task.seconds
    return start, max(free)


def exposures(items: Sequence[Item]) -> tuple[Exposure, ...]:
    """Per collective on a communicating stream, the time of it during which a kernel runs, and the rest."""
    busy = [(i.start, i.end) for i in items if i.stream == COMPUTE]
    found: list[Exposure] = []
    for number, item in enumerate(items):
        if item.stream == COMPUTE:
            continue
        hidden = 0.0
        for start, end in busy[bisect_right(busy, item.start, key=itemgetter(1)) :]:
            if start >= item.end:
                break
            hidden += min(end, item.end) - max(start, item.start)
        found.append(Exposure(number, round(hidden, 15), round(max(0.0, item.seconds - hidden), 15)))
    return tuple(found)
