"""Builder for the program of one device: appends nodes, and provides the few idioms that uneven tiles need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from meshgen.ir.builder import Builder, Scalar
from meshgen.ir.graph import Node, TensorType, Value, is_complex, is_inexact
from meshgen.ir.notes import Notes
from meshgen.ir.predicates import is_constant
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.rules.rule import picked_kind
from meshgen.spec import Sharding

INDEX = "i32"  # dtype of device indices and of positions along a dim
IDEMPOTENT = ("maximum", "minimum", "and", "or")  # reductions for which x combined with x is x
Fill: TypeAlias = Scalar | Value | np.ndarray[Any, Any]
"""A fill value for padding: a Python number, a bit-exact 0-d array, or a 0-d value of the program."""


def neutral_scalar(combiner: str, dtype: str) -> Scalar:
    """Return the neutral element of a reduction kind as a Python scalar."""
    value = neutral(combiner, dtype)
    return bool(value) if dtype == "i1" else float(value.real) if is_inexact(dtype) else int(value)


@dataclass
class LocalBuilder(Builder):
    """Builder for the program of one device.

    Attributes:
        indices: tuple of axes -> the device's process index over them.
        sources: global value -> its producer in the sharded program, and the producer's operands on this device.
        bounds: bounds of row groups, relative to the device's tile, cached.
        constants: the data of constants.
    """

    mesh: Mesh = field(kw_only=True)
    indices: dict[tuple[str, ...], Value] = field(default_factory=dict[tuple[str, ...], Value])
    sources: dict[Value, tuple[Node, list[Value]]] = field(default_factory=dict[Value, "tuple[Node, list[Value]]"])
    bounds: dict[tuple[Value, tuple[str, ...], int, Sharding], Value] = field(
        default_factory=dict[tuple[Value, tuple[str, ...], int, Sharding], Value]
    )
    constants: dict[Value, np.ndarray[Any, Any]] = field(default_factory=dict[Value, "np.ndarray[Any, Any]"])

    def add(self, node: Node) -> None:
        super().add(node)
        if is_constant(node):
            self.constants[node.result] = node.attrs.value

    def communicate(self, op: str, operand: Value, result: TensorType, why: str, /, **attrs: Any) -> Value:
        """Append a collective with its reason `why`, and return its result."""
        return self.append(op, [operand], [result], attrs, notes=Notes(why))[0]

    def absent(self, like: TensorType) -> Value:
        """Return the value that a device contributes to a sum for elements that other devices hold.

        For floats it is -0.0, since adding +0.0 would change the sign of -0.0.
        """
        if (kind := picked_kind(like.dtype)) == "sum" and is_inexact(like.dtype):
            return self.splat(-complex(0.0, 0.0) if is_complex(like.dtype) else -0.0, like)
        return self.splat(neutral(kind, like.dtype).item(), like)

    def process_index(self, axes: tuple[str, ...]) -> Value:
        """Return the device's index in its group over `axes`."""
        if axes not in self.indices:
            self.indices[axes] = self.emit("process_index", [], TensorType((), INDEX), axes=axes)
        return self.indices[axes]

    def tile_start(self, axes: tuple[str, ...], tile: int) -> Value:
        """Return the first global position of the device's tile."""
        index = self.process_index(axes)
        return index if tile == 1 else self.elementwise("multiply", index, self.splat(tile, index.type))

    def global_rows(self, tensor_type: TensorType, dim: int, axes: tuple[str, ...]) -> Value:
        """Return the global row index of every element of a buffer, along a `dim` that `axes` split."""
        row = self.emit("iota", [], TensorType(tensor_type.shape, INDEX), dim=dim)
        return self.elementwise(
            "add", self.spread(self.tile_start(axes, tensor_type.sizes[dim]), tensor_type.sizes), row
        )

    def mask_padding(self, local: Value, value: Value, sharding: Sharding, dims: Sequence[int], fill: Fill) -> Value:
        """Return a value's buffer with `fill` in its padding along `dims`, or the buffer itself if it has no padding.

        Args:
            local: the buffer.
            value: the global value, with `sharding`.
            dims: dims of the tensor.
        """
        axes = sharding.canonical(self.mesh).dims
        for dim in dims:
            local = self.mask_rows(local, dim, axes[dim], value.type.sizes[dim], fill)
        return local

    def mask_rows(self, local: Value, dim: int, axes: tuple[str, ...], size: int, fill: Fill) -> Value:
        """Return a buffer with `fill` in its padding along `dim`, which has `size` rows and is split over `axes`.

        Returns the buffer itself if it has no padding.
        """
        if size % self.mesh.group_size(axes) == 0:
            return local
        if not isinstance(fill, (Value, np.ndarray)):
            return self.emit("mask_padding", [local], local.type, dim=dim, axes=axes, size=size, fill=fill)
        row = self.global_rows(local.type, dim, axes)
        inside = self.compare("LT", row, self.splat(size, row.type))
        outside = self.spread(fill, local.type.sizes) if isinstance(fill, Value) else self.splat(fill, local.type)
        return self.emit("select", [inside, local, outside], local.type)

    def is_known(self, value: Value, scalar: Scalar) -> bool:
        """Whether a value is a constant with `scalar` in all elements."""
        constant = self.constants.get(value)
        return constant is not None and bool(constant == scalar)
