"""Rewrite a scatter to one that updates entire rows in sorted order, so that a kernel can search the updates of a row.

    before   scatter f32[1000,64] at i32[32,16,1] of f32[32,16,64]
    after    keys = row index of each update, 1000 (no row) if it is out of bounds                i32[512]
             order = sort (keys, 0, 1, 2, ...) by keys
             scatter f32[1000,64] at (sorted keys) of (gather updates at order)   {indices_are_sorted = true}

The sort is stable, so updates of one element are combined in the same order as before. Scatters with the same indices
share the sort. A window dim that is shorter than the operand's dim becomes part of the row index: each of its elements
is a separate update. A few updates are not sorted.

Many updates of few rows, such as gradients of a relative position table, become a reduction per row if that is faster.
The sort compares each key with all others, which is slow for many keys.

    before   scatter f32[32,3] at i32[262144,1] of f32[262144,3]
    after    add operand, reduce (select keys = row, updates, 0) over updates         f32[32,262144,3] -> f32[32,3]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.codegen.emit.scatter import is_of_rows
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.rewriter import rewritten
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.flops import is_row_scan_faster, reduced_kind

_ROWS = {
    "update_window_dims": (1,), "inserted_window_dims": (0,), "input_batching_dims": (), "scatter_indices_batching_dims": (),
    "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1, "unique_indices": False,
}  # fmt: skip
_ROW = {
    "offset_dims": (1,), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "start_indices_batching_dims": (),
    "start_index_map": (0,), "index_vector_dim": 1, "indices_are_sorted": False,
}  # fmt: skip


# For each origin of keys (`_origin`), the sorted keys and the permutation that sorts them.
Orders = dict[object, tuple[Value, Value]]


@module_pass("scatter-to-rows", "partition")
def scatter_to_rows(module: Module, context: Compilation) -> Module:
    """Rewrite all scatters to combine entire rows in sorted order. The results remain the same `Value` objects."""
    return on_graphs(module, _with_rows)


def _with_rows(graph: Graph) -> Graph:
    orders: Orders = {}

    def rule(builder: Builder, node: Node) -> Sequence[Value] | None:
        if node.op != "scatter" or (is_of_rows(node) and _is_ready(node)) or not node.results[0].type.size:
            return None
        return _RowScatter(builder, node, orders).written()

    return rewritten(graph, rule)


def _is_ready(node: Node) -> bool:
    count = node.operands[len(node.operands) // 2].type.sizes[0]
    return node.attrs.indices_are_sorted or count <= DEFAULT.fusion.unordered_updates


class _RowScatter:
    """Rewrites one scatter to a scatter of entire rows, or to a reduction per row.

    Attributes:
        keyed: operand dims whose coordinates form the row index.
        whole: operand dims that the window covers entirely, so that their elements form a row.
    """

    def __init__(self, builder: Builder, node: Node, orders: Orders) -> None:
        self.builder, self.node, self.attrs, self.orders = builder, node, node.attrs, orders
        self.count = len(node.operands) // 2
        self.shape = node.operands[0].type.sizes
        self.indices = node.operands[self.count]
        self.updates = node.operands[self.count + 1 :]
        a = self.attrs
        self.dropped = {*a.inserted_window_dims, *a.input_batching_dims}
        window = iter(a.update_window_dims)
        self.update_dim = {d: next(window) for d in range(len(self.shape)) if d not in self.dropped}
        self.window = [self.updates[0].type.sizes[self.update_dim[d]] if d in self.update_dim else 1 for d in range(len(self.shape))]  # fmt: skip
        placed = {*a.scatter_dims_to_operand_dims, *a.input_batching_dims}
        self.whole = [d for d, size in enumerate(self.shape) if d not in placed and self.window[d] == size]
        self.keyed = [d for d in range(len(self.shape)) if d not in self.whole]
        self.scattered = [d for d in range(self.updates[0].type.rank) if d not in a.update_window_dims]
        self.steps = [d for d in self.keyed if self.window[d] > 1]
        self.places = [self.updates[0].type.sizes[d] for d in self.scattered] + [self.window[d] for d in self.steps]
        self.rows = math.prod(self.shape[d] for d in self.keyed)
        self.width = math.prod(self.shape[d] for d in self.whole)
        self.number = math.prod(self.places)
        is_long = self.indices.type.dtype in ("i64", "ui64", "ui32") or self.rows >= 2**31 - 1
        self.dtype = "i64" if is_long else "i32"

    def written(self) -> list[Value]:
        """Append the nodes of the rewritten scatter, and return the results."""
        builder, order = self.builder, (*self.keyed, *self.whole)
        operands = [
            builder.shaped(builder.permuted(x, order), (self.rows, self.width))
            for x in self.node.operands[: self.count]
        ]
        updates = [
            builder.shaped(builder.permuted(x, self._update_order()), (self.number, self.width)) for x in self.updates
        ]
        kind = reduced_kind(self.node)
        if kind and is_row_scan_faster(self.rows, self.width, self.number, updates[0].type.nbytes):
            return [self._to_operand_shape(self._reduced(kind, operands[0], updates[0]))]
        if is_sorted := self.number > DEFAULT.fusion.unordered_updates:
            keys, updates = self._ordered(updates)
        else:
            keys, is_sorted = self._keys(), self.number <= 1
        keys = builder.shaped(keys, (self.number, 1))
        attrs = {**_ROWS, "indices_are_sorted": is_sorted}
        types = [x.type for x in operands]
        scattered = builder.append("scatter", [*operands, keys, *updates], types, attrs, self.node.regions)
        return [self._to_operand_shape(value) for value in scattered]

    def _reduced(self, kind: str, operand: Value, updates: Value) -> Value:
        """Return `operand` combined with the reduction of each row's updates by the op `kind`."""
        builder, dtype, shape = self.builder, operand.type.dtype, (self.rows, self.number, self.width)
        row_of_update = builder.spread(builder.shaped(self._keys(), (self.number,)), shape, (1,))
        row = builder.emit("iota", [], TensorType(shape, self.dtype), dim=0)
        updates_per_row = builder.spread(updates, shape, (1, 2))
        neutral_scalar = builder.splat(neutral(kind, dtype), TensorType((), dtype))
        neutral_value = builder.spread(neutral_scalar, shape)
        selected = builder.emit(
            "select", [self._compared(row_of_update, row, "EQ"), updates_per_row, neutral_value], updates_per_row.type
        )
        total = builder.emit("reduce", [selected, neutral_scalar], operand.type, dims=(1,), kind=kind)
        return builder.elementwise(kind, operand, total)

    def _update_order(self) -> tuple[int, ...]:
        """Return the order of update dims: scatter dims, window dims that become rows, window dims covered entirely."""
        inner = [self.update_dim[d] for d in (*self.keyed, *self.whole) if d in self.update_dim]
        return (*self.scattered, *inner)

    def _ordered(self, updates: Sequence[Value]) -> tuple[Value, list[Value]]:
        """Return the sorted keys, and the updates in the same order."""
        rows = tuple((self.shape[d], d in self.steps, self._origin(d)) for d in self.keyed)
        origin_key = self.indices, self.attrs.index_vector_dim, tuple(self.places), rows
        if origin_key not in self.orders:
            self.orders[origin_key] = self._order()
        keys, order = self.orders[origin_key]
        row_indices = self.builder.shaped(order, (self.number, 1))
        sizes = {"slice_sizes": (1, self.width)}
        return keys, [self.builder.emit("gather", [x, row_indices], x.type, **_ROW, **sizes) for x in updates]

    def _order(self) -> tuple[Value, Value]:
        """Return the sorted keys and the permutation that sorts them."""
        keys = self.builder.shaped(self._keys(), (self.number,))
        positions = self.builder.emit("iota", [], TensorType((self.number,), "i32"), dim=0)
        region = Graph("", [Value(TensorType((), t)) for t in (self.dtype, self.dtype, "i32", "i32")])
        less = region.add("compare", region.inputs[:2], [TensorType((), "i1")], {"direction": "LT", "compare_type": ""})
        region.outputs = [less.result]
        attrs = {"dim": 0, "is_stable": True}
        ordered = self.builder.append("sort", [keys, positions], [keys.type, positions.type], attrs, (region,))
        return ordered[0], ordered[1]

    def _keys(self) -> Value:
        """Return the row index of each update; an update that is out of bounds gets the number of rows."""
        builder, key_type = self.builder, TensorType(tuple(self.places), self.dtype)
        keys: Value | None = None
        inside: Value | None = None
        for dim in self.keyed:
            size, coordinate = self.shape[dim], self._start(dim, key_type)
            if dim in self.steps:
                step = builder.emit("iota", [], key_type, dim=len(self.scattered) + self.steps.index(dim))
                coordinate = builder.elementwise("add", coordinate, step)
            for direction, limit in (("GE", 0), ("LT", size)):
                is_within = self._compared(coordinate, builder.broadcast_scalar(limit, key_type), direction)
                inside = is_within if inside is None else builder.elementwise("and", inside, is_within)
            if keys is not None:
                coordinate = builder.elementwise(
                    "add", builder.elementwise("multiply", keys, builder.broadcast_scalar(size, key_type)), coordinate
                )
            keys = coordinate
        if keys is None or inside is None:
            return builder.broadcast_scalar(0, key_type)
        return builder.emit("select", [inside, keys, builder.broadcast_scalar(self.rows, key_type)], key_type)

    def _origin(self, dim: int) -> tuple[str, int]:
        """Return where the start of a window along keyed operand dim `dim` comes from.

        ("place", d): the coordinate of the update along dim d of the indices. ("number", n): component n of the
        update's index vector. ("zero", 0): the start is always 0.
        """
        a = self.attrs
        if dim in a.input_batching_dims:
            return "place", a.scatter_indices_batching_dims[tuple(a.input_batching_dims).index(dim)]
        if dim in a.scatter_dims_to_operand_dims:
            return "number", tuple(a.scatter_dims_to_operand_dims).index(dim)
        return "zero", 0

    def _start(self, dim: int, kind: TensorType) -> Value:
        """Return the start coordinate of each window along a keyed operand dim."""
        origin, number = self._origin(dim)
        if origin == "place":
            return self.builder.emit("iota", [], kind, dim=number - (number > self.attrs.index_vector_dim))
        if origin == "zero":
            return self.builder.broadcast_scalar(0, kind)
        vector, value, sizes = self.attrs.index_vector_dim, self.indices, self.indices.type.sizes
        if vector < len(sizes):
            value = self.builder.rows(value, vector, number, number + 1) if sizes[vector] > 1 else value
            value = self.builder.shaped(value, [n for d, n in enumerate(sizes) if d != vector])
        value = self.builder.convert(value, self.dtype)
        dims = tuple(range(len(self.scattered)))
        return value if value.type == kind else self.builder.spread(value, kind.shape, dims)

    def _to_operand_shape(self, value: Value) -> Value:
        """Reshape a [rows, width] result to the shape of the operand."""
        order = (*self.keyed, *self.whole)
        permuted_shape, inverse = tuple(self.shape[d] for d in order), sorted(range(len(order)), key=order.__getitem__)
        if inverse == sorted(inverse):
            return self.builder.reshape(value, permuted_shape)
        return self.builder.transpose(self.builder.shaped(value, permuted_shape), inverse)

    def _compared(self, left: Value, right: Value, direction: str) -> Value:
        kind = TensorType(left.type.shape, "i1")
        return self.builder.emit("compare", [left, right], kind, direction=direction, compare_type="")
