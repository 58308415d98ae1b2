"""Rewrite uneven slices of a split dim as row shifts by halo exchange, with masks where rows are combined.

    before   %a = slice %x [2:1024]        %b = slice %x [0:1022]        %c = add %a, %b   %y = concatenate %e, %c, %f
    after    %a = pad %x low = -1 high = 1 %b = pad %x low = 1 high = -1 %c = add %a, %b   %y = select %inside, %c, ...

After the rewrite, all values have 1024 rows, and each shift is a halo of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.regions import captured, needed_nodes
from meshgen.ops.classes import NEVER_STORED
from meshgen.ops.evaluate.common import bits, integer_range
from meshgen.ops.evaluate.window import fold_kind
from meshgen.ops.registry import rule_of
from meshgen.sharding.partitioners.builder import INDEX, neutral_scalar
from meshgen.sharding.partitioners.dynamic_positions import window_sizes
from meshgen.sharding.propagation.solve import solve_as_written
from meshgen.sharding.rewrites.bodies import everywhere
from meshgen.sharding.rewrites.constant_positions import window_start
from meshgen.sharding.rewrites.frames import (
    CARRIERS,
    CARRIERS_ALONG_OTHER_DIMS,
    Parts,
    cut_dims,
    frames_of,
    joined_pieces,
    row_loops,
)
from meshgen.sharding.rewrites.row_views import Frame, FrameWriter


@module_pass("slice-to-halo", "import", applies="if cheaper")
def slice_to_halo(module: Module, context: Compilation) -> Module:
    """Return the program with slices rewritten along the dims that annotations may split."""
    graph = in_frames(module.graph, context.analysis(solve_as_written, module).parts_of)
    return replace(module, graph=graph) if graph else module


def in_frames(graph: Graph, parts: Parts) -> Graph | None:
    """Return the rewritten graph, including bodies of loops and branches, or None if no slice is rewritten.

    Args:
        parts: returns into how many shards annotations may split a dim of a value.
    """
    return everywhere(lambda body: _Rewrite(body, parts).graph())(graph)


class _Rewrite:
    def __init__(self, graph: Graph, parts: Parts) -> None:
        self._old, self._parts = graph, parts
        self._frames = frames_of(graph, parts)
        self._writer = FrameWriter(graph)

    def graph(self) -> Graph | None:
        joins = {node for node in self._old.nodes if self._is_cut_join(node)}
        if not self._frames and not joins:
            return None
        for node in self._old.nodes:
            self._writer.loc = node.loc
            for value in captured(node):
                self._writer.plain(value)
            if not (self._try_write(node) if node not in joins else self._join(node)):
                self._writer.graph.nodes.append(replace(node, operands=[self._writer.plain(v) for v in node.operands]))
        self._writer.graph.outputs = [self._writer.plain(value) for value in self._old.outputs]
        return _without_unused(self._writer.graph)

    def _try_write(self, node: Node) -> bool:
        """Emit the node in frames or as a view if possible. Return whether it was emitted."""
        if dims := cut_dims(node):
            is_split = any(self._parts(node.operands[0], d) > 1 for d in dims)
            return (is_split or self._writer.is_view(node.operands[0])) and self._cut(node)
        if node.op == "pad" and self._writer.is_view(node.operands[0]):
            return self._pad(node)
        if (start := window_start(node, self._writer.producers)) is not None and self._writer.is_view(_update(node)):
            return self._write(node, start)
        return self._is_framed(node) and self._carry(node)

    def _is_framed(self, node: Node) -> bool:
        """Whether the op can run on operands that are extended to their frames: each of its loops must be in a single
        frame.
        """
        if node.op not in (*CARRIERS, *CARRIERS_ALONG_OTHER_DIMS) or len(node.results) != 1:
            return False
        ends = row_loops(node)
        frame_of_loop: dict[int | None, Frame | None] = {None: None}
        is_one = all(
            frame_of_loop.setdefault(loop, self._frames.get(end)) == self._frames.get(end) for end, loop in ends
        )
        return is_one and any(frame_of_loop.values())

    def _frame(self, value: Value) -> list[Frame]:
        return [self._frames.get((value, dim), Frame(size)) for dim, size in enumerate(value.type.sizes)]

    def _set(self, old: Value, new: Value) -> bool:
        """Record `new` as the replacement of `old`, in the frame of `old`."""
        self._writer.set(old, new, [frame.at for frame in self._frame(old)])
        return True

    def _cut(self, node: Node) -> bool:
        view = self._writer.view(node.operands[0])
        starts = zip(view.at, node.attrs.start, strict=True)
        self._writer.set(node.result, view.value, [at + start for at, start in starts])
        return True

    def _is_cut_join(self, node: Node) -> bool:
        """Whether a concatenation along a split dim has slices or values in frames as operands, and is not just a
        rotation.
        """
        if node.op != "concatenate" or node.option is not None:
            return False
        dim = node.attrs.dim
        count, frame = self._parts(node.result, dim), self._frame(node.result)[dim]
        if count < 2 or frame.size % count:
            return False
        producers = [self._writer.producers.get(value) for value in node.operands]
        slices = [producer for producer in producers if producer and dim in cut_dims(producer)]
        if len(slices) == len(producers) == 2 and slices[0].operands[0] is slices[1].operands[0]:
            return False
        return bool(slices) or any((value, dim) in self._frames for value in node.operands)

    def _join(self, node: Node) -> bool:
        frames, dim = self._frame(node.result), node.attrs.dim
        joined: Value | None = None
        for (piece, _), frame in joined_pieces(node, self._frames):
            rows = self._writer.framed(piece, [frame if d == dim else f for d, f in enumerate(frames)])
            joined = rows if joined is None else self._writer.kept(joined, dim, 0, frame.at, rows)
        assert joined is not None, "a concatenation has operands"
        return self._set(node.result, joined)

    def _pad(self, node: Node) -> bool:
        low, high, sizes = node.attrs.low, node.attrs.high, node.operands[0].type.sizes
        if any(node.attrs.interior) or min(*low, *high, 0) < 0:
            return False
        frames = self._frame(node.result)
        placed = [Frame(frame.size, frame.at + first) for frame, first in zip(frames, low, strict=True)]
        value = self._writer.framed(node.operands[0], placed)
        fill = self._writer.spread(self._writer.plain(node.operands[1]), value.type.shape)
        for dim, (frame, rows) in enumerate(zip(placed, sizes, strict=True)):
            value = self._writer.kept(value, dim, frame.at, frame.at + rows, fill)
        return self._set(node.result, value)

    def _write(self, node: Node, start: Sequence[int]) -> bool:
        frames, update = self._frame(node.result), _update(node)
        old = self._writer.framed(node.operands[0], frames)
        placed = [Frame(frame.size, frame.at + first) for frame, first in zip(frames, start, strict=True)]
        value = self._writer.framed(update, placed)
        if node.op == "scatter" and (kind := fold_kind(node.regions[0])):
            value = self._writer.elementwise(kind, old, value)
        for dim, (frame, rows) in enumerate(zip(placed, update.type.sizes, strict=True)):
            value = self._writer.kept(value, dim, frame.at, frame.at + rows, old)
        return self._set(node.result, value)

    def _carry(self, node: Node) -> bool:
        """Emit the op on all rows of the frames. Rows outside are set to the neutral element if the op reduces them."""
        rule = rule_of(node)
        operands = [self._operand(node, index, rule.operands[index]) for index in range(len(node.operands))]
        frames = self._frame(node.result)
        tensor_type = node.result.type.with_shape(frame.size for frame in frames)
        if node.op == "iota" and (at := frames[node.attrs.dim].at):
            return self._set(node.result, self._counted(tensor_type, at, node))
        value = self._writer.emit(node.op, operands, tensor_type, **self._attrs(node))
        self._writer.graph.nodes[-1].regions = node.regions
        return self._set(node.result, value)

    def _counted(self, tensor_type: TensorType, at: int, node: Node) -> Value:
        """Return an iota that is 0 in row `at`. It is computed in integers, since a narrow float cannot subtract `at`
        exactly.
        """
        index = TensorType(tensor_type.shape, INDEX)
        row = self._writer.emit("iota", [], index, **node.attrs)
        row = self._writer.elementwise("subtract", row, self._writer.splat(at, index))
        return self._writer.convert(row, tensor_type.dtype)

    def _attrs(self, node: Node) -> dict[str, Any]:
        attrs = dict(node.attrs)
        if node.op == "gather":
            rows, whole = zip(attrs["slice_sizes"], self._frame(node.operands[0]), strict=True), _covered(node)
            attrs["slice_sizes"] = tuple(frame.size if d in whole else taken for d, (taken, frame) in enumerate(rows))
        return attrs

    def _operand(self, node: Node, number: int, dims: Sequence[tuple[int, ...]]) -> Value:
        operand, rule = node.operands[number], rule_of(node)
        if not operand.type.rank:
            return self._writer.plain(operand)
        frames = self._frame(operand)
        value = self._writer.framed(operand, frames)
        if node.op in ("gather", "scatter"):
            return self._placed(node, value) if number == 1 else value
        for dim, (loops, frame, rows) in enumerate(zip(dims, frames, operand.type.sizes, strict=True)):
            if loops and rule.factors[loops[0]].kind == "reduce":
                fill = neutral_scalar(node.attrs.kind if node.op == "reduce" else "add", operand.type.dtype)
                value = self._writer.kept(value, dim, frame.at, frame.at + rows, fill)
        return value

    def _placed(self, node: Node, indices: Value) -> Value:
        """Return the indices of a gather or scatter, shifted to the frames of the operand's dims.

        Indices never reach rows of a frame that the operand does not have. A window that covers an entire dim also
        covers its frame, so its index stays 0.
        """
        attrs, sizes, frames = node.attrs, node.operands[0].type.sizes, self._frame(node.operands[0])
        is_gather = node.op == "gather"
        dims = attrs["start_index_map" if is_gather else "scatter_dims_to_operand_dims"]
        framed, whole = [frames[dim] != Frame(sizes[dim]) for dim in dims], _covered(node)
        if not any(framed):
            return indices
        least, most = integer_range(indices.type.dtype)
        rows = [0 if dim in whole else sizes[dim] - (attrs.slice_sizes[dim] if is_gather else 1) for dim in dims]
        low = [0 if inside else least for inside in framed]
        high = [min(last, most) if inside else most for inside, last in zip(framed, rows, strict=True)]
        at, along = [0 if dim in whole else frames[dim].at for dim in dims], attrs.index_vector_dim
        first, last = (self._vector(numbers, indices.type, along) for numbers in (low, high))
        safe = self._writer.elementwise("clamp", first, indices, last)
        moved = self._shifted(safe, at, along)
        if is_gather:
            return moved
        exists = self._writer.compare("EQ", safe, indices)  # an update at an out-of-bounds position is dropped
        nowhere = self._writer.splat(integer_range(moved.type.dtype)[1], moved.type)
        return self._writer.elementwise("select", exists, moved, nowhere)

    def _shifted(self, indices: Value, at: Sequence[int], along: int) -> Value:
        """Return index vectors plus `at`, in a dtype that holds the sums."""
        if not any(at):
            return indices
        if bits(indices.type.dtype) < bits(INDEX):
            indices = self._writer.convert(indices, INDEX)
        return self._writer.elementwise("add", indices, self._vector(at, indices.type, along))

    def _vector(self, numbers: Sequence[int], tensor_type: TensorType, dim: int) -> Value:
        """Return a constant with `numbers` along `dim`, the dim of the index vectors. All vectors are equal."""
        shape = [len(numbers) if d == dim else 1 for d in range(tensor_type.rank)]
        array = np.asarray(numbers, tensor_type.numpy_dtype)
        array = np.broadcast_to(array.reshape(shape) if dim < tensor_type.rank else array[0], tensor_type.sizes)
        return self._writer.emit("constant", [], tensor_type, value=array)


def _covered(node: Node) -> set[int]:
    """Return the dims that the windows of a gather or scatter cover entirely."""
    attrs, sizes = node.attrs, node.operands[0].type.sizes
    if node.op == "scatter":
        return {dim for dim, rows in window_sizes(node).items() if rows == sizes[dim]}
    rows = {*attrs.collapsed_slice_dims, *attrs.operand_batching_dims}
    return {dim for dim, size in enumerate(attrs.slice_sizes) if size == sizes[dim] and dim not in rows}


def _update(node: Node) -> Value:
    return node.operands[1 if node.op == "dynamic_update_slice" else 2]


def _without_unused(graph: Graph) -> Graph:
    """Return the graph without unused slices, pads and constants."""
    return replace(graph, nodes=needed_nodes(graph.nodes, graph.outputs, lambda node: node.op not in NEVER_STORED))
