"""A collective as the devices of a mesh run it: op, attributes and local types, with cached derived properties."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from meshgen.ccl.cost import group_axes, ring_bytes, seconds_of
from meshgen.ccl.groups import stride_of
from meshgen.ccl.steps import OPERAND, RESULT, Box, whole
from meshgen.ir.attributes.sharding import places_of
from meshgen.ir.attributes.table import attributes_of
from meshgen.ir.graph import Node, TensorType
from meshgen.ir.group_calls import VARIADIC
from meshgen.mesh import Mesh


@dataclass(frozen=True)
class Collective:
    """One collective; all devices of the mesh have operands and results of the same types.

    Attributes:
        operands, results: local types. Of several operands (`ir/group_calls.py`) each has its result.
        first_rank: in a program on several meshes the world rank of the first device of each mesh, by name; a mesh that is
            not listed begins at 0.
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
        """The collective of a node whose values have local types."""
        operands, results = (tuple(value.type for value in values) for values in (node.operands, node.results))
        return Collective(node.op, node.attrs, operands, results, mesh, first_rank or {})

    @property
    def calls(self) -> list[Collective]:
        """The collective of each operand by itself: one, but of a group call."""
        if len(self.operands) < 2 or self.op not in VARIADIC:
            return [self]
        return [replace(self, operands=(a,), results=(b,)) for a, b in zip(self.operands, self.results, strict=True)]

    @property
    def ring_bytes(self) -> int:
        """Bytes that a device moves: a `send` has no result and a `recv` no operand, but the other side's type is the same."""
        ends = [(*call.operands[:1], *call.results[:1]) for call in self.calls]
        return sum(ring_bytes(self.op, self.attrs, types[0], types[-1], self.mesh) for types in ends)

    @property
    def link_seconds(self) -> float:
        """Time on idle links; all operands of a group call together wait once for the latency."""
        return seconds_of(self.op, self.attrs, self.ring_bytes, self.mesh)

    @property
    def operand(self) -> Box:
        return whole(OPERAND, self.operands[0])

    @property
    def result(self) -> Box:
        return whole(RESULT, self.results[0])

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes whose groups take part."""
        return group_axes(self.op, self.attrs)

    @property
    def group_size(self) -> int:
        return self.mesh.group_size(self.axes)

    def index(self, rank: int) -> int:
        """A device's number in its group."""
        return self.mesh.index(rank, self.axes)

    def members(self, rank: int, axes: Sequence[str] | None = None) -> tuple[int, ...]:
        """World ranks of a device's group, in its order."""
        axes = self.axes if axes is None else axes
        first = self.first_rank.get(self.mesh.name, 0)
        return tuple(first + member for member in group_of(self.mesh, rank, axes))

    def place(self, key: str, default: int | None = None) -> int:
        """The number in the group of the device that an attribute names by coordinates along the axes, or by that number."""
        place: Any = places_of(self.attrs).get(key, default)
        if isinstance(place, int):
            return place
        number = 0
        for axis, coordinate in zip(self.axes, place, strict=True):
            number = number * self.mesh.axis_size(axis) + coordinate
        return number


def group_of(mesh: Mesh, rank: int, axes: Sequence[str]) -> list[int]:
    """The devices that differ from `rank` along `axes` only, in the order induced by the axes."""
    found = [rank - sum(mesh.coordinate(rank, axis) * stride_of(mesh, axis) for axis in axes)]
    for axis in axes:
        step = stride_of(mesh, axis)
        found = [first + number * step for first in found for number in range(mesh.axis_size(axis))]
    return found


def leading(shape: Sequence[int], dim: int) -> int:
    """The number of contiguous runs that the rows of a dim consist of: the product of the sizes before it."""
    return math.prod(shape[:dim])
