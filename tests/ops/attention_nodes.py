"""Attention nodes with operands, and reference results computed with einsum and softmax in f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ops.factors import parsed

Array = np.ndarray[Any, Any]
Function = Callable[[Builder, list[Value]], Value]
"""Builds a region from its inputs: a score or a probability, then elements and positions."""


def first(builder: Builder, inputs: list[Value]) -> Value:
    return inputs[0]


def causal(builder: Builder, inputs: list[Value]) -> Value:
    """Return the score if the key position is at most the row position, else -inf."""
    score, *_, row, key = inputs
    return builder.elementwise("select", builder.compare("GE", row, key), score, builder.splat(-np.inf, score.type))


def biased(builder: Builder, inputs: list[Value]) -> Value:
    return builder.elementwise("add", inputs[0], inputs[1])


def node_of(factors: str, sizes: dict[str, int], *, dtype: str = "f32", elements: Sequence[str] = (), positions: Sequence[str] = (),
            score: Function = first, share: Function = first, **attrs: Any) -> Node:  # fmt: skip
    """Return a node with fresh operands. `elements` has the dtype of each operand after the first three."""
    names, results = parsed(factors)
    dtypes = [dtype] * 3 + list(elements)
    operands = [
        Value(TensorType(tuple(sizes[f] for f in word), kind)) for word, kind in zip(names, dtypes, strict=True)
    ]
    types = [
        TensorType(tuple(sizes[f] for f in word), kind) for word, kind in zip(results, (dtype, "f32"), strict=True)
    ]
    element_types = [value.type.with_shape(()) for value in operands[3:]] + [TensorType((), "i32") for _ in positions]
    regions = tuple(_region(write, element_types) for write in (score, share))
    attrs |= {"factors": factors, "positions": tuple(positions)}
    return Node("attention", operands, [Value(kind) for kind in types], attrs, regions=regions)


def _region(write: Function, element_types: Sequence[TensorType]) -> Graph:
    graph = Graph("region", [Value(kind) for kind in (TensorType((), "f32"), *element_types)])
    graph.outputs = [write(Builder(graph), list(graph.inputs))]
    return graph


def reference_attention(
    factors: str, q: Array, k: Array, v: Array, change: Callable[[Array], Array] = lambda scores: scores
) -> Array:
    """Return the first result in f64. `change` maps scores whose dims are those of the second result and then the keys."""
    (queries, keys, values, *_), (out, rows) = parsed(factors)
    summed = tuple(f for f in keys if f in values and f not in out)
    letters = {f: chr(97 + i) for i, f in enumerate(dict.fromkeys((*queries, *keys, *values)))}

    def word(names: Sequence[str]) -> str:
        return "".join(letters[f] for f in names)

    order = word((*rows, *summed))
    scores = change(np.einsum(f"{word(queries)},{word(keys)}->{order}", q.astype(np.float64), k.astype(np.float64)))
    dims = tuple(range(len(rows), len(order)))
    with np.errstate(all="ignore"):
        shares = np.exp(scores - scores.max(dims, keepdims=True))
        shares /= shares.sum(dims, keepdims=True)
    return np.einsum(f"{order},{word(values)}->{word(out)}", shares, v.astype(np.float64))
