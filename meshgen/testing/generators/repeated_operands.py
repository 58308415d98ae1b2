"""Ops that use one value for several operands, each of which may require a different sharding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.testing.generators.bodies import DEEPEST, depth_of
from meshgen.testing.generators.writer import MAX_ELEMENTS, Writer, binary_body, floats, has_type, rounded

_PRECISION = ("DEFAULT", "DEFAULT")
_SCALAR = TensorType((), "i32")


def product(writer: Writer) -> None:
    """Append a contraction of a value with itself; dims of equal size are contracted or are batch dims."""
    if value := writer.pick(writer.sums(rank=1, most=3)):
        sizes, rank = value.type.sizes, value.type.rank
        left, right = writer.order(rank), writer.order(rank)
        pairs = [(a, b) for a, b in zip(left, right, strict=True) if sizes[a] == sizes[b]]
        batch = [pair for pair in pairs if writer.chance(0.3)]
        contract = [pair for pair in pairs if pair not in batch and writer.chance(0.7)]
        shared = math.prod(sizes[a] for a, _ in (*batch, *contract))
        if (value.type.size // max(shared, 1)) ** 2 * shared > MAX_ELEMENTS:
            return
        attrs = {
            "lhs_batch": tuple(a for a, _ in batch), "rhs_batch": tuple(b for _, b in batch),
            "lhs_contract": tuple(a for a, _ in contract), "rhs_contract": tuple(b for _, b in contract), "precision": _PRECISION,
        }  # fmt: skip
        writer.add("dot_general", [value, value], None, attrs, rounds=rounded(value))


def joined(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.rank > 0 and v.type.size < MAX_ELEMENTS // 3, empty=True):
        parts = [value, value, writer.partner(value)][: writer.integer(2, 4)]
        writer.add("concatenate", parts, None, {"dim": writer.integer(0, value.type.rank)})


def selected_by_itself(writer: Writer) -> None:
    """Append a select that has one value as mask or as both cases, or a clamp that has one value as operand and
    bound.
    """
    if value := writer.pick(has_type("i1", *writer.variety.reals, *writer.variety.wholes), exact=True, empty=True):
        if value.type.dtype == "i1":
            writer.add("select", [value, value, writer.partner(value)])
        elif writer.chance(0.5):
            mask = writer.add("compare", [value, value], None, {"direction": "GE", "compare_type": ""})
            writer.add("select", [mask, value, value])
        else:
            writer.add("clamp", [value, value, writer.partner(value, exact=True)])


def sliced_and_updated(writer: Writer) -> None:
    """Append a dynamic update of a value with itself and with equal indices for all dims, and a dynamic slice."""
    if value := writer.pick(writer.sums(rank=1, most=3)):
        index = writer.new_input(_SCALAR)
        writer.add("dynamic_update_slice", [value, value, *([index] * value.type.rank)])
        window = tuple(writer.integer(1, size + 1) for size in value.type.sizes)
        writer.add("dynamic_slice", [value, *([index] * value.type.rank)], None, {"slice_sizes": window})


def scattered(writer: Writer) -> None:
    """Append a scatter that adds the rows of a value to rows of the same value."""
    if value := writer.pick(has_type("i32", *writer.variety.reals, rank=2, most=2)):
        rows, _ = value.type.sizes
        indices = writer.new_input(TensorType((rows, 1), "i32"))
        attrs = {
            "update_window_dims": (1,), "inserted_window_dims": (0,), "input_batching_dims": (),
            "scatter_indices_batching_dims": (), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1,
            "indices_are_sorted": False, "unique_indices": False,
        }  # fmt: skip
        body = binary_body("add", value.type.dtype)
        writer.add("scatter", [value, indices, value], None, attrs, regions=(body,), rounds=floats(value))


def looked_up(writer: Writer) -> None:
    """Append a gather whose operand and indices are the same integer value."""
    if value := writer.pick(has_type("i32", rank=2, most=2)):
        rows, width = value.type.sizes
        attrs = {
            "offset_dims": (1,), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "start_indices_batching_dims": (),
            "start_index_map": (0,), "index_vector_dim": 1, "slice_sizes": (1, width), "indices_are_sorted": False,
        }  # fmt: skip
        if width == 1 and rows:
            writer.add("gather", [value, value], None, attrs)


def sorted_by_itself(writer: Writer) -> None:
    if value := writer.pick(writer.numbers(rank=1), exact=True, empty=True):
        body = binary_body("compare", value.type.dtype, {"direction": "LT", "compare_type": ""}, pairs=2)
        attrs = {"dim": writer.integer(0, value.type.rank), "is_stable": True}
        writer.add("sort", [value, value], None, attrs, regions=(body,))


def carried(writer: Writer) -> None:
    """Append control flow with one value as two operands: a loop that adds and swaps the copies, or a branch."""
    if depth_of(writer) < DEEPEST and (value := writer.pick(writer.sums(), empty=True)):
        names = [Value(value.type, "a"), Value(value.type, "b")]
        if writer.chance(0.4):
            bodies = [Graph(f"branch{n}", [Value(v.type, v.name) for v in names]) for n in range(2)]
            for body, op in zip(bodies, ("add", "subtract"), strict=True):
                body.outputs = [body.add(op, body.inputs, [value.type]).result]
            writer.append("if", [writer.new_input(TensorType((), "i1")), value, value], [value.type], tuple(bodies))
            return
        condition, body = (
            Graph(n, [Value(_SCALAR, "i"), *(Value(v.type, v.name) for v in names)]) for n in ("while", "do")
        )
        for graph in (condition, body):
            graph.add("constant", [], [_SCALAR], {"value": _i32_scalar(2 if graph is condition else 1)})
        less = {"direction": "LT", "compare_type": ""}
        compared = condition.add(
            "compare", [condition.inputs[0], condition.nodes[0].result], [TensorType((), "i1")], less
        )
        condition.outputs = [compared.result]
        i, a, b = body.inputs
        following = body.add("add", [i, body.nodes[0].result], [_SCALAR]).result
        body.outputs = [following, b, body.add("add", [a, b], [value.type]).result]
        kinds = [_SCALAR, value.type, value.type]
        writer.append("while", [writer.scalar(0, "i32"), value, value], kinds, (condition, body))


def _i32_scalar(value: int) -> np.ndarray[Any, Any]:
    return np.array(value, np.int32)


OPS = (
    product,
    product,
    product,
    joined,
    selected_by_itself,
    sliced_and_updated,
    scattered,
    looked_up,
    sorted_by_itself,
    carried,
)
