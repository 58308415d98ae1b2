"""Partitioner of select_and_scatter, the gradient of pooling: each window selects an element and adds its source value
to it.

A device first finds the positions that the windows of its own sources select, with a reduce_window over values and
positions. It then fetches the sources and positions of all windows that may select one of its rows, and scatters the
sources whose windows do.
"""

from __future__ import annotations

import math

import numpy as np

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ops.registry import rule_of
from meshgen.ops.rules.rule import Window
from meshgen.ops.rules.windowed import windowed
from meshgen.sharding.partitioners.builder import INDEX
from meshgen.sharding.partitioners.registry import Site, partitioner
from meshgen.sharding.partitioners.windowed import fetch

_NOWHERE = -(2**30)  # a coordinate out of bounds, which the scatter drops


@partitioner("select_and_scatter")
def select_and_scatter(site: Site) -> list[Value]:
    split = [dim for dim in windowed(site.node) if site.axes(0, dim)]
    if not split:
        return site.clone()
    builder, source = site.builder, site.operands[1]
    position = _chosen_positions(site, split)
    outside = builder.splat(-1, TensorType((), position.type.dtype))
    for window in rule_of(site.node).windows:
        if window.operand == 1 and window.dim in split:
            axes = site.axes(1, window.dim)
            source = fetch(site, source, window, axes, None)
            position = fetch(site, position, window, axes, outside)
    return [_scattered_sources(site, source, position)]


def _chosen_positions(site: Site, split: list[int]) -> Value:
    """Return for each of the device's sources the row-major global position, over the windowed dims, that its window
    selects.

    The position is -1 if the window selects nothing. Padding has position -1, so that every element is preferred to it.
    """
    node, builder, operand = site.node, site.builder, site.operands[0]
    attrs, sizes = node.attrs, node.operands[0].type.sizes
    moving = windowed(node)
    count = math.prod(sizes[d] for d in moving)
    dtype = INDEX if count < 2**31 else "i64"
    position = builder.splat(0, TensorType(operand.type.shape, dtype))
    for dim in moving:
        row = builder.global_rows(operand.type, dim, site.axes(0, dim))
        scaled = builder.elementwise("multiply", position, builder.splat(sizes[dim], position.type))
        position = builder.elementwise("add", scaled, builder.convert(row, dtype))
    low, high = list(attrs.low), list(attrs.high)
    none = builder.splat(-1, TensorType((), dtype))
    zero = builder.splat(0, TensorType((), operand.type.dtype))
    for dim in split:
        # the operand rows that a source row's window covers in the reduce_window
        window = Window(-1, 0, dim, -attrs.low[dim], attrs.window_strides[dim], attrs.window_dimensions[dim])
        axes, total = site.axes(0, dim), node.operands[1].type.sizes[dim]
        operand = fetch(site, operand, window, axes, None, total=total)
        position = fetch(site, position, window, axes, none, total=total)
        low[dim] = high[dim] = 0
    ones = (1,) * len(sizes)
    windows = {
        "window_dimensions": attrs.window_dimensions, "window_strides": attrs.window_strides,
        "base_dilations": ones, "window_dilations": ones, "low": tuple(low), "high": tuple(high),
    }  # fmt: skip
    shape = site.operands[1].type.shape
    kinds = [operand.type.with_shape(shape), TensorType(shape, dtype)]
    region = _preferring(node.regions[0], operand.type.dtype, dtype)
    return builder.append("reduce_window", [operand, position, zero, none], kinds, windows, (region,))[1]


def _preferring(select: Graph, value: str, index: str) -> Graph:
    """Return a region that maps two pairs (value, position) to the pair that `select` prefers. A pair without a
    position loses.
    """
    scalar, index_type, bool_type = TensorType((), value), TensorType((), index), TensorType((), "i1")
    body = Graph("preferred", [Value(scalar), Value(index_type), Value(scalar), Value(index_type)])
    a, i, b, j = body.inputs
    inner = dict(zip(select.inputs, (a, b), strict=True))
    for node in select.nodes:
        copy = body.add(node.op, [inner[v] for v in node.operands], [v.type for v in node.results], node.attrs)
        inner.update(zip(node.results, copy.results, strict=True))
    zero = body.add("constant", [], [index_type], {"value": np.zeros((), index_type.numpy_dtype)}).result

    def is_none(at: Value) -> Value:
        return body.add("compare", [at, zero], [bool_type], {"direction": "LT", "compare_type": "SIGNED"}).result

    keeps = body.add("or", [inner[select.outputs[0]], is_none(j)], [bool_type]).result
    some = body.add("not", [is_none(i)], [bool_type]).result
    first = body.add("and", [keeps, some], [bool_type]).result
    body.outputs = [body.add("select", [first, x, y], [x.type]).result for x, y in ((a, b), (i, j))]
    return body


def _scattered_sources(site: Site, source: Value, position: Value) -> Value:
    """Return the sources, combined at the selected positions of the device's tile. Sources for other tiles are
    dropped.
    """
    node, builder, result_type = site.node, site.builder, site.local_types()[0]
    sizes, rank = node.operands[0].type.sizes, result_type.rank
    column = TensorType((*position.type.sizes, 1), position.type.dtype)
    rest, columns = position, dict[int, Value]()
    nowhere = builder.compare("LT", position, builder.splat(0, position.type))
    for dim in reversed(windowed(node)):
        size = builder.splat(sizes[dim], rest.type)
        row = builder.elementwise("remainder", rest, size)
        rest = builder.elementwise("divide", rest, size)
        if axes := site.axes(0, dim):
            start = builder.convert(builder.tile_start(axes, result_type.sizes[dim]), row.type.dtype)
            row = builder.elementwise("subtract", row, builder.spread(start, row.type.sizes))
        columns[dim] = builder.emit("select", [nowhere, builder.splat(_NOWHERE, row.type), row], row.type)
    for dim in range(rank):
        if dim not in columns:
            columns[dim] = builder.emit("iota", [], position.type, dim=dim)
    parts = [builder.reshape(columns[dim], column.shape) for dim in range(rank)]
    indices = parts[0]
    if rank > 1:
        indices = builder.concatenate(parts, rank)
    attrs = {
        "update_window_dims": (), "inserted_window_dims": tuple(range(rank)), "input_batching_dims": (),
        "scatter_indices_batching_dims": (), "scatter_dims_to_operand_dims": tuple(range(rank)),
        "index_vector_dim": rank, "indices_are_sorted": False, "unique_indices": False,
    }  # fmt: skip
    initial = builder.spread(site.operands[2], result_type.sizes)
    return builder.append("scatter", [initial, indices, source], [result_type], attrs, (node.regions[1],))[0]
