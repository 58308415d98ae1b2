"""Ops with run-time indices: gather, scatter, dynamic slices. Indices may be out of bounds."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import TensorType, Value
from meshgen.testing.generators.writer import MAX_ELEMENTS, MAX_SIZE, Writer, binary_body, changed, floats, has_type

_SCALAR = TensorType((), "i32")


def _is_small(value: Value) -> bool:
    return value.type.size < MAX_ELEMENTS // MAX_SIZE


def look_up(writer: Writer) -> None:
    """Append an embedding lookup along one dim, by a vector or a matrix of indices."""
    if value := writer.pick(lambda v: 0 < v.type.rank < 4 and _is_small(v)):
        dim, sizes = writer.integer(0, value.type.rank), value.type.sizes
        counts = (
            (writer.integer(1, MAX_SIZE + 1),) if writer.chance(0.6) else (writer.integer(1, 4), writer.integer(1, 4))
        )
        if writer.variety.empty and writer.chance(0.1):
            counts = (0, *counts[1:])
        indices = writer.new_input(TensorType((*counts, 1), "i32"))
        attrs = {
            "offset_dims": tuple(range(len(counts), len(counts) + value.type.rank - 1)), "collapsed_slice_dims": (dim,),
            "operand_batching_dims": (), "start_indices_batching_dims": (), "start_index_map": (dim,),
            "index_vector_dim": len(counts), "slice_sizes": changed(sizes, dim, 1), "indices_are_sorted": False,
        }  # fmt: skip
        writer.add("gather", [value, indices], None, attrs)


def look_up_in_rows(writer: Writer) -> None:
    """Append a gather with separate indices per row (`take_along_axis`), which has a batching dim."""
    if value := writer.pick(lambda v: v.type.rank == 2):
        rows, _ = value.type.sizes
        indices = writer.new_input(TensorType((rows, writer.integer(1, 6), 1), "i32"))
        attrs = {
            "offset_dims": (), "collapsed_slice_dims": (1,), "operand_batching_dims": (0,),
            "start_indices_batching_dims": (0,), "start_index_map": (1,), "index_vector_dim": 2, "slice_sizes": (1, 1),
            "indices_are_sorted": False,
        }  # fmt: skip
        writer.add("gather", [value, indices], None, attrs)


def look_up_windows(writer: Writer) -> None:
    """Append a gather of windows of one dim at positions that pairs of indices give."""
    if value := writer.pick(lambda v: v.type.rank == 2 and _is_small(v)):
        width = writer.integer(1, value.type.sizes[1] + 1)
        indices = writer.new_input(TensorType((2, writer.integer(1, 6)), "i32"))
        attrs = {
            "offset_dims": (1,), "collapsed_slice_dims": (0,), "operand_batching_dims": (),
            "start_indices_batching_dims": (), "start_index_map": (0, 1), "index_vector_dim": 0,
            "slice_sizes": (1, width), "indices_are_sorted": False,
        }  # fmt: skip
        writer.add("gather", [value, indices], None, attrs)


def scatter(writer: Writer) -> None:
    """Append a scatter that adds to rows of dim 0, takes their maximum, or replaces them."""
    if value := writer.pick(writer.numbers(rank=1, most=3)):
        rows, dtype = value.type.sizes[1:], value.type.dtype
        count = writer.integer(1, 8)
        indices = writer.new_input(TensorType((count, 1), "i32"))
        updates = writer.new_input(TensorType((count, *rows), dtype))
        attrs = {
            "update_window_dims": tuple(range(1, 1 + len(rows))), "inserted_window_dims": (0,),
            "input_batching_dims": (), "scatter_indices_batching_dims": (), "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1, "indices_are_sorted": False, "unique_indices": False,
        }  # fmt: skip
        kind = writer.one_of(("add", "maximum", "second"))
        body = binary_body("add" if kind == "second" else kind, dtype)
        if kind == "second":
            body.nodes, body.outputs = [], [body.inputs[1]]
        operands = [value, indices, updates]
        writer.add("scatter", operands, None, attrs, regions=(body,), rounds=floats(value) and kind == "add")


def scatter_in_rows(writer: Writer) -> None:
    """Append a scatter with separate indices per row, which has a batching dim."""
    if value := writer.pick(writer.numbers(rank=2, most=2)):
        rows, count = value.type.sizes[0], writer.integer(1, 6)
        indices = writer.new_input(TensorType((rows, count, 1), "i32"))
        updates = writer.new_input(TensorType((rows, count), value.type.dtype))
        attrs = {
            "update_window_dims": (), "inserted_window_dims": (1,), "input_batching_dims": (0,),
            "scatter_indices_batching_dims": (0,), "scatter_dims_to_operand_dims": (1,), "index_vector_dim": 2,
            "indices_are_sorted": False, "unique_indices": False,
        }  # fmt: skip
        body = binary_body("add", value.type.dtype)
        writer.add("scatter", [value, indices, updates], None, attrs, regions=(body,), rounds=floats(value))


def scatter_windows(writer: Writer) -> None:
    """Append a scatter that adds windows at indices of all dims, often clamped so that the windows are in bounds."""
    if value := writer.pick(writer.numbers(rank=1, most=3)):
        sizes, rank, count = value.type.sizes, value.type.rank, writer.integer(1, 4)
        window = _random_window_sizes(writer, value)
        indices = writer.new_input(TensorType((count, rank), "i32"))
        if writer.integer(0, 2):
            limits = np.broadcast_to(np.subtract(sizes, window).astype(np.int32), indices.type.sizes)
            last = writer.add("constant", [], indices.type, {"value": limits})
            indices = writer.add("clamp", [writer.scalar(0, "i32"), indices, last])
        attrs = {
            "update_window_dims": tuple(range(1, 1 + rank)), "inserted_window_dims": (), "input_batching_dims": (),
            "scatter_indices_batching_dims": (), "scatter_dims_to_operand_dims": tuple(range(rank)),
            "index_vector_dim": 1, "indices_are_sorted": False, "unique_indices": False,
        }  # fmt: skip
        operands = [value, indices, writer.new_input(TensorType((count, *window), value.type.dtype))]
        body = binary_body("add", value.type.dtype)
        writer.add("scatter", operands, None, attrs, regions=(body,), rounds=floats(value))


def _random_window_sizes(writer: Writer, value: Value) -> tuple[int, ...]:
    dim, sizes = writer.integer(0, value.type.rank), value.type.sizes
    return changed(sizes, dim, writer.integer(1, sizes[dim] + 1))


def dynamic_slice(writer: Writer) -> None:
    if value := writer.pick(has_type(rank=1)):
        starts = [writer.new_input(_SCALAR) for _ in value.type.sizes]
        writer.add("dynamic_slice", [value, *starts], None, {"slice_sizes": _random_window_sizes(writer, value)})


def dynamic_update_slice(writer: Writer) -> None:
    if value := writer.pick(has_type(rank=1)):
        update = writer.new_input(value.type.with_shape(_random_window_sizes(writer, value)))
        starts = [writer.new_input(_SCALAR) for _ in value.type.sizes]
        writer.add("dynamic_update_slice", [value, update, *starts])


OPS = (look_up, look_up, look_up_in_rows, look_up_windows, scatter, scatter_in_rows, scatter_windows,
       dynamic_slice, dynamic_update_slice)  # fmt: skip
