"""Issue orders for the tasks of a step: list schedules on streams, within a memory budget.

When a stream is idle, a list schedule starts the stream's most urgent task that is ready. With the longest path to the
end as urgency, a collective starts as soon as its input is ready. Users of its result are issued as late as possible,
because kernels that do not depend on it run first. This order also gathers weights long before their use. Under a
memory budget, a task may therefore have to wait until enough live buffers are certainly dead.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from meshgen.codegen.scheduling.memory import Clock, join
from meshgen.codegen.scheduling.timeline import Task
from meshgen.runtime.plan import STREAMS

# Most ready tasks that are examined to find one that fits the budget. chosen: bounds the time per issued task.
_LOOK_AHEAD = 8

Priority = Callable[[int], tuple[float, int]]


@dataclass(frozen=True)
class Order:
    """An issue order of tasks.

    Attributes:
        waits: for some tasks, additional tasks to wait for because they are the last users of memory that the task
            reuses.
    """

    numbers: tuple[int, ...]
    waits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks with `waits` added to their dependences."""
        return [
            task._replace(needs=tuple(sorted({*task.needs, *self.waits[n]}))) if n in self.waits else task
            for n, task in enumerate(tasks)
        ]


class Storage(NamedTuple):
    """Bytes that task `maker` writes and the tasks `users` read. `stays` marks results of the step."""

    nbytes: int
    maker: int
    users: tuple[int, ...]
    stays: bool = False


class Budget(NamedTuple):
    """Limit on the live bytes per device, and the storages that tasks write. Inputs and constants are not counted."""

    nbytes: int
    storages: tuple[Storage, ...]


def by_urgency(urgency: Sequence[float]) -> Priority:
    """Return the priority that issues the task with the least `urgency` first, and tasks with equal urgency in program
    order.
    """
    return lambda n: (urgency[n], n)


def list_order(tasks: Sequence[Task], priority: Priority, budget: Budget | None = None) -> Order:
    """Return an issue order in which no stream idles while some ready task fits the budget.

    Among ready tasks, the task with the least priority value comes first. If both streams can start a task at the
    same time, the collective is issued first: a kernel launched before it would occupy all multiprocessors. If nothing
    fits, the most urgent task is issued anyway.
    """
    return _ListScheduler(tasks, priority, budget).run()


class _ListScheduler:
    """The state of the list scheduling algorithm: streams, ready tasks, and the tasks issued so far."""

    def __init__(self, tasks: Sequence[Task], priority: Priority, budget: Budget | None) -> None:
        self._tasks, self._priority = tasks, priority
        self._memory = _Memory(tasks, budget) if budget else None
        self._users: list[list[int]] = [[] for _ in tasks]
        self._pending = [len(task.needs) for task in tasks]
        # for each stream, a heap of (time at which the task is ready, task)
        self._upcoming: list[list[tuple[float, int]]] = [[] for _ in range(STREAMS)]
        self._ready: list[list[tuple[tuple[float, int], int]]] = [[] for _ in range(STREAMS)]
        self._free = [0.0] * STREAMS
        self._end = [0.0] * len(tasks)
        self._order: list[int] = []
        self._issued: list[list[int]] = [[] for _ in range(STREAMS)]  # per stream
        self._waits: dict[int, tuple[int, ...]] = {}
        self._full: set[int] = set()  # streams whose ready tasks do not fit the budget until another stream proceeds
        for index, task in enumerate(tasks):
            for need in task.needs:
                self._users[need].append(index)
            if not task.needs:
                heapq.heappush(self._upcoming[task.stream], (0.0, index))

    def run(self) -> Order:
        while any(self._upcoming) or any(self._ready):
            now, stream = self._next_stream()
            while self._upcoming[stream] and self._upcoming[stream][0][0] <= now:
                index = heapq.heappop(self._upcoming[stream])[1]
                heapq.heappush(self._ready[stream], (self._priority(index), index))
            self._take(stream, now)
        return Order(tuple(self._order), self._waits)

    def _next_stream(self) -> tuple[float, int]:
        """Return the earliest time at which some stream can start a task, and this stream. Communication streams win
        ties.
        """
        able = [s for s in range(STREAMS) if self._ready[s] or self._upcoming[s]]
        able = [s for s in able if s not in self._full] or able
        now, stream = min(
            (self._free[s] if self._ready[s] else max(self._free[s], self._upcoming[s][0][0]), -s) for s in able
        )
        return now, -stream

    def _take(self, stream: int, now: float) -> None:
        """Issue the most urgent ready task of a stream that fits the budget. If none fits, let the stream wait for
        other streams.
        """
        if self._memory is None:
            self._issue(heapq.heappop(self._ready[stream])[1], now, None)
            return
        ended = self._ended_beside(stream, now)
        for entry in heapq.nsmallest(_LOOK_AHEAD, self._ready[stream]):
            for waits in ((), ended):
                if self._memory.fits(entry[1], waits):
                    self._ready[stream].remove(entry)
                    heapq.heapify(self._ready[stream])
                    self._issue(entry[1], now, waits)
                    return
        self._wait(stream, now)

    def _ended_beside(self, stream: int, now: float) -> tuple[int, ...]:
        """Return, for each stream other than `stream`, the last task that has ended by time `now`."""
        issued_last_first = (reversed(issued) for s, issued in enumerate(self._issued) if s != stream)
        last_ended = (next((n for n in issued if self._end[n] <= now), None) for issued in issued_last_first)
        return tuple(n for n in last_ended if n is not None)

    def _wait(self, stream: int, now: float) -> None:
        """Delay a stream whose ready tasks do not fit the budget until another stream proceeds.

        If no other stream can proceed, issue the most urgent task.
        """
        later = [free for s, free in enumerate(self._free) if s != stream and free > now]
        if later:
            self._free[stream] = min(later)
        elif any(self._ready[s] or self._upcoming[s] for s in {*range(STREAMS)} - self._full - {stream}):
            self._full.add(stream)
        else:
            self._issue(heapq.heappop(self._ready[stream])[1], now, ())

    def _issue(self, index: int, now: float, waits: tuple[int, ...] | None) -> None:
        task = self._tasks[index]
        self._order.append(index)
        self._issued[task.stream].append(index)
        self._end[index] = self._free[task.stream] = now + task.seconds
        self._full.clear()
        if self._memory is not None:
            self._memory.start(index, waits or ())
        if waits:
            self._waits[index] = waits
        for user in self._users[index]:
            self._pending[user] -= 1
            if not self._pending[user]:
                at = max(self._end[need] for need in self._tasks[user].needs)
                heapq.heappush(self._upcoming[self._tasks[user].stream], (at, user))


