"""An op that folds the elements of a dim, as parts of the dim that are folded by themselves, and then with each other.

%s = reduce add %x, dims [0]                          f32[4096,96] -> f32[96]
%p = reduce add (reshape %x), dims [1]                f32[64,64,96] -> f32[64,96]       partial, 64 parts
%s = reduce add %p, dims [0]                          f32[64,96] -> f32[96]             combined
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ir.matchers import Producer
from meshgen.ops.evaluate.common import neutral


@dataclass(frozen=True)
class Parts:
    """A node in parts.

    Attributes:
        counts: numbers of parts that are possible, ascending, each at least 2.
        partial: append what `count` parts give, from the node's operands; returns it.
        combine: append the results of the node, from what the parts give; returns them.
    """

    counts: Sequence[int]
    partial: Callable[[Builder, int], list[Value]]
    combine: Callable[[Builder, list[Value]], list[Value]]


PartsOf: TypeAlias = Callable[[Node, Producer], Parts | None]
"""Return a node in parts; None where it cannot be. The producer is asked for constants only."""


def even_counts(size: int, least: int) -> list[int]:
    """Return the numbers of equal parts of a dim, each of at least `least` elements, that do not more than fill a device."""
    most = min(size // max(1, least), DEFAULT.fusion.programs)
    return [count for count in range(2, most + 1) if size % count == 0]


def cut(builder: Builder, value: Value, dim: int, count: int, shape: Sequence[int] = ()) -> Value:
    """Return the value, first in `shape`, with a dim as `count` parts: [.., n, ..] -> [.., count, n / count, ..]."""
    sizes = shape or value.type.sizes
    return builder.reshape(value, (*sizes[:dim], count, sizes[dim] // count, *sizes[dim + 1 :]))


def total(builder: Builder, partial: Value, dim: int, result: TensorType, kind: str = "add") -> Value:
    """Fold the parts along `dim` in a fixed order; returns the result in its own element type."""
    dtype = partial.type.dtype
    start = builder.splat(neutral(kind, dtype), TensorType((), dtype))
    folded = builder.emit("reduce", [partial, start], TensorType(result.shape, dtype), dims=(dim,), kind=kind)
    return builder.convert(folded, result.dtype)
