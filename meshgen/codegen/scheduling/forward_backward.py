"""Shorter steps by pushing all tasks late, then early again: forward-backward improvement of a schedule (Valls et al., EJOR 165, 2005).

longest path first    kernels  A F F F E E . .    F starts because nothing else is ready, and E waits for it;
                      messages . C B B B . D D    E needs C, D needs E
from the end          kernels  A . E E F F F      the same first from the end: each task is as late as it can be
                      messages . C B B B D D
by latest start       kernels  A . E E F F F      and as early as it can be, the most urgent first
                      messages . C B B B D D
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshgen.codegen.scheduling.orders import Order, Priority, by_urgency, list_order
from meshgen.codegen.scheduling.timeline import Task, backwards, start_times


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
