"""How many bytes are alive at each launch of a program, and whether launches may come earlier or later without more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.codegen.scheduling.program import Program
from meshgen.codegen.scheduling.schedule import storages_of


class LiveBytes:
    """Bytes that are alive at each launch of the program's order, and at most so far."""

    def __init__(self, program: Program) -> None:
        count = len(program.tasks)
        self._storages = storages_of(program)
        self._made: dict[int, list[int]] = {}
        self._used: dict[int, list[int]] = {}
        self._ends = [count - 1 if s.stays else max((s.maker, *s.users)) for s in self._storages]
        self._bytes = np.zeros(count, np.int64)
        for number, storage in enumerate(self._storages):
            self._made.setdefault(storage.maker, []).append(number)
            for user in storage.users:
                self._used.setdefault(user, []).append(number)
            self._bytes[storage.maker : self._ends[number] + 1] += storage.nbytes
        self._most = int(self._bytes.max(initial=0))

    def fits(self, members: Sequence[int], start: int, to: int) -> bool:
        """Whether no more bytes are alive at any time if launches are moved."""
        changed = self._changed(members, start, to)[0]
        low, high = min(start, to), max(start, to) + 1
        return bool((changed[low:high] <= np.maximum(self._bytes[low:high], self._most)).all())

    def move(self, members: Sequence[int], start: int, to: int) -> None:
        self._bytes, self._ends = self._changed(members, start, to)

    def _changed(
        self, members: Sequence[int], start: int, to: int
    ) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[int]]:
        found, ends = self._bytes.copy(), [*self._ends]
        for member in members:
            for number in self._made.get(member, ()):
                size = self._storages[number].nbytes
                found[start:to] -= size
                found[to:start] += size
            for number in self._used.get(member, ()):
                if to > ends[number]:
                    found[ends[number] + 1 : to + 1] += self._storages[number].nbytes
                    ends[number] = to
        return found, ends
