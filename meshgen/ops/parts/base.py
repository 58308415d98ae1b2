"""Split reductions: an op that reduces a dim is computed on parts of the dim, whose results are then combined.

%s = reduce add %x, dims [0]                 f32[4096,96] -> f32[96]

%p = reduce add (reshape %x), dims [1]       f32[64,64,96] -> f32[64,96]     partial, 64 parts
%s = reduce add %p, dims [0]                 f32[64,96] -> f32[96]           combined
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
    """The ways to split a node into parts.

    Attributes:
        counts: the possible numbers of parts, ascending, each at least 2.
        partial: `partial(builder, count)` appends the computation of `count` parts and returns their results.
        combine: `combine(builder, partials)` combines these partial results and returns the results of the node.
    """

    counts: Sequence[int]
    partial: Callable[[Builder, int], list[Value]]
    combine: Callable[[Builder, list[Value]], list[Value]]


PartsOf: TypeAlias = Callable[[Node, Producer], Parts | None]
"""Returns how to split a node, or None if it cannot be split. The producer is only used to find constants."""


def even_counts(size: int, least: int) -> list[int]:
    """Return the numbers of parts that divide `size` evenly into parts of at least `least` elements.

    The largest number is the number of thread blocks that fills a device.
    """
    max_count = min(size // max(1, least), DEFAULT.fusion.programs)
    return [count for count in range(2, max_count + 1) if size % count == 0]


def cut(builder: Builder, value: Value, dim: int, count: int, shape: Sequence[int] = ()) -> Value:
    """Split dim `dim` into `count` parts: [.., n, ..] -> [.., count, n / count, ..].

    If `shape` is not empty, the value is first reshaped to it.
    """
    sizes = shape or value.type.sizes
    return builder.reshape(value, (*sizes[:dim], count, sizes[dim] // count, *sizes[dim + 1 :]))


def total(builder: Builder, partial: Value, dim: int, result: TensorType, kind: str = "add") -> Value:
    """Reduce the partial results along `dim` in a fixed order, and convert the total to the element type of `result`."""
    dtype = partial.type.dtype
    start = builder.splat(neutral(kind, dtype), TensorType((), dtype))
    folded = builder.emit("reduce", [partial, start], TensorType(result.shape, dtype), dims=(dim,), kind=kind)
    return builder.convert(folded, result.dtype)
