"""The layout of a tensor on the devices of a mesh, for conversion between global arrays and shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.runtime.module_file.manifest import Binding, Manifest
from meshgen.runtime.shards import assemble, shard_array
from meshgen.spec import Sharding

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layout:
    """The layout of a tensor on a mesh.

    Attributes:
        type: type of the global array.
        first: world rank of the mesh's first device.
        is_whole: every rank's buffer holds the global array, of which the program takes a slice.
    """

    type: TensorType
    sharding: Sharding
    mesh: Mesh
    first: int = 0
    is_whole: bool = False

    @staticmethod
    def of(binding: Binding, manifest: Manifest, first: int, *, is_input: bool) -> Layout:
        """Return the layout of an argument or result of a module.

        `first` is the world rank of the module's first device.
        """
        is_global = is_input and manifest.arguments == "global"
        return Layout(binding.type, binding.sharding, manifest.mesh, first, is_global)

    @property
    def ranks(self) -> range:
        """Return the world ranks of the mesh, each of which holds a shard."""
        return range(self.first, self.first + self.mesh.size)

    @property
    def local_type(self) -> TensorType:
        """Return the type of a shard."""
        sizes = self.type.sizes
        return self.type if self.is_whole else self.type.with_shape(self.sharding.local_shape(sizes, self.mesh))

    def shard(self, array: Array, rank: int) -> Array:
        """Return the shard of `rank`, cut from the global `array`. For a memory-mapped array, only this slice is read."""
        return array if self.is_whole else shard_array(array, self.sharding, self.mesh, rank - self.first)

    def assembled(self, shards: Sequence[Array]) -> Array:
        """Return the global array that the shards of all ranks form. Raises NumbersDiffer MG0605 if replicas differ."""
        if self.is_whole:
            return shards[0]
        return assemble(shards, self.sharding, self.type.sizes, self.mesh)
