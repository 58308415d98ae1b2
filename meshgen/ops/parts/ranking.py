"""Split `top_k`: the largest elements of a row are among the largest elements of the parts of the row."""

from __future__ import annotations

import numpy as np

from meshgen.ir.builder import Builder
from meshgen.ir.graph import DTYPES, Node, TensorType, Value, is_float
from meshgen.ir.matchers import Producer
from meshgen.ops.parts.base import Parts

# Elements of a row that a kernel compares pairwise; longer rows are split. Chosen: the cost of pairwise comparison is
# quadratic in the length.
_COMPARED_ROW = 1024

_GATHERED = {
    "offset_dims": (2,), "collapsed_slice_dims": (), "operand_batching_dims": (0,), "start_indices_batching_dims": (0,),
    "start_index_map": (1,), "index_vector_dim": 2, "slice_sizes": (1, 1), "indices_are_sorted": False,
}  # fmt: skip
"""Gather one index per row."""


def top_k(node: Node, producer: Producer) -> Parts | None:
    """Split rows into parts of `_COMPARED_ROW` elements. The last part is padded with the least value in total order.

    Equal elements keep their precedence by index: parts are in order, and the padding comes last.
    """
    (value,), k, part = node.operands, node.attrs.k, _COMPARED_ROW
    value_type, size = value.type, value.type.sizes[-1]
    if size <= 2 * part or 4 * k > part or not value_type.size:
        return None
    rows = value_type.size // size

    def partial(builder: Builder, count: int) -> list[Value]:
        padded = builder.shaped(value, (rows, size))
        if padding := count * part - size:
            padded = builder.pad(padded, _least(builder, value_type.dtype), (0, 0), (0, padding))
        values, indices = _top(builder, builder.reshape(padded, (rows, count, part)), k)
        starts = builder.emit("iota", [], TensorType((count,), "i32"), dim=0)
        starts = builder.elementwise("multiply", starts, builder.broadcast_scalar(part, starts.type))
        indices = builder.elementwise("add", indices, builder.spread(starts, indices.type.sizes, (1,)))
        return [builder.shaped(partial, (rows, count * k)) for partial in (values, indices)]

    def combine(builder: Builder, partials: list[Value]) -> list[Value]:
        candidates, indices = partials
        values, places = _top(builder, candidates, k)
        index_type = TensorType((rows, k, 1), "i32")
        chosen = builder.emit("gather", [indices, builder.reshape(places, index_type.sizes)], index_type, **_GATHERED)
        return [
            builder.shaped(selected, result.type.sizes)
            for selected, result in zip((values, chosen), node.results, strict=True)
        ]

    return Parts([-(-size // part)], partial, combine)


def _top(builder: Builder, value: Value, k: int) -> tuple[Value, Value]:
    shape = (*value.type.sizes[:-1], k)
    values, indices = builder.append(
        "top_k", [value], [value.type.with_shape(shape), TensorType(shape, "i32")], {"k": k}
    )
    return values, indices


def _least(builder: Builder, dtype: str) -> Value:
    """Append the least value of a type in total order: for floats, the negative NaN with all bits set."""
    if is_float(dtype):
        bits = f"i{8 * DTYPES[dtype].itemsize}"
        return builder.bits(builder.splat(-1, TensorType((), bits)), dtype)
    return builder.splat(0 if dtype == "i1" else int(np.iinfo(DTYPES[dtype]).min), TensorType((), dtype))
