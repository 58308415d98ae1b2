"""Races in shared memory, by the order that barriers make: a vector clock per warp.

A warp's clock says what it knows of each warp of its block: entry w is the last step of warp w that is over for it. A barrier
gives all who meet at it the same knowledge. An access races with an earlier one of another warp that it does not know to be over.
Source: Flanagan and Freund, FastTrack, PLDI 2009, with warps for threads: the lanes of a warp run in step here.
"""

from __future__ import annotations

import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.types import Array


class Races:
    """The accesses to the shared memory of all blocks of a wave. Words are numbered through all blocks."""

    def __init__(self, blocks: int, warps: int, words: int) -> None:
        """`words`: of a block's shared memory; the smallest access is one."""
        self._warps, self._words = warps, words
        self.clocks = np.zeros((blocks, warps, warps), np.int32)
        self.clocks[:, np.arange(warps), np.arange(warps)] = 1
        self._writer = np.full(blocks * words, -1, np.int16)
        self._written = np.zeros(blocks * words, np.int32)
        self._read = np.zeros((blocks * words, warps), np.int32)
        self._unfenced = np.zeros(blocks * words, np.bool_)

    def read(self, words: Array, warps: Array) -> None:
        """Warps (of their block) read words. Raises DeviceFault "race"."""
        block = words // self._words
        self._check_writers(words, block, warps, "reads")
        self._read[words, warps] = self.clocks[block, warps, warps]

    def may_write(self, words: Array, warps: Array) -> None:
        """Refuse a write now, without noting it. Raises DeviceFault "race"."""
        block = words // self._words
        self._check_writers(words, block, warps, "writes")
        unknown = self._read[words] > self.clocks[block, warps]
        if unknown.any():
            place, reader = (int(each[0]) for each in np.nonzero(unknown))
            self._raise_race(int(warps[place]), "writes", int(words[place]), reader, "reads")

    def write(self, words: Array, warps: Array, *, generic: bool = True) -> None:
        """Warps write words; `generic` writes need a proxy fence before asynchronous units read them."""
        self.may_write(words, warps)
        self._writer[words] = warps
        self._written[words] = self.clocks[words // self._words, warps, warps]
        self._unfenced[words] = generic

    def same_values(self, stored: Array, found: Array) -> None:
        """Of several threads that write to one place at once, all must write the same."""
        if not np.array_equal(stored, found):
            raise DeviceFault("race", "threads write different values to one place of shared memory at once")

    def fence(self, warps: Array) -> None:
        """`fence.proxy.async` of warps [blocks, warps]: what they wrote is visible to asynchronous units."""
        if warps.all():
            self._unfenced[:] = False
            return
        words = np.flatnonzero(self._unfenced)
        mine = warps[words // self._words, self._writer[words]]
        self._unfenced[words[mine]] = False

    def read_by_unit(self, words: Array) -> None:
        """An asynchronous unit reads words. Raises DeviceFault "race" for writes without a fence."""
        if self._unfenced[words].any():
            raise DeviceFault("race", "an asynchronous unit reads what was written without fence.proxy.async since")

    def meet(self, warps: Array) -> None:
        """Warps [blocks, warps] meet at a barrier, those of each block with each other."""
        known = np.where(warps[:, :, None], self.clocks, 0).max(1)
        self.learn(warps, known)

    def learn(self, warps: Array, known: Array) -> None:
        """Warps [blocks, warps] know now what `known` [blocks, warps] says, and begin a new step."""
        self.clocks = np.where(warps[:, :, None], np.maximum(self.clocks, known[:, None, :]), self.clocks)
        every = np.arange(self._warps)
        self.clocks[:, every, every] += warps

    def _check_writers(self, words: Array, block: Array, warps: Array, what: str) -> None:
        writer = self._writer[words]
        unknown = (writer >= 0) & (self._written[words] > self.clocks[block, warps, writer])
        if unknown.any():
            place = int(np.argmax(unknown))
            self._raise_race(int(warps[place]), what, int(words[place]), int(writer[place]), "writes")

    def _raise_race(self, warp: int, what: str, word: int, other: int, earlier: str) -> None:
        where = f"word {word % self._words} of shared memory"
        raise DeviceFault("race", f"warp {warp} {what} {where}, which warp {other} {earlier} with no barrier between")
