"""A cumulative reduction of few long rows is split, so that it fills the device: parts, their totals, and the totals added to the parts.

    before   %1 = cumulative sum of %0 along 4096 elements
    after    parts  = cumulative sums of (reshape %0 [16, 256]) along 256
             totals = cumulative sum of the last element of each part
             %1     = parts + (totals, one part later)

The order of sums is fixed by the shapes. Narrow floats add up in f32 and are rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.codegen.emit.windows import cumulative_dim
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value, is_float
from meshgen.ops.evaluate.window import fold_kind

_WIDE = ("f32", "f64")


@module_pass("scan-to-parts", "partition")
def scan_to_parts(module: Module, context: Compilation) -> Module:
    """A local program with its long cumulative reductions split; their results keep their identity."""
    return on_graphs(module, _with_parts)


def _with_parts(graph: Graph) -> Graph:
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    producers = graph.index.producers
    for node in graph.nodes:
        dim = cumulative_dim(node, producers.get(node.operands[1])) if node.op == "reduce_window" else None
        parts = 0 if dim is None else _count(node, dim)
        if dim is None or not parts:
            found.nodes.append(node)
        else:
            _emit_parts(found, node, dim, parts)
    return found


def _count(node: Node, dim: int) -> int:
    """The number of parts; 0 to leave the scan as it is."""
    sizes, limits = node.result.type.sizes, DEFAULT.fusion
    kept = node.result.type.size // max(sizes[dim], 1)
    programs = kept if dim == len(sizes) - 1 else -(-kept // limits.split_columns)
    if node.result.type.nbytes < limits.split_bytes or programs >= limits.programs // 4:
        return 0
    wanted = min(limits.programs // programs, sizes[dim] // limits.split_least)
    return max((p for p in range(2, wanted + 1) if sizes[dim] % p == 0), default=0)


def _emit_parts(graph: Graph, node: Node, dim: int, parts: int) -> None:
    value, init = node.operands
    dtype, sizes = value.type.dtype, list(value.type.sizes)
    is_reverse, kind = not node.attrs.low[dim], fold_kind(node.regions[0])
    assert kind is not None, "a cumulative reduction is a plain one"
    if is_float(dtype) and dtype not in _WIDE:
        dtype = "f32"
        value, init = (
            graph.add("convert", [v], [TensorType(v.type.shape, dtype)], {}, loc=node.loc).result for v in (value, init)
        )
    length = sizes[dim] // parts
    cut = (*sizes[:dim], parts, length, *sizes[dim + 1 :])
    inner = _scan(graph, node, _reshaped(graph, value, cut), init, dim + 1, is_reverse, kind)
    edge = 0 if is_reverse else length - 1
    last = _sliced(graph, inner, dim + 1, edge, edge + 1)
    totals = _scan(
        graph, node, _reshaped(graph, last, (*sizes[:dim], parts, *sizes[dim + 1 :])), init, dim, is_reverse, kind
    )
    before = _sliced(graph, totals, dim, *((1, parts) if is_reverse else (0, parts - 1)))
    none = [0] * len(sizes)
    pads = {"low": none.copy(), "high": none.copy()}
    pads["high" if is_reverse else "low"][dim] = 1
    padding = {name: tuple(each) for name, each in pads.items()} | {"interior": tuple(none)}
    carried = graph.add("pad", [before, init], [totals.type], padding, loc=node.loc).result
    dims = tuple(d for d in range(len(cut)) if d != dim + 1)
    spread = graph.add("broadcast_in_dim", [carried], [inner.type], {"dims": dims}, loc=node.loc).result
    whole = _reshaped(graph, graph.add(kind, [spread, inner], [inner.type], {}, loc=node.loc).result, tuple(sizes))
    if whole.type != node.result.type:
        graph.add("convert", [whole], [node.result.type], {}, loc=node.loc)
    graph.nodes[-1].results[:] = node.results


def _scan(graph: Graph, node: Node, value: Value, init: Value, dim: int, is_reverse: bool, kind: str) -> Value:
    """A cumulative reduction along a dim."""
    rank = value.type.rank
    ones, none = (1,) * rank, (0,) * rank
    window = tuple(n if d == dim else 1 for d, n in enumerate(value.type.sizes))
    pads = tuple(n - 1 for n in window)
    attrs = {
        "window_dimensions": window, "window_strides": ones, "base_dilations": ones, "window_dilations": ones,
        "low": none if is_reverse else pads, "high": pads if is_reverse else none,
    }  # fmt: skip
    region = Graph("", [Value(TensorType((), value.type.dtype)) for _ in range(2)])
    region.outputs = [region.add(kind, region.inputs, [region.inputs[0].type], {}).result]
    result = Value(value.type)
    graph.nodes.append(Node("reduce_window", [value, init], [result], attrs, node.loc, regions=(region,)))
    return result


def _reshaped(graph: Graph, value: Value, shape: tuple[int, ...]) -> Value:
    return graph.add("reshape", [value], [value.type.with_shape(shape)], {}, loc=value.loc).result


def _sliced(graph: Graph, value: Value, dim: int, start: int, limit: int) -> Value:
    sizes: Sequence[int] = value.type.sizes
    cut = {
        "start": tuple(start if d == dim else 0 for d in range(len(sizes))),
        "limit": tuple(limit if d == dim else n for d, n in enumerate(sizes)),
        "stride": (1,) * len(sizes),
    }
    shape = [limit - start if d == dim else n for d, n in enumerate(sizes)]
    assert math.prod(shape), "a part has elements"
    return graph.add("slice", [value], [value.type.with_shape(shape)], cut, loc=value.loc).result
