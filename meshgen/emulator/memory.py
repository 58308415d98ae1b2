"""Device memory: allocations in one range of addresses, with guard bands between them.

Addresses are opaque 64-bit numbers and never host pointers, so code that confuses device and host addresses fails.
"""

from __future__ import annotations

import bisect
import mmap
from typing import Any

import numpy as np

from meshgen.emulator.addresses import GLOBAL
from meshgen.emulator.faults import DeviceFault

Array = np.ndarray[Any, Any]
BASE = GLOBAL  # the first address; it needs more than 32 bits, like the addresses of a real GPU
ALIGNMENT = 512  # alignment of every allocation in bytes, as `cuMemAlloc` guarantees
# bytes before and after each allocation. Chosen: at least one aligned unit, so that small overruns hit no other
# allocation
GUARD = 512
POISON = 0xFF  # value of uninitialized bytes; as a float of any type it is NaN
CAPACITY = 80 << 30  # default capacity in bytes, as of an H100


class Memory:
    """The memory of one device."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        """Reserve the address range.

        `capacity` limits the bytes of all allocations, without guard bands; untouched pages are free.
        """
        self.capacity = capacity
        self.used = 0
        self._data = _reserved(2 * capacity + (1 << 30))
        self._starts: list[int] = []  # start addresses of live allocations, sorted
        self._stops: list[int] = []
        self._labels: dict[int, str] = {}

    @property
    def live(self) -> tuple[tuple[int, int], ...]:
        """Return the first address and the size of every live allocation, sorted by address."""
        return tuple((start, stop - start) for start, stop in zip(self._starts, self._stops, strict=True))

    def allocate(self, nbytes: int, label: str = "") -> int:
        """Allocate `nbytes` bytes, filled with `POISON`, and return the address.

        Raises MemoryError if the device has too little memory left.
        """
        if nbytes < 0:
            raise ValueError(f"{nbytes} bytes cannot be allocated")
        if self.used + nbytes > self.capacity:
            raise MemoryError(f"{nbytes} bytes do not fit: {self.used} of {self.capacity} are in use")
        index, start = self._gap(nbytes)
        self._starts.insert(index, start)
        self._stops.insert(index, start + nbytes)
        self._labels[start] = label
        self.used += nbytes
        self._bytes(start - GUARD, nbytes + 2 * GUARD)[:] = POISON
        return start

    def _gap(self, nbytes: int) -> tuple[int, int]:
        """Find the first gap between live allocations that is large enough.

        Returns:
            The index of the new allocation in the sorted list of live allocations, and its address.
        """
        stop = BASE
        for index, start in enumerate([*self._starts, BASE + len(self._data)]):
            address = _aligned(stop + GUARD)
            if address + nbytes + GUARD <= start:
                return index, address
            stop = self._stops[index] if index < len(self._stops) else stop
        raise MemoryError(f"no range of {nbytes} bytes is free")

    def free(self, address: int) -> None:
        """End an allocation, and overwrite its bytes with `POISON`. Raises DeviceFault unless a live allocation begins
        at `address`.
        """
        index = bisect.bisect_left(self._starts, address)
        if index == len(self._starts) or self._starts[index] != address:
            raise DeviceFault("address", f"no live allocation begins at {address:#x}")
        nbytes = self._stops[index] - address
        self._bytes(address, nbytes)[:] = POISON
        del self._starts[index], self._stops[index], self._labels[address]
        self.used -= nbytes

    def view(self, address: int, nbytes: int) -> Array:
        """Return a view of the bytes. Raises DeviceFault unless they are inside one live allocation."""
        index = self._index_of(address)
        if index is None or address + nbytes > self._stops[index]:
            raise DeviceFault("address", f"{nbytes} bytes at {address:#x} {self._position_text(address, nbytes)}")
        return self._bytes(address, nbytes)

    def label_of(self, address: int) -> str:
        """Return the label of the live allocation that contains the address, or "" if none does."""
        index = self._index_of(address)
        return "" if index is None else self._labels[self._starts[index]]

    def range_of(self, address: int) -> tuple[int, int] | None:
        """Return the first address and the end of the live allocation that contains the address, or None if none does."""
        index = self._index_of(address)
        return None if index is None else (self._starts[index], self._stops[index])

    def elements(self, dtype: np.dtype[Any]) -> Array:
        """Return all bytes from `BASE` on as elements of `dtype`; `address` is element `(address - BASE) / itemsize`."""
        return self._data.view(dtype)

    def _index_of(self, address: int) -> int | None:
        index = bisect.bisect_right(self._starts, address) - 1
        return index if index >= 0 and (address < self._stops[index] or address == self._starts[index]) else None

    def _position_text(self, address: int, nbytes: int) -> str:
        """Return the part of a message that says where a range outside all allocations is."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return "are in no allocation"
        start, stop = self._starts[index], self._stops[index]
        label = f" of '{self._labels[start]}'" if self._labels[start] else ""
        return f"end {address + nbytes - stop} bytes past the {stop - start} bytes{label}"

    def _bytes(self, address: int, nbytes: int) -> Array:
        return self._data[address - BASE : address - BASE + nbytes]


def _aligned(address: int) -> int:
    return -(-address // ALIGNMENT) * ALIGNMENT


def _reserved(nbytes: int) -> Array:
    """Reserve `nbytes` of address space, which get memory when they are touched. Reserves less if the system refuses
    the size.
    """
    while True:
        try:
            if no_reserve := getattr(mmap, "MAP_NORESERVE", 0):
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
                return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), np.uint8)
            return np.empty(nbytes, np.uint8)
        except (OSError, ValueError, MemoryError):
            if nbytes <= 1 << 20:
                raise
            nbytes //= 2
