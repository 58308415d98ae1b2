"""Races in global memory between the blocks of a launch: nothing orders these, whatever order they run in here.

A word that one block writes may be read or written by no other one, except that several may write the same value. Atomic
operations may meet each other, but no other access; that a block waits for another one by means of them is not followed.
"""

from __future__ import annotations

import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.types import Array

NO_BLOCK, MANY = 0, -1  # beside the number of a block and 1


class BlockRaces:
    """The accesses of each block of a launch to the words of the ranges that it may touch."""

    def __init__(self, starts: Array, stops: Array, grain: int) -> None:
        """`starts`, `stops`: addresses of the ranges, ascending and apart; `grain`: bytes of a word, the smallest access."""
        self._starts, self._grain = starts, grain
        first = starts.astype(np.int64) // grain
        words = np.cumsum(-(-stops.astype(np.int64) // grain) - first)
        self._shift = np.r_[0, words][:-1] - first  # from the number of a word among all addresses to its place here
        count = int(words[-1]) if len(words) else 0
        self._readers, self._writers, self._updaters = (np.zeros(count, np.int32) for _ in range(3))

    def read(self, addresses: Array, nbytes: int, blocks: Array) -> None:
        """Blocks, one for each address, read. Raises DeviceFault "race"."""
        words, by = self._words(addresses, nbytes, blocks)
        self._refuse(words, by, "reads", self._writers, "writes")
        self._refuse(words, by, "reads", self._updaters, "updates")
        _note(self._readers, words, by)

    def write(self, addresses: Array, nbytes: int, blocks: Array, changed: Array) -> None:
        """Blocks are about to write; `changed`: where that is another value than memory has. Raises DeviceFault "race"."""
        words, by = self._words(addresses, nbytes, blocks)
        shape = np.broadcast_shapes(addresses.shape, blocks.shape)
        changes = np.repeat(np.broadcast_to(changed, shape).ravel(), max(1, nbytes // self._grain))
        self._refuse(words, by, "writes", self._readers, "reads")
        self._refuse(words[changes], by[changes], "writes another value to", self._writers, "writes")
        self._refuse(words, by, "writes", self._updaters, "updates")
        _note(self._writers, words, by)

    def update(self, addresses: Array, nbytes: int, blocks: Array) -> None:
        """Blocks do an atomic operation. Raises DeviceFault "race"."""
        words, by = self._words(addresses, nbytes, blocks)
        self._refuse(words, by, "updates", self._readers, "reads")
        self._refuse(words, by, "updates", self._writers, "writes")
        _note(self._updaters, words, by)

    def _words(self, addresses: Array, nbytes: int, blocks: Array) -> tuple[Array, Array]:
        """The words that are accessed, and by whom."""
        addresses, blocks = np.broadcast_arrays(addresses, blocks)
        place = np.searchsorted(self._starts, addresses.ravel(), side="right") - 1
        many = max(1, nbytes // self._grain)
        first = addresses.ravel().astype(np.int64) // self._grain + self._shift[place]
        return (first[:, None] + np.arange(many)).ravel(), np.repeat(blocks.ravel() + 1, many)

    def _refuse(self, words: Array, by: Array, verb: str, others: Array, earlier: str) -> None:
        other = others[words]
        conflict = (other != NO_BLOCK) & (other != by)
        if conflict.any():
            place = int(np.argmax(conflict))
            word, block = int(words[place]), int(by[place]) - 1
            who = f"block {int(other[place]) - 1}" if other[place] != MANY else "several blocks"
            what = f"{self._grain} bytes at {self._address(word):#x}"
            verb_of_others = earlier if other[place] != MANY else earlier.removesuffix("s")
            reason = (
                f"block {block} {verb} {what}, which {who} {verb_of_others}, and nothing orders the blocks of a launch"
            )
            raise DeviceFault("race", reason)

    def _address(self, word: int) -> int:
        place = int(np.searchsorted(self._shift + self._starts.astype(np.int64) // self._grain, word, side="right")) - 1
        return (word - int(self._shift[place])) * self._grain


def _note(who: Array, words: Array, by: Array) -> None:
    """Words have been accessed: by a block alone, or by many."""
    found = who[words]
    now = np.where((found == NO_BLOCK) | (found == by), by, MANY).astype(np.int32)
    who[words] = now
    who[words[who[words] != now]] = MANY
