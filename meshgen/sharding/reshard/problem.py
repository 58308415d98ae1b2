"""The reshard problem: a tensor and its target sharding. Tile sizes and the costs of moves are cached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from meshgen.ccl.cost import ring_bytes, seconds_of
from meshgen.ccl.links import best_rate
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.ops.classes import RESHARDS
from meshgen.spec import Sharding

PICOSECONDS = 1e12  # Picoseconds per second: times are compared as integers.
Cost = tuple[int, int, int, int]  # picoseconds, bytes per device, number of grouped sends and receives, number of steps


def cost_sum(left: Cost, right: Cost) -> Cost:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2], left[3] + right[3]


class Move(NamedTuple):
    """A move of the search: an op with its attributes, and the sharding of its result."""

    op: str
    attrs: Mapping[str, Any]
    sharding: Sharding

    @property
    def name(self) -> tuple[Any, ...]:
        """Return the sort key of the move, which decides between paths of equal cost."""
        attrs = self.attrs
        dims = tuple(attrs.get(key, -1) for key in ("dim", "split_dim", "concat_dim"))
        return self.op, tuple(attrs.get("axes", ())), dims, self.sharding.dims


def is_plain(sharding: Sharding) -> bool:
    """Whether all tiles of a dim are equal and have no halo."""
    return not sharding.halo and not any(sharding.offsets)


class Problem:
    """The reshard problem: a tensor and the sharding to reach, over disjoint axes of size at least 2.

    Attributes:
        axes: all axes that an intermediate sharding may use, in mesh order.
        latency, bandwidth: latency (s) and bandwidth (bytes/s) of the fastest links.
        has_slow_links: whether other links have less bandwidth.
    """

    def __init__(self, type: TensorType, target: Sharding, mesh: Mesh, axes: tuple[str, ...]) -> None:
        self.type, self.target, self.mesh, self.axes = type, target, mesh, axes
        self.shape, self.itemsize = type.sizes, type.numpy_dtype.itemsize
        self.sizes = {axis: mesh.axis_size(axis) for axis in axes}
        self.links = {axis: best_rate(mesh, axis) for axis in axes}
        self.latency = min((link.latency for link in self.links.values()), default=0.0)
        self.bandwidth = max((link.bandwidth for link in self.links.values()), default=1.0)
        self.has_slow_links = len({link.bandwidth for link in self.links.values()}) > 1
        self._tiles: dict[tuple[int, tuple[str, ...]], int] = {}
        self._local: dict[Sharding, TensorType] = {}
        self._elements: dict[Sharding, int] = {}
        self._nests: dict[tuple[int, tuple[str, ...], tuple[str, ...]], bool] = {}

    def parts(self, axes: tuple[str, ...]) -> int:
        return math.prod(self.sizes[axis] for axis in axes)

    def tile(self, dim: int, axes: tuple[str, ...]) -> int:
        """Return the number of rows of dim `dim` on each device if `axes` split the dim."""
        rows = self._tiles.get((dim, axes))
        if rows is None:
            rows = self._tiles[dim, axes] = -(-self.shape[dim] // self.parts(axes))
        return rows

    def nests(self, dim: int, outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
        """Whether each tile over `outer` consists of complete tiles over `outer + inner`."""
        if not outer:
            return True
        is_nested = self._nests.get((dim, outer, inner))
        if is_nested is None:
            is_nested = self.tile(dim, outer) == self.parts(inner) * self.tile(dim, outer + inner)
            self._nests[dim, outer, inner] = is_nested
        return is_nested

    def local(self, sharding: Sharding) -> TensorType:
        """Return the type of each device's buffer."""
        local_type = self._local.get(sharding)
        if local_type is None:
            if is_plain(sharding):
                sizes = tuple(self.tile(dim, axes) for dim, axes in enumerate(sharding.dims))
            else:
                sizes = sharding.local_shape(self.shape, self.mesh)
            local_type = self._local[sharding] = TensorType(sizes, self.type.dtype)
        return local_type

    def elements(self, sharding: Sharding) -> int:
        """Return the number of elements in each device's buffer."""
        count = self._elements.get(sharding)
        if count is None:
            count = self._elements[sharding] = self.local(sharding).size
        return count

    def price(self, source: Sharding, move: Move) -> tuple[float, int]:
        """Return the seconds and the bytes per device of a move."""
        moved_bytes = ring_bytes(move.op, move.attrs, self.local(source), self.local(move.sharding), self.mesh)
        return seconds_of(move.op, move.attrs, moved_bytes, self.mesh), moved_bytes

    def cost(self, source: Sharding, move: Move) -> Cost:
        """Return the cost of a move from `source` in the units that the search adds up (`Cost`)."""
        seconds, moved_bytes = self.price(source, move)
        return round(seconds * PICOSECONDS), moved_bytes, int(bool(moved_bytes) and move.op in RESHARDS), 1
