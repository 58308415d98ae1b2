"""The shared memory of the blocks of a wave, with the pending asynchronous copies and matrix operations that access it."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.emulator.addresses import SHARED_BASE, WIDEST
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.memory import POISON
from meshgen.emulator.races import Races
from meshgen.emulator.types import Array, DType


class SharedMemory:
    """Shared memory of `nbytes` bytes for each of `blocks` blocks.

    Addresses begin at `SHARED_BASE` in every block. Positions count bytes through all blocks.

    Args:
        grain: bytes of a word, which is the smallest access and the granularity of all checks.
        races: whether to check for races between the `warps` of a block.
    """

    def __init__(self, blocks: int, warps: int, nbytes: int, grain: int, *, races: bool) -> None:
        self.nbytes = nbytes
        self.grain = grain
        self.stride = -(-max(nbytes, 1) // WIDEST) * WIDEST
        self._bytes = np.full(blocks * self.stride, POISON, np.uint8)
        self.first = (np.arange(blocks, dtype=np.int64) * self.stride)[:, None]
        words = self.stride // grain
        self.races = Races(blocks, warps, self.stride, grain) if races else None
        # mask of the words that are the destination of a pending copy
        self.incoming = np.zeros(blocks * words, np.bool_)
        self.copying = 0  # number of pending copies; `incoming` is checked only if there are any
        self._read_by = np.zeros(blocks * words, np.int32)  # number of the last matrix operation that reads each word
        self.reading = 0  # number of pending matrix operations
        # [operation, block]: mask of the operations that are pending in the block
        self._busy = np.zeros((64, blocks), np.bool_)

    def positions(self, addresses: Array, blocks: Array | None, size: int, alignment: int | None = None) -> Array:
        """Convert addresses to positions.

        Args:
            addresses: [blocks, threads], or a list if `blocks` is given.
            blocks: the block of each address in a list.
            size: bytes of each access.
            alignment: required alignment; `size` if None.
        Raises:
            DeviceFault: "shared memory" or "alignment", an address is outside of the block or misaligned.
        """
        offsets = addresses.astype(np.int64) - SHARED_BASE
        if offsets.size and (int(offsets.min()) < 0 or int(offsets.max()) + size > self.nbytes):
            bad = offsets[(offsets < 0) | (offsets + size > self.nbytes)]
            reason = f"{size} bytes at offset {int(bad.flat[0])}, but a block has {self.nbytes} bytes"
            raise DeviceFault("shared memory", f"{bad.size} of {offsets.size} threads access {reason}")
        alignment = alignment or size
        if offsets.size and int(np.bitwise_or.reduce(offsets, axis=None)) % alignment:
            raise DeviceFault("alignment", f"{size} bytes of shared memory are accessed at a misaligned offset")
        return offsets + (self.first if blocks is None else blocks * self.stride)

    def load(self, positions: Array, size: int, warps: Array) -> Array:
        """Return `size` bytes at each position as words. `warps` has the index of the reading warp within its block."""
        self._check_read(positions, size, warps)
        return self._bytes.view(WORDS[size])[positions // size]

    def store(self, positions: Array, values: Array, warps: Array) -> None:
        """Write one element of `values` at each position. `warps` has the index of the writing warp within its
        block.
        """
        size = values.dtype.itemsize
        self._check_write(positions, size, warps)
        elements = self._bytes.view(values.dtype)
        elements[positions // size] = values
        if self.races:
            bits = np.dtype(f"V{size}")
            stored = elements[positions // size]
            self.races.same_values(
                np.ascontiguousarray(np.broadcast_to(values, stored.shape)).view(bits), stored.view(bits)
            )

    def elements(self, dtype: DType) -> Array:
        """Return the shared memory of all blocks as elements of type `dtype`."""
        return self._bytes.view(dtype)

    def _check_read(self, positions: Array, size: int, warps: Array) -> None:
        if not self.copying and self.races is None:
            return
        if self._is_incoming(positions, size):
            raise DeviceFault("async copy", "shared memory is read while a copy to it has not been waited for")
        if self.races:
            self.races.read(positions, size, warps)

    def _check_write(self, positions: Array, size: int, warps: Array) -> None:
        if not self.copying and not self.reading and self.races is None:
            return
        self._require_overwritable(positions, size)
        if self.races:
            self.races.write(positions, size, warps)

    def _incoming_by(self, size: int) -> tuple[Array, Any]:
        """Return a view of `incoming` with one item per access of `size` bytes, and the value of an item whose words
        are all set.
        """
        dtype = WORDS[max(1, size // self.grain)]
        return self.incoming.view(dtype), np.ones(dtype.itemsize, np.bool_).view(dtype)[0]

    def _is_incoming(self, positions: Array, size: int) -> bool:
        return bool(self.copying and self._incoming_by(size)[0][positions // max(size, self.grain)].any())

    def _readers_by(self, size: int) -> Array:
        """Return the last operation that read each word, grouped by accesses of `size` bytes: [accesses, words]."""
        return self._read_by.reshape(-1, max(1, size // self.grain))

    def _require_overwritable(self, positions: Array, size: int) -> None:
        """Raise DeviceFault "async copy" if a pending operation accesses the bytes.

        These operations are copies that write them, and matrix operations that may read them.
        """
        if self._is_incoming(positions, size):
            raise DeviceFault("async copy", "shared memory is written while a copy to it has not been waited for")
        if not self.reading:
            return
        readers = self._readers_by(size)[positions // max(size, self.grain)]
        may_be_pending = readers >= np.argmax(self._busy.any(1))  # not before the first pending operation
        if may_be_pending.any() and self._busy[readers, (positions // self.stride)[..., None]].any():
            raise DeviceFault("async copy", "shared memory is written while a matrix unit may still read it")

    def begin_copy(self, positions: Array, size: int, warps: Array) -> None:
        """Mark `size` bytes at each position as the destination of a pending copy, which no thread may access."""
        self._require_overwritable(positions, size)
        if self.races:
            self.races.may_write(positions, size, warps)
        incoming, all_set = self._incoming_by(size)
        incoming[positions // max(size, self.grain)] = all_set
        self.copying += 1

    def end_copy(self, positions: Array, values: Array, warps: Array, *, generic: bool = True) -> None:
        """Complete a copy: write its values and allow access again. `generic` is passed to `Races.write`."""
        size = values.dtype.itemsize
        self._incoming_by(size)[0][positions // max(size, self.grain)] = 0
        if self.races:
            self.races.write(positions, size, warps, generic=generic)
        self._bytes.view(values.dtype)[positions // size] = values

    def begin_operation(self, operation: int) -> None:
        """Mark matrix operation number `operation`, counted from 1, as pending in all blocks."""
        if operation >= len(self._busy):
            self._busy = np.concatenate([self._busy, np.zeros_like(self._busy)])
        self._busy[operation] = True
        self.reading += 1

    def end_operation(self, operation: int, blocks: Array | None = None) -> None:
        """Mark a matrix operation as complete in `blocks`, or in all blocks if `blocks` is None."""
        self._busy[operation, slice(None) if blocks is None else blocks] = False
        self.reading -= blocks is None

    def unit_reads(self, positions: Array, size: int, warps: Array, operation: int) -> Array:
        """Read shared memory for matrix operation number `operation`.

        No thread may write there until the operation is complete.
        """
        if self._is_incoming(positions, size):
            raise DeviceFault("async copy", "a matrix unit reads shared memory to which a copy has not been waited for")
        if self.races:
            self.races.read(positions, size, warps, by_unit=True)
        self._readers_by(size)[positions // max(size, self.grain)] = operation
        return self._bytes.view(WORDS[size])[positions // size]
