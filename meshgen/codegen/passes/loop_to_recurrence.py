"""Loops whose trips are independent element by element become recurrences, each of which is one kernel.

    before   %h, %ys = while (%i = 0, %h0, %ys) { %i < 1024 } { h = a[i] * h + b[i]; ys[i] = dot h, c[i] }        1,024 launches
    after    %h, %ys = recurrence 1024 (%h0, rows of %ys, %a, %b, %c) { h = a * h + b; sum (h * c) }              1 launch

What is carried stays in registers: with a launch for each trip it is written and read again every time. A dot of a matrix and a vector is
written as a sum, because no tile of a matrix unit would be full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.emit.lanes import lanes_of
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

_ORDER = ("batch", "left", "right", "contract")  # of the dims of a product before it is summed


@module_pass("loop-to-recurrence", "partition")
def loop_to_recurrence(module: Module, context: Compilation) -> Module:
    """A local program with such loops as recurrences, those in regions too; itself if there is none."""
    return with_loops(module, recurrence_of)


def recurrence_of(node: Node, producers: Mapping[Value, Node], used: set[Value]) -> list[Node] | None:
    """A loop as a recurrence, with nodes for what that does not compute and constants that its counters end at; None if it is none.

    Args:
        producers: of what the loop reads; used: values that are read after it.
    """
    if any(is_control(inner) for inner in node.regions[1].nodes):
        return None
    nodes = as_scan(node, producers, used, alignment=1)
    found = [_recurrence(each) if is_scan(each) else [each] for each in nodes or ()]
    return None if nodes is None or not all(found) else [each for several in found for each in several]


def _recurrence(node: Node) -> list[Node]:
    """A scan as a recurrence, and the nodes that compute what it cannot; operands that its body has as a whole are read from outside."""
    body, count = _without_vectors(node.regions[0]), len(node.results)
    plain = [n for n in range(count, len(node.operands)) if n not in node.attrs.sliced]
    kept = [n for n in range(len(node.operands)) if n not in plain]
    body = rewired_graph(body, {body.inputs[n]: node.operands[n] for n in plain})
    body = Graph(body.name, [body.inputs[n] for n in kept], body.nodes, body.outputs)
    attrs = replace(node.attrs, sliced=tuple(kept.index(n) for n in node.attrs.sliced))
    operands = [node.operands[n] for n in kept]
    found = replace(node, op="recurrence", operands=operands, attrs=attrs, regions=(body,))
    return [found] if lanes_of(found) else split_recurrence(found)


def _without_vectors(body: Graph) -> Graph:
    """The body with products of matrices and vectors as sums."""
    found = Graph(body.name, body.inputs, [], body.outputs)
    for node in body.nodes:
        if node.op in DOTS and not all(DotDims.of(node).free):
            _sum_products(found, node)
        else:
            found.nodes.append(node)
    return found


def _sum_products(graph: Graph, node: Node) -> None:
    """A dot as the sum of products of elements, in f32 at least."""
    builder, dims, kind = Builder(graph, node.loc), DotDims.of(node), node.result.type
    wide = "f32" if kind.dtype in NARROW else kind.dtype
    order = [_places(dims, side) for side in (0, 1)]
    sizes = dict[tuple[str, int], int]()
    for value, places in zip(node.operands, order, strict=True):
        sizes |= {place: value.type.sizes[d] for d, place in enumerate(places)}
    axes = sorted(sizes, key=lambda axis: (_ORDER.index(axis[0]), axis[1]))
    shape = [sizes[axis] for axis in axes]
    spread = [
        builder.spread(builder.convert(value, wide), shape, [axes.index(place) for place in places])
        for value, places in zip(node.operands, order, strict=True)
    ]
    product = builder.elementwise("multiply", *spread)
    last = [d for d, axis in enumerate(axes) if axis[0] == "contract"]
    zero = builder.splat(0, TensorType((), wide))
    total = builder.emit("reduce", [product, zero], TensorType(kind.shape, wide), dims=tuple(last), kind="add")
    builder.convert(total, kind.dtype)
    builder.make(node.results)


def _places(dims: DotDims, side: int) -> Sequence[tuple[str, int]]:
    """What each dim of an operand is: a batch dim, one of its own, or one that is contracted."""
    own = "left" if side == 0 else "right"
    places = {d: ("batch", n) for n, d in enumerate(dims.batch[side])}
    places |= {d: ("contract", n) for n, d in enumerate(dims.contract[side])}
    places |= {d: (own, n) for n, d in enumerate(dims.free[side])}
    return [places[d] for d in sorted(places)]
