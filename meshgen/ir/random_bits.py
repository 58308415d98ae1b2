"""Random bits as XLA counts them, so that a program draws the same numbers here as there."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_MASK_32 = np.uint64(0xFFFFFFFF)


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds on uint32 arrays. Source: Salmon et al., SC 2011."""
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


def philox(key: tuple[Array, Array], counter: list[Array]) -> list[Array]:
    """Philox-4x32 with 10 rounds: four words of counters and results. Source: Salmon et al., SC 2011."""
    a, b = (k.astype(np.uint32) for k in key)
    words = counter
    for _ in range(10):
        first, second = (np.uint64(m) * w for m, w in ((0xD2511F53, words[0]), (0xCD9E8D57, words[2])))
        (low_1, high_1), (low_2, high_2) = halves(first), halves(second)
        words = [high_2 ^ words[1] ^ a, low_2, high_1 ^ words[3] ^ b, low_1]
        a, b = a + np.uint32(0x9E3779B9), b + np.uint32(0xBB67AE85)
    return words


def halves(wide: Array) -> tuple[Array, Array]:
    """Low and high 32 bits."""
    wide = np.asarray(wide)
    return (wide & _MASK_32).astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)


def philox_bits(state: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """New state and bits. The state is a key and a counter of one or two 64-bit words; the key stands for a missing one."""
    wide = dtype.itemsize == 8
    count = int(np.prod(shape, dtype=np.int64)) * (2 if wide else 1)
    blocks = -(-count // 4)
    low = state[1] + np.arange(blocks + 1, dtype=np.uint64)
    high = state[2 if len(state) > 2 else 0] + (low < state[1]).astype(np.uint64)
    words = np.stack(philox(halves(state[0]), [*halves(low[:-1]), *halves(high[:-1])]), -1).reshape(-1)[:count]
    new = np.array([state[0], low[-1], high[-1]][: len(state)], np.uint64)
    if wide:
        return new, (words[0::2].astype(np.uint64) | words[1::2].astype(np.uint64) << np.uint64(32)).reshape(shape)
    return new, words.reshape(shape)


def threefry_bits(state: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """New state and bits: neighbours along the first even dim (else the greatest) share a counter."""
    wide, sizes = dtype.itemsize == 8, list(shape)
    split = 0 if wide else next((d for d, n in enumerate(sizes) if n % 2 == 0), int(np.argmax(sizes)) if sizes else 0)
    half = sizes.copy()
    if sizes and not wide:
        half[split] = -(-sizes[split] // 2)
    size = int(np.prod(half, dtype=np.int64))
    parts = threefry(halves(state[0]), halves(state[1] + np.arange(size, dtype=np.uint64)))
    new = np.array([state[0], state[1] + np.uint64(size)], np.uint64)
    if wide:
        return new, (parts[0].astype(np.uint64) | parts[1].astype(np.uint64) << np.uint64(32)).reshape(sizes)
    if not sizes:
        return new, parts[0].reshape(())
    paired = np.stack([p.reshape(half) for p in parts], split + 1)
    joined = paired.reshape([2 * n if d == split else n for d, n in enumerate(half)])
    return new, joined[tuple(slice(n) for n in sizes)]
