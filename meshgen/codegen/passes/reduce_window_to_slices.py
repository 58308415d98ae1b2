"""A reduction over windows of a few elements becomes element-wise operations on strided slices, which are part of any kernel.

    before   %1 = reduce_window maximum %0, %init {window = (2,), strides = (2,)}     f32[8] -> f32[4]
    after    %1 = maximum (slice %0 [0:7:2]), (slice %0 [1:8:2])

A kernel loads each element of a window directly, padding and halo included; no window is materialised. Narrow
floats add up and multiply in f32 and are rounded once, as a window of its own would do it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module, Node, Value, is_float
from meshgen.ir.predicates import is_constant
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.window import fold_kind, window_places

_ROUNDED = ("add", "multiply")
_WIDE = ("f32", "f64")


@module_pass("reduce-window-to-slices", "partition")
def reduce_window_to_slices(module: Module, context: Compilation) -> Module:
    """A local program with its small plain windows written as element-wise operations; their results keep their identity."""
    return on_graphs(module, _without_windows)


def _without_windows(graph: Graph) -> Graph:
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    producers = graph.index.producers
    for node in graph.nodes:
        kind = _plain_fold(node)
        if kind is None:
            found.nodes.append(node)
        else:
            _emit_fold(found, node, kind, _is_neutral(producers.get(node.operands[1]), kind))
    return found


def _plain_fold(node: Node) -> str | None:
    """The element-wise op that a small window of one tensor folds with."""
    if node.op != "reduce_window" or len(node.operands) != 2 or not node.results[0].type.size:
        return None
    is_small = math.prod(node.attrs.window_dimensions) <= DEFAULT.fusion.window_elements
    return fold_kind(node.regions[0]) if is_small else None


def _is_neutral(init: Node | None, kind: str) -> bool:
    return is_constant(init) and init.attrs.value == neutral(kind, init.result.type.dtype)


def _emit_fold(graph: Graph, node: Node, kind: str, is_neutral: bool) -> None:
    """The fold of all places of the window, then of the initial value, which is what padding holds, too."""
    wide = "f32" if kind in _ROUNDED and _is_narrow(node.operands[0].type.dtype) else node.operands[0].type.dtype
    parts = [_converted(graph, part, wide, node) for part in _slices(graph, node)]
    if not is_neutral:
        init = _converted(graph, node.operands[1], wide, node)
        parts.append(graph.add("broadcast_in_dim", [init], [parts[0].type], {"dims": ()}, loc=node.loc).result)
    total = parts[0]
    for part in parts[1:]:
        total = graph.add(kind, [total, part], [total.type], {}, loc=node.loc).result
    if total.type != node.result.type:
        graph.add("convert", [total], [node.result.type], {}, loc=node.loc)
    graph.nodes[-1].results[:] = node.results


def _is_narrow(dtype: str) -> bool:
    return is_float(dtype) and dtype not in _WIDE


def _converted(graph: Graph, value: Value, dtype: str, node: Node) -> Value:
    if value.type.dtype == dtype:
        return value
    kind = type(value.type)(value.type.shape, dtype)
    return graph.add("convert", [value], [kind], {}, loc=node.loc).result


def _slices(graph: Graph, node: Node) -> Iterator[Value]:
    """For each place in the window what all windows see there, of the padded operand."""
    attrs, (value, init), kind = node.attrs, node.operands, node.result.type
    low, high = tuple(attrs.low), tuple(attrs.high)
    interior = tuple(d - 1 for d in attrs.base_dilations)
    if any((*low, *high, *interior)):
        sizes = [
            a + n + b + max(n - 1, 0) * i for a, n, b, i in zip(low, value.type.sizes, high, interior, strict=True)
        ]
        padding = {"low": low, "high": high, "interior": interior}
        value = graph.add("pad", [value, init], [value.type.with_shape(sizes)], padding, loc=node.loc).result
    for place in window_places(value.type.sizes, attrs.window_dimensions, attrs.window_strides, attrs.window_dilations):
        ends = {
            "start": tuple(s.start for s in place),
            "limit": tuple(s.stop for s in place),
            "stride": tuple(s.step for s in place),
        }
        yield graph.add("slice", [value], [kind], ends, loc=node.loc).result
