"""Pending work of the devices, executed in a random order that streams, events and graphs allow.

Work does not run when it is issued. While the host waits, pending work runs in a seeded random order that respects all
dependencies. An order that a GPU would show once in a million steps is as likely here as any other.

The dependencies also define a happens-before relation: each work item has a bit set of the items that precede it in
every legal order. `work_races.py` uses it to detect races.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from meshgen.emulator.faults import DeviceFault


class Work:
    """An operation of a device: a kernel, a copy, or a marker without effect.

    Attributes:
        label: name of the item in error messages.
        before: bit set of the numbers of all work that is done before this work starts.
    """

    def __init__(self, label: str, run: Callable[[Work], None] | None = None) -> None:
        self.label, self._run = label, run
        self.number, self.epoch, self.before = -1, -1, 0
        self.missing, self.followers, self.done = 0, list[Work](), False

    def advance(self) -> bool:
        """Run the work as far as possible. Returns False if the work must wait for something that will call
        `Timeline.wake`.
        """
        if self._run:
            self._run(self)
        return True

    def waits_for(self) -> str:
        """Return a description of the event for which the work waits after its dependencies, or "" if it never waits."""
        return ""


class Timeline:
    """All pending work of a machine.

    Attributes:
        listen: function that receives messages of other processes while no work can run here; None in a single process.
        done: number of work items done.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ready: list[Work] = []
        self._waiting: dict[Work, None] = {}
        self._pending = 0
        self._count, self._epoch, self._seen = 0, 0, 0
        self.on_epoch: list[Callable[[], None]] = []
        self.listen: Callable[[], None] | None = None
        self.done = 0

    def issue(self, work: Work, after: Iterable[Work]) -> Work:
        """Queue work that depends on `after` and on all work that the host has waited for."""
        self._start_epoch()
        work.number, work.epoch, work.before = self._count, self._epoch, self._seen
        self._count += 1
        self._pending += 1
        for dependency in after:
            work.before |= self._bits(dependency)
            if not dependency.done:
                work.missing += 1
                dependency.followers.append(work)
        if not work.missing:
            self._ready.append(work)
        return work

    def wake(self, work: Work) -> None:
        """Make a waiting work item ready, because what it waits for has happened."""
        self._waiting.pop(work, None)
        self._ready.append(work)

    def wake_waiting(self, choose: Callable[[Work], bool]) -> None:
        """Make all waiting work items ready for which `choose` returns True."""
        for work in [waiting for waiting in self._waiting if choose(waiting)]:
            self.wake(work)

    def wait(self, work: Work | None) -> None:
        """Run pending work until `work` is done, as the host waits for it.

        Raises:
            DeviceFault: work failed, or no pending work can run (deadlock). The message says what each work item waits
                for.
        """
        if work is None:
            return
        while not work.done:
            self._step()
        self._seen |= self._bits(work)

    def poll(self, work: Work | None) -> bool:
        """Run a random amount of pending work, and return whether `work` is done. If it is, work that is issued later
        is ordered after `work`.
        """
        if work is None:
            return True
        for _ in range(self._random.randrange(4)):
            if self._ready and not work.done:
                self._step()
        if self.listen and not self._ready and not work.done:
            self.listen()
        if work.done:
            self._seen |= self._bits(work)
        return work.done

    @property
    def is_stuck(self) -> bool:
        """Whether no pending work can run."""
        return not self._ready and self.listen is None

    def _step(self) -> None:
        if not self._ready:
            if self.listen is None:
                raise DeviceFault("deadlock", self._stuck())
            self.listen()
            return
        index = self._random.randrange(len(self._ready))
        self._ready[index], self._ready[-1] = self._ready[-1], self._ready[index]
        work = self._ready.pop()
        if not work.advance():
            if work not in self._ready:
                self._waiting[work] = None
            return
        work.done = True
        self.done += 1
        self._pending -= 1
        for follower in work.followers:
            follower.missing -= 1
            if not follower.missing:
                self._ready.append(follower)

    def _stuck(self) -> str:
        reasons = [f"{work.label} waits for {work.waits_for()}" for work in self._waiting]
        more = f"; and {len(reasons) - 8} more" if len(reasons) > 8 else ""
        return f"{'; '.join(reasons[:8])}{more} ({self._pending} operations are pending)"

    def _bits(self, work: Work) -> int:
        """Return the bit set of `work` and of all items before it.

        Work of earlier epochs precedes all other work and has no bits.
        """
        return work.before | 1 << work.number if work.epoch == self._epoch else 0

    def _start_epoch(self) -> None:
        """Start a new epoch if the host has waited for all work: later work follows it and is numbered from 0."""
        if self._count and self._seen == (1 << self._count) - 1:
            self._count, self._seen, self._epoch = 0, 0, self._epoch + 1
            for callback in self.on_epoch:
                callback()
