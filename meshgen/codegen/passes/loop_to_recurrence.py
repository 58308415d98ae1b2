"""Replace loops whose iterations are independent per element by recurrences, each of which runs as one kernel.

    before   %h, %ys = while (%i = 0, %h0, %ys) { %i < 1024 } { h = a[i] * h + b[i]; ys[i] = dot h, c[i] }
    after    %h, %ys = recurrence 1024 (%h0, rows of %ys, %a, %b, %c) { h = a * h + b; sum (h * c) }

The carried values stay in registers. With one launch per iteration, each iteration would write and read them in memory.
A matrix-vector dot becomes a sum of element-wise products, because it would not fill a tile of the matrix unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.emit.recurrence_space import lanes_of
from meshgen.codegen.passes.loop_fission import split_recurrence
from meshgen.codegen.passes.loop_to_scan import as_scan, with_loops
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.predicates import is_control, is_scan
from meshgen.ir.regions import rewired_graph
from meshgen.ops.classes import DOTS
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.triton.registers import NARROW

# The order of a dot's kinds of dims in the element-wise product, before the sum over the contracted dims.
_ORDER = ("batch", "left", "right", "contract")


@module_pass("loop-to-recurrence", "partition")
def loop_to_recurrence(module: Module, context: Compilation) -> Module:
    """Convert loops to recurrences where possible, also in regions. Returns the module itself if nothing changes."""
    return with_loops(module, recurrence_of)


def recurrence_of(node: Node, producers: Mapping[Value, Node], used: set[Value]) -> list[Node] | None:
    """Convert a loop to a recurrence.

    Args:
        producers: producers of the values that the loop reads.
        used: values that are read after the loop.
    Returns:
        The recurrence, nodes that compute what the recurrence cannot, and constants for the final values of the loop's
        counters. None if the loop cannot be converted.
    """
    if any(is_control(inner) for inner in node.regions[1].nodes):
        return None
    nodes = as_scan(node, producers, used, alignment=1)
    parts = [_recurrence(scan_node) if is_scan(scan_node) else [scan_node] for scan_node in nodes or ()]
    return None if nodes is None or not all(parts) else [scan_node for several in parts for scan_node in several]


def _recurrence(node: Node) -> list[Node]:
    """Return the recurrence for a scan, and nodes for the part of the scan's body that the recurrence kernel cannot
    compute.

    Operands that the scan's body reads unsliced become captured values.
    """
    body, count = _without_vectors(node.regions[0]), len(node.results)
    unsliced = [n for n in range(count, len(node.operands)) if n not in node.attrs.sliced]
    remaining = [n for n in range(len(node.operands)) if n not in unsliced]
    body = rewired_graph(body, {body.inputs[n]: node.operands[n] for n in unsliced})
    body = Graph(body.name, [body.inputs[n] for n in remaining], body.nodes, body.outputs)
    attrs = replace(node.attrs, sliced=tuple(remaining.index(n) for n in node.attrs.sliced))
    operands = [node.operands[n] for n in remaining]
    recurrence = replace(node, op="recurrence", operands=operands, attrs=attrs, regions=(body,))
    return [recurrence] if lanes_of(recurrence) else split_recurrence(recurrence)


def _without_vectors(body: Graph) -> Graph:
    """Return the body with matrix-vector dots replaced by sums of element-wise products."""
    rewritten = Graph(body.name, body.inputs, [], body.outputs)
    for node in body.nodes:
        if node.op in DOTS and not all(DotDims.of(node).free):
            _sum_products(rewritten, node)
        else:
            rewritten.nodes.append(node)
    return rewritten


def _sum_products(graph: Graph, node: Node) -> None:
    """Emit a dot as the sum of element-wise products, in f32 or wider."""
    builder, dims, result_type = Builder(graph, node.loc), DotDims.of(node), node.result.type
    wide = "f32" if result_type.dtype in NARROW else result_type.dtype
    order = [_axes(dims, side) for side in (0, 1)]
    sizes = dict[tuple[str, int], int]()
    for value, axes_of_operand in zip(node.operands, order, strict=True):
        sizes |= {place: value.type.sizes[d] for d, place in enumerate(axes_of_operand)}
    axes = sorted(sizes, key=lambda axis: (_ORDER.index(axis[0]), axis[1]))
    shape = [sizes[axis] for axis in axes]
    spread = [
        builder.spread(builder.convert(value, wide), shape, [axes.index(place) for place in axes_of_operand])
        for value, axes_of_operand in zip(node.operands, order, strict=True)
    ]
    product = builder.elementwise("multiply", *spread)
    last = [d for d, axis in enumerate(axes) if axis[0] == "contract"]
    zero = builder.splat(0, TensorType((), wide))
    total = builder.emit("reduce", [product, zero], TensorType(result_type.shape, wide), dims=tuple(last), kind="add")
    builder.convert(total, result_type.dtype)
    builder.make(node.results)


def _axes(dims: DotDims, side: int) -> Sequence[tuple[str, int]]:
    """Return the axis of each dim of one dot operand: ("batch" | "left" | "right" | "contract", index)."""
    free_side = "left" if side == 0 else "right"
    axes = {d: ("batch", n) for n, d in enumerate(dims.batch[side])}
    axes |= {d: ("contract", n) for n, d in enumerate(dims.contract[side])}
    axes |= {d: (free_side, n) for n, d in enumerate(dims.free[side])}
    return [axes[d] for d in sorted(axes)]
