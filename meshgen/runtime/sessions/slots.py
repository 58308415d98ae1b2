"""An argument on the devices of a session, in each layout that entry functions need."""

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
    """Memory for an argument of one name and type. A value is in at least one layout; others are filled on demand."""

    def __init__(self, name: str, kind: TensorType, devices: Devices) -> None:
        self.name, self.type, self._devices = name, kind, devices
        self.layouts: dict[Layout, Shards] = {}
        self.is_held = False  # a weight, which is not passed
        self._current: set[Layout] = set()  # those with the value

    @property
    def is_set(self) -> bool:
        """Whether it has a value."""
        return bool(self._current)

    def in_layout(self, layout: Layout) -> Shards:
        """The memory in this layout."""
        if layout not in self.layouts:
            self.layouts[layout] = self._devices.allocate(layout.local_type, layout.ranks, self.name)
        return self.layouts[layout]

    def hold(self, array: Array) -> None:
        """A weight, in all layouts."""
        self.is_held = True
        self.put(array)

    def put(self, value: Array | ShardedArray) -> None:
        """Store a global array in all layouts; a result in its own, without the host if that is one of them."""
        if isinstance(value, ShardedArray) and value.layout in self.layouts and value.is_on(self._devices):
            self.copy(value.layout, value.memory())
            return
        array = value.numpy() if isinstance(value, ShardedArray) else value
        for layout, shards in self.layouts.items():
            self._store(layout, shards, array)
        self._current = {*self.layouts}

    def copy(self, layout: Layout, shards: Shards) -> None:
        """Copy the value from other memory of the devices, in one of the layouts."""
        for target, source in zip(self.layouts[layout], shards, strict=True):
            self._devices.copy(target, source)
        self._current = {layout}

    def need(self, layout: Layout) -> None:
        """Make the value available in a layout, through the host if it is in another one only."""
        if layout not in self._current:
            self._store(layout, self.layouts[layout], self.numpy())
            self._current.add(layout)

    def updated(self, layout: Layout) -> None:
        """Record that a step has written the next value in this layout only."""
        self._current = {layout}

    def numpy(self) -> Array:
        """The global array."""
        layout = next(iter(self._current))
        return layout.assembled([self._devices.read(shard) for shard in self.layouts[layout]])

    def takes(self, arrays: Sequence[Any]) -> bool:
        """Whether these are local arrays of all ranks, of the only layout."""
        (layout,) = self.layouts
        shapes = [tuple(getattr(each, "shape", (None,))) for each in arrays]
        return shapes == [layout.local_type.sizes] * len(layout.ranks)

    def bind(self, arrays: Sequence[Any]) -> tuple[Shards, list[bool]]:
        """Use the memory of local arrays where it fits, else copy; returns for each whether it is used."""
        (layout,) = self.layouts
        own = self.layouts[layout]
        found = [
            self._devices.bind(layout.local_type, rank, each) for rank, each in zip(layout.ranks, arrays, strict=True)
        ]
        shards = [other or shard for other, shard in zip(found, own, strict=True)]
        copied = {shard.rank: each for shard, each, other in zip(own, arrays, found, strict=True) if other is None}
        self._devices.write(
            [shard for shard in own if shard.rank in copied], lambda rank: np.asarray(on_host(copied[rank]))
        )
        self.layouts[layout], self._current = shards, {layout}
        return shards, [other is not None for other in found]

    def _store(self, layout: Layout, shards: Shards, array: Array) -> None:
        self._devices.write(shards, lambda rank: layout.shard(array, rank))
