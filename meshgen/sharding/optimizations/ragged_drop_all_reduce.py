"""Remove an all_reduce between ragged dots over the same groups, if each device needs only the rows of its own groups.

    before   %h = ragged_dot %x, %up, %start, %end        groups over ep: rows of other devices' groups are 0
             %s = all_reduce %h on ep    %a = tanh %s
             %y = ragged_dot %a, %down, %start, %end        partial sum(ep)
    after    %a = tanh %h
             %y = ragged_dot %a, %down, %start, %end

Works on a local program (stage partition). The groups must be disjoint, so that each row is complete on one device. The
all_reduce's only users must be such ragged dots, possibly through row-wise ops. Gradients of experts have this form,
too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import captured, rewired
from meshgen.mesh import contains
from meshgen.ops.dead_code import without_dead
from meshgen.sharding.optimizations.group_row_uses import GroupRowUses
from meshgen.sharding.optimizations.walk import with_graph


@module_pass("ragged-drop-all-reduce", "partition", requires_ops=("ragged_dot",))
def ragged_drop_all_reduce(module: Module, context: Compilation) -> Module:
    """Return the module without sums over devices of which each device reads only the rows of its own groups."""
    return with_graph(module, _without_reductions(module.graph))


@dataclass(frozen=True)
class _Sum:
    """A sum over devices: an all_reduce, or equivalent collectives.

    Attributes:
        members: the collectives that compute the sum; the first one has the result.
        left: the axes over which the sum remains.
    """

    operand: Value
    axes: tuple[str, ...]
    members: tuple[Node, ...]
    left: tuple[str, ...] = ()


def _without_reductions(graph: Graph) -> Graph:
    sums = _sums_to_change(graph)
    local_values: dict[Value, Value] = {}
    nodes = list[Node]()
    for old in graph.nodes:
        node = rewired(old, local_values) if local_values else old
        if node.regions:
            node = replace(node, regions=tuple(map(_without_reductions, node.regions)))
        if (change := sums.get(old)) is None:
            nodes.append(node)
            continue
        operand = local_values.get(change.operand, change.operand)
        if change.left:
            attrs = {"axes": change.left, "kind": "sum"}
            nodes.append(Node("all_reduce", [operand], node.results, attrs, node.loc, notes=node.notes))
        else:
            local_values[node.result] = operand
    return without_dead(replace(graph, nodes=nodes)) if sums else replace(graph, nodes=nodes)


def _sums_to_change(graph: Graph) -> dict[Node, _Sum]:
    """Return the sums over devices to remove or to restrict, keyed by the last node of each sum.

    A sum remains along the axes over which devices share the rows of a group.
    """
    producers = graph.index.producers
    kept = {*graph.outputs, *(value for node in graph.nodes for value in captured(node))}
    rows = GroupRowUses(producers.get, graph.index.uses.__getitem__, kept)
    sums: dict[Node, _Sum] = {}
    through: set[Node] = set()
    for node in reversed(graph.nodes):
        summation = _sum_of(node, producers)
        product = rows.product_of(summation.operand) if summation else None
        if summation is None or product is None:
            continue
        groups = product.attrs.group_axes
        left = tuple(axis for axis in summation.axes if not any(contains(group_axis, axis) for group_axis in groups))
        if left != summation.axes and rows.has_only_group_users(node.result, product, through):
            sums[node] = replace(summation, left=left)
            through.update(summation.members)
    return sums


def _sum_of(node: Node, producers: Mapping[Value, Node]) -> _Sum | None:
    """Return the sum that ends at `node`: an all_reduce, or slices and reduce_scatters along a dim that an all_gather
    joins again.
    """
    if node.op == "all_reduce" and node.attrs.kind == "sum" and node.result.type.rank:
        return _Sum(node.operands[0], tuple(node.attrs.axes), (node,))
    if node.op != "all_gather":
        return None
    gathered, summed, members, value = tuple(node.attrs.axes), tuple[str, ...](), [node], node.operands[0]
    while gathered:
        collective = producers.get(value)
        if (
            collective is None
            or collective.op not in ("all_slice", "reduce_scatter")
            or collective.attrs.dim != node.attrs.dim
        ):
            return None
        axes = tuple(collective.attrs.axes)
        if gathered[-len(axes) :] != axes or (collective.op == "reduce_scatter" and collective.attrs.kind != "sum"):
            return None
        gathered, summed = gathered[: -len(axes)], (*axes, *summed) if collective.op == "reduce_scatter" else summed
        members.append(collective)
        value = collective.operands[0]
    return _Sum(value, summed, tuple(members)) if summed and value.type == node.result.type else None
