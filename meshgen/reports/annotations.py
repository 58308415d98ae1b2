"""Report annotations inside a program that the optimized program does not follow.

Propagation and materialization follow required annotations exactly. But if every device reads only its shard of the
annotated value, the optimizer drops the collective that produced the annotated sharding. The annotations of such values
are reported, whether they are required or hints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshgen.errors import bracketed, location_text
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import all_values, used_values
from meshgen.ops.dead_code import without_dead
from meshgen.reports.interface import Compiled
from meshgen.sharding.materialize import annotations_of
from meshgen.sharding.propagation.chains import state_text
from meshgen.sharding.propagation.edges import edges_of
from meshgen.sharding.propagation.labels import constrains_use, follows_annotation
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.reshard.plan import same_layout


@dataclass(frozen=True)
class UnfollowedAnnotation:
    """An annotation that no value of the optimized program follows, and the reason."""

    value: str  # name of the annotated value with a leading `%`, or `%?` if the value has no name
    asked: str
    required: bool
    why: str
    location: str

    def __str__(self) -> str:
        where = bracketed(self.location)
        strength = "required annotation" if self.required else "hint"
        return f"{strength} {self.asked} of {self.value}{where}: {self.why}"


def unfollowed_annotations(executable: Compiled) -> list[UnfollowedAnnotation]:
    """Return the annotations on one mesh that propagation followed, but that no value of the optimized program has."""
    return [_unfollowed_annotation(node, why) for _, node, why in _unfollowed(executable)]


def unfollowed_values(executable: Compiled, planned: Graph) -> dict[Value, str]:
    """Map each annotated value that is not computed with the annotated sharding to a message.

    Args:
        planned: the graph after propagation.
    """
    nodes = list(annotations_of(planned))
    return {nodes[index].result: str(_unfollowed_annotation(node, why)) for index, node, why in _unfollowed(executable)}


def _unfollowed(executable: Compiled) -> Iterator[tuple[int, Node, str]]:
    if "propagate" not in executable.stages or "partition" not in executable.stages:
        return
    planned = executable.stages["propagate"].graph
    followed = {index for value in all_values(executable.stages["partition"].graph) for index in value.granted}
    used = set(used_values(without_dead(planned)))
    for index, node in enumerate(annotations_of(planned)):
        if index not in followed and _is_granted(node, executable):
            yield index, node, _NOT_NEEDED if node.result in used else "nothing uses the value"


_NOT_NEEDED = (
    "no device needs the value with this sharding: its users work on parts of it, or read it as it was made "
    "(an annotation for users, as_result=False, has them read it so)"
)


def _is_granted(node: Node, executable: Compiled) -> bool:
    """Whether propagation followed an annotation. Overridden hints are reported by `hints_that_lost`, with their
    cost.
    """
    annotated, granted = node.attrs.sharding, node.sharding
    assert granted is not None, "every node has a sharding after propagation"
    return node.attrs.required or (
        annotated.rank == node.result.type.rank
        and same_layout(annotated, granted.results[0], node.result.type, executable.mesh)
    )


def _unfollowed_annotation(node: Node, why: str) -> UnfollowedAnnotation:
    assert node.sharding is not None, "every node has a sharding after propagation"
    name, where = node.result.name or node.operands[0].name or "?", location_text(node.loc)
    return UnfollowedAnnotation(f"%{name}", str(node.sharding.results[0]), node.attrs.required, why, where)


@dataclass(frozen=True)
class OtherUse:
    """A use with another sharding than an annotation requires for all users of the value, because two annotations
    conflict.
    """

    value: str
    asked: str
    user: str
    why: str
    location: str

    def __str__(self) -> str:
        where = bracketed(self.location)
        return f"{self.user}{where} does not read {self.value} as {self.asked}, which is required for it: {self.why}"


def other_uses(solved: Solved) -> Iterator[OtherUse]:
    """Yield the uses whose sharding violates an annotation that is required for the value's users, in program order."""
    for value, (producer, _), uses in edges_of(solved.sites):
        for user_index, operand in uses:
            user = solved.sites[user_index]
            if not constrains_use(solved.sites[producer], user):
                continue
            for axis, decision in solved.decisions.items():
                state = decision.solution.labels[user_index].operands[operand]
                if not follows_annotation(solved.sites[producer], state, axis):
                    where = location_text(user.node.loc)
                    why = f"along {axis} it {state_text(state)}, which its rule or another requirement needs"
                    yield OtherUse(
                        f"%{value.name or '?'}", str(solved.sites[producer].user_sharding), user.node.op, why, where
                    )