class _Memory:
    """Tracks live storages, conservatively: a storage is dead for a task only if all its users certainly end before
    that task.

    When a task starts, all tasks that were issued earlier on the same stream have ended. Whether a storage without
    further users is dead for the task thus depends only on how many tasks of each other stream have certainly ended.

    A task that is issued earlier than in program order writes its results early, and they are live while all tasks
    before it in program order run. So the results must also fit beside `_program_live_bytes`, the live bytes in program
    order.
    """

    def __init__(self, tasks: Sequence[Task], budget: Budget) -> None:
        self._tasks, self._most = tasks, budget.nbytes
        self._now: list[Clock] = [(0,) * STREAMS] * STREAMS
        self._ends: dict[int, Clock] = {}
        self._nbytes = np.array([storage.nbytes for storage in budget.storages], np.int64)
        # for each storage and stream, the position on the stream of the last task that accessed the storage
        self._last = [[0] * STREAMS for _ in budget.storages]
        self._pending: list[int] = []  # for each storage, the number of unissued tasks that access it
        self._touched: list[list[int]] = [[] for _ in tasks]  # for each task, the storages that it writes or reads
        self._own = [0] * len(tasks)  # for each task, the bytes that it writes
        for index, storage in enumerate(budget.storages):
            self._own[storage.maker] += storage.nbytes
            touching = {storage.maker, *storage.users}
            self._pending.append(len(touching) + storage.stays)
            for task in touching:
                self._touched[task].append(index)
        self._made = 0  # bytes that the issued tasks write
        # For each stream and each storage without further users, the position of the last task that accessed the
        # storage. If a storage has further users, a position that is never reached.
        self._over = np.full((STREAMS, len(budget.storages)), len(tasks) + 1)
        self._program_live_bytes = _program_live_bytes(len(tasks), budget.storages)
        self._first_unissued = 0  # the first task in program order that is not issued yet

    def fits(self, index: int, waits: Sequence[int]) -> bool:
        """Whether the results of task `index` fit the budget if the task also waits for the tasks `waits`."""
        result_bytes = self._own[index]
        if not result_bytes:
            return True
        if (
            index > self._first_unissued
            and self._program_live_bytes[self._first_unissued : index].max() + result_bytes > self._most
        ):
            return False
        own_stream, clock = self._tasks[index].stream, self._start(index, waits)
        dead = self._over[own_stream] <= len(self._tasks)
        for stream, ended in enumerate(clock):
            if stream != own_stream:
                dead &= self._over[stream] <= ended
        return result_bytes + self._made - int(self._nbytes[dead].sum()) <= self._most

    def start(self, index: int, waits: Sequence[int]) -> None:
        stream = self._tasks[index].stream
        clock = self._start(index, waits)
        self._now[stream] = self._ends[index] = tuple(count + (s == stream) for s, count in enumerate(clock))
        self._made += self._own[index]
        for storage in self._touched[index]:
            self._last[storage][stream] = clock[stream] + 1
            self._pending[storage] -= 1
            if not self._pending[storage]:
                self._over[:, storage] = self._last[storage]
        self._program_live_bytes[self._first_unissued : index] += self._own[index]
        while self._first_unissued in self._ends:
            self._first_unissued += 1

    def _start(self, index: int, waits: Sequence[int]) -> Clock:
        task = self._tasks[index]
        return join([self._now[task.stream], *(self._ends[need] for need in (*task.needs, *waits))])


def _program_live_bytes(count: int, storages: Sequence[Storage]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the live bytes at each task if all tasks run in program order."""
    change = np.zeros(count + 1, np.int64)
    for storage in storages:
        change[storage.maker] += storage.nbytes
        if not storage.stays:
            change[max((storage.maker, *storage.users)) + 1] -= storage.nbytes
    return np.cumsum(change[:count])
