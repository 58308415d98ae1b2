"""Merge each sharding group (`sdy.sharding_group`) into one site, which ties the dims of all its members.

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
    """Return the nodes with one node per group, at the position of the group's first member.

    The attribute `members` of that node lists the nodes of all members. Faults are appended to `faults`.
    """
    members = [flat for flat in nodes if is_sharding_group(flat.node)]
    if not members:
        return list(nodes)
    representative = _first_of_group(members)
    groups: dict[int, list[Flat]] = {}
    for flat in members:
        groups.setdefault(representative[flat.node.attrs.group], []).append(flat)
    merged_nodes: list[Flat] = []
    for flat in nodes:
        if not is_sharding_group(flat.node):
            merged_nodes.append(flat)
        elif (group := groups.pop(representative[flat.node.attrs.group], None)) is not None:
            faults += _faults(group)
            merged_nodes.append(_joined_group(group))
    return merged_nodes


def _first_of_group(members: Sequence[Flat]) -> dict[int, int]:
    """Return for each group id the smallest id among the groups that share members with it."""
    smallest_ids = {flat.node.attrs.group: flat.node.attrs.group for flat in members}
    group_of_result = {flat.node.result: flat.node.attrs.group for flat in members}
    for flat in members:
        if (other := group_of_result.get(flat.node.operands[0])) is not None:
            merged_ids = smallest_ids[other], smallest_ids[flat.node.attrs.group]
            smallest_ids = {
                group: min(merged_ids) if smallest in merged_ids else smallest
                for group, smallest in smallest_ids.items()
            }
    return smallest_ids


def _joined_group(group: Sequence[Flat]) -> Flat:
    nodes = [flat.node for flat in group]
    attrs = {**nodes[0].attrs, "members": nodes}
    operands, results = [node.operands[0] for node in nodes], [node.result for node in nodes]
    node = Node("sharding_group", operands, results, attrs, nodes[0].loc)
    return Flat(node, max(flat.times for flat in group), group[0].manual)


def _faults(group: Sequence[Flat]) -> list[Diagnostic]:
    """Return faults for members whose shapes differ, or that are inside of different manual computations."""
    first, faults = group[0], list[Diagnostic]()
    for flat in group[1:]:
        member_type, first_type = flat.node.result.type, first.node.result.type
        group_id = flat.node.attrs.group
        if member_type.shape != first_type.shape:
            message = f"members of sharding group {group_id} must have one shape, but this one is {member_type} and the first {first_type}"
            faults.append(Diagnostic("MG0204", message, flat.node.loc, hint="put it into a group of its own"))
        elif flat.manual != first.manual:
            axes = [list(member.manual) or "none" for member in (flat, first)]
            message = f"members of sharding group {group_id} work on tiles of different axes: {axes[0]} here, {axes[1]} at the first"
            hint = "use one group inside of the manual computation and another outside"
            faults.append(Diagnostic("MG0204", message, flat.node.loc, hint=hint))
    return faults


def annotation_of_group(
    node: Node, annotations: Mapping[Value, Sequence[Annotation]], faults: list[Diagnostic], parts: AxisParts
) -> Annotation | None:
    """Return the required annotation of a group, or None if no member has one.

    Appends a fault to `faults` if the annotations of members contradict each other.
    """
    member_annotations = [
        member_annotation
        for value in (*node.operands, *node.results)
        for member_annotation in annotations.get(value, ())
    ]
    required = [member_annotation for member_annotation in member_annotations if member_annotation.required]
    binding = [
        member_annotation
        for member_annotation in required
        if member_annotation.sharding.used_axes or not all(member_annotation.open_dims or (False,))
    ]
    if not binding:
        return None
    closed_annotations = [annotation for annotation in binding if not any(annotation.open_dims)]
    best = (closed_annotations or binding)[0]
    for annotation in binding:
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
    """Whether each dim has the same axes in both annotations, or is open in `annotation` with a prefix of the axes in
    `best`.
    """
    open_dims = [*annotation.open_dims, *[False] * (annotation.sharding.rank - len(annotation.open_dims))]
    sides = ([_splitting_parts(axes, parts) for axes in side.sharding.dims] for side in (annotation, best))
    dims = zip(*sides, open_dims, strict=True)
    return all(
        member_axes == best_axes or (is_open and best_axes[: len(member_axes)] == member_axes)
        for member_axes, best_axes, is_open in dims
    )


def _splitting_parts(refs: Sequence[str], parts: AxisParts) -> list[str]:
    """Return the sub-axes with more than one device."""
    plain = (part for ref in parts.merge(refs) for part in (parts.refine((ref,)) if parts.fits(ref) else (ref,)))
    return [part for part in plain if parts.mesh.axis_size(part) != 1]


def of_members(node: Node, sharding: NodeSharding) -> dict[Node, NodeSharding]:
    """Return the sharding of each member's node, given the sharding of the group."""
    return {
        member: replace(sharding, operands=(operand,), results=(result,))
        for member, operand, result in zip(node.attrs.members, sharding.operands, sharding.results, strict=True)
    }
