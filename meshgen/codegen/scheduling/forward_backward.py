"""Forward-backward improvement of a schedule: push all tasks as late as possible, then as early as possible.

    longest path first    kernels  A F F F E E . .    F starts because nothing else is ready, and E waits for it;
                          messages . C B B B . D D    E needs C, D needs E

    by latest start       kernels  A . E E F F F      each task as early as possible, the most urgent first
                          messages . C B B B D D

Source: Valls et al., EJOR 165, 2005.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshgen.codegen.scheduling.orders import Order, Priority, by_urgency, list_order
from meshgen.codegen.scheduling.timeline import Task, backwards, start_times


def justified(tasks: Sequence[Task], start: Sequence[float]) -> Iterator[tuple[Priority, Order]]:
    """Yield two orders by latest start time.

    The first is a list schedule. In the second, each task waits for all more urgent tasks on its stream.

    Args:
        start: start time of each task in the schedule to improve.
    """
    ends = [begin + task.seconds for begin, task in zip(start, tasks, strict=True)]
    reversed_tasks = backwards(tasks)
    order = list_order(reversed_tasks, by_urgency([-end for end in reversed(ends)])).numbers
    begins, seconds = start_times(reversed_tasks, order)
    latest = [seconds - begin - task.seconds for begin, task in zip(reversed(begins), tasks, strict=True)]
    priority = by_urgency(latest)
    yield priority, list_order(tasks, priority)
    yield priority, Order(tuple(len(tasks) - 1 - number for number in reversed(order)))
