"""A reduction over windows of a few elements becomes element-wise operations on strided slices, which are part of any kernel.

    before   %1 = reduce_window maximum %0, %init {window = (2,), strides = (2,)}     f32[8] -> f32[4]
    after    %1 = maximum (slice %0 [0:7:2]), (slice %0 [1:8:2])

A kernel loads each element of a window directly, padding and halo included; no window is materialised. Narrow
floats add up and multiply in f32 and are rounded once, as a window of its own would do it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from meshgen.codegen.passes.graphs import on_graphs
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
    """A local program with its small plain windows written as element-wise operations; their results keep their identity."""
    return on_graphs(module, _without_windows)


def _without_windows(graph: Graph) -> Graph:
    producers = graph.index.producers

    def rule(builder: Builder, node: Node) -> Sequence[Value] | None:
        kind = _plain_fold(node)
        if kind is None:
            return None
        return [_fold(builder, node, kind, _is_neutral(producers.get(node.operands[1]), kind))]

    return rewritten(graph, rule)


def _plain_fold(node: Node) -> str | None:
    """The element-wise op that a small window of one tensor folds with."""
    if node.op != "reduce_window" or len(node.operands) != 2 or not node.results[0].type.size:
        return None
    is_small = math.prod(node.attrs.window_dimensions) <= DEFAULT.fusion.window_elements
    return fold_kind(node.regions[0]) if is_small else None


def _is_neutral(init: Node | None, kind: str) -> bool:
    return is_constant(init) and init.attrs.value == neutral(kind, init.result.type.dtype)


def _fold(builder: Builder, node: Node, kind: str, is_neutral: bool) -> Value:
    """The fold of all places of the window, then of the initial value, which is what padding holds, too."""
    wide = "f32" if kind in _ROUNDED and _is_narrow(node.operands[0].type.dtype) else node.operands[0].type.dtype
    total, *parts = [builder.convert(part, wide) for part in _slices(builder, node)]
    if not is_neutral:
        parts.append(builder.spread(builder.convert(node.operands[1], wide), total.type.shape))
    for part in parts:
        total = builder.elementwise(kind, total, part)
    return builder.convert(total, node.result.type.dtype)


def _is_narrow(dtype: str) -> bool:
    return is_float(dtype) and dtype not in _WIDE


def _slices(builder: Builder, node: Node) -> Iterator[Value]:
    """For each place in the window what all windows see there, of the padded operand."""
    attrs, (value, init), kind = node.attrs, node.operands, node.result.type
    low, high = tuple(attrs.low), tuple(attrs.high)
    interior = tuple(d - 1 for d in attrs.base_dilations)
    if any((*low, *high, *interior)):
        ends = zip(low, value.type.sizes, high, interior, strict=True)
        sizes = [before + n + behind + max(n - 1, 0) * between for before, n, behind, between in ends]
        padded = value.type.with_shape(sizes)
        value = builder.emit("pad", [value, init], padded, low=low, high=high, interior=interior)
    for place in window_places(value.type.sizes, attrs.window_dimensions, attrs.window_strides, attrs.window_dilations):
        start, limit, stride = zip(*((s.start, s.stop, s.step) for s in place), strict=True) if place else ((), (), ())
        yield builder.emit("slice", [value], kind, start=start, limit=limit, stride=stride)
