"""What cross-entropy needs of the rows of a dot's result is first taken of each 128 columns, in the dot's kernel.

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

The parts are whole in a tile of the product, so the logits (1 GB) are not written. Where something else needs them (a gradient), look-ups
stay, and rows are taken in parts where they are longer than registers hold: they are read once less. Sums are taken in another order,
relative to the greatest element of the part (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). An infinite greatest element is
not subtracted; a part of -inf alone adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.grouped import grouped
from meshgen.codegen.fusion.tiles import WHOLE_ROW
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.codegen.passes.softmax_rows import COLUMNS, LookUp, Row, SoftmaxRows, rows_of, softmax_dots
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.live import without_dead
from meshgen.ops.precision import sum_type


@module_pass("softmax-into-dot", "partition")
def softmax_into_dot(module: Module, context: Compilation) -> Module:
    """A local program with the rows of such products taken in parts."""
    return on_graphs(module, _with_parts)


def _with_parts(graph: Graph) -> Graph:
    if not (dots := softmax_dots(graph)):
        return graph
    read = [rows_of(dot, graph) for dot in dots]
    for rows in [rows for rows in read if rows is not None and _gains(rows)]:
        after = without_dead(_Writer(graph, rows).written())
        if _is_one_kernel(rows, after):
            graph = after
    return graph


def _gains(rows: SoftmaxRows) -> bool:
    """Whether the product need not be written, or is read once less."""
    return not rows.are_kept or rows.dot.result.type.sizes[-1] > WHOLE_ROW


def _is_one_kernel(rows: SoftmaxRows, graph: Graph) -> bool:
    """Whether the parts are reduced in the kernel of the product."""
    grouping = grouped(graph)
    group = grouping.owner.get(rows.dot.result)
    return group is not None and group.form is KernelForm.GEMM and bool(group.space.parts)


class _Writer:
    """Writes a graph with the rows of one product in parts."""

    def __init__(self, graph: Graph, rows: SoftmaxRows) -> None:
        self._graph, self._rows = graph, rows
        self._out = Graph(graph.name, graph.inputs, [], graph.outputs)
        self._maxima: dict[Value, Value] = {}  # of the parts, by what they are the maxima of
        self._sums: dict[Value, Value] = {}  # of exponentials relative to these
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
        """A value reduced over its last dim."""
        init = init or builder.splat(neutral(kind, value.type.dtype), TensorType((), value.type.dtype))
        dim = value.type.rank - 1
        return builder.emit(
            "reduce", [value, init], value.type.with_shape(value.type.sizes[:-1]), kind=kind, dims=(dim,)
        )

    def _take_parts(self, builder: Builder, value: Value) -> None:
        """The greatest elements of the parts of a value, and at once the sums of their exponentials relative to these, if they are needed."""
        if value in self._maxima:
            return
        parts = self._parts(builder, value)
        greatest = self._maxima[value] = self._reduced(builder, parts, "maximum")
        if value in self._summed:
            parts, greatest = self._widened(builder, parts), self._widened(builder, greatest)
            is_finite = builder.emit("is_finite", [greatest], TensorType(greatest.type.shape, "i1"))
            zero = builder.broadcast_scalar(0, greatest.type)
            less = builder.emit("select", [is_finite, greatest, zero], greatest.type)
            less = builder.spread(less, parts.type.shape, range(greatest.type.rank))
            self._sums[value] = self._reduced(builder, self._exponential(builder, parts, less), "add")

    def _reduce(self, builder: Builder, row: Row) -> None:
        node, kind = row.node, str(row.node.attrs.kind)
        if row.operand in self._summed or kind == "maximum":
            self._take_parts(builder, row.operand)
        if row.shift is not None:
            found = self._sums_of_rows(builder, row.operand, row.shift)
        elif kind == "maximum":
            found = self._maxima[row.operand]
        else:
            parts = self._parts(builder, row.operand)
            found = self._reduced(builder, self._widened(builder, parts) if kind == "add" else parts, kind)
        total = self._reduced(builder, found, kind, builder.convert(node.operands[1], found.type.dtype))
        builder.convert(total, node.result.type.dtype)
        builder.make([node.result])

    def _widened(self, builder: Builder, value: Value) -> Value:
        """In the type in which sums are taken."""
        return builder.convert(value, sum_type(value.type.dtype))

    def _sums_of_rows(self, builder: Builder, value: Value, shift: Value) -> Value:
        """The sums of exp(value - shift) over each part; `shift` has one element for each row."""
        total = self._sums[value]
        kind = total.type
        greatest = builder.convert(self._maxima[value], kind.dtype)
        rows = builder.convert(builder.reshape(shift, kind.sizes[:-1]), kind.dtype)
        less = builder.spread(rows, kind.shape, range(kind.rank - 1))
        return builder.elementwise("multiply", total, self._exponential(builder, greatest, less))

    def _exponential(self, builder: Builder, value: Value, less: Value) -> Value:
        return builder.elementwise("exponential", builder.elementwise("subtract", value, less))

    def _look_up(self, builder: Builder, look_up: LookUp) -> None:
        """The element of each row that an index says; what is computed of it and of values of rows is computed for that one alone."""
        node, found = look_up.node, dict[Value, Value]()
        reads = [value for each in look_up.way for value in each.operands] or node.operands[:1]
        made = {each.result for each in look_up.way}
        for value in dict.fromkeys(reads):
            if value not in made:
                found[value] = self._picked(builder, look_up, value)
        for each in look_up.way:
            results = [Value(TensorType(node.result.type.shape, each.result.type.dtype), loc=each.loc)]
            builder.add(replace(each, operands=[found[value] for value in each.operands], results=results))
            found[each.result] = results[0]
        builder.make([node.result])

    def _picked(self, builder: Builder, look_up: LookUp, value: Value) -> Value:
        """The element of each row of a value: looked up in the parts, of which the one that has it is that element."""
        node, rows, shape = look_up.node, look_up.rows, look_up.node.result.type.shape
        if (source := look_up.of_rows.get(value)) is not None:
            is_one = source.type.size < node.result.type.size
            return builder.spread(builder.reshape(source, ()), shape) if is_one else builder.reshape(source, shape)
        ((dim, number),) = rows.looked_for
        hit = rows.hit(builder, dim, number, is_clamped=True)
        picked = builder.emit("select", [hit, value, builder.broadcast_scalar(-math.inf, value.type)], value.type)
        parts = self._reduced(builder, self._parts(builder, picked), "maximum")
        result = Value(TensorType(shape, value.type.dtype), loc=node.loc)
        builder.add(replace(node, operands=[parts, rows.divided(builder, number, COLUMNS)], results=[result]))
        return result
