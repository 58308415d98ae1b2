"""Global memory of a launch: every access must be inside the ranges that the launch may access."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from meshgen.emulator.block_races import BlockRaces
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.memory import BASE, Memory
from meshgen.emulator.types import Array, DType

Range = tuple[int, int, bool]  # first address, bytes, whether it is writable
# callback with the addresses, the bytes at each address, and whether the access is a write
Touch = Callable[[Array, int, bool], None]
WORDS: dict[int, DType] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)} | {
    16: np.dtype(np.complex128)
}  # access size -> dtype of a word; bits are moved unchanged


class GlobalMemory:
    """Checked access to the memory of a device, restricted to the operands of the launch or to all allocations.

    The argument `blocks` of each access has the index of the block that makes it. It broadcasts against the addresses.
    """

    def __init__(
        self, memory: Memory, operands: Sequence[Range] | None, touch: Touch | None = None, *, races_by: int = 0
    ) -> None:
        """Restrict access to `operands`, or to all allocations if `operands` is None.

        Args:
            touch: called with every access.
            races_by: bytes of a word in the check for races between blocks; 0 disables the check.
        """
        self._touch = touch
        ranges = operands if operands is not None else [(start, nbytes, True) for start, nbytes in memory.live]
        self._memory = memory
        self._range_kind = "operands" if operands is not None else "allocations"
        self._readable = _merged_ranges((start, nbytes) for start, nbytes, _ in ranges)
        self._writable = _merged_ranges((start, nbytes) for start, nbytes, writable in ranges if writable)
        self._races = BlockRaces(*self._readable, races_by) if races_by else None

    def load(self, addresses: Array, size: int, blocks: Array) -> Array:
        """Return `size` bytes at each address, as elements of the word type `WORDS[size]`.

        Raises DeviceFault "address", "alignment" or "race".
        """
        positions = self.positions(addresses, size, size, write=False)
        if self._races:
            self._races.read(addresses, size, blocks)
        return self._memory.elements(WORDS[size])[positions]

    def store(self, addresses: Array, values: Array, blocks: Array) -> None:
        """Write `values`, whose dtype is a word type of `WORDS`. If several threads write to one address, the last
        value remains. Raises like `load`.
        """
        size = values.dtype.itemsize
        positions, elements = self.positions(addresses, size, size, write=True), self._memory.elements(values.dtype)
        if self._races and addresses.size:
            self._races.write(addresses, size, blocks, _differ(elements[positions], values))
        elements[positions] = values
        if self._races and _differ(elements[positions], values).any():
            raise DeviceFault("race", "threads write different values to one place of global memory at once")

    def update(self, addresses: Array, size: int, blocks: Array) -> Array:
        """Check an atomic operation. Returns the indices of the accessed elements in `elements` for a dtype of `size`
        bytes. Raises like `load`.
        """
        positions = self.positions(addresses, size, size, write=True)
        if self._races:
            self._races.update(addresses, size, blocks)
        return positions

    def elements(self, dtype: DType) -> Array:
        """Return all memory as elements of type `dtype`, indexed by the result of `positions`."""
        return self._memory.elements(dtype)

    def bytes_at(self, address: int, nbytes: int, *, write: bool = False) -> Array:
        """Return a view of `nbytes` bytes at an address. Raises like `load`."""
        self.positions(np.array([address], np.uint64), nbytes, 1, write=write)
        return self._memory.view(address, nbytes)

    def positions(self, addresses: Array, nbytes: int, alignment: int, *, write: bool) -> Array:
        """Check the addresses and return them as indices of elements of `alignment` bytes, counted from `BASE`."""
        if addresses.size == 0:
            return addresses.astype(np.int64)
        low, high = int(addresses.min()), int(addresses.max())
        starts, stops = self._writable if write else self._readable
        range_index = int(np.searchsorted(starts, np.uint64(low), side="right")) - 1
        if range_index < 0 or high + nbytes > int(stops[range_index]):
            self._check_each(addresses, nbytes, write)
        if alignment > 1 and int(np.bitwise_or.reduce(addresses, axis=None)) % alignment:
            bad = addresses[addresses % np.uint64(alignment) != 0]
            counts = f"{bad.size} of {addresses.size} threads"
            raise DeviceFault("alignment", f"{counts} access {nbytes} bytes at an address like {int(bad.flat[0]):#x}")
        if self._touch:
            self._touch(addresses, nbytes, write)
        return ((addresses - np.uint64(BASE)) // np.uint64(alignment)).astype(np.int64)

    def _check_each(self, addresses: Array, nbytes: int, write: bool) -> None:
        starts, stops = self._writable if write else self._readable
        range_index = np.searchsorted(starts, addresses, side="right") - 1
        if len(starts):
            end = addresses + np.uint64(nbytes)
            outside = (range_index < 0) | (end > stops[np.maximum(range_index, 0)]) | (end < addresses)
        else:
            outside = np.ones(addresses.shape, np.bool_)
        if outside.any():
            first = int(addresses[outside].flat[0])
            counts = f"{int(outside.sum())} of {addresses.size} threads {'write' if write else 'read'}"
            raise DeviceFault("address", f"{counts} {nbytes} bytes at {first:#x}, {self._around(first, nbytes, write)}")

    def _around(self, address: int, nbytes: int, write: bool) -> str:
        """Return the part of an error message that describes an invalid address relative to the nearest accessible
        range.
        """
        if write and self._inside(self._readable, address, nbytes):
            label = self._memory.label_of(address)
            return "which is only read" if not label else f"in '{label}', which is only read"
        holder = self._memory.range_of(address)
        label = self._memory.label_of(address)
        where = f" in '{label}'" if label and holder else ""
        earlier_stops = [int(stop) for stop in self._readable[1] if stop <= address]
        distance = f", {address - earlier_stops[-1]} bytes past the nearest" if earlier_stops else ""
        return f"outside of all {self._range_kind}{distance}{where}"

    @staticmethod
    def _inside(ranges: tuple[Array, Array], address: int, nbytes: int) -> bool:
        return any(start <= address and address + nbytes <= stop for start, stop in zip(*ranges, strict=True))


def _differ(stored: Array, values: Array) -> Array:
    """Return a mask of the elements whose bits differ between two arrays."""
    dtype = np.dtype(f"V{values.dtype.itemsize}")
    return np.ascontiguousarray(stored).view(dtype) != np.ascontiguousarray(values).view(dtype)


def _merged_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[Array, Array]:
    """Return the sorted starts and ends of the ranges. Ranges that overlap are merged; adjacent ones are not."""
    starts: list[int] = []
    stops: list[int] = []
    for start, nbytes in sorted(ranges):
        if stops and start < stops[-1]:
            stops[-1] = max(stops[-1], start + nbytes)
        else:
            starts.append(start)
            stops.append(start + nbytes)
    return np.array(starts, np.uint64), np.array(stops, np.uint64)
