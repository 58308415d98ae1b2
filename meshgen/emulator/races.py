"""Race detection in shared memory, with a vector clock per warp.

Each warp counts its steps between synchronizations. Entry w of a warp's clock is the last step of warp w that happens
before the current step of the clock's warp. A barrier sets the clocks of all warps that synchronize there to their
element-wise maximum. An access races with an earlier access of another warp that is not ordered before it. Most
accesses have 16 bytes: the first word of such a segment represents all its words until a narrower access splits it.
Source: Flanagan and Freund, FastTrack, PLDI 2009, with warps as threads: the lanes of a warp run in lockstep here.
"""

from __future__ import annotations

import numpy as np

from meshgen.emulator.addresses import WIDEST
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.types import Array


class Races:
    """Records the accesses to the shared memory of all blocks of a wave. Positions count bytes through all blocks."""

    def __init__(self, blocks: int, warps: int, stride: int, grain: int) -> None:
        """Create a detector without accesses.

        `stride` is the size of a block in bytes; `grain` is the size of a word, the smallest access.
        """
        self._warps, self._words, self._grain = warps, stride // grain, grain
        self._of_segment = WIDEST // grain  # number of words in a segment
        words = blocks * self._words
        self.clocks = np.zeros((blocks, warps, warps), np.int32)
        self.clocks[:, np.arange(warps), np.arange(warps)] = 1
        # mask of the segments that were accessed by words
        self._is_split = np.zeros(words // self._of_segment, np.bool_)
        self._writer = np.full(words, -1, np.int16)
        self._written = np.zeros(words, np.int32)
        self._read = np.zeros((words, warps), np.int32)
        self._unfenced = np.zeros(words, np.bool_)

    def read(self, positions: Array, size: int, warps: Array, *, by_unit: bool = False) -> None:
        """Record that `warps` read `size` bytes at each position. Raises DeviceFault "race" for an unordered write.

        Args:
            warps: indices of the warps within their blocks.
            by_unit: whether an asynchronous unit reads for the warps; it does not see writes without a proxy fence.
        """
        words, block, by = self._accesses(positions, size, warps)
        if by_unit and self._unfenced[words].any():
            raise DeviceFault("race", "an asynchronous unit reads what was written without fence.proxy.async since")
        self._check_writers(words, block, by, "reads")
        self._read[words, by] = self.clocks[block, by, by]

    def may_write(self, positions: Array, size: int, warps: Array) -> None:
        """Raise DeviceFault "race" if a write by `warps` would be a race now. The write is not recorded."""
        self._refuse_write(*self._accesses(positions, size, warps))

    def write(self, positions: Array, size: int, warps: Array, *, generic: bool = True) -> None:
        """Record that `warps` write `size` bytes at each position. Asynchronous units may read `generic` writes only
        after a proxy fence.
        """
        words, block, by = self._accesses(positions, size, warps)
        self._refuse_write(words, block, by)
        self._writer[words] = by
        self._written[words] = self.clocks[block, by, by]
        self._unfenced[words] = generic

    def _refuse_write(self, words: Array, block: Array, warps: Array) -> None:
        self._check_writers(words, block, warps, "writes")
        unordered = self._read[words] > self.clocks[block, warps]
        if unordered.any():
            access, reader = (int(indices[0]) for indices in np.nonzero(unordered))
            self._raise_race(int(warps[access]), "writes", int(words[access]), reader, "reads")

    def _accesses(self, positions: Array, size: int, warps: Array) -> tuple[Array, Array, Array]:
        """Return the words that represent the accessed bytes, with the block and the warp of each."""
        positions, warps = (array.ravel() for array in np.broadcast_arrays(positions, warps))
        if size == WIDEST:
            segments = positions // WIDEST
            is_split = self._is_split[segments]
            words = segments * self._of_segment
            if is_split.any():
                other_words = (words[is_split, None] + np.arange(1, self._of_segment)).ravel()
                words = np.concatenate([words, other_words])
                warps = np.concatenate([warps, np.repeat(warps[is_split], self._of_segment - 1)])
        else:
            self._split(positions // WIDEST)
            words_per_access = max(1, size // self._grain)
            words = (positions[:, None] // self._grain + np.arange(words_per_access)).ravel()
            warps = np.repeat(warps, words_per_access)
        return words, words // self._words, warps

    def _split(self, segments: Array) -> None:
        """Track each word of the segments separately from now on."""
        new = segments[~self._is_split[segments]]
        if not new.size:
            return
        self._is_split[new] = True
        first = new[:, None] * self._of_segment
        for state in (self._writer, self._written, self._read, self._unfenced):
            state[first + np.arange(self._of_segment)] = state[first]

    def same_values(self, stored: Array, contents: Array) -> None:
        """Raise DeviceFault "race" if threads write different values to one position at once.

        Args:
            stored: the values of all threads.
            contents: the contents of the same positions after the store.
        """
        if not np.array_equal(stored, contents):
            raise DeviceFault("race", "threads write different values to one place of shared memory at once")

    def fence(self, warps: Array) -> None:
        """Record a `fence.proxy.async` of `warps` [blocks, warps]: asynchronous units see the earlier writes of these
        warps.
        """
        if warps.all():
            self._unfenced[:] = False
            return
        words = np.flatnonzero(self._unfenced)
        is_fenced = warps[words // self._words, self._writer[words]]
        self._unfenced[words[is_fenced]] = False

    def meet(self, warps: Array) -> None:
        """Record that `warps` [blocks, warps] synchronize at a barrier. The clocks of the warps in a block become their
        maximum.
        """
        joined_clocks = np.where(warps[:, :, None], self.clocks, 0).max(1)
        self.learn(warps, joined_clocks)

    def learn(self, warps: Array, other_clocks: Array) -> None:
        """Raise the clocks of `warps` [blocks, warps] to at least the clocks `other_clocks` [blocks, warps]. These
        warps then begin a new step.
        """
        self.clocks = np.where(warps[:, :, None], np.maximum(self.clocks, other_clocks[:, None, :]), self.clocks)
        diagonal = np.arange(self._warps)
        self.clocks[:, diagonal, diagonal] += warps

    def _check_writers(self, words: Array, block: Array, warps: Array, verb: str) -> None:
        writer = self._writer[words]
        unordered = (writer >= 0) & (self._written[words] > self.clocks[block, warps, writer])
        if unordered.any():
            access = int(np.argmax(unordered))
            self._raise_race(int(warps[access]), verb, int(words[access]), int(writer[access]), "writes")

    def _raise_race(self, warp: int, verb: str, word: int, other: int, earlier: str) -> None:
        where = f"word {word % self._words} of shared memory"
        raise DeviceFault("race", f"warp {warp} {verb} {where}, which warp {other} {earlier} with no barrier between")
