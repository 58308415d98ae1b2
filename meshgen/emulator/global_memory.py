"""Global memory of a launch: every access must be inside the ranges that the launch may touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from meshgen.emulator.block_races import BlockRaces
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.memory import BASE, Memory
from meshgen.emulator.types import Array, DType

Range = tuple[int, int, bool]  # first address, bytes, whether it may be written
Touch = Callable[[Array, int, bool], None]  # addresses, bytes at each, whether they are written
WORDS: dict[int, DType] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)} | {
    16: np.dtype(np.complex128)
}  # moved as they are


class GlobalMemory:
    """The memory of a device, within ranges: the operands of the launch, or all that is allocated.

    Every access says which block of the launch makes it: `blocks` broadcasts to the addresses, or they to it.
    """

    def __init__(
        self, memory: Memory, operands: Sequence[Range] | None, touch: Touch | None = None, *, races_by: int = 0
    ) -> None:
        """`touch` is called with every access; `races_by`: bytes of the words in which races between blocks are looked for."""
        self._touch = touch
        ranges = operands if operands is not None else [(start, nbytes, True) for start, nbytes in memory.live]
        self._memory = memory
        self._what = "operands" if operands is not None else "allocations"
        self._readable = _merged_ranges((start, nbytes) for start, nbytes, _ in ranges)
        self._writable = _merged_ranges((start, nbytes) for start, nbytes, writable in ranges if writable)
        self._races = BlockRaces(*self._readable, races_by) if races_by else None

    def load(self, addresses: Array, size: int, blocks: Array) -> Array:
        """`size` bytes at each address, as one number of `WORDS[size]`. Raises DeviceFault "address" or "alignment"."""
        places = self.places(addresses, size, size, write=False)
        if self._races:
            self._races.read(addresses, size, blocks)
        return self._memory.elements(WORDS[size])[places]

    def store(self, addresses: Array, values: Array, blocks: Array) -> None:
        """Write values of a type in `WORDS`; of several at one address the last in order stays. Raises as `load`."""
        size = values.dtype.itemsize
        places, elements = self.places(addresses, size, size, write=True), self._memory.elements(values.dtype)
        if self._races and addresses.size:
            self._races.write(addresses, size, blocks, _differ(elements[places], values))
        elements[places] = values
        if self._races and _differ(elements[places], values).any():
            raise DeviceFault("race", "threads write different values to one place of global memory at once")

    def update(self, addresses: Array, size: int, blocks: Array) -> Array:
        """Places of an atomic operation among `elements` of `size` bytes. Raises as `load`."""
        places = self.places(addresses, size, size, write=True)
        if self._races:
            self._races.update(addresses, size, blocks)
        return places

    def elements(self, kind: DType) -> Array:
        """All memory as elements of a type, by `places`."""
        return self._memory.elements(kind)

    def bytes_at(self, address: int, nbytes: int, *, write: bool = False) -> Array:
        """A range by itself. Raises as `load`."""
        self.places(np.array([address], np.uint64), nbytes, 1, write=write)
        return self._memory.view(address, nbytes)

    def places(self, addresses: Array, nbytes: int, alignment: int, *, write: bool) -> Array:
        """Checked addresses as numbers of elements of `alignment` bytes from `BASE` on."""
        if addresses.size == 0:
            return addresses.astype(np.int64)
        low, high = int(addresses.min()), int(addresses.max())
        starts, stops = self._writable if write else self._readable
        place = int(np.searchsorted(starts, np.uint64(low), side="right")) - 1
        if place < 0 or high + nbytes > int(stops[place]):
            self._check_each(addresses, nbytes, write)
        if alignment > 1 and int(np.bitwise_or.reduce(addresses, axis=None)) % alignment:
            bad = addresses[addresses % np.uint64(alignment) != 0]
            many = f"{bad.size} of {addresses.size} threads"
            raise DeviceFault("alignment", f"{many} access {nbytes} bytes at an address like {int(bad.flat[0]):#x}")
        if self._touch:
            self._touch(addresses, nbytes, write)
        return ((addresses - np.uint64(BASE)) // np.uint64(alignment)).astype(np.int64)

    def _check_each(self, addresses: Array, nbytes: int, write: bool) -> None:
        starts, stops = self._writable if write else self._readable
        place = np.searchsorted(starts, addresses, side="right") - 1
        if len(starts):
            end = addresses + np.uint64(nbytes)
            outside = (place < 0) | (end > stops[np.maximum(place, 0)]) | (end < addresses)
        else:
            outside = np.ones(addresses.shape, np.bool_)
        if outside.any():
            first = int(addresses[outside].flat[0])
            many = f"{int(outside.sum())} of {addresses.size} threads {'write' if write else 'read'}"
            raise DeviceFault("address", f"{many} {nbytes} bytes at {first:#x}, {self._around(first, nbytes, write)}")

    def _around(self, address: int, nbytes: int, write: bool) -> str:
        """A description of a refused address."""
        if write and self._inside(self._readable, address, nbytes):
            label = self._memory.label_of(address)
            return "which is only read" if not label else f"in '{label}', which is only read"
        holder = self._memory.range_of(address)
        label = self._memory.label_of(address)
        where = f" in '{label}'" if label and holder else ""
        near = [int(stop) for stop in self._readable[1] if stop <= address]
        behind = f", {address - near[-1]} bytes past the nearest" if near else ""
        return f"outside of all {self._what}{behind}{where}"

    @staticmethod
    def _inside(ranges: tuple[Array, Array], address: int, nbytes: int) -> bool:
        return any(start <= address and address + nbytes <= stop for start, stop in zip(*ranges, strict=True))


def _differ(found: Array, values: Array) -> Array:
    """Where bits are others."""
    kind = np.dtype(f"V{values.dtype.itemsize}")
    return np.ascontiguousarray(found).view(kind) != np.ascontiguousarray(values).view(kind)


def _merged_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[Array, Array]:
    """Starts and ends of ranges, sorted; those that overlap are one, those that only touch are not."""
    starts: list[int] = []
    stops: list[int] = []
    for start, nbytes in sorted(ranges):
        if stops and start < stops[-1]:
            stops[-1] = max(stops[-1], start + nbytes)
        else:
            starts.append(start)
            stops.append(start + nbytes)
    return np.array(starts, np.uint64), np.array(stops, np.uint64)
