"""Results that stay on the devices.

Other libraries access the shards without a copy. The global array is copied to the host on request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meshgen.errors import Diagnostic, UsageError
from meshgen.runtime.dlpack import CPU, CUDA, Memory, capsule_of
from meshgen.runtime.layout import Layout
from meshgen.runtime.sessions.devices import Devices, HostShard
from meshgen.runtime.sessions.session_lock import Turns, in_turn

Array = np.ndarray[Any, Any]


class ShardedArray:
    """A result of a session's step that stays on the devices.

    `np.asarray(result)` is the global array, and `shards` is the memory of each rank.

    The next step of the same entry function overwrites the memory, after which the result cannot be read. If several
    threads use the session, the global array is copied to the host before that.
    """

    def __init__(
        self, layout: Layout, shards: Sequence[Any], devices: Devices, turns: Turns, is_current: Callable[[], bool]
    ) -> None:
        self.layout, self._shards, self._devices, self._is_current = layout, shards, devices, is_current
        self.turns = turns
        self._kept: Array | None = None
        turns.watch(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the global array."""
        return self.layout.type.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.layout.type.numpy_dtype

    def is_on(self, devices: Devices) -> bool:
        """Whether the memory is on `devices` and still holds this result, which no later step has overwritten."""
        return devices is self._devices and self._is_current()

    def keep(self) -> None:
        """Copy the global array to the host, unless a later step has already overwritten the memory."""
        if self._kept is None and self._is_current():
            self._kept = self.numpy()

    @property
    def shards(self) -> list[LocalArray]:
        """Return the memory of each rank, in rank order. Raises UsageError MG0001 if a later step has overwritten it."""
        return [LocalArray(shard, self.memory, self.dtype) for shard in self.memory()]

    def memory(self) -> Sequence[Any]:
        """Return the shards in the class that the devices use for shards. Raises the same errors as `shards`."""
        if not self._is_current():
            text = "a later step has overwritten the memory of this result"
            hint = "read a result before the next step of its entry function: np.asarray(result)"
            raise UsageError(Diagnostic("MG0001", text, hint=hint))
        return self._shards

    @in_turn
    def numpy(self) -> Array:
        """Return the global array, on the host.

        Raises the same errors as `shards`, and NumbersDiffer MG0605 if replicas differ.
        """
        if self._kept is not None:
            return self._kept.copy()
        return self.layout.assembled([self._devices.read(shard) for shard in self.memory()])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"ShardedArray({self.layout.type}, {self.layout.sharding} on {self.layout.mesh})"


class LocalArray:
    """The shard of a result on one rank. DLPack and `__cuda_array_interface__` give access to its memory.

    It is valid as long as the result.
    """

    def __init__(self, shard: Any, memory: Callable[[], Any], dtype: np.dtype[Any]) -> None:
        self._shard, self._memory, self.dtype = shard, memory, dtype
        self.shape: tuple[int, ...] = shard.type.sizes
        self.is_on_host = isinstance(shard, HostShard)
        self.device_id = 0 if self.is_on_host else shard.rank

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0) if self.is_on_host else (CUDA, self._shard.rank)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        """Export the memory in place.

        Raises BufferError if a copy or another device is requested.
        """
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("the memory is exported in place, without a copy")
        self._memory()
        return capsule_of(Memory(self.address, self.shape, self.dtype, None, self.__dlpack_device__(), False, self))

    @property
    def address(self) -> int:
        """Return the address of the shard's first byte."""
        return self._shard.array.ctypes.data if self.is_on_host else self._shard.address

    def __getattr__(self, name: str) -> Any:
        """Return `__cuda_array_interface__`. The attribute exists only for GPU memory, because libraries test for it."""
        if name != "__cuda_array_interface__" or self.is_on_host:
            raise AttributeError(name)
        self._memory()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
        }
