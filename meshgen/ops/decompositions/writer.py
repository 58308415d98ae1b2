"""Building blocks for the decomposition of composites whose operands and results have factors as dims.

    normalize "t d, d -> t d, t, t"       %m = sum of x over d, divided by the size of d       [t]
                                          %c = subtract x, %m                                  [t d]

Values are broadcast by the names of their dims. A decomposition also serves a device that has a tile of the
operands: the partitioner's subclass of `FactorWriter` (`sharding/partitioners/composites.py`) adds the
communication for sharded factors that are reduced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.factors import Names, parsed
from meshgen.ops.rules.rule import reduction_kind

TILES = "tiles"
"""The factor of per-device partial results that enumerates the devices."""


@dataclass(frozen=True)
class Spread:
    """A tensor value with the name of the factor that each dim enumerates."""

    value: Value
    names: Names

    @property
    def dtype(self) -> str:
        return self.value.type.dtype


Finish = Callable[[Sequence[Spread]], Sequence[Spread]]
"""Combines partial results: each input has the dim `TILES` last, and the outputs lack it."""


class FactorWriter:
    """Appends operations on values whose dims are factors.

    Attributes:
        operands: the operands of the node.
        results: the factors of each result.
        sizes: the global size of each factor.
    """

    def __init__(self, node: Node, builder: Builder, operands: Sequence[Value] | None = None) -> None:
        self.node, self.builder = node, builder
        names, self.results = parsed(node.attrs.factors)
        values = node.operands if operands is None else operands
        self.operands = tuple(map(Spread, values, names))
        self.sizes: dict[str, int] = {}
        for words, value in zip(names, node.operands, strict=True):
            self.sizes.update(zip(words, value.type.sizes, strict=True))

    # ---- values of any size

    def apply(self, op: str, *parts: Spread | float) -> Spread:
        """Append an element-wise op, broadcast to the factors of the operand that has the most factors."""
        names = max((part.names for part in parts if isinstance(part, Spread)), key=len)
        return Spread(self.builder.elementwise(op, *self._together(parts, names)), names)

    def equal(self, left: Spread, right: Spread, names: Names) -> Spread:
        """Compare two values for equality, broadcast to the factors `names`."""
        return Spread(self.builder.compare("EQ", *self._together((left, right), names)), names)

    def _together(self, parts: Sequence[Spread | float], names: Names) -> list[Value]:
        """Broadcast values to the factors `names`. A Python number gets the element type of the last tensor."""
        tensors = [part for part in parts if isinstance(part, Spread)]
        sizes = {f: size for part in tensors for f, size in zip(part.names, part.value.type.sizes, strict=True)}
        shape = tuple(sizes[f] for f in names)
        number_type = TensorType(shape, tensors[-1].dtype)
        return [
            self._spread(part, names, shape)
            if isinstance(part, Spread)
            else self.builder.broadcast_scalar(part, number_type)
            for part in parts
        ]

    def _spread(self, part: Spread, names: Names, shape: tuple[int, ...]) -> Value:
        if part.names == names:
            return part.value
        return self.builder.spread(part.value, shape, [names.index(f) for f in part.names])

    def convert(self, part: Spread, dtype: str) -> Spread:
        return Spread(self.builder.convert(part.value, dtype), part.names)

    def reduced(self, combiner: str, part: Spread, over: Names) -> Spread:
        """Reduce the elements on this device over factors, starting from the combiner's neutral element."""
        kept = tuple(f for f in part.names if f not in over)
        sizes = dict(zip(part.names, part.value.type.sizes, strict=True))
        result_type = TensorType(tuple(sizes[f] for f in kept), part.dtype)
        init = self.builder.splat(neutral(reduction_kind(combiner), part.dtype).item(), result_type.with_shape(()))
        dims = tuple(part.names.index(f) for f in part.names if f in over)
        return Spread(self.builder.emit("reduce", [part.value, init], result_type, kind=combiner, dims=dims), kept)

    def count(self, over: Names) -> float:
        """Return the global number of elements along factors."""
        return float(math.prod(self.sizes[f] for f in over))

    def positions(self, factor: str, dtype: str) -> Spread:
        """Return an iota of the global positions along a factor."""
        position_type = TensorType((self.sizes[factor],), dtype)
        return Spread(self.builder.emit("iota", [], position_type, dim=0), (factor,))

    # ---- Communication, which is empty if this device has the entire operands.

    def masked(self, part: Spread, over: Names, fill: float) -> Spread:
        """Replace the padding of tiles along the factors `over` by `fill`."""
        return part

    def total(self, combiner: str, part: Spread, over: Names) -> Spread:
        """Reduce over factors across all devices."""
        return self.reduced(combiner, part, over)

    def tile_count(self, over: Names, dtype: str) -> Spread | float:
        """Return the number of elements along the factors `over` on this device, or 1 if the device has none."""
        return self.count(over)

    def tile_counts(self, over: Names, dtype: str) -> Spread:
        """Return a 1-d tensor with dim `TILES`: the number of elements along the factors `over` on each device."""
        raise AssertionError("one device has the whole operands")

    def combined(self, parts: Sequence[Spread], over: Names, finish: Finish) -> Sequence[Spread]:
        """Combine the per-device results `parts` into global results with `finish`."""
        return parts


def arranged(builder: Builder, part: Spread, order: Names) -> Spread:
    """Transpose a value to the dim order `order`."""
    if part.names == order:
        return part
    return Spread(builder.transpose(part.value, [part.names.index(f) for f in order]), order)


def product(builder: Builder, left: Spread, right: Spread, order: Names, dtype: str, precision: Sequence[str]) -> Spread:  # fmt: skip
    """Multiply two values, and contract the factors that are not in `order`. The result has the dims `order`."""
    sides = (left.names, right.names)
    both = [f for f in left.names if f in right.names]
    batch, summed = [f for f in both if f in order], [f for f in both if f not in order]
    batch.sort(key=order.index)
    free = [f for side, opposite in (sides, sides[::-1]) for f in side if f not in opposite]
    attrs: dict[str, Any] = {
        f"{side}_{role}": tuple(names.index(f) for f in part)
        for side, names in zip(("lhs", "rhs"), sides, strict=True)
        for role, part in (("batch", batch), ("contract", summed))
    }
    if precision:
        attrs["precision"] = tuple(precision)
    result_factors = (*batch, *free)
    sizes = {f: size for part in (left, right) for f, size in zip(part.names, part.value.type.sizes, strict=True)}
    result_type = TensorType(tuple(sizes[f] for f in result_factors), dtype)
    return arranged(
        builder,
        Spread(builder.emit("dot_general", [left.value, right.value], result_type, **attrs), result_factors),
        order,
    )
