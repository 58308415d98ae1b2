"""The predicted step: when each task starts on its stream, and how much communication hides.

A stream runs its tasks one after the other in issue order; a task also waits for the tasks it depends on.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

from meshgen.ccl.collective import Collective
from meshgen.ir.graph import Graph
from meshgen.runtime.plan import COMPUTE, STREAMS, Exposure, Item, Schedule, runs_of


class Costs(NamedTuple):
    """Predicted seconds of a kernel with this body, of a collective, and of a copy of so many bytes on a device."""

    kernel: Callable[[Graph], float]
    collective: Callable[[Collective], float]
    copy: Callable[[int], float]


class Task(NamedTuple):
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


def control_seconds(op: str, regions: Sequence[Schedule], trips: int, copy: Callable[[int], float]) -> float:
    """Return the predicted seconds of control flow: of branches those of the longest one.

    Args:
        trips: how often the body of a loop runs.
        copy: seconds for so many bytes.
    """
    runs = runs_of(op, regions, trips)
    return sum(region.step_seconds * times for region, times in runs) + copied_seconds(op, regions, copy) * trips


def copied_seconds(op: str, regions: Sequence[Schedule], copy: Callable[[int], float]) -> float:
    """Return the seconds in which a trip, or a branch, copies the results that are not made where they are needed."""
    region = regions[-1]
    given = region.inputs if op == "scan" else ()
    placed = {n for n, own in zip(region.outputs, given, strict=False) if region.buffers[n].storage == own}
    return sum(copy(region.buffers[n].type.nbytes) for n in region.outputs if n not in placed)


def longest_paths(tasks: Sequence[Task]) -> list[float]:
    """Seconds from the start of each task to the end of the step if streams had no limit."""
    path = [0.0] * len(tasks)
    for number in reversed(range(len(tasks))):
        path[number] += tasks[number].seconds
        for need in tasks[number].needs:
            path[need] = max(path[need], path[number])
    return path


def backwards(tasks: Sequence[Task]) -> list[Task]:
    """The same tasks with time running backwards: the last is the first, and needs those that needed it."""
    users: list[list[int]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        for need in task.needs:
            users[need].append(len(tasks) - 1 - number)
    return [task._replace(needs=tuple(sorted(own))) for task, own in zip(reversed(tasks), reversed(users), strict=True)]


def least_seconds(tasks: Sequence[Task]) -> float:
    """A lower bound of the step in all orders, with the longest paths to tasks and from them."""
    heads, tails = longest_paths(backwards(tasks))[::-1], longest_paths(tasks)
    around = [[path - task.seconds for path, task in zip(paths, tasks, strict=True)] for paths in (heads, tails)]
    return one_machine_bound(tasks, *around)


def one_machine_bound(tasks: Sequence[Task], heads: Sequence[float], tails: Sequence[float]) -> float:
    """A lower bound of the step: the work that a stream cannot start before some time, between that time and what must come after it.

    Args:
        heads: seconds that must be over before each task.
        tails: seconds that must come after each task.
    """
    found = max((head + task.seconds + tail for head, task, tail in zip(heads, tasks, tails, strict=True)), default=0.0)
    for stream in range(STREAMS):
        mine = sorted((n for n, task in enumerate(tasks) if task.stream == stream), key=lambda n: -heads[n])
        work, tail = 0.0, math.inf
        for (
            number
        ) in mine:  # those that start latest first: of each such set the first to start and the last to end count
            work += tasks[number].seconds
            tail = min(tail, tails[number])
            found = max(found, heads[number] + work + tail)
    return found


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
