"""The predicted timeline of a step: when each task starts on its stream, and how much communication kernels hide.

A stream runs its tasks one after the other in issue order. A task also waits for the tasks that it depends on.
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
    """Cost model: predicted seconds of a kernel body, of a collective, and of a copy of a number of bytes on one
    device.
    """

    kernel: Callable[[Graph], float]
    collective: Callable[[Collective], float]
    copy: Callable[[int], float]


class Task(NamedTuple):
    """A launch to schedule: its stream, its duration, and the indices of the tasks that it depends on."""

    stream: int
    seconds: float
    needs: tuple[int, ...]


def start_times(tasks: Sequence[Task], order: Sequence[int]) -> tuple[list[float], float]:
    """Return the start time of each task (by task index) if issued in `order`, and the end of the step."""
    free = [0.0] * STREAMS
    start, end = [0.0] * len(tasks), [0.0] * len(tasks)
    for index in order:
        task = tasks[index]
        start[index] = max([free[task.stream], *(end[need] for need in task.needs)])
        end[index] = free[task.stream] = start[index] + task.seconds
    return start, max(free)


def control_seconds(op: str, regions: Sequence[Schedule], trips: int, copy: Callable[[int], float]) -> float:
    """Return the predicted seconds of control flow. Branches take the time of the longest branch.

    Args:
        trips: trip count of a loop.
        copy: predicts the seconds to copy a number of bytes.
    """
    runs = runs_of(op, regions, trips)
    return sum(region.step_seconds * times for region, times in runs) + copied_seconds(op, regions, copy) * trips


def copied_seconds(op: str, regions: Sequence[Schedule], copy: Callable[[int], float]) -> float:
    """Return the seconds per iteration (or branch) for copying results that the region does not compute in place."""
    region = regions[-1]
    carried = region.inputs if op == "scan" else ()
    in_place = {n for n, storage in zip(region.outputs, carried, strict=False) if region.buffers[n].storage == storage}
    return sum(copy(region.buffers[n].type.nbytes) for n in region.outputs if n not in in_place)


def longest_paths(tasks: Sequence[Task]) -> list[float]:
    """Return for each task the seconds from its start to the end of the step, if streams had unlimited capacity."""
    path = [0.0] * len(tasks)
    for index in reversed(range(len(tasks))):
        path[index] += tasks[index].seconds
        for need in tasks[index].needs:
            path[need] = max(path[need], path[index])
    return path


def backwards(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks with time reversed: the last task becomes the first, and each task depends on its former users."""
    users: list[list[int]] = [[] for _ in tasks]
    for index, task in enumerate(tasks):
        for need in task.needs:
            users[need].append(len(tasks) - 1 - index)
    return [
        task._replace(needs=tuple(sorted(needs))) for task, needs in zip(reversed(tasks), reversed(users), strict=True)
    ]


def least_seconds(tasks: Sequence[Task]) -> float:
    """Return a lower bound of the step time for all orders, from the longest paths to and from each task."""
    heads, tails = longest_paths(backwards(tasks))[::-1], longest_paths(tasks)
    around = [[path - task.seconds for path, task in zip(paths, tasks, strict=True)] for paths in (heads, tails)]
    return one_machine_bound(tasks, *around)


def one_machine_bound(tasks: Sequence[Task], heads: Sequence[float], tails: Sequence[float]) -> float:
    """Return a lower bound of the step time for the tasks of one stream.

    It is the maximum, over sets of tasks, of the least head, plus the work of the set, plus the least tail.

    Args:
        heads: seconds that must pass before each task.
        tails: seconds that must pass after each task.
    """
    bound = max((head + task.seconds + tail for head, task, tail in zip(heads, tasks, tails, strict=True)), default=0.0)
    for stream in range(STREAMS):
        mine = sorted((n for n, task in enumerate(tasks) if task.stream == stream), key=lambda n: -heads[n])
        work, tail = 0.0, math.inf
        for index in mine:  # Examined sets consist of the tasks with the latest possible starts.
            work += tasks[index].seconds
            tail = min(tail, tails[index])
            bound = max(bound, heads[index] + work + tail)
    return bound


def exposures(items: Sequence[Item]) -> tuple[Exposure, ...]:
    """Return for each collective on a communication stream the seconds that kernels hide, and the seconds that stay
    exposed.
    """
    busy = [(i.start, i.end) for i in items if i.stream == COMPUTE]
    exposed: list[Exposure] = []
    for index, item in enumerate(items):
        if item.stream == COMPUTE:
            continue
        hidden = 0.0
        for start, end in busy[bisect_right(busy, item.start, key=itemgetter(1)) :]:
            if start >= item.end:
                break
            hidden += min(end, item.end) - max(start, item.start)
        exposed.append(Exposure(index, round(hidden, 15), round(max(0.0, item.seconds - hidden), 15)))
    return tuple(exposed)
