"""Shorter steps by pushing all tasks late, then early again: forward-backward improvement of a schedule (Valls et al., EJOR 165, 2005).

forward     kernels  A A . . B B      each as early as it can; list schedules from the longest path leave the gap
            messages . . C C D D
backward    kernels  . . A A B B      the same from the end: the latest start of each task is how urgent it is
forward     kernels  A A B B ...      the most urgent first: the gaps of the first schedule close
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshgen.codegen.orders import Order, Priority, by_urgency, list_order
from meshgen.codegen.timeline import Task, backwards, start_times


def justified(tasks: Sequence[Task], start: Sequence[float]) -> Iterator[tuple[Priority, Order]]:
    """Two orders by latest start: a list schedule, and one in which each task waits for all that are more urgent on its stream.

    Args:
        start: of each task in the schedule that is improved.
    """
    ends = [begin + task.seconds for begin, task in zip(start, tasks, strict=True)]
    back = backwards(tasks)
    order = list_order(back, by_urgency([-end for end in reversed(ends)])).numbers
    begins, seconds = start_times(back, order)
    latest = [seconds - begin - task.seconds for begin, task in zip(reversed(begins), tasks, strict=True)]
    priority = by_urgency(latest)
    yield priority, list_order(tasks, priority)
    yield priority, Order(tuple(len(tasks) - 1 - number for number in reversed(order)))
