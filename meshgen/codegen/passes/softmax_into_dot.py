"""Fuse the per-tile part of a blocked softmax cross-entropy into the epilogue of the dot that produces the logits.

    before   %z = dot %x, %w                              bf16[4096,4096] x bf16[4096,128256]
             %m = reduce maximum %z, dims [1]             f32[4096]
             %s = reduce add exp(%z - %m), dims [1]       f32[4096]
             %l = gather %z at %labels                    f32[4096,1]
    after    %t = reshape %z                              [4096,1002,128]
             %pm = reduce maximum %t, dims [2]            f32[4096,1002]
             %ps = reduce add exp(%t - %pm), dims [2]     f32[4096,1002]
             %pl = reduce maximum select(column == label, %t, -inf), dims [2]
             %m = reduce maximum %pm, dims [1]
             %s = reduce add %ps * exp(%pm - %m), dims [1]
             %l = gather %pl at %labels / 128

Each block of 128 columns is within one tile of the GEMM, so the logits (1 GB) are never written. If other users need
the logits (a gradient), gathers are left alone. Rows are then blocked only if they are too long for registers, which
saves one read of the logits.

Sums are computed in another order, relative to the maximum of the block (Milakov and Gimelshein, Online normalizer
calculation for softmax, 2018). An infinite maximum is not subtracted; a block of only -inf adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.grouping import grouped
from meshgen.codegen.fusion.tiles import WHOLE_ROW
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.codegen.passes.softmax_rows import COLUMNS, LookUp, Row, RowReductions, rows_of, softmax_dots
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ops.dead_code import without_dead
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.precision import accumulator_type


@module_pass("softmax-into-dot", "partition")
def softmax_into_dot(module: Module, context: Compilation) -> Module:
    """Split the softmax reductions over a dot's result into blocks that the dot's kernel can reduce in its epilogue."""
    return on_graphs(module, _with_parts)


def _with_parts(graph: Graph) -> Graph:
    if not (dots := softmax_dots(graph)):
        return graph
    candidates = [rows_of(dot, graph) for dot in dots]
    for rows in [rows for rows in candidates if rows is not None and _is_profitable(rows)]:
        rewritten = without_dead(_Writer(graph, rows).written())
        if _is_one_kernel(rows, rewritten):
            graph = rewritten
    return graph


def _is_profitable(rows: RowReductions) -> bool:
    """Whether blocking saves the write of the logits, or one of the reads of them."""
    return not rows.are_kept or rows.dot.result.type.sizes[-1] > WHOLE_ROW


def _is_one_kernel(rows: RowReductions, graph: Graph) -> bool:
    """Whether fusion puts the block reductions into the kernel of the GEMM."""
    grouping = grouped(graph)
    group = grouping.owner.get(rows.dot.result)
    return group is not None and group.form is KernelForm.GEMM and bool(group.space.parts)


class _Writer:
    """Writes a graph in which the row reductions of one dot's result are split into blocks."""

    def __init__(self, graph: Graph, rows: RowReductions) -> None:
        self._graph, self._rows = graph, rows
        self._out = Graph(graph.name, graph.inputs, [], graph.outputs)
        self._maxima: dict[Value, Value] = {}  # for each value, the maximum of each block
        # for each value, the sum of exponentials of each block, relative to the block maximum
        self._sums: dict[Value, Value] = {}
        self._summed = {row.operand for row in rows.reductions.values() if row.shift is not None}

    def written(self) -> Graph:
        rows = self._rows
        lookups: Mapping[Node, LookUp] = {} if rows.are_kept else rows.lookups
        for node in self._graph.nodes:
            builder = Builder(self._out, node.loc)
            if (row := rows.reductions.get(node)) is not None:
                self._reduce(builder, row)
            elif (look_up := lookups.get(node)) is not None:
                self._look_up(builder, look_up)
            else:
                self._out.nodes.append(node)
        return self._out

    def _parts(self, builder: Builder, value: Value) -> Value:
        *rows, columns = value.type.sizes
        return builder.reshape(value, (*rows, columns // COLUMNS, COLUMNS))

    def _reduced(self, builder: Builder, value: Value, kind: str, init: Value | None = None) -> Value:
        """Reduce a value over its last dim by the op `kind`."""
        init = init or builder.splat(neutral(kind, value.type.dtype), TensorType((), value.type.dtype))
        dim = value.type.rank - 1
        return builder.emit(
            "reduce", [value, init], value.type.with_shape(value.type.sizes[:-1]), kind=kind, dims=(dim,)
        )

    def _emit_blocks(self, builder: Builder, value: Value) -> None:
        """Emit the block maxima of a value and, if needed, the block sums of exponentials relative to these maxima."""
        if value in self._maxima:
            return
        parts = self._parts(builder, value)
        maxima = self._maxima[value] = self._reduced(builder, parts, "maximum")
        if value in self._summed:
            parts, maxima = self._widened(builder, parts), self._widened(builder, maxima)
            is_finite = builder.emit("is_finite", [maxima], TensorType(maxima.type.shape, "i1"))
            zero = builder.broadcast_scalar(0, maxima.type)
            shift = builder.emit("select", [is_finite, maxima, zero], maxima.type)
            shift = builder.spread(shift, parts.type.shape, range(maxima.type.rank))
            self._sums[value] = self._reduced(builder, self._exponential(builder, parts, shift), "add")

    def _reduce(self, builder: Builder, row: Row) -> None:
        node, kind = row.node, str(row.node.attrs.kind)
        if row.operand in self._summed or kind == "maximum":
            self._emit_blocks(builder, row.operand)
        if row.shift is not None:
            block_results = self._sums_of_rows(builder, row.operand, row.shift)
        elif kind == "maximum":
            block_results = self._maxima[row.operand]
        else:
            parts = self._parts(builder, row.operand)
            block_results = self._reduced(builder, self._widened(builder, parts) if kind == "add" else parts, kind)
        total = self._reduced(builder, block_results, kind, builder.convert(node.operands[1], block_results.type.dtype))
        builder.convert(total, node.result.type.dtype)
        builder.make([node.result])

    def _widened(self, builder: Builder, value: Value) -> Value:
        """Convert a value to the type in which sums are accumulated."""
        return builder.convert(value, accumulator_type(value.type.dtype))

    def _sums_of_rows(self, builder: Builder, value: Value, shift: Value) -> Value:
        """Return the sum of exp(value - shift) over each block; `shift` has one element per row."""
        total = self._sums[value]
        sums_type = total.type
        maxima = builder.convert(self._maxima[value], sums_type.dtype)
        rows = builder.convert(builder.reshape(shift, sums_type.sizes[:-1]), sums_type.dtype)
        row_shift = builder.spread(rows, sums_type.shape, range(sums_type.rank - 1))
        return builder.elementwise("multiply", total, self._exponential(builder, maxima, row_shift))

    def _exponential(self, builder: Builder, value: Value, shift: Value) -> Value:
        return builder.elementwise("exponential", builder.elementwise("subtract", value, shift))

    def _look_up(self, builder: Builder, look_up: LookUp) -> None:
        """Emit a gather of one element per row from the blocks, instead of `look_up`.

        Element-wise ops between the dot and the gather are then computed on the gathered elements only.
        """
        node, gathered = look_up.node, dict[Value, Value]()
        reads = [value for inner in look_up.way for value in inner.operands] or node.operands[:1]
        computed = {inner.result for inner in look_up.way}
        for value in dict.fromkeys(reads):
            if value not in computed:
                gathered[value] = self._picked(builder, look_up, value)
        for inner in look_up.way:
            results = [Value(TensorType(node.result.type.shape, inner.result.type.dtype), loc=inner.loc)]
            builder.add(replace(inner, operands=[gathered[value] for value in inner.operands], results=results))
            gathered[inner.result] = results[0]
        builder.make([node.result])

    def _picked(self, builder: Builder, look_up: LookUp, value: Value) -> Value:
        """Return the gathered element of each row of `value`, computed from the blocks of the row.

        The kernel masks out all other elements of a block, so that the maximum of the block is the element.
        """
        node, rows, shape = look_up.node, look_up.rows, look_up.node.result.type.shape
        if (source := look_up.of_rows.get(value)) is not None:
            is_one = source.type.size < node.result.type.size
            return builder.spread(builder.reshape(source, ()), shape) if is_one else builder.reshape(source, shape)
        ((dim, component),) = rows.looked_up_dims
        is_addressed = rows.hit(builder, dim, component, is_clamped=True)
        picked = builder.emit(
            "select", [is_addressed, value, builder.broadcast_scalar(-math.inf, value.type)], value.type
        )
        parts = self._reduced(builder, self._parts(builder, picked), "maximum")
        result = Value(TensorType(shape, value.type.dtype), loc=node.loc)
        builder.add(replace(node, operands=[parts, rows.divided(builder, component, COLUMNS)], results=[result]))
        return result
