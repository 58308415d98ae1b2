"""An all_reduce between two products of the same groups of rows goes: each device reads the rows of its own groups only.

    before   %h = ragged_dot %x, %up, %start, %end          groups over ep: on each device zeros in the rows of other devices' groups
             %s = all_reduce %h on ep    %a = tanh %s
             %y = ragged_dot %a, %down, %start, %end        partial sum(ep)
    after    %a = tanh %h
             %y = ragged_dot %a, %down, %start, %end

Works on a local program (stage partition). Groups must be disjoint, so that each row is complete on one device, and nothing but such
products may read the sum, through operations on one row at a time. Gradients of experts are of this form too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import captured, rewired
from meshgen.mesh import contains
from meshgen.ops.live import without_dead
from meshgen.sharding.optimizations.own_rows import OwnRows
from meshgen.sharding.optimizations.rewrite import with_graph


@module_pass("ragged-drop-all-reduce", "partition", requires_ops=("ragged_dot",))
def ragged_drop_all_reduce(module: Module, context: Compilation) -> Module:
    """The program without sums over devices that have the rows of their own groups, and read no others."""
    return with_graph(module, _without_reductions(module.graph))


@dataclass(frozen=True)
class _Sum:
    """A sum over devices: an all_reduce, or collectives that make one (`members`; the first one has the result); `left` are the axes that stay."""

    operand: Value
    axes: tuple[str, ...]
    members: tuple[Node, ...]
    left: tuple[str, ...] = ()


def _without_reductions(graph: Graph) -> Graph:
    sums = _sums_to_change(graph)
    own: dict[Value, Value] = {}
    nodes = list[Node]()
    for before in graph.nodes:
        node = rewired(before, own) if own else before
        if node.regions:
            node = replace(node, regions=tuple(map(_without_reductions, node.regions)))
        if (change := sums.get(before)) is None:
            nodes.append(node)
            continue
        operand = own.get(change.operand, change.operand)
        if change.left:
            attrs = {"axes": change.left, "kind": "sum"}
            nodes.append(Node("all_reduce", [operand], node.results, attrs, node.loc, notes=node.notes))
        else:
            own[node.result] = operand
    return without_dead(replace(graph, nodes=nodes)) if sums else replace(graph, nodes=nodes)


def _sums_to_change(graph: Graph) -> dict[Node, _Sum]:
    """The sums that change, by the last node of each: over the axes that stay devices share the rows of a group."""
    producers = graph.index.producers
    kept = {*graph.outputs, *(value for node in graph.nodes for value in captured(node))}
    rows = OwnRows(producers.get, graph.index.uses.__getitem__, kept)
    sums: dict[Node, _Sum] = {}
    through: set[Node] = set()
    for node in reversed(graph.nodes):
        found = _sum_of(node, producers)
        product = rows.product_of(found.operand) if found else None
        if found is None or product is None:
            continue
        groups = product.attrs.group_axes
        left = tuple(axis for axis in found.axes if not any(contains(whole, axis) for whole in groups))
        if left != found.axes and rows.are_read_alone(node.result, product, through):
            sums[node] = replace(found, left=left)
            through.update(found.members)
    return sums


def _sum_of(node: Node, producers: Mapping[Value, Node]) -> _Sum | None:
    """The sum that a node is the end of: an all_reduce, or slices of tiles and reduce_scatters along a dim that an all_gather puts together."""
    if node.op == "all_reduce" and node.attrs.kind == "sum" and node.result.type.rank:
        return _Sum(node.operands[0], tuple(node.attrs.axes), (node,))
    if node.op != "all_gather":
        return None
    inside, summed, members, value = tuple(node.attrs.axes), tuple[str, ...](), [node], node.operands[0]
    while inside:
        part = producers.get(value)
        if part is None or part.op not in ("all_slice", "reduce_scatter") or part.attrs.dim != node.attrs.dim:
            return None
        axes = tuple(part.attrs.axes)
        if inside[-len(axes) :] != axes or (part.op == "reduce_scatter" and part.attrs.kind != "sum"):
            return None
        inside, summed = inside[: -len(axes)], (*axes, *summed) if part.op == "reduce_scatter" else summed
        members.append(part)
        value = part.operands[0]
    return _Sum(value, summed, tuple(members)) if summed and value.type == node.result.type else None
