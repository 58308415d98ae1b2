"""Read the elements of a sharded softmax once: sum each tile relative to its own maximum, then rescale the sum.

    before   %u = reduce maximum %x                          %m = all_reduce max %u
             %t = reduce add (exponential (%x - %m))         %s = all_reduce sum %t                      %x: the tile of
             a device
    after    %u = reduce maximum %x                          %t = reduce add (exponential (%x - %u))
             %m = all_reduce max %u                          %s = all_reduce sum (%t * exponential (%u - %m))

Works on a local program (stage partition). Before, the second read of the elements had to wait for the maximum over all
devices.

Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.matchers import Dims, Producer, layout_source, transitive_operands
from meshgen.ops.constants import splat_of
from meshgen.ops.dead_code import without_dead

_WIDE = ("f32", "f64")  # narrower types would round each exponential before the sum


@module_pass("softmax-in-one-read", "partition", requires_ops=("all_reduce",))
def softmax_in_one_read(module: Module, context: Compilation) -> Module:
    """Return the module without reads of softmax elements that wait for the maximum over devices."""
    return on_graphs(module, _in_one_read)


@dataclass(frozen=True)
class _Softmax:
    """The two reductions over devices in a softmax, and the local computation of its denominator.

    Attributes:
        maximum, total: the all_reduces.
        tile: the maximum of the tile.
        elements: the elements, before `shift` is subtracted and the exponential is taken.
        masks: the nodes that fill the padding of the exponentials, first to last.
        reduction: the sum of the tile.
        shift: one number per row, which depends on the maximum.
        dims: the dims of the elements that the dims of `shift` correspond to.
    """

    maximum: Node
    total: Node
    tile: Value
    elements: Value
    masks: tuple[Node, ...]
    reduction: Node
    shift: Value
    dims: Dims

    @property
    def kept(self) -> list[int]:
        """Return the dims of the elements that the reductions keep."""
        return [d for d in range(self.elements.type.rank) if d not in self.reduction.attrs.dims]


def _in_one_read(graph: Graph) -> Graph:
    if not any(node.op == "all_reduce" and node.attrs.kind == "max" for node in graph.nodes):
        return graph
    by_maximum: dict[Node, _Softmax] = {}
    for node in graph.nodes:
        softmax = _softmax_of(node, graph.index.producers.get)
        if softmax is not None:
            by_maximum.setdefault(softmax.maximum, softmax)
    if not by_maximum:
        return graph
    tile_sums: dict[Node, Value] = {}
    totals = {softmax.total: softmax for softmax in by_maximum.values()}
    rewritten = Graph(graph.name, graph.inputs, [], graph.outputs)
    for node in graph.nodes:
        builder = Builder(rewritten, node.loc)
        if node in totals:
            _write_total(builder, totals[node], tile_sums[node])
            continue
        if node in by_maximum:
            tile_sums[by_maximum[node].total] = _write_tile(builder, by_maximum[node])
        builder.add(node)
    return without_dead(rewritten)


def _softmax_of(total: Node, producer: Producer) -> _Softmax | None:
    if total.op != "all_reduce" or total.attrs.kind != "sum" or total.result.type.dtype not in _WIDE:
        return None
    reduction = producer(_unreshaped(total.operands[0], producer))
    if reduction is None or not _is_reduction(reduction, "add", 0, producer):
        return None
    exponentials, masks = _unmasked(reduction.operands[0], producer)
    exponential = producer(exponentials)
    difference = (
        producer(exponential.operands[0]) if exponential is not None and exponential.op == "exponential" else None
    )
    if difference is None or difference.op != "subtract":
        return None
    elements, subtracted = difference.operands
    shift, dims = layout_source(subtracted, tuple(range(elements.type.rank)), producer)
    if not {*dims}.isdisjoint(reduction.attrs.dims):
        return None
    for value in transitive_operands([shift], producer, lambda value: _is_all_reduce(producer(value))):
        node = producer(value)
        if node is not None and _is_all_reduce(node) and _is_maximum(node, elements, total, reduction, producer):
            tile = _unreshaped(node.operands[0], producer)
            return _Softmax(node, total, tile, elements, masks, reduction, shift, dims)
    return None


def _is_all_reduce(node: Node | None) -> bool:
    return node is not None and node.op == "all_reduce"


def _is_maximum(node: Node, elements: Value, total: Node, reduction: Node, producer: Producer) -> bool:
    """Whether an all_reduce computes the maximum of the elements, over the same dims and devices as their sum."""
    inner = producer(_unreshaped(node.operands[0], producer))
    if node.attrs.kind != "max" or {*node.attrs.axes} != {*total.attrs.axes} or inner is None:
        return False
    is_alike = _is_reduction(inner, "maximum", None, producer) and {*inner.attrs.dims} == {*reduction.attrs.dims}
    return is_alike and _unmasked(inner.operands[0], producer)[0] is elements


def _is_reduction(node: Node, combiner: str, init: float | None, producer: Producer) -> bool:
    """Whether a node reduces with `combiner`, starting from `init`.

    If `init` is None, any initial value is accepted.
    """
    if node.op != "reduce" or node.attrs.kind != combiner:
        return False
    start = splat_of(node.operands[1], producer)
    return init is None or (start is not None and bool(start == init))


def _unreshaped(value: Value, producer: Producer) -> Value:
    """Return the value before reshapes and broadcasts that keep its size and the order of its elements."""
    while (node := producer(value)) is not None and node.operands and node.op in ("reshape", "broadcast_in_dim"):
        is_in_order = node.op == "reshape" or list(node.attrs.dims) == sorted(node.attrs.dims)
        if not is_in_order or node.operands[0].type.size != value.type.size:
            break
        value = node.operands[0]
    return value


def _unmasked(value: Value, producer: Producer) -> tuple[Value, tuple[Node, ...]]:
    """Return a value without the masks of its padding, and these masks, first to last."""
    masks: tuple[Node, ...] = ()
    while (node := producer(value)) is not None and node.op == "mask_padding":
        value, masks = node.operands[0], (node, *masks)
    return value, masks


def _write_tile(builder: Builder, softmax: _Softmax) -> Value:
    """Append the sum of the exponentials of the tile, after subtraction of the tile's maximum."""
    elements, reduction = softmax.elements, softmax.reduction
    rows = reduction.result.type
    zero = builder.broadcast_scalar(0, rows)
    is_finite = builder.emit("is_finite", [softmax.tile], TensorType(rows.shape, "i1"))
    shift = builder.elementwise("select", is_finite, softmax.tile, zero)  # a tile of padding has the maximum -inf
    spread_shift = builder.spread(shift, elements.type.sizes, softmax.kept)
    terms = builder.elementwise("exponential", builder.elementwise("subtract", elements, spread_shift))
    for mask in softmax.masks:
        terms = builder.append("mask_padding", [terms], [terms.type], dict(mask.attrs.given))[0]
    init = builder.splat(0, rows.with_shape(()))
    return builder.append("reduce", [terms, init], [rows], dict(reduction.attrs.given))[0]


def _write_total(builder: Builder, softmax: _Softmax, tile_sum: Value) -> None:
    """Append the sum over devices of the rescaled tile sums."""
    rows, sizes = tile_sum.type, softmax.elements.type.sizes
    dims = [dim for dim in softmax.dims if dim is not None]
    shift = builder.shaped(softmax.shift, [sizes[dim] for dim in dims])
    if dims != softmax.kept:
        shift = builder.spread(shift, rows.sizes, [softmax.kept.index(dim) for dim in dims])
    factors = builder.elementwise("exponential", builder.elementwise("subtract", softmax.tile, shift))
    terms = builder.elementwise("multiply", tile_sum, factors)
    total = softmax.total
    builder.add(replace(total, operands=[builder.shaped(terms, total.operands[0].type.shape)]))
