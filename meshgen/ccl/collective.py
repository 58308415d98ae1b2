"""Collective operations as the devices of a mesh execute them: op, attributes, local types, and derived properties."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from meshgen.ccl.cost import group_axes, ring_bytes, seconds_of
from meshgen.ccl.groups import stride_of
from meshgen.ccl.steps import OPERAND, RESULT, Box, whole
from meshgen.ir.attributes.sharding import devices_by_role
from meshgen.ir.attributes.table import attributes_of
from meshgen.ir.graph import Node, TensorType
from meshgen.ir.group_calls import VARIADIC
from meshgen.mesh import Mesh


@dataclass(frozen=True)
class Collective:
    """A collective operation on a mesh. All devices of the mesh have operands and results of the same types.

    Attributes:
        operands, results: local types. A variadic collective (`ir/group_calls.py`) has one result for each operand.
        first_rank: mesh name -> world rank of its first device, in a program with several meshes. The default is 0.
    """

    op: str
    attrs: Any
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    mesh: Mesh
    first_rank: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", attributes_of(self.op, self.attrs))

    @staticmethod
    def of(node: Node, mesh: Mesh, first_rank: Mapping[str, int] | None = None) -> Collective:
        """Return the collective that `node` describes. The values of `node` must have local types, not global ones."""
        operands, results = (tuple(value.type for value in values) for values in (node.operands, node.results))
        return Collective(node.op, node.attrs, operands, results, mesh, first_rank or {})

    @property
    def calls(self) -> list[Collective]:
        """Return one collective per operand if this collective is variadic, else a list with this collective alone."""
        if len(self.operands) < 2 or self.op not in VARIADIC:
            return [self]
        return [replace(self, operands=(a,), results=(b,)) for a, b in zip(self.operands, self.results, strict=True)]

    @property
    def ring_bytes(self) -> int:
        """Return the bytes that each device moves over links (see `cost.py`).

        A `send` may have no result and a `recv` may have no operand. The existing type is then used for both.
        """
        ends = [(*call.operands[:1], *call.results[:1]) for call in self.calls]
        return sum(ring_bytes(self.op, self.attrs, types[0], types[-1], self.mesh) for types in ends)

    @property
    def link_seconds(self) -> float:
        """Return the seconds that the collective takes on idle links. A variadic one has the link latency only once."""
        return seconds_of(self.op, self.attrs, self.ring_bytes, self.mesh)

    @property
    def operand(self) -> Box:
        return whole(OPERAND, self.operands[0])

    @property
    def result(self) -> Box:
        return whole(RESULT, self.results[0])

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the mesh axes along which devices form groups."""
        return group_axes(self.op, self.attrs)

    @property
    def group_size(self) -> int:
        return self.mesh.group_size(self.axes)

    def index(self, rank: int) -> int:
        """Return the index of device `rank` in its replica group."""
        return self.mesh.index(rank, self.axes)

    def members(self, rank: int, axes: Sequence[str] | None = None) -> tuple[int, ...]:
        """Return the world ranks of the replica group that contains device `rank`, in group order. `axes` overrides those of the op."""
        axes = self.axes if axes is None else axes
        first = self.first_rank.get(self.mesh.name, 0)
        return tuple(first + member for member in group_of(self.mesh, rank, axes))

    def member_index(self, key: str, default: int | None = None) -> int:
        """Return an index in the group: that of the device which attribute `key` names, by coordinates or by the index."""
        coordinates: Any = devices_by_role(self.attrs).get(key, default)
        if isinstance(coordinates, int):
            return coordinates
        index = 0
        for axis, coordinate in zip(self.axes, coordinates, strict=True):
            index = index * self.mesh.axis_size(axis) + coordinate
        return index


def group_of(mesh: Mesh, rank: int, axes: Sequence[str]) -> list[int]:
    """Return the devices that differ from `rank` only in coordinates along `axes`, ordered by these coordinates."""
    ranks = [rank - sum(mesh.coordinate(rank, axis) * stride_of(mesh, axis) for axis in axes)]
    for axis in axes:
        step = stride_of(mesh, axis)
        ranks = [first + coordinate * step for first in ranks for coordinate in range(mesh.axis_size(axis))]
    return ranks


def leading(shape: Sequence[int], dim: int) -> int:
    """Return the product of the sizes before dim `dim`. A slice along `dim` consists of this many contiguous runs."""
    return math.prod(shape[:dim])
