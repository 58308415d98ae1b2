"""Orders of issue for the tasks of a step: list schedules on streams, within a budget of memory.

A list schedule starts, whenever a stream is idle, the most urgent task that is ready for it. By longest path to the end it starts
a collective as soon as its input is ready and leaves what waits for it to the latest moment, because while a collective runs
everything that does not need it goes first. That fetches weights long before they are used, so a task may have to wait until
there is room for what it makes: until enough of what is alive is surely dead.
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

# Ready tasks that are tried for one that fits the budget.
_LOOK_AHEAD = 8

Priority = Callable[[int], tuple[float, int]]


@dataclass(frozen=True)
class Order:
    """Tasks as they are issued, and for which further tasks (by number) some of them wait: for those that free their memory."""

    numbers: tuple[int, ...]
    waits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks, which also need what they wait for."""
        return [
            task._replace(needs=tuple(sorted({*task.needs, *self.waits[n]}))) if n in self.waits else task
            for n, task in enumerate(tasks)
        ]


class Storage(NamedTuple):
    """Bytes that a task makes, and the tasks that use them; `stays` are results of the step."""

    nbytes: int
    maker: int
    users: tuple[int, ...]
    stays: bool = False


class Budget(NamedTuple):
    """Bytes that may be alive at once, and what tasks make; what is in place before the step is not counted."""

    nbytes: int
    storages: tuple[Storage, ...]


def by_urgency(urgency: Sequence[float]) -> Priority:
    """Least urgency first; of equals the first of the program."""
    return lambda n: (urgency[n], n)


def list_order(tasks: Sequence[Task], priority: Priority, budget: Budget | None = None) -> Order:
    """Issue order in which no stream idles while a task that fits is ready for it; among the ready, least priority first.

    Where both streams could start something at the same time the collective is issued first: a kernel
    that is launched before it fills all multiprocessors. Where nothing fits, the most urgent task is issued all the same.
    """
    return _ListScheduler(tasks, priority, budget).run()


class _ListScheduler:
    """The state of one list schedule."""

    def __init__(self, tasks: Sequence[Task], priority: Priority, budget: Budget | None) -> None:
        self._tasks, self._priority = tasks, priority
        self._memory = _Memory(tasks, budget) if budget else None
        self._users: list[list[int]] = [[] for _ in tasks]
        self._missing = [len(task.needs) for task in tasks]
        self._coming: list[list[tuple[float, int]]] = [[] for _ in range(STREAMS)]  # (ready at, task)
        self._ready: list[list[tuple[tuple[float, int], int]]] = [[] for _ in range(STREAMS)]
        self._free = [0.0] * STREAMS
        self._end = [0.0] * len(tasks)
        self._order: list[int] = []
        self._issued: list[list[int]] = [[] for _ in range(STREAMS)]  # per stream
        self._waits: dict[int, tuple[int, ...]] = {}
        self._full: set[int] = set()  # streams for which nothing fits until another stream goes on
        for number, task in enumerate(tasks):
            for need in task.needs:
                self._users[need].append(number)
            if not task.needs:
                heapq.heappush(self._coming[task.stream], (0.0, number))

    def run(self) -> Order:
        while any(self._coming) or any(self._ready):
            now, stream = self._next_stream()
            while self._coming[stream] and self._coming[stream][0][0] <= now:
                number = heapq.heappop(self._coming[stream])[1]
                heapq.heappush(self._ready[stream], (self._priority(number), number))
            self._take(stream, now)
        return Order(tuple(self._order), self._waits)

    def _next_stream(self) -> tuple[float, int]:
        """Earliest time at which some stream can start something, and that stream; communication first."""
        able = [s for s in range(STREAMS) if self._ready[s] or self._coming[s]]
        able = [s for s in able if s not in self._full] or able
        now, stream = min(
            (self._free[s] if self._ready[s] else max(self._free[s], self._coming[s][0][0]), -s) for s in able
        )
        return now, -stream

    def _take(self, stream: int, now: float) -> None:
        """Issue the most urgent ready task of a stream for which there is room, or let the stream wait for the others."""
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
        """Of each other stream, the last task that has ended by now."""
        own = (reversed(numbers) for s, numbers in enumerate(self._issued) if s != stream)
        found = (next((n for n in numbers if self._end[n] <= now), None) for numbers in own)
        return tuple(n for n in found if n is not None)

    def _wait(self, stream: int, now: float) -> None:
        """Nothing fits: go on when another stream has, or with the most urgent task where no other can."""
        later = [free for s, free in enumerate(self._free) if s != stream and free > now]
        if later:
            self._free[stream] = min(later)
        elif any(self._ready[s] or self._coming[s] for s in {*range(STREAMS)} - self._full - {stream}):
            self._full.add(stream)
        else:
            self._issue(heapq.heappop(self._ready[stream])[1], now, ())

    def _issue(self, number: int, now: float, waits: tuple[int, ...] | None) -> None:
        task = self._tasks[number]
        self._order.append(number)
        self._issued[task.stream].append(number)
        self._end[number] = self._free[task.stream] = now + task.seconds
        self._full.clear()
        if self._memory is not None:
            self._memory.start(number, waits or ())
        if waits:
            self._waits[number] = waits
        for user in self._users[number]:
            self._missing[user] -= 1
            if not self._missing[user]:
                at = max(self._end[need] for need in self._tasks[user].needs)
                heapq.heappush(self._coming[self._tasks[user].stream], (at, user))


