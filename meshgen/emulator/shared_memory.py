"""The shared memory of the blocks of a wave, with what asynchronous copies and matrix units have under way in it."""

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
    """`nbytes` for each of `blocks`. Addresses begin at `SHARED_BASE` in every block; places count bytes through all blocks.

    Args:
        grain: bytes of the smallest access, by which accesses are followed.
        races: whether accesses are checked for races between the `warps` of a block.
    """

    def __init__(self, blocks: int, warps: int, nbytes: int, grain: int, *, races: bool) -> None:
        self.nbytes = nbytes
        self.grain = grain
        self.stride = -(-max(nbytes, 1) // WIDEST) * WIDEST
        self._bytes = np.full(blocks * self.stride, POISON, np.uint8)
        self.first = (np.arange(blocks, dtype=np.int64) * self.stride)[:, None]
        words = self.stride // grain
        self.races = Races(blocks, warps, self.stride, grain) if races else None
        self.incoming = np.zeros(blocks * words, np.bool_)  # copies that have not been waited for
        self.copying = 0  # how many copies are under way: while none is, `incoming` need not be looked at
        self._read_by = np.zeros(blocks * words, np.int32)  # the last operation of a matrix unit that reads a word
        self.reading = 0  # how many of them are under way
        self._busy = np.zeros((64, blocks), np.bool_)  # by operation and block: whether it is under way

    def places(self, addresses: Array, blocks: Array | None, size: int, alignment: int | None = None) -> Array:
        """Addresses as places. Raises DeviceFault "shared memory" or "alignment".

        Args:
            addresses: [blocks, threads], or a list of them with the block of each.
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

    def load(self, places: Array, size: int, warps: Array) -> Array:
        """`size` bytes at each place as one number; `warps` that read are those of their block."""
        self._follow_read(places, size, warps)
        return self._bytes.view(WORDS[size])[places // size]

    def store(self, places: Array, values: Array, warps: Array) -> None:
        """Write one number at each place."""
        size = values.dtype.itemsize
        self._follow_write(places, size, warps)
        elements = self._bytes.view(values.dtype)
        elements[places // size] = values
        if self.races:
            bits = np.dtype(f"V{size}")
            found = elements[places // size]
            self.races.same_values(
                np.ascontiguousarray(np.broadcast_to(values, found.shape)).view(bits), found.view(bits)
            )

    def elements(self, kind: DType) -> Array:
        """The shared memory of all blocks as elements of a type."""
        return self._bytes.view(kind)

    def _follow_read(self, places: Array, size: int, warps: Array) -> None:
        if not self.copying and self.races is None:
            return
        if self._is_incoming(places, size):
            raise DeviceFault("async copy", "shared memory is read while a copy to it has not been waited for")
        if self.races:
            self.races.read(places, size, warps)

    def _follow_write(self, places: Array, size: int, warps: Array) -> None:
        if not self.copying and not self.reading and self.races is None:
            return
        self._refuse_overwriting(places, size)
        if self.races:
            self.races.write(places, size, warps)

    def _incoming_by(self, size: int) -> tuple[Array, Any]:
        """`incoming` with the words of an access of `size` bytes as one number, and that number where all are set."""
        kind = WORDS[max(1, size // self.grain)]
        return self.incoming.view(kind), np.ones(kind.itemsize, np.bool_).view(kind)[0]

    def _is_incoming(self, places: Array, size: int) -> bool:
        return bool(self.copying and self._incoming_by(size)[0][places // max(size, self.grain)].any())

    def _readers_by(self, size: int) -> Array:
        """The last operations that read the words of each access of `size` bytes [accesses, words]."""
        return self._read_by.reshape(-1, max(1, size // self.grain))

    def _refuse_overwriting(self, places: Array, size: int) -> None:
        """Raises DeviceFault "async copy" where bytes are being copied to, or read by a matrix unit."""
        if self._is_incoming(places, size):
            raise DeviceFault("async copy", "shared memory is written while a copy to it has not been waited for")
        if not self.reading:
            return
        readers = self._readers_by(size)[places // max(size, self.grain)]
        is_late = readers >= np.argmax(self._busy.any(1))  # than the first that is under way
        if is_late.any() and self._busy[readers, (places // self.stride)[..., None]].any():
            raise DeviceFault("async copy", "shared memory is written while a matrix unit may still read it")

    def begin_copy(self, places: Array, size: int, warps: Array) -> None:
        """`size` bytes at each place are the destination of an asynchronous copy: no thread may touch them before it is waited for."""
        self._refuse_overwriting(places, size)
        if self.races:
            self.races.may_write(places, size, warps)
        incoming, every = self._incoming_by(size)
        incoming[places // max(size, self.grain)] = every
        self.copying += 1

    def end_copy(self, places: Array, values: Array, warps: Array, *, generic: bool = True) -> None:
        """A copy completes; `generic` as of `Races.write`."""
        size = values.dtype.itemsize
        self._incoming_by(size)[0][places // max(size, self.grain)] = 0
        if self.races:
            self.races.write(places, size, warps, generic=generic)
        self._bytes.view(values.dtype)[places // size] = values

    def begin_operation(self, operation: int) -> None:
        """A matrix unit begins operation number `operation`, counted from 1, in any block where it reads."""
        if operation >= len(self._busy):
            self._busy = np.concatenate([self._busy, np.zeros_like(self._busy)])
        self._busy[operation] = True
        self.reading += 1

    def end_operation(self, operation: int, blocks: Array | None = None) -> None:
        """It has been waited for in these blocks; None: in all."""
        self._busy[operation, slice(None) if blocks is None else blocks] = False
        self.reading -= blocks is None

    def unit_reads(self, places: Array, size: int, warps: Array, operation: int) -> Array:
        """Record the reads of a matrix unit; until operation number `operation` is over no thread may write there."""
        if self._is_incoming(places, size):
            raise DeviceFault("async copy", "a matrix unit reads shared memory to which a copy has not been waited for")
        if self.races:
            self.races.read(places, size, warps, by_unit=True)
        self._readers_by(size)[places // max(size, self.grain)] = operation
        return self._bytes.view(WORDS[size])[places // size]
