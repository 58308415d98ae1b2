"""Move slices of a dot's result to the operand that the sliced dim comes from.

    before   %1 = dot %x, %w     %2 = slice %1
    after    %1 = slice %w       %2 = dot %x, %1

A fused projection (q, k and v, or gate and up, in one weight) whose columns are sharded would exchange activations to
slice its parts. Slicing the weight exchanges rows of the weight instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import captured
from meshgen.ops.classes import GEMMS
from meshgen.ops.registry import rule_of
from meshgen.sharding.rewrites.graph_passes import graph_pass


@graph_pass("slice-into-dot", applies="if cheaper")
def slice_into_dot(graph: Graph) -> Graph | None:
    """Return the rewritten graph, or None if no dot is sliced along a dim of only one operand."""
    uses, outputs = graph.index.uses, {*graph.outputs, *(value for node in graph.nodes for value in captured(node))}
    moved: dict[Value, tuple[int, int]] = {}  # result of a dot -> (operand, dim) to slice instead of the result
    for node in graph.nodes:
        is_free = node.op in GEMMS and node.option is None and node.result not in outputs
        if is_free and (operand_dim := _sliced_operand_dim(node, [user for user, _ in uses[node.result]])):
            moved[node.result] = operand_dim
    if not moved:
        return None
    producers = graph.index.producers
    return replace(
        graph, nodes=[new_node for node in graph.nodes for new_node in _with_sliced_operand(node, moved, producers)]
    )


def _sliced_operand_dim(node: Node, users: list[Node]) -> tuple[int, int] | None:
    """Return the operand and its dim that all users of the dot slice, or None if they slice different dims.

    The dot must have at least two users, and all of them must be slices.
    """
    if len(users) < 2 or any(user.op != "slice" for user in users):
        return None
    cuts = [_cut_dims(user) for user in users]
    if len(cuts[0]) != 1 or any(cut != cuts[0] for cut in cuts):
        return None
    (dim,), rule = cuts[0], rule_of(node)
    (factor,) = rule.results[0][dim]
    places = [(index, d) for index, d in enumerate(rule.places(factor)[0]) if d is not None]
    return places[0] if len(places) == 1 and rule.factors[factor].kind == "parallel" else None


def _cut_dims(node: Node) -> list[int]:
    attrs, shape = node.attrs, node.operands[0].type.shape
    parts = zip(attrs.start, attrs.limit, attrs.stride, shape, strict=True)
    return [d for d, (start, limit, stride, size) in enumerate(parts) if (start, limit, stride) != (0, size, 1)]


def _with_sliced_operand(
    node: Node, moved: dict[Value, tuple[int, int]], producers: Mapping[Value, Node]
) -> list[Node]:
    if not moved.keys().isdisjoint(node.results):
        return []
    if node.op != "slice" or node.operands[0] not in moved:
        return [node]
    dot = producers[node.operands[0]]
    operand, dim = moved[dot.result]
    (cut,) = _cut_dims(node)
    source = dot.operands[operand]
    attrs = {"start": [0] * source.type.rank, "limit": list(source.type.sizes), "stride": [1] * source.type.rank}
    for name in attrs:
        attrs[name][dim] = getattr(node.attrs, name)[cut]
    shape = [node.result.type.shape[cut] if d == dim else size for d, size in enumerate(source.type.shape)]
    part = Value(source.type.with_shape(shape), node.result.name and f"v{node.result.name}_operand", loc=node.loc)
    sliced = Node("slice", [source], [part], {name: tuple(rows) for name, rows in attrs.items()}, node.loc)
    operands = [part if index == operand else value for index, value in enumerate(dot.operands)]
    return [sliced, replace(dot, operands=operands, results=[node.result])]
