"""A scatter becomes one of whole rows by one index each, in the order of the indices, which a kernel searches.

    before   scatter f32[1000,64] at i32[32,16,1] of f32[32,16,64]
    after    keys = clamp to a row that does not exist where out of bounds (reshape indices)                       i32[512]
             order = sort (keys, 0, 1, 2, ...) by keys
             scatter f32[1000,64] at (sorted keys) of (gather updates at order)   {indices_are_sorted = true}

The sort is stable, so updates of one place are combined in the same order as before; scatters at the same indices share it. Dims of windows
that are not as long as the operand's count as rows: each of their elements is an update. A few updates stay in their order.

Many updates of few rows, as of a table of relative positions, are reduced for each row instead, where that takes less time than the sort,
which compares each key with all others:

    before   scatter f32[32,3] at i32[262144,1] of f32[262144,3]
    after    add operand, reduce (select keys = row, updates, 0) over updates                                      f32[32,262144,3]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.codegen.emit.scatter import is_of_rows
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.flops import reduced_kind, rows_reduce_sooner

_ROWS = {
    "update_window_dims": (1,), "inserted_window_dims": (0,), "input_batching_dims": (), "scatter_indices_batching_dims": (),
    "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1, "unique_indices": False,
}  # fmt: skip
_ROW = {
    "offset_dims": (1,), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "start_indices_batching_dims": (),
    "start_index_map": (0,), "index_vector_dim": 1, "indices_are_sorted": False,
}  # fmt: skip


Orders = dict[object, tuple[Value, Value]]  # keys in order, and the number of each, by what they are made of


@module_pass("scatter-to-rows", "partition")
def scatter_to_rows(module: Module, context: Compilation) -> Module:
    """A local program whose scatters combine rows; their results keep their identity."""
    return on_graphs(module, _with_rows)


def _with_rows(graph: Graph) -> Graph:
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    orders: Orders = {}
    for node in graph.nodes:
        if node.op != "scatter" or (is_of_rows(node) and _is_ready(node)) or not node.results[0].type.size:
            found.nodes.append(node)
        else:
            _RowScatterWriter(found, node, orders).write()
    return found


def _is_ready(node: Node) -> bool:
    count = node.operands[len(node.operands) // 2].type.sizes[0]
    return node.attrs.indices_are_sorted or count <= DEFAULT.fusion.unordered_updates


class _RowScatterWriter:
    """Writes one scatter; `keyed` are the operand's dims whose places are indices, `whole` those that windows have in full."""

    def __init__(self, graph: Graph, node: Node, orders: Orders) -> None:
        self.graph, self.node, self.attrs, self.orders = graph, node, node.attrs, orders
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

    def write(self) -> None:
        order = (*self.keyed, *self.whole)
        operands = [
            self._reshaped(self._transposed(x, order), (self.rows, self.width))
            for x in self.node.operands[: self.count]
        ]
        updates = [
            self._reshaped(self._transposed(x, self._update_order()), (self.number, self.width)) for x in self.updates
        ]
        kind = reduced_kind(self.node)
        if kind and rows_reduce_sooner(self.rows, self.width, self.number, updates[0].type.nbytes):
            self._back(self._reduced(kind, operands[0], updates[0]), self.node.results[0])
            return
        if is_sorted := self.number > DEFAULT.fusion.unordered_updates:
            keys, updates = self._ordered(updates)
        else:
            keys, is_sorted = self._keys(), self.number <= 1
        keys = self._reshaped(keys, (self.number, 1))
        results = [Value(x.type) for x in operands]
        attrs = {**_ROWS, "indices_are_sorted": is_sorted}
        self.graph.nodes.append(
            Node("scatter", [*operands, keys, *updates], results, attrs, self.node.loc, regions=self.node.regions)
        )
        for value, result in zip(results, self.node.results, strict=True):
            self._back(value, result)

    def _reduced(self, kind: str, operand: Value, updates: Value) -> Value:
        """The operand combined with the reduction of each row's updates."""
        dtype, whole = operand.type.dtype, (self.rows, self.number, self.width)
        keys = self._reshaped(self._keys(), (self.number,))
        at = self._add("broadcast_in_dim", [keys], TensorType(whole, self.dtype), dims=(1,))
        row = self._add("iota", [], TensorType(whole, self.dtype), dim=0)
        mine = self._add("broadcast_in_dim", [updates], TensorType(whole, dtype), dims=(1, 2))
        none = self._add("constant", [], TensorType((), dtype), value=neutral(kind, dtype))
        nothing = self._add("broadcast_in_dim", [none], mine.type, dims=())
        chosen = self._add("select", [self._compared(at, row, "EQ"), mine, nothing], mine.type)
        attrs = {"dims": (1,), "kind": kind}
        total = self.graph.add("reduce", [chosen, none], [operand.type], attrs, loc=self.node.loc).result
        return self._add(kind, [operand, total], operand.type)

    def _update_order(self) -> tuple[int, ...]:
        """Dims of the updates: what is scattered, windows that are rows, windows that are whole."""
        inner = [self.update_dim[d] for d in (*self.keyed, *self.whole) if d in self.update_dim]
        return (*self.scattered, *inner)

    def _ordered(self, updates: Sequence[Value]) -> tuple[Value, list[Value]]:
        """Keys in order, and the updates in the same."""
        rows = tuple((self.shape[d], d in self.steps, self._origin(d)) for d in self.keyed)
        same = self.indices, self.attrs.index_vector_dim, tuple(self.places), rows
        if same not in self.orders:
            self.orders[same] = self._order()
        keys, order = self.orders[same]
        at = self._reshaped(order, (self.number, 1))
        return keys, [self._add("gather", [x, at], x.type, **_ROW, slice_sizes=(1, self.width)) for x in updates]

    def _order(self) -> tuple[Value, Value]:
        """Keys in order, and the number of each."""
        keys = self._reshaped(self._keys(), (self.number,))
        numbers = self._add("iota", [], TensorType((self.number,), "i32"), dim=0)
        region = Graph("", [Value(TensorType((), t)) for t in (self.dtype, self.dtype, "i32", "i32")])
        less = region.add("compare", region.inputs[:2], [TensorType((), "i1")], {"direction": "LT", "compare_type": ""})
        region.outputs = [less.result]
        results = [Value(keys.type), Value(numbers.type)]
        attrs = {"dim": 0, "is_stable": True}
        self.graph.nodes.append(Node("sort", [keys, numbers], results, attrs, self.node.loc, regions=(region,)))
        return results[0], results[1]

    def _keys(self) -> Value:
        """The row of each update; for one that is out of bounds the number of rows."""
        kind = TensorType(tuple(self.places), self.dtype)
        keys: Value | None = None
        inside: Value | None = None
        for dim in self.keyed:
            size, at = self.shape[dim], self._start(dim, kind)
            if dim in self.steps:
                step = self._add("iota", [], kind, dim=len(self.scattered) + self.steps.index(dim))
                at = self._add("add", [at, step], kind)
            for direction, limit in (("GE", 0), ("LT", size)):
                told = self._compared(at, self._splat(limit, kind), direction)
                inside = told if inside is None else self._add("and", [inside, told], told.type)
            if keys is not None:
                at = self._add("add", [self._add("multiply", [keys, self._splat(size, kind)], kind), at], kind)
            keys = at
        if keys is None or inside is None:
            return self._splat(0, kind)
        return self._add("select", [inside, keys, self._splat(self.rows, kind)], kind)

    def _origin(self, dim: int) -> tuple[str, int]:
        """Where windows start along a keyed dim of the operand: at their own place along a dim of the indices, at a number of theirs, or at 0."""
        a = self.attrs
        if dim in a.input_batching_dims:
            return "place", a.scatter_indices_batching_dims[tuple(a.input_batching_dims).index(dim)]
        if dim in a.scatter_dims_to_operand_dims:
            return "number", tuple(a.scatter_dims_to_operand_dims).index(dim)
        return "zero", 0

    def _start(self, dim: int, kind: TensorType) -> Value:
        """Where windows start along a keyed dim of the operand."""
        origin, number = self._origin(dim)
        if origin == "place":
            return self._add("iota", [], kind, dim=number - (number > self.attrs.index_vector_dim))
        if origin == "zero":
            return self._splat(0, kind)
        vector, value = self.attrs.index_vector_dim, self.indices
        sizes = list(value.type.sizes)
        if vector < len(sizes):
            low, high = [0] * len(sizes), sizes.copy()
            low[vector], high[vector] = number, number + 1
            one = [n if d != vector else 1 for d, n in enumerate(sizes)]
            cut = {"start": tuple(low), "limit": tuple(high), "stride": (1,) * len(sizes)}
            value = self._add("slice", [value], value.type.with_shape(one), **cut) if sizes[vector] > 1 else value
            value = self._reshaped(value, tuple(n for d, n in enumerate(sizes) if d != vector))
        if value.type.dtype != self.dtype:
            value = self._add("convert", [value], TensorType(value.type.shape, self.dtype))
        dims = tuple(range(len(self.scattered)))
        return value if value.type == kind else self._add("broadcast_in_dim", [value], kind, dims=dims)

    def _back(self, value: Value, result: Value) -> None:
        """The result in the shape of the operand."""
        order = (*self.keyed, *self.whole)
        turned = tuple(self.shape[d] for d in order)
        back = tuple(order.index(d) for d in range(len(order)))
        if back == tuple(range(len(back))):
            self.graph.nodes.append(Node("reshape", [value], [result], {}, self.node.loc))
            return
        value = self._reshaped(value, turned)
        self.graph.nodes.append(Node("transpose", [value], [result], {"perm": back}, self.node.loc))

    # ---- nodes

    def _add(self, op: str, operands: Sequence[Value], kind: TensorType, **attrs: Any) -> Value:
        return self.graph.add(op, operands, [kind], attrs, loc=self.node.loc).result

    def _splat(self, number: int, kind: TensorType) -> Value:
        value = np.array(number, kind.numpy_dtype)
        scalar = self._add("constant", [], TensorType((), kind.dtype), value=value)
        return self._add("broadcast_in_dim", [scalar], kind, dims=())

    def _compared(self, left: Value, right: Value, direction: str) -> Value:
        return self._add(
            "compare", [left, right], TensorType(left.type.shape, "i1"), direction=direction, compare_type=""
        )

    def _reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        return value if value.type.sizes == shape else self._add("reshape", [value], value.type.with_shape(shape))

    def _transposed(self, value: Value, order: tuple[int, ...]) -> Value:
        if order == tuple(range(len(order))):
            return value
        return self._add("transpose", [value], value.type.with_shape([value.type.sizes[d] for d in order]), perm=order)
