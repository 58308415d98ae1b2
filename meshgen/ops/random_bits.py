"""Random bits with the counters that XLA uses, so that a program draws the same numbers in meshgen as in XLA.

The generators use overloaded operators only, so they run on NumPy arrays and on the symbolic words of a kernel.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

Array = np.ndarray[Any, Any]
Word = TypeVar("Word", bound=Any)
_MASK_32 = np.uint64(0xFFFFFFFF)
PHILOX_WORDS = 4  # 32-bit words that each counter value produces


def threefry(key: tuple[Word, Word], counter: tuple[Word, Word]) -> tuple[Word, Word]:
    """Apply Threefry-2x32 with 20 rounds to 32-bit words. Source: Salmon et al., SC 2011."""
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for rotation in rotations[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation) | y >> np.uint32(32 - rotation)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def philox(key: tuple[Word, Word], counter: list[Word]) -> list[Word]:
    """Apply Philox-4x32 with 10 rounds to a counter of four 32-bit words. Source: Salmon et al., SC 2011."""
    a, b = key
    words = counter
    for _ in range(10):
        first, second = (
            w.astype(np.uint64) * np.uint64(m) for m, w in ((0xD2511F53, words[0]), (0xCD9E8D57, words[2]))
        )
        (low_1, high_1), (low_2, high_2) = halves(first), halves(second)
        words = [high_2 ^ words[1] ^ a, low_2, high_1 ^ words[3] ^ b, low_1]
        a, b = a + np.uint32(0x9E3779B9), b + np.uint32(0xBB67AE85)
    return words


def halves(wide: Word) -> tuple[Word, Word]:
    """Return the low and high 32 bits of a 64-bit word."""
    return (wide & _MASK_32).astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)


def joined(low: Word, high: Word) -> Word:
    """Join two 32-bit words into a 64-bit word."""
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


def carried(high: Word, low: Word, before: Word) -> Word:
    """Return the high word of a counter, plus 1 if its low word wrapped around when it advanced from `before` to `low`."""
    return high + (low < before).astype(np.uint64)


def paired_dim(shape: tuple[int, ...]) -> int:
    """Return the dim along which two adjacent elements share a Threefry counter: the first one of even size, else the
    largest.
    """
    return next((d for d, n in enumerate(shape) if n % 2 == 0), int(np.argmax(shape)) if shape else 0)


def philox_bits(state: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the new state and random bits of shape `shape`, drawn by Philox.

    The state is a key and a counter of one or two 64-bit words. If the counter has one word, the key is its high word.
    """
    wide = dtype.itemsize == 8
    count = int(np.prod(shape, dtype=np.int64)) * (2 if wide else 1)
    low = state[1] + np.arange(-(-count // PHILOX_WORDS) + 1, dtype=np.uint64)
    high = carried(state[2 if len(state) > 2 else 0], low, state[1])
    words = philox(halves(state[:1]), [*halves(low[:-1]), *halves(high[:-1])])
    new = np.array([state[0], low[-1], high[-1]][: len(state)], np.uint64)
    flat = np.stack(words, -1).reshape(-1)[:count]
    return new, (joined(flat[0::2], flat[1::2]) if wide else flat).reshape(shape)


def threefry_bits(state: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the new state and random bits of shape `shape`, drawn by Threefry. The state is a key and a counter."""
    wide, sizes, split = dtype.itemsize == 8, list(shape), paired_dim(shape)
    half = sizes.copy()
    if sizes and not wide:
        half[split] = -(-sizes[split] // 2)
    size = int(np.prod(half, dtype=np.int64))
    parts = threefry(halves(state[:1]), halves(state[1] + np.arange(size, dtype=np.uint64)))
    new = np.array([state[0], state[1] + np.uint64(size)], np.uint64)
    if wide:
        return new, joined(*parts).reshape(sizes)
    if not sizes:
        return new, parts[0].reshape(())
    paired = np.stack([p.reshape(half) for p in parts], split + 1)
    interleaved = paired.reshape([2 * n if d == split else n for d, n in enumerate(half)])
    return new, interleaved[tuple(slice(n) for n in sizes)]
