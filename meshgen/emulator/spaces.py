"""State spaces: loads and stores of the threads of a wave in global, shared and local memory."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from meshgen.emulator.addresses import GLOBAL, LOCAL_BASE, LOCAL_WINDOW, PARAMETERS, SHARED_WINDOW
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import WORDS
from meshgen.emulator.types import Array, DType
from meshgen.emulator.wave import WARP, Wave


class Space(Protocol):
    """Interface of a state space.

    `lanes` [blocks, threads] selects the threads to which the addresses belong. If `lanes` is None, the addresses
    broadcast to all threads.
    """

    def load(self, wave: Wave, addresses: Array, lanes: Array | None, size: int) -> Array:
        """Return `size` bytes at each address, as one word per access."""
        ...

    def store(self, wave: Wave, addresses: Array, lanes: Array | None, values: Array) -> None: ...

    def keys(self, wave: Wave, addresses: Array, lanes: Array, size: int) -> Array:
        """Check the addresses of an atomic operation. Returns them as indices into `elements` for a dtype of `size`
        bytes.
        """
        ...

    def elements(self, wave: Wave, dtype: DType) -> Array: ...


class _Global:
    def load(self, wave: Wave, addresses: Array, lanes: Array | None, size: int) -> Array:
        return wave.memory.load(addresses, size, wave.block_indices_of(lanes))

    def store(self, wave: Wave, addresses: Array, lanes: Array | None, values: Array) -> None:
        blocks = wave.block_indices_of(lanes)
        shape = np.broadcast_shapes(addresses.shape, values.shape)
        wave.memory.store(np.broadcast_to(addresses, shape), np.broadcast_to(values, shape), blocks)

    def keys(self, wave: Wave, addresses: Array, lanes: Array, size: int) -> Array:
        return wave.memory.update(addresses, size, wave.block_indices_of(lanes))

    def elements(self, wave: Wave, dtype: DType) -> Array:
        return wave.memory.elements(dtype)


class _Shared:
    def load(self, wave: Wave, addresses: Array, lanes: Array | None, size: int) -> Array:
        return wave.shared.load(self._positions(wave, addresses, lanes, size), size, _warps(wave, lanes))

    def store(self, wave: Wave, addresses: Array, lanes: Array | None, values: Array) -> None:
        positions = self._positions(wave, addresses, lanes, values.dtype.itemsize)
        shape = np.broadcast_shapes(positions.shape, values.shape)
        wave.shared.store(np.broadcast_to(positions, shape), values, _warps(wave, lanes))

    def keys(self, wave: Wave, addresses: Array, lanes: Array, size: int) -> Array:
        return self._positions(wave, addresses, lanes, size) // size

    def elements(self, wave: Wave, dtype: DType) -> Array:
        return wave.shared.elements(dtype)

    def _positions(self, wave: Wave, addresses: Array, lanes: Array | None, size: int) -> Array:
        window = np.uint64(SHARED_WINDOW)
        offsets = np.where((addresses >= window) & (addresses < np.uint64(LOCAL_WINDOW)), addresses - window, addresses)
        return wave.shared.positions(offsets, None if lanes is None else np.nonzero(lanes)[0], size)


class _Local:
    """Local memory: an array of bytes for each thread."""

    def load(self, wave: Wave, addresses: Array, lanes: Array | None, size: int) -> Array:
        mask = np.ones(wave.shape, np.bool_) if lanes is None else lanes
        positions = self.keys(wave, wave.full(addresses)[mask] if lanes is None else addresses, mask, size)
        values = self.elements(wave, WORDS[size])[positions]
        return values.reshape(wave.shape) if lanes is None else values

    def store(self, wave: Wave, addresses: Array, lanes: Array | None, values: Array) -> None:
        mask = np.ones(wave.shape, np.bool_) if lanes is None else lanes
        if lanes is None:
            addresses, values = wave.full(addresses)[mask], wave.full(values)[mask]
        self.elements(wave, values.dtype)[self.keys(wave, addresses, mask, values.dtype.itemsize)] = values

    def keys(self, wave: Wave, addresses: Array, lanes: Array, size: int) -> Array:
        offsets = (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64) - LOCAL_BASE
        stride = wave.local.shape[1]
        if ((offsets < 0) | (offsets + size > stride)).any():
            raise DeviceFault("address", f"{size} bytes are accessed outside of the {stride} bytes of local memory")
        if (offsets % size).any():
            raise DeviceFault("alignment", f"{size} bytes of local memory are accessed at a misaligned offset")
        return (np.flatnonzero(lanes) * stride + offsets) // size

    def elements(self, wave: Wave, dtype: DType) -> Array:
        return wave.local.reshape(-1).view(dtype)


SPACES: dict[str, Space] = {"global": _Global(), "const": _Global(), "shared": _Shared(), "local": _Local()}
_WINDOWS = ((GLOBAL, 1 << 64, "global"), (LOCAL_WINDOW, PARAMETERS, "local"), (SHARED_WINDOW, LOCAL_WINDOW, "shared"))


def space_named(name: str, addresses: Array) -> Space:
    """Return the state space `name`. For `generic`, the first address selects the space.

    Raises:
        DeviceFault: "address", the first address is outside every space.
    """
    if name != "generic":
        return SPACES[name]
    first = int(addresses.flat[0]) if addresses.size else GLOBAL
    space_name = next((candidate for start, stop, candidate in _WINDOWS if start <= first < stop), None)
    if space_name is None:
        raise DeviceFault("address", f"{first:#x} is outside every state space")
    return SPACES[space_name]


def _warps(wave: Wave, lanes: Array | None) -> Array:
    """Return the index of each thread's warp within its block."""
    if lanes is None:
        return (np.arange(wave.threads) // WARP)[None, :]
    return np.nonzero(lanes)[1] // WARP
