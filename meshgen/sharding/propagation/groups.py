"""Make one site of each sharding group (`sdy.sharding_group`), which ties the dims of all its members.

Example, on x=4: `%p = tanh %a : f32[64,32]` and `%q = negate %b : f32[64,32]` in group 3, `%a` annotated [{x}, {}]

    site    sharding_group %p, %q with rule `a b, a b -> a b, a b`, so x splits dim 0 of both

A required annotation of one member holds for the group; a member of two groups merges them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic
from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import Annotation, Node, NodeSharding, Value
from meshgen.ir.predicates import is_sharding_group
from meshgen.sharding.propagation.control import Flat
from meshgen.spec import Sharding


def joined_groups(nodes: Sequence[Flat], faults: list[Diagnostic]) -> list[Flat]:
    """The nodes, with one per group in place of its first member; its attribute `members` has the nodes of all."""
    members = [flat for flat in nodes if is_sharding_group(flat.node)]
    if not members:
        return list(nodes)
    first = _first_of_group(members)
    groups: dict[int, list[Flat]] = {}
    for flat in members:
        groups.setdefault(first[flat.node.attrs.group], []).append(flat)
    found: list[Flat] = []
    for flat in nodes:
        if not is_sharding_group(flat.node):
            found.append(flat)
        elif (group := groups.pop(first[flat.node.attrs.group], None)) is not None:
            faults += _faults(group)
            found.append(_joined_group(group))
    return found


def _first_of_group(members: Sequence[Flat]) -> dict[int, int]:
    """Per number of a group the least number of the groups that share members with it."""
    numbers = {flat.node.attrs.group: flat.node.attrs.group for flat in members}
    made = {flat.node.result: flat.node.attrs.group for flat in members}
    for flat in members:
        if (other := made.get(flat.node.operands[0])) is not None:
            both = numbers[other], numbers[flat.node.attrs.group]
            numbers = {group: min(both) if least in both else least for group, least in numbers.items()}
    return numbers


def _joined_group(group: Sequence[Flat]) -> Flat:
    nodes = [flat.node for flat in group]
    attrs = {**nodes[0].attrs, "members": nodes}
    operands, results = [node.operands[0] for node in nodes], [node.result for node in nodes]
    node = Node("sharding_group", operands, results, attrs, nodes[0].loc)
    return Flat(node, max(flat.times for flat in group), group[0].manual)


def _faults(group: Sequence[Flat]) -> list[Diagnostic]:
    """Faults of members with different shapes, or on tiles of different axes."""
    first, found = group[0], list[Diagnostic]()
    for flat in group[1:]:
        here, there = flat.node.result.type, first.node.result.type
        number = flat.node.attrs.group
        if here.shape != there.shape:
            message = (
                f"members of sharding group {number} must have one shape, but this one is {here} and the first {there}"
            )
            found.append(Diagnostic("MG0204", message, flat.node.loc, hint="put it into a group of its own"))
        elif flat.manual != first.manual:
            axes = [list(each.manual) or "none" for each in (flat, first)]
            message = f"members of sharding group {number} work on tiles of different axes: {axes[0]} here, {axes[1]} at the first"
            hint = "use one group inside of the manual computation and another outside"
            found.append(Diagnostic("MG0204", message, flat.node.loc, hint=hint))
    return found


def annotation_of_group(
    node: Node, annotations: Mapping[Value, Sequence[Annotation]], faults: list[Diagnostic], parts: AxisParts
) -> Annotation | None:
    """The required annotation of a group; appends a fault if those of its members contradict. `annotations` are those of each value."""
    found = [each for value in (*node.operands, *node.results) for each in annotations.get(value, ())]
    required = [each for each in found if each.required]
    said = [each for each in required if each.sharding.used_axes or not all(each.open_dims or (False,))]
    if not said:
        return None
    closed = [annotation for annotation in said if not any(annotation.open_dims)]
    best = (closed or said)[0]
    for annotation in said:
        if not _agrees(annotation, best, parts):
            message = f"members of sharding group {node.attrs.group} have required shardings {annotation.sharding} and {best.sharding}"
            faults.append(
                Diagnostic(
                    "MG0206",
                    message,
                    annotation.loc or node.loc,
                    hint="annotate one of them, or both with the same sharding",
                )
            )
            return None
    return replace(best, sharding=Sharding(best.sharding.dims))


def _agrees(annotation: Annotation, best: Annotation, parts: AxisParts) -> bool:
    """Whether the dims of an annotation are those of another one, or are open and a prefix of them."""
    opened = [*annotation.open_dims, *[False] * (annotation.sharding.rank - len(annotation.open_dims))]
    sides = ([_splitting_parts(axes, parts) for axes in each.sharding.dims] for each in (annotation, best))
    dims = zip(*sides, opened, strict=True)
    return all(here == there or (is_open and there[: len(here)] == here) for here, there, is_open in dims)


def _splitting_parts(refs: Sequence[str], parts: AxisParts) -> list[str]:
    """The parts of axes that split something."""
    plain = (part for ref in parts.merge(refs) for part in (parts.refine((ref,)) if parts.fits(ref) else (ref,)))
    return [part for part in plain if parts.mesh.axis_size(part) != 1]


def of_members(node: Node, sharding: NodeSharding) -> dict[Node, NodeSharding]:
    """The decision for a group, for the node of each member."""
    return {
        member: replace(sharding, operands=(operand,), results=(result,))
        for member, operand, result in zip(node.attrs.members, sharding.operands, sharding.results, strict=True)
    }
