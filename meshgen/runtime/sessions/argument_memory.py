"""The memory of a session's arguments. An argument is stored in each layout in which entry functions use it."""

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
    """The memory of all arguments with one name and type, in one or more layouts.

    At least one layout holds the current value. The other ones are updated when they are needed.
    """

    def __init__(self, name: str, tensor_type: TensorType, devices: Devices) -> None:
        self.name, self.type, self._devices = name, tensor_type, devices
        self.layouts: dict[Layout, Shards] = {}
        self.is_held = False  # whether the argument is a weight, so that callers do not pass it
        self._current: set[Layout] = set()  # the layouts whose memory holds the current value

    @property
    def is_set(self) -> bool:
        """Whether the argument has a value."""
        return bool(self._current)

    def in_layout(self, layout: Layout) -> Shards:
        """Return the memory for a layout. It is allocated at the first use of the layout."""
        if layout not in self.layouts:
            self.layouts[layout] = self._devices.allocate(layout.local_type, layout.ranks, self.name)
        return self.layouts[layout]

    def hold(self, array: Array) -> None:
        """Store a weight in the memory of all layouts."""
        self.is_held = True
        self.put(array)

    def put(self, value: Array | ShardedArray) -> None:
        """Store a value in all layouts.

        If the value is a result of a step and the slot has the layout of this result, the value is copied on the
        devices, and only to this layout.
        """
        if isinstance(value, ShardedArray) and value.layout in self.layouts and value.is_on(self._devices):
            self.copy(value.layout, value.memory())
            return
        array = value.numpy() if isinstance(value, ShardedArray) else value
        for layout, shards in self.layouts.items():
            self._store(layout, shards, array)
        self._current = {*self.layouts}

    def copy(self, layout: Layout, shards: Shards) -> None:
        """Copy the value to `layout` from `shards`, which are other memory on the devices and have this layout."""
        for target, source in zip(self.layouts[layout], shards, strict=True):
            self._devices.copy(target, source)
        self._current = {layout}

    def need(self, layout: Layout) -> None:
        """Make the memory of `layout` hold the current value. A value in another layout is copied through the host."""
        if layout not in self._current:
            self._store(layout, self.layouts[layout], self.numpy())
            self._current.add(layout)

    def updated(self, layout: Layout) -> None:
        """Record that a step has written the next value to the memory of `layout` only."""
        self._current = {layout}

    def numpy(self) -> Array:
        """Return the value as a global array."""
        layout = next(iter(self._current))
        return layout.assembled([self._devices.read(shard) for shard in self.layouts[layout]])

    def takes(self, arrays: Sequence[Any]) -> bool:
        """Whether `arrays` has one array per rank, each of the slot's local shape. The slot must have exactly one
        layout.
        """
        (layout,) = self.layouts
        shapes = [tuple(getattr(array, "shape", (None,))) for array in arrays]
        return shapes == [layout.local_type.sizes] * len(layout.ranks)

    def bind(self, arrays: Sequence[Any]) -> tuple[Shards, list[bool]]:
        """Use the memory of local arrays where possible, and copy the other arrays to the slot's memory.

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
