"""The layout of a tensor on the devices of a mesh: conversion between global arrays and shards."""

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
    """A tensor on a mesh.

    Attributes:
        type: of the global array.
        first: rank in the world of the mesh's first device.
        is_whole: every rank has the whole array, and slices it itself.
    """

    type: TensorType
    sharding: Sharding
    mesh: Mesh
    first: int = 0
    is_whole: bool = False

    @staticmethod
    def of(binding: Binding, manifest: Manifest, first: int, *, is_input: bool) -> Layout:
        """That of an argument or result of a module whose first device has rank `first`."""
        whole = is_input and manifest.arguments == "global"
        return Layout(binding.type, binding.sharding, manifest.mesh, first, whole)

    @property
    def ranks(self) -> range:
        """The ranks, in the world, that hold a shard of it."""
        return range(self.first, self.first + self.mesh.size)

    @property
    def local_type(self) -> TensorType:
        """The type of a shard."""
        sizes = self.type.sizes
        return self.type if self.is_whole else self.type.with_shape(self.sharding.local_shape(sizes, self.mesh))

    def shard(self, array: Array, rank: int) -> Array:
        """The shard of a rank; of a mapped file only this slice is read."""
        return array if self.is_whole else shard_array(array, self.sharding, self.mesh, rank - self.first)

    def assembled(self, shards: Sequence[Array]) -> Array:
        """The global array of all shards. Raises NumbersDiffer MG0605 where replicas differ."""
        if self.is_whole:
            return shards[0]
        return assemble(shards, self.sharding, self.type.sizes, self.mesh)
