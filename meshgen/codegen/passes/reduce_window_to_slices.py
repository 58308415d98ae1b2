"""Replace a reduction over small windows by element-wise ops on strided slices, which fuse into any kernel.

    before   %1 = reduce_window maximum %0, %init {window = (2,), strides = (2,)}     f32[8] -> f32[4]
    after    %1 = maximum (slice %0 [0:7:2]), (slice %0 [1:8:2])

A kernel loads each window element directly, including padding and halo, without materializing windows. Sums and
products of narrow floats accumulate in f32 and are rounded once, as in a reduce_window kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, Value, is_float
from meshgen.ir.predicates import is_constant
from meshgen.ir.rewriter import rewritten
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.window import fold_kind, window_places

_ROUNDED = ("add", "multiply")
_WIDE = ("f32", "f64")


@module_pass("reduce-window-to-slices", "partition")
def reduce_window_to_slices(module: Module, context: Compilation) -> Module:
    """Return the local program with reductions over small windows replaced by element-wise ops on slices.

    The results remain the same `Value` objects.
    """
    return on_graphs(module, _without_windows)


def _without_windows(graph: Graph) -> Graph:
    producers = graph.index.producers

    def rule(builder: Builder, node: Node) -> Sequence[Value] | None:
        fold_op = _plain_fold(node)
        if fold_op is None:
            return None
        return [_fold(builder, node, fold_op, _is_neutral(producers.get(node.operands[1]), fold_op))]

    return rewritten(graph, rule)


def _plain_fold(node: Node) -> str | None:
    """Return the element-wise op that combines two elements if `node` reduces small windows, or None for other nodes."""
    if node.op != "reduce_window" or len(node.operands) != 2 or not node.results[0].type.size:
        return None
    is_small = math.prod(node.attrs.window_dimensions) <= DEFAULT.fusion.window_elements
    return fold_kind(node.regions[0]) if is_small else None


def _is_neutral(init: Node | None, kind: str) -> bool:
    return is_constant(init) and init.attrs.value == neutral(kind, init.result.type.dtype)


def _fold(builder: Builder, node: Node, kind: str, is_neutral: bool) -> Value:
    """Combine the slices of all window positions with the op `kind`, and with the initial value unless it is neutral."""
    accumulator_dtype = (
        "f32" if kind in _ROUNDED and _is_narrow(node.operands[0].type.dtype) else node.operands[0].type.dtype
    )
    total, *parts = [builder.convert(part, accumulator_dtype) for part in _slices(builder, node)]
    if not is_neutral:
        parts.append(builder.spread(builder.convert(node.operands[1], accumulator_dtype), total.type.shape))
    for part in parts:
        total = builder.elementwise(kind, total, part)
    return builder.convert(total, node.result.type.dtype)


def _is_narrow(dtype: str) -> bool:
    return is_float(dtype) and dtype not in _WIDE


def _slices(builder: Builder, node: Node) -> Iterator[Value]:
    """Yield for each position within the window the strided slice of the padded operand with this element of all
    windows.
    """
    attrs, (value, init), result_type = node.attrs, node.operands, node.result.type
    low, high = tuple(attrs.low), tuple(attrs.high)
    interior = tuple(d - 1 for d in attrs.base_dilations)
    if any((*low, *high, *interior)):
        ends = zip(low, value.type.sizes, high, interior, strict=True)
        sizes = [before + n + after + max(n - 1, 0) * dilation for before, n, after, dilation in ends]
        padded = value.type.with_shape(sizes)
        value = builder.emit("pad", [value, init], padded, low=low, high=high, interior=interior)
    for position in window_places(
        value.type.sizes, attrs.window_dimensions, attrs.window_strides, attrs.window_dilations
    ):
        start, limit, stride = (
            zip(*((s.start, s.stop, s.step) for s in position), strict=True) if position else ((), (), ())
        )
        yield builder.emit("slice", [value], result_type, start=start, limit=limit, stride=stride)
