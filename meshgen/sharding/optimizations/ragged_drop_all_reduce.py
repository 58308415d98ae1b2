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

from collections.abc import Container, Sequence
from dataclasses import replace

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import captured, rewired
from meshgen.mesh import contains
from meshgen.ops.registry import rule_of
from meshgen.sharding.optimizations.rewrite import with_graph
from meshgen.sharding.optimizations.tiled import Loop, loop_of

_STEPS = 16  # of a chain of linear operations that is followed (chosen)
_ROWS = 0  # the dim of rows in operands of `ragged_dot`, and in the result of one that keeps rows


@module_pass("ragged-drop-all-reduce", "partition", requires_ops=("ragged_dot",))
def ragged_drop_all_reduce(module: Module, context: Compilation) -> Module:
    """The program without sums over devices that have the rows of their own groups, and read no others."""
    return with_graph(module, _without_reductions(module.graph))


def _without_reductions(graph: Graph) -> Graph:
    left = _axes_left(graph)
    own: dict[Value, Value] = {}
    nodes = list[Node]()
    for before in graph.nodes:
        node = rewired(before, own) if own else before
        if node.regions:
            node = replace(node, regions=tuple(map(_without_reductions, node.regions)))
        if before not in left:
            nodes.append(node)
        elif axes := left[before]:
            nodes.append(replace(node, attrs=node.attrs | {"axes": axes}))
        else:
            own[node.result] = node.operands[0]
    return replace(graph, nodes=nodes)


def _axes_left(graph: Graph) -> dict[Node, tuple[str, ...]]:
    """The axes of each reduction that changes: over these, devices share the rows of a group; along others each may keep what it has."""
    kept = {*graph.outputs, *(value for node in graph.nodes for value in captured(node))}
    left: dict[Node, tuple[str, ...]] = {}
    for node in reversed(graph.nodes):
        if node.op != "all_reduce" or node.attrs.kind != "sum" or not node.result.type.rank:
            continue
        if (product := _product_of(graph, node.operands[0], _ROWS)) is None:
            continue
        groups = product.attrs.group_axes
        axes = tuple(axis for axis in node.attrs.axes if not any(contains(whole, axis) for whole in groups))
        if axes != tuple(node.attrs.axes) and _reads_own_rows(graph, node.result, product, kept, left):
            left[node] = axes
    return left


def _product_of(graph: Graph, value: Value, dim: int, steps: int = _STEPS) -> Node | None:
    """Return the ragged dot whose groups bound the nonzero rows of a value along the dim, or None."""
    node = graph.index.producers.get(value)
    if node is None or not steps:
        return None
    if node.op == "ragged_dot":
        return node if dim == _ROWS and node.attrs.disjoint and not node.attrs.contracts else None
    if (loop := loop_of(node, dim, 1)) is None:
        return None
    for way in rule_of(node).linear:
        dims = [(node.operands[number], loop.operands[number]) for number in way.operands if "sum" in way.kinds]
        products = [None if d is None else _product_of(graph, each, d, steps - 1) for each, d in dims]
        first = products[0] if products else None
        if first and all(each and each.operands[2:] == first.operands[2:] for each in products):
            return first
    return None


def _reads_own_rows(graph: Graph, value: Value, product: Node, kept: Container[Value], left: Container[Node]) -> bool:
    """Whether what reads a value, row by row, are products of the groups of this one; reductions in `left` are of rows too."""
    pending, seen = [(value, _ROWS)], set[tuple[Value, int]]()
    while pending:
        value, dim = pending.pop()
        if (value, dim) in seen:
            continue
        seen.add((value, dim))
        if value in kept or value.granted:  # an annotated value is whole
            return False
        for user, number in graph.index.uses[value]:
            if dim == _ROWS and _is_of_groups(user, number, product.operands[2:]):
                continue
            loop = Loop((dim,), dim) if user in left else loop_of(user, dim, 1, operand=number)
            if loop is None:
                return False
            pending.append((user.result, loop.result))
    return True


def _is_of_groups(node: Node, number: int, bounds: Sequence[Value]) -> bool:
    """Whether an op reads its operand of that number only at the rows of groups with these bounds."""
    return node.op == "ragged_dot" and node.operands[2:] == bounds and number <= int(node.attrs.contracts)
