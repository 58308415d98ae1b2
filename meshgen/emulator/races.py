"""Races in shared memory, by the order that barriers make: a vector clock per warp.

A warp's clock says what it knows of each warp of its block: entry w is the last step of warp w that is over for it. A barrier
gives all who meet at it the same knowledge. An access races with an earlier one of another warp that it does not know to be over.
Most accesses are of 16 bytes: until a narrower one touches such a segment, its first word stands for all of its words.
Source: Flanagan and Freund, FastTrack, PLDI 2009, with warps for threads: the lanes of a warp run in step here.
"""

from __future__ import annotations

import numpy as np

from meshgen.emulator.addresses import WIDEST
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.types import Array


class Races:
    """The accesses to the shared memory of all blocks of a wave; places count bytes through all blocks."""

    def __init__(self, blocks: int, warps: int, stride: int, grain: int) -> None:
        """`stride`: bytes of a block; `grain`: bytes of a word, the smallest access."""
        self._warps, self._words, self._grain = warps, stride // grain, grain
        self._of_segment = WIDEST // grain  # words
        words = blocks * self._words
        self.clocks = np.zeros((blocks, warps, warps), np.int32)
        self.clocks[:, np.arange(warps), np.arange(warps)] = 1
        self._is_split = np.zeros(words // self._of_segment, np.bool_)  # segments that narrower accesses have touched
        self._writer = np.full(words, -1, np.int16)
        self._written = np.zeros(words, np.int32)
        self._read = np.zeros((words, warps), np.int32)
        self._unfenced = np.zeros(words, np.bool_)

    def read(self, places: Array, size: int, warps: Array, *, by_unit: bool = False) -> None:
        """Warps (of their block) read `size` bytes at each place. Raises DeviceFault "race".

        Args:
            by_unit: an asynchronous unit reads for them, which does not see writes without a fence.
        """
        words, block, by = self._accesses(places, size, warps)
        if by_unit and self._unfenced[words].any():
            raise DeviceFault("race", "an asynchronous unit reads what was written without fence.proxy.async since")
        self._check_writers(words, block, by, "reads")
        self._read[words, by] = self.clocks[block, by, by]

    def may_write(self, places: Array, size: int, warps: Array) -> None:
        """Refuse a write now, without noting it. Raises DeviceFault "race"."""
        self._refuse_write(*self._accesses(places, size, warps))

    def write(self, places: Array, size: int, warps: Array, *, generic: bool = True) -> None:
        """Warps write; `generic` writes need a proxy fence before asynchronous units read them."""
        words, block, by = self._accesses(places, size, warps)
        self._refuse_write(words, block, by)
        self._writer[words] = by
        self._written[words] = self.clocks[block, by, by]
        self._unfenced[words] = generic

    def _refuse_write(self, words: Array, block: Array, warps: Array) -> None:
        self._check_writers(words, block, warps, "writes")
        unknown = self._read[words] > self.clocks[block, warps]
        if unknown.any():
            place, reader = (int(each[0]) for each in np.nonzero(unknown))
            self._raise_race(int(warps[place]), "writes", int(words[place]), reader, "reads")

    def _accesses(self, places: Array, size: int, warps: Array) -> tuple[Array, Array, Array]:
        """The words that stand for what is accessed, with the block and the warp of each."""
        places, warps = (each.ravel() for each in np.broadcast_arrays(places, warps))
        if size == WIDEST:
            segments = places // WIDEST
            is_split = self._is_split[segments]
            words = segments * self._of_segment
            if is_split.any():
                behind = (words[is_split, None] + np.arange(1, self._of_segment)).ravel()
                words = np.concatenate([words, behind])
                warps = np.concatenate([warps, np.repeat(warps[is_split], self._of_segment - 1)])
        else:
            self._split(places // WIDEST)
            many = max(1, size // self._grain)
            words = (places[:, None] // self._grain + np.arange(many)).ravel()
            warps = np.repeat(warps, many)
        return words, words // self._words, warps

    def _split(self, segments: Array) -> None:
        """Each word of these segments stands for itself from now on."""
        new = segments[~self._is_split[segments]]
        if not new.size:
            return
        self._is_split[new] = True
        first = new[:, None] * self._of_segment
        for state in (self._writer, self._written, self._read, self._unfenced):
            state[first + np.arange(self._of_segment)] = state[first]

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