class _Memory:
    """Live storages, conservatively: one is dead for a task if all its users end before the task starts.

    What was issued before it on its own stream has ended then; so which of the storages that no task will touch any more (`_over`) are dead for it
    follows from how many tasks of each other stream have surely ended.

    A task that is issued before its program order creates its results early: they are alive while all tasks before it
    run. So there must be room for them in program order too (`_course`: bytes alive at each task of it).
    """

    def __init__(self, tasks: Sequence[Task], budget: Budget) -> None:
        self._tasks, self._most = tasks, budget.nbytes
        self._now: list[Clock] = [(0,) * STREAMS] * STREAMS
        self._ends: dict[int, Clock] = {}
        self._nbytes = np.array([storage.nbytes for storage in budget.storages], np.int64)
        self._last = [[0] * STREAMS for _ in budget.storages]  # per stream, which of its tasks touched it last
        self._missing: list[int] = []  # how many tasks that touch it are not issued
        self._touched: list[list[int]] = [[] for _ in tasks]  # storages that a task makes or reads
        self._own = [0] * len(tasks)  # bytes that a task makes
        for number, storage in enumerate(budget.storages):
            self._own[storage.maker] += storage.nbytes
            touching = {storage.maker, *storage.users}
            self._missing.append(len(touching) + storage.stays)
            for task in touching:
                self._touched[task].append(number)
        self._made = 0  # bytes that were made so far
        # Of each storage that no task will touch any more, which task of each stream touched it last; of others more than there are.
        self._over = np.full((STREAMS, len(budget.storages)), len(tasks) + 1)
        self._course = _course(len(tasks), budget.storages)
        self._turn = 0  # the first task of the program that is not issued

    def fits(self, number: int, waits: Sequence[int]) -> bool:
        """Whether there is room for what a task makes, if it also waits for these."""
        own = self._own[number]
        if not own:
            return True
        if number > self._turn and self._course[self._turn : number].max() + own > self._most:
            return False
        own_stream, clock = self._tasks[number].stream, self._start(number, waits)
        dead = self._over[own_stream] <= len(self._tasks)
        for stream, ended in enumerate(clock):
            if stream != own_stream:
                dead &= self._over[stream] <= ended
        return own + self._made - int(self._nbytes[dead].sum()) <= self._most

    def start(self, number: int, waits: Sequence[int]) -> None:
        stream = self._tasks[number].stream
        clock = self._start(number, waits)
        self._now[stream] = self._ends[number] = tuple(count + (s == stream) for s, count in enumerate(clock))
        self._made += self._own[number]
        for storage in self._touched[number]:
            self._last[storage][stream] = clock[stream] + 1
            self._missing[storage] -= 1
            if not self._missing[storage]:
                self._over[:, storage] = self._last[storage]
        self._course[self._turn : number] += self._own[number]
        while self._turn in self._ends:
            self._turn += 1

    def _start(self, number: int, waits: Sequence[int]) -> Clock:
        task = self._tasks[number]
        return join([self._now[task.stream], *(self._ends[need] for need in (*task.needs, *waits))])


def _course(count: int, storages: Sequence[Storage]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bytes that are alive at each task when the program runs in order."""
    change = np.zeros(count + 1, np.int64)
    for storage in storages:
        change[storage.maker] += storage.nbytes
        if not storage.stays:
            change[max((storage.maker, *storage.users)) + 1] -= storage.nbytes
    return np.cumsum(change[:count])
