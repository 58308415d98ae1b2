"""Race detection in global memory between the blocks of a launch, which have no order.

If one block writes a word, no other block may read it or write another value to it. If a block updates a word by an
atomic operation, other blocks may only update it, too. Synchronization between blocks through atomic operations is not
recognized, so it is reported as a race.
"""

from __future__ import annotations

import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.types import Array

# entries of the tables: no access to the word, and accesses by several blocks; any other entry is the block index plus
# 1
NO_BLOCK, MANY = 0, -1


class BlockRaces:
    """Records which block of a launch accesses each word of the ranges that the launch may access."""

    def __init__(self, starts: Array, stops: Array, grain: int) -> None:
        """Create tables without accesses. `starts` and `stops` are the addresses of sorted, disjoint ranges; `grain` is
        the size of a word in bytes.
        """
        self._starts, self._grain = starts, grain
        first = starts.astype(np.int64) // grain
        words = np.cumsum(-(-stops.astype(np.int64) // grain) - first)
        # difference between the table index and the address-space index of a word, for each range
        self._shift = np.r_[0, words][:-1] - first
        count = int(words[-1]) if len(words) else 0
        self._readers, self._writers, self._updaters = (np.zeros(count, np.int32) for _ in range(3))

    def read(self, addresses: Array, nbytes: int, blocks: Array) -> None:
        """Record that each of `blocks` reads `nbytes` bytes at its address. Raises DeviceFault "race" if another block
        has written them.
        """
        words, by = self._words(addresses, nbytes, blocks)
        self._refuse(words, by, "reads", self._writers, "writes")
        self._refuse(words, by, "reads", self._updaters, "updates")
        _note(self._readers, words, by)

    def write(self, addresses: Array, nbytes: int, blocks: Array, changed: Array) -> None:
        """Check and record writes of `nbytes` bytes. `changed` is the mask of the writes that change the memory.

        Raises:
            DeviceFault: "race", another block has read or updated a word, or has written another value to it.
        """
        words, by = self._words(addresses, nbytes, blocks)
        shape = np.broadcast_shapes(addresses.shape, blocks.shape)
        changes = np.repeat(np.broadcast_to(changed, shape).ravel(), max(1, nbytes // self._grain))
        self._refuse(words, by, "writes", self._readers, "reads")
        self._refuse(words[changes], by[changes], "writes another value to", self._writers, "writes")
        self._refuse(words, by, "writes", self._updaters, "updates")
        _note(self._writers, words, by)

    def update(self, addresses: Array, nbytes: int, blocks: Array) -> None:
        """Record atomic operations on `nbytes` bytes. Raises DeviceFault "race" if another block has read or written
        one of the words.
        """
        words, by = self._words(addresses, nbytes, blocks)
        self._refuse(words, by, "updates", self._readers, "reads")
        self._refuse(words, by, "updates", self._writers, "writes")
        _note(self._updaters, words, by)

    def _words(self, addresses: Array, nbytes: int, blocks: Array) -> tuple[Array, Array]:
        """Return the index of each accessed word, and the index of the accessing block plus 1."""
        addresses, blocks = np.broadcast_arrays(addresses, blocks)
        range_index = np.searchsorted(self._starts, addresses.ravel(), side="right") - 1
        words_per_access = max(1, nbytes // self._grain)
        first = addresses.ravel().astype(np.int64) // self._grain + self._shift[range_index]
        return (first[:, None] + np.arange(words_per_access)).ravel(), np.repeat(blocks.ravel() + 1, words_per_access)

    def _refuse(self, words: Array, by: Array, verb: str, accessors: Array, earlier: str) -> None:
        other = accessors[words]
        conflict = (other != NO_BLOCK) & (other != by)
        if conflict.any():
            index = int(np.argmax(conflict))
            word, block = int(words[index]), int(by[index]) - 1
            others_text = f"block {int(other[index]) - 1}" if other[index] != MANY else "several blocks"
            words_text = f"{self._grain} bytes at {self._address(word):#x}"
            verb_of_others = earlier if other[index] != MANY else earlier.removesuffix("s")
            reason = f"block {block} {verb} {words_text}, which {others_text} {verb_of_others}, and nothing orders the blocks of a launch"
            raise DeviceFault("race", reason)

    def _address(self, word: int) -> int:
        range_index = (
            int(np.searchsorted(self._shift + self._starts.astype(np.int64) // self._grain, word, side="right")) - 1
        )
        return (word - int(self._shift[range_index])) * self._grain


def _note(accessors: Array, words: Array, by: Array) -> None:
    """Record accesses in the table `accessors`: an entry becomes `by` (block plus 1), or `MANY` if another block has
    accessed the word.
    """
    previous = accessors[words]
    updated = np.where((previous == NO_BLOCK) | (previous == by), by, MANY).astype(np.int32)
    accessors[words] = updated
    accessors[words[accessors[words] != updated]] = MANY
