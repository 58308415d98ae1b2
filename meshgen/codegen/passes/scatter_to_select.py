"""A scatter into a value that is one number everywhere, with one update for each row, becomes a choice: which element is the updated one.

    before   %s = scatter (broadcast 0) at i32[4096,1,1] of f32[4096,1], batching [0]            -> f32[4096,32768]
    after    %w = compare EQ, (iota over columns), (broadcast indices)
             %s = select %w, (add (broadcast 0), (broadcast updates)), (broadcast 0)

So is the gradient of a look-up in rows (`take_along_axis`, cross-entropy), which then fuses with what it is added to. A row may be named by a batching
dim or by an index that counts rows itself (`x[arange(n), labels]`). No two updates meet, so the bits are those of the scatter; one that is
out of bounds is nowhere. Other operands stay scattered: that writes the few updated elements in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.codegen.splats import splat_of
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import LAYOUT, MADE, POINTWISE
from meshgen.ops.evaluate.evaluator import evaluate_node
from meshgen.ops.evaluate.window import fold_kind
from meshgen.ops.live import without_dead

Numbers = np.ndarray[Any, Any]
_MOST_NUMBERS = 1 << 20  # of a value that is computed here to see whether it counts rows (chosen: 8 MB)
_COUNTED = POINTWISE | LAYOUT | (MADE - {"process_index"})


def scatter_to_select(module: Module) -> Module:
    """A local program without such scatters; itself if there is none."""
    return on_graphs(module, _with_scatters_rewritten)


def _with_scatters_rewritten(graph: Graph) -> Graph:
    if not any(node.op == "scatter" for node in graph.nodes):
        return graph
    found, producers, changed = Graph(graph.name, graph.inputs, [], graph.outputs), graph.producers(), False
    for node in graph.nodes:
        scatter = _Scatter(node, producers) if node.op == "scatter" else None
        if scatter and scatter.updates_rows_once():
            scatter.write(found)
            changed = True
        else:
            found.nodes.append(node)
    return without_dead(found) if changed else graph


class _Scatter:
    """One scatter. `_bound`: by dim of the operand, the dim of the updated places along which each place has its own part of it."""

    def __init__(self, node: Node, producers: Mapping[Value, Node]) -> None:
        self._node, self._attrs, self._producers = node, node.attrs, producers
        self._shape = node.operands[0].type.sizes
        self._vector = node.attrs.index_vector_dim
        self._places = tuple(n for d, n in enumerate(node.operands[1].type.sizes) if d != self._vector)
        dropped = {*node.attrs.inserted_window_dims, *node.attrs.input_batching_dims}
        self._windows = [d for d in range(len(self._shape)) if d not in dropped]
        self._bound: dict[int, int] = {}

    def updates_rows_once(self) -> bool:
        """Whether no two updates meet, windows are whole, and the operand is a splat."""
        node, attrs = self._node, self._attrs
        if len(node.operands) != 3 or not node.result.type.size or not self._is_splat(node.operands[0]):
            return False
        lengths = [node.operands[2].type.sizes[u] for u in attrs.update_window_dims]
        if lengths != [self._shape[d] for d in self._windows] or {*self._windows} & {
            *attrs.scatter_dims_to_operand_dims
        }:
            return False
        if not self._replaces and fold_kind(node.regions[0]) is None:
            return False
        self._bind()
        return all(n == 1 or place in self._bound.values() for place, n in enumerate(self._places))

    @property
    def _replaces(self) -> bool:
        """Whether an update takes the place of the element."""
        (region,) = self._node.regions
        return region.outputs == region.inputs[1:]

    def _is_splat(self, value: Value) -> bool:
        node = self._producers.get(value)
        while node is not None and node.op in ("broadcast_in_dim", "reshape", "convert"):
            node = self._producers.get(node.operands[0])
        return node is not None and is_constant(node) and splat_of(node.attrs.value) is not None

    def _bind(self) -> None:
        attrs = self._attrs
        pairs = zip(attrs.input_batching_dims, attrs.scatter_indices_batching_dims, strict=True)
        self._bound = {d: at - (at > self._vector) for d, at in pairs}
        for number, d in enumerate(attrs.scatter_dims_to_operand_dims):
            place = self._counted(number)
            if place is not None and self._places[place] == self._shape[d] and place not in self._bound.values():
                self._bound[d] = place

    def _counted(self, number: int) -> int | None:
        """The dim of the places along which one of the numbers of the indices is 0, 1, 2, ...; None if it is known of none."""
        value, inside = self._source(number)
        found = self._numbers(value)
        if found is None:
            return None
        column = np.take(found, inside, self._vector) if self._vector < found.ndim else found
        counts = (
            np.arange(n).reshape([n if d == place else 1 for d in range(column.ndim)])
            for place, n in enumerate(self._places)
        )
        return next((place for place, count in enumerate(counts) if count.size > 1 and (column == count).all()), None)

    def _source(self, number: int) -> tuple[Value, int]:
        """What a number of the indices is part of, before these were joined, and its own number in that."""
        value = self._node.operands[1]
        while (
            (node := self._producers.get(value)) is not None
            and node.op == "concatenate"
            and node.attrs.dim == self._vector
        ):
            for part in node.operands:
                if number < (count := part.type.sizes[self._vector]):
                    value = part
                    break
                number -= count
        return value, number

    def _numbers(self, value: Value) -> Numbers | None:
        """What a value is that depends on no argument; None where it does, or where too much would be computed."""
        known, stack = dict[Value, Numbers](), [value]
        while stack:
            current = stack[-1]
            node = self._producers.get(current)
            if node is None or current.type.size > _MOST_NUMBERS or not (is_constant(node) or node.op in _COUNTED):
                return None
            missing = [operand for operand in node.operands if operand not in known]
            if missing and current not in known:
                stack += missing
                continue
            if current not in known:
                known[current] = (
                    node.attrs.value if is_constant(node) else evaluate_node(node, [known[v] for v in node.operands])[0]
                )
            stack.pop()
        return known[value]

    def write(self, graph: Graph) -> None:
        """Append the comparisons and the choice."""
        node, attrs, builder = self._node, self._attrs, Builder(graph, self._node.loc)
        operand, kind = node.operands[0], node.result.type
        scattered = [d for d in range(node.operands[2].type.rank) if d not in attrs.update_window_dims]
        dims = dict(zip(attrs.update_window_dims, self._windows, strict=True))
        dims |= {u: d for place, u in enumerate(scattered) for d in self._dims_of(place)}
        update = _spread(builder, node.operands[2], dims, kind.sizes)
        combined = update if self._replaces else builder.elementwise(str(fold_kind(node.regions[0])), operand, update)
        hits = [
            self._hit(builder, d, number)
            for number, d in enumerate(attrs.scatter_dims_to_operand_dims)
            if d not in self._bound
        ]
        placed = {*attrs.scatter_dims_to_operand_dims, *attrs.input_batching_dims}
        hits += [self._first(builder, d) for d in attrs.inserted_window_dims if d not in placed and self._shape[d] > 1]
        if not hits:
            builder.reshape(combined, kind.sizes)
        else:
            hit = hits[0]
            for other in hits[1:]:
                hit = builder.elementwise("and", hit, other)
            builder.emit("select", [hit, combined, operand], kind)
        builder.make([node.result])

    def _dims_of(self, place: int) -> list[int]:
        return [d for d, bound in self._bound.items() if bound == place]

    def _hit(self, builder: Builder, dim: int, number: int) -> Value:
        """Where a number of the indices is the place along a dim of the operand."""
        value, inside = self._source(number)
        if self._vector < value.type.rank and value.type.sizes[self._vector] > 1:
            low, high = [0] * value.type.rank, list(value.type.sizes)
            low[self._vector], high[self._vector] = inside, inside + 1
            sizes = [high - low for high, low in zip(high, low, strict=True)]
            cut = {"start": tuple(low), "limit": tuple(high), "stride": (1,) * len(sizes)}
            value = builder.emit("slice", [value], value.type.with_shape(sizes), **cut)
        value = builder.reshape(value, self._places)
        is_long = value.type.dtype in ("i64", "ui64", "ui32") or self._shape[dim] >= 2**31
        value = builder.convert(value, "i64" if is_long else "i32")
        dims = {place: d for place in range(len(self._places)) for d in self._dims_of(place)}
        return builder.compare(
            "EQ", self._count(builder, dim, value.type.dtype), _spread(builder, value, dims, self._shape)
        )

    def _first(self, builder: Builder, dim: int) -> Value:
        """The first place along a dim that no index names."""
        count = self._count(builder, dim, "i32")
        return builder.compare("EQ", count, builder.spread(builder.splat(0, TensorType((), "i32")), self._shape))

    def _count(self, builder: Builder, dim: int, dtype: str) -> Value:
        return builder.emit("iota", [], TensorType(self._shape, dtype), dim=dim)


def _spread(builder: Builder, value: Value, dims: Mapping[int, int], shape: Sequence[int]) -> Value:
    """A value whose dims are some of the result's, or of one element, over all of it."""
    kept = sorted(dims)
    value = builder.reshape(value, [value.type.sizes[d] for d in kept])
    order = sorted(range(len(kept)), key=lambda place: dims[kept[place]])
    if order != sorted(order):
        value = builder.transpose(value, order)
    return builder.spread(value, shape, sorted(dims.values()))
