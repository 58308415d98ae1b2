"""The memory of a session's argument, in each layout that entry functions use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.ir.graph import TensorType
from meshgen.runtime.dlpack import on_host
from meshgen.runtime.layout import Layout
from meshgen.runtime.sessions.devices import Devices, Shards
from meshgen.runtime.sessions.sharded import ShardedArray

Array = np.ndarray[Any, Any]


class Slot:
    """The memory for the arguments with one name and type.

    The value is current in at least one layout. Other layouts are updated on demand.
    """

    def __init__(self, name: str, tensor_type: TensorType, devices: Devices) -> None:
        self.name, self.type, self._devices = name, tensor_type, devices
        self.layouts: dict[Layout, Shards] = {}
        self.is_held = False  # whether it is a weight, which callers do not pass
        self._current: set[Layout] = set()  # the layouts that have the current value

    @property
    def is_set(self) -> bool:
        """Whether the argument has a value."""
        return bool(self._current)

    def in_layout(self, layout: Layout) -> Shards:
        """Return the memory for a layout; allocate it at first use."""
        if layout not in self.layouts:
            self.layouts[layout] = self._devices.allocate(layout.local_type, layout.ranks, self.name)
        return self.layouts[layout]

    def hold(self, array: Array) -> None:
        """Store a weight in all layouts."""
        self.is_held = True
        self.put(array)

    def put(self, value: Array | ShardedArray) -> None:
        """Store a global array in all layouts.

        A result of a step is copied on the devices, into its own layout only, if the slot has that layout.
        """
        if isinstance(value, ShardedArray) and value.layout in self.layouts and value.is_on(self._devices):
            self.copy(value.layout, value.memory())
            return
        array = value.numpy() if isinstance(value, ShardedArray) else value
        for layout, shards in self.layouts.items():
            self._store(layout, shards, array)
        self._current = {*self.layouts}

    def copy(self, layout: Layout, shards: Shards) -> None:
        """Copy the value from other memory of the devices, which has the given layout."""
        for target, source in zip(self.layouts[layout], shards, strict=True):
            self._devices.copy(target, source)
        self._current = {layout}

    def need(self, layout: Layout) -> None:
        """Update a layout to the current value, through the host if the value is only in another layout."""
        if layout not in self._current:
            self._store(layout, self.layouts[layout], self.numpy())
            self._current.add(layout)

    def updated(self, layout: Layout) -> None:
        """Record that a step has written the next value in this layout only."""
        self._current = {layout}

    def numpy(self) -> Array:
        """Return the global array."""
        layout = next(iter(self._current))
        return layout.assembled([self._devices.read(shard) for shard in self.layouts[layout]])

    def takes(self, arrays: Sequence[Any]) -> bool:
        """Whether `arrays` are one local array per rank, in the slot's only layout."""
        (layout,) = self.layouts
        shapes = [tuple(getattr(array, "shape", (None,))) for array in arrays]
        return shapes == [layout.local_type.sizes] * len(layout.ranks)

    def bind(self, arrays: Sequence[Any]) -> tuple[Shards, list[bool]]:
        """Use the memory of local arrays if it fits, and copy the other arrays.

        Returns the shards, and for each array whether its memory is used.
        """
        (layout,) = self.layouts
        own_shards = self.layouts[layout]
        bound_shards = [
            self._devices.bind(layout.local_type, rank, array) for rank, array in zip(layout.ranks, arrays, strict=True)
        ]
        shards = [bound or shard for bound, shard in zip(bound_shards, own_shards, strict=True)]
        copied = {
            shard.rank: array
            for shard, array, bound in zip(own_shards, arrays, bound_shards, strict=True)
            if bound is None
        }
        self._devices.write(
            [shard for shard in own_shards if shard.rank in copied], lambda rank: np.asarray(on_host(copied[rank]))
        )
        self.layouts[layout], self._current = shards, {layout}
        return shards, [bound is not None for bound in bound_shards]

    def _store(self, layout: Layout, shards: Shards, array: Array) -> None:
        self._devices.write(shards, lambda rank: layout.shard(array, rank))
