"""Replace a scatter with one update per row into a splat operand by a select between the update and the operand.

    before   %s = scatter (broadcast 0) at i32[4096,1,1] of f32[4096,1], batching [0]            -> f32[4096,32768]
    after    %w = compare EQ, (iota over columns), (broadcast indices)
             %s = select %w, (add (broadcast 0), (broadcast updates)), (broadcast 0)

Gradients of row look-ups (`take_along_axis`, cross-entropy) have this form; the select fuses with the sum that they are
added to. Rows may be addressed by a batching dim or by an index that itself counts rows (`x[arange(n), labels]`). No
two updates address the same element, so results are bitwise equal. An index that is out of bounds selects no element.
Scatters into other operands are left alone: they write only the updated elements, in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.codegen.passes.row_indexing import IndexedRows, spread
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.rewriter import rewritten
from meshgen.ops.constants import splat_of
from meshgen.ops.dead_code import without_dead
from meshgen.ops.evaluate.window import fold_kind


@module_pass("scatter-to-select", "partition")
def scatter_to_select(module: Module, context: Compilation) -> Module:
    """Replace scatters with one update per row into a splat by selects.

    Returns the module itself if nothing changes.
    """
    return on_graphs(module, _with_scatters_rewritten)


def _with_scatters_rewritten(graph: Graph) -> Graph:
    def rule(builder: Builder, node: Node) -> Sequence[Value] | None:
        scatter = _Scatter(node, graph.index.producers) if node.op == "scatter" else None
        return [scatter.write(builder)] if scatter and scatter.updates_rows_once() else None

    rewritten_graph = rewritten(graph, rule)
    return graph if rewritten_graph is graph else without_dead(rewritten_graph)


class _Scatter:
    """Rewrites one scatter to a select."""

    def __init__(self, node: Node, producers: Mapping[Value, Node]) -> None:
        self._node, self._attrs, self._producers = node, node.attrs, producers
        self._shape = node.operands[0].type.sizes
        dropped = {*node.attrs.inserted_window_dims, *node.attrs.input_batching_dims}
        self._windows = [d for d in range(len(self._shape)) if d not in dropped]

    def updates_rows_once(self) -> bool:
        """Whether the scatter can become a select: no two updates overlap, windows cover their dims, and the operand is
        a splat.
        """
        node, attrs = self._node, self._attrs
        if (
            len(node.operands) != 3
            or not node.result.type.size
            or splat_of(node.operands[0], self._producers.get) is None
        ):
            return False
        lengths = [node.operands[2].type.sizes[u] for u in attrs.update_window_dims]
        if lengths != [self._shape[d] for d in self._windows] or {*self._windows} & {
            *attrs.scatter_dims_to_operand_dims
        }:
            return False
        if not self._replaces and fold_kind(node.regions[0]) is None:
            return False
        return self._rows.are_rows_disjoint

    @property
    def _replaces(self) -> bool:
        """Whether the scatter's region returns the update itself instead of combining it with the operand's element."""
        (region,) = self._node.regions
        return region.outputs == region.inputs[1:]

    @cached_property
    def _rows(self) -> IndexedRows:
        attrs = self._attrs
        batching = dict(zip(attrs.input_batching_dims, attrs.scatter_indices_batching_dims, strict=True))
        mapped, vector = attrs.scatter_dims_to_operand_dims, attrs.index_vector_dim
        return IndexedRows(self._node.operands[1], self._shape, mapped, batching, vector, self._producers)

    def write(self, builder: Builder) -> Value:
        """Append the comparisons and the select, and return the result of the select."""
        node, attrs, rows = self._node, self._attrs, self._rows
        operand, result_type = node.operands[0], node.result.type
        scattered = [d for d in range(node.operands[2].type.rank) if d not in attrs.update_window_dims]
        dims = dict(zip(attrs.update_window_dims, self._windows, strict=True))
        dims |= {u: d for n, u in enumerate(scattered) for d in rows.dims_of(n)}
        update = spread(builder, node.operands[2], dims, result_type.sizes)
        combined = update if self._replaces else builder.elementwise(str(fold_kind(node.regions[0])), operand, update)
        hits = [rows.hit(builder, d, component) for d, component in rows.looked_up_dims]
        indexed_dims = {*attrs.scatter_dims_to_operand_dims, *attrs.input_batching_dims}
        hits += [
            self._first(builder, d) for d in attrs.inserted_window_dims if d not in indexed_dims and self._shape[d] > 1
        ]
        if not hits:
            return builder.reshape(combined, result_type.sizes)
        hit = hits[0]
        for other in hits[1:]:
            hit = builder.elementwise("and", hit, other)
        return builder.emit("select", [hit, combined, operand], result_type)

    def _first(self, builder: Builder, dim: int) -> Value:
        """Return a mask of the elements at coordinate 0 of `dim`, for a dim that no index addresses."""
        count = self._rows.count(builder, dim, "i32")
        return builder.compare("EQ", count, builder.broadcast_scalar(0, count.type))
