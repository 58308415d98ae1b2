"""Device memory: allocations in one range of addresses, with guard bands between them.

An address is an opaque 64-bit number. It is never a pointer of the host, so code that mixes both up is caught.
"""

from __future__ import annotations

import bisect
import mmap
from typing import Any

import numpy as np

from meshgen.emulator.addresses import GLOBAL
from meshgen.emulator.faults import DeviceFault

Array = np.ndarray[Any, Any]
BASE = GLOBAL  # the first address; like a real one, it needs more than 32 bits
ALIGNMENT = 512  # bytes, of every allocation: as cuMemAlloc gives them
GUARD = 512  # least bytes before and after each allocation
POISON = 0xFF  # as every byte: NaN in any float type
CAPACITY = 80 << 30  # bytes: of an H100


class Memory:
    """The memory of one device."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        """`capacity`: bytes of all allocations together, guard bands not counted. Untouched pages cost nothing."""
        self.capacity = capacity
        self.used = 0
        self._data = _reserved(2 * capacity + (1 << 30))
        self._starts: list[int] = []  # of live allocations, sorted
        self._stops: list[int] = []
        self._labels: dict[int, str] = {}

    @property
    def live(self) -> tuple[tuple[int, int], ...]:
        """First address and size of every allocation, by address."""
        return tuple((start, stop - start) for start, stop in zip(self._starts, self._stops, strict=True))

    def allocate(self, nbytes: int, label: str = "") -> int:
        """The address of `nbytes` bytes that are poisoned. Raises MemoryError where the device has not so many left."""
        if nbytes < 0:
            raise ValueError(f"{nbytes} bytes cannot be allocated")
        if self.used + nbytes > self.capacity:
            raise MemoryError(f"{nbytes} bytes do not fit: {self.used} of {self.capacity} are in use")
        place, start = self._gap(nbytes)
        self._starts.insert(place, start)
        self._stops.insert(place, start + nbytes)
        self._labels[start] = label
        self.used += nbytes
        self._bytes(start - GUARD, nbytes + 2 * GUARD)[:] = POISON
        return start

    def _gap(self, nbytes: int) -> tuple[int, int]:
        """Where the next allocation goes among the live ones, and its address: the first gap that holds it."""
        stop = BASE
        for place, start in enumerate([*self._starts, BASE + len(self._data)]):
            address = _aligned(stop + GUARD)
            if address + nbytes + GUARD <= start:
                return place, address
            stop = self._stops[place] if place < len(self._stops) else stop
        raise MemoryError(f"no range of {nbytes} bytes is free")

    def free(self, address: int) -> None:
        """End an allocation; its bytes are poisoned. Raises DeviceFault unless a live one begins at `address`."""
        place = bisect.bisect_left(self._starts, address)
        if place == len(self._starts) or self._starts[place] != address:
            raise DeviceFault("address", f"no live allocation begins at {address:#x}")
        nbytes = self._stops[place] - address
        self._bytes(address, nbytes)[:] = POISON
        del self._starts[place], self._stops[place], self._labels[address]
        self.used -= nbytes

    def view(self, address: int, nbytes: int) -> Array:
        """The bytes themselves. Raises DeviceFault unless they are inside one live allocation."""
        place = self._holder(address)
        if place is None or address + nbytes > self._stops[place]:
            raise DeviceFault("address", f"{nbytes} bytes at {address:#x} {self._whereabouts(address, nbytes)}")
        return self._bytes(address, nbytes)

    def label_of(self, address: int) -> str:
        """The label of the live allocation that holds the address; empty if none does."""
        place = self._holder(address)
        return "" if place is None else self._labels[self._starts[place]]

    def range_of(self, address: int) -> tuple[int, int] | None:
        """First address and end of the live allocation that holds the address."""
        place = self._holder(address)
        return None if place is None else (self._starts[place], self._stops[place])

    def elements(self, dtype: np.dtype[Any]) -> Array:
        """All bytes from `BASE` on as elements of a type; an address is element `(address - BASE) / itemsize`."""
        return self._data.view(dtype)

    def _holder(self, address: int) -> int | None:
        place = bisect.bisect_right(self._starts, address) - 1
        return place if place >= 0 and (address < self._stops[place] or address == self._starts[place]) else None

    def _whereabouts(self, address: int, nbytes: int) -> str:
        """A description of a range outside of all allocations: past which, or near none."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return "are in no allocation"
        start, stop = self._starts[place], self._stops[place]
        label = f" of '{self._labels[start]}'" if self._labels[start] else ""
        return f"end {address + nbytes - stop} bytes past the {stop - start} bytes{label}"

    def _bytes(self, address: int, nbytes: int) -> Array:
        return self._data[address - BASE : address - BASE + nbytes]


def _aligned(address: int) -> int:
    return -(-address // ALIGNMENT) * ALIGNMENT


def _reserved(nbytes: int) -> Array:
    """Bytes that the system backs with memory when they are touched; fewer where it refuses so many."""
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
