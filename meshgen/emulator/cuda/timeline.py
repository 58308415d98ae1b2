"""Work that devices still have to do, and the order in which they do it: any that streams, events and graphs allow.

Nothing runs when it is issued. Where the host waits, pending work runs in a random order (seeded) in which everything
comes after what it depends on. An order that a GPU would show once in a million steps is as likely here as any other.

The same dependencies say what happens before what: each work knows, as a set of bits, all that is certain to be over
when it begins. `history.py` compares accesses to memory with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from meshgen.emulator.faults import DeviceFault


class Work:
    """One thing that a device does: a kernel, a copy, a mark without effect.

    Attributes:
        label: what messages call it.
        before: bits of the numbers of all work that is over when this begins.
    """

    def __init__(self, label: str, run: Callable[[Work], None] | None = None) -> None:
        self.label, self._run = label, run
        self.number, self.epoch, self.before = -1, -1, 0
        self.missing, self.followers, self.done = 0, list[Work](), False

    def advance(self) -> bool:
        """Do it, as far as it can be done now; False where it waits for something that will `wake` it."""
        if self._run:
            self._run(self)
        return True

    def waits_for(self) -> str:
        """A description of what it waits for after its dependencies are done; empty for work that never waits."""
        return ""


class Timeline:
    """All pending work of a machine.

    Attributes:
        listen: lets other processes make something possible while nothing can run here; None: there are none.
        done: how many pieces of work are done.
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
        """Queue work after its dependencies, and after all work that the host has waited for."""
        self._start_epoch()
        work.number, work.epoch, work.before = self._count, self._epoch, self._seen
        self._count += 1
        self._pending += 1
        for other in after:
            work.before |= self._bits(other)
            if not other.done:
                work.missing += 1
                other.followers.append(work)
        if not work.missing:
            self._ready.append(work)
        return work

    def wake(self, work: Work) -> None:
        """Record that the awaited event has happened."""
        self._waiting.pop(work, None)
        self._ready.append(work)

    def wake_waiting(self, choose: Callable[[Work], bool]) -> None:
        """Let waiting work try again."""
        for work in [each for each in self._waiting if choose(each)]:
            self.wake(work)

    def wait(self, work: Work | None) -> None:
        """Run pending work until this is done: the host waits for it.

        Raises:
            DeviceFault: work failed, or nothing can run any more (a deadlock), with what waits for what.
        """
        if work is None:
            return
        while not work.done:
            self._step()
        self._seen |= self._bits(work)

    def poll(self, work: Work | None) -> bool:
        """Let a random amount of work run; whether this one is done then, which the host knows from now on."""
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
        """Whether nothing that is pending can run."""
        return not self._ready and self.listen is None

    def _step(self) -> None:
        if not self._ready:
            if self.listen is None:
                raise DeviceFault("deadlock", self._stuck())
            self.listen()
            return
        place = self._random.randrange(len(self._ready))
        self._ready[place], self._ready[-1] = self._ready[-1], self._ready[place]
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
        """Of a work and all before it; what is of an earlier epoch is before everything."""
        return work.before | 1 << work.number if work.epoch == self._epoch else 0

    def _start_epoch(self) -> None:
        """Where the host has waited for all there is, everything later comes after it: numbers begin again."""
        if self._count and self._seen == (1 << self._count) - 1:
            self._count, self._seen, self._epoch = 0, 0, self._epoch + 1
            for forget in self.on_epoch:
                forget()
