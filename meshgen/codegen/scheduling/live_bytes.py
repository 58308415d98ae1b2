"""Live bytes at each launch of a program, to decide whether launches can move without a higher peak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.codegen.scheduling.program import Program
from meshgen.codegen.scheduling.schedule import storages_of


class LiveBytes:
    """The live bytes (per device) at each launch in program order, and their peak."""

    def __init__(self, program: Program) -> None:
        count = len(program.tasks)
        self._storages = storages_of(program)
        self._produced: dict[int, list[int]] = {}
        self._used: dict[int, list[int]] = {}
        self._ends = [count - 1 if s.stays else max((s.maker, *s.users)) for s in self._storages]
        self._bytes = np.zeros(count, np.int64)
        for index, storage in enumerate(self._storages):
            self._produced.setdefault(storage.maker, []).append(index)
            for user in storage.users:
                self._used.setdefault(user, []).append(index)
            self._bytes[storage.maker : self._ends[index] + 1] += storage.nbytes
        self._peak = int(self._bytes.max(initial=0))

    def fits(self, members: Sequence[int], start: int, to: int) -> bool:
        """Whether moving the launches `members` from position `start` to position `to` does not increase the peak."""
        changed = self._changed(members, start, to)[0]
        low, high = min(start, to), max(start, to) + 1
        return bool((changed[low:high] <= np.maximum(self._bytes[low:high], self._peak)).all())

    def move(self, members: Sequence[int], start: int, to: int) -> None:
        self._bytes, self._ends = self._changed(members, start, to)

    def _changed(
        self, members: Sequence[int], start: int, to: int
    ) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[int]]:
        live, ends = self._bytes.copy(), [*self._ends]
        for member in members:
            for index in self._produced.get(member, ()):
                size = self._storages[index].nbytes
                live[start:to] -= size
                live[to:start] += size
            for index in self._used.get(member, ()):
                if to > ends[index]:
                    live[ends[index] + 1 : to + 1] += self._storages[index].nbytes
                    ends[index] = to
        return live, ends
