"""What became of the annotations inside a program: whether their values are made, and read, with the annotated sharding.

Propagation and materialisation keep what is required exactly. Optimisation may find that no device reads more of such a value
than its own part: then the collective that made it, and the slice after it, are dropped. Each such annotation is named, hints too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshgen.errors import bracketed, place_text
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import all_values, used_values
from meshgen.ops.live import without_dead
from meshgen.reports.interface import Compiled
from meshgen.sharding.materialize import annotations_of
from meshgen.sharding.propagation.chains import state_text
from meshgen.sharding.propagation.joints import edges_of
from meshgen.sharding.propagation.labels import asks_use, is_as_asked
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.reshard.plan import same_layout


@dataclass(frozen=True)
class Unmade:
    """An annotation that no value of the optimised program follows, and why."""

    value: str  # with `%`; `%?` where it has no name
    asked: str
    required: bool
    why: str
    location: str

    def __str__(self) -> str:
        where = bracketed(self.location)
        kind = "required annotation" if self.required else "hint"
        return f"{kind} {self.asked} of {self.value}{where}: {self.why}"


def unmade(executable: Compiled) -> list[Unmade]:
    """The annotations inside the program of one mesh that propagation granted but no value of the optimised program follows."""
    return [_unmade(node, why) for _, node, why in _missing(executable)]


def unmade_values(executable: Compiled, planned: Graph) -> dict[Value, str]:
    """The annotated values of the propagated program that are not made with that sharding, each with a message."""
    nodes = list(annotations_of(planned))
    return {nodes[number].result: str(_unmade(node, why)) for number, node, why in _missing(executable)}


def _missing(executable: Compiled) -> Iterator[tuple[int, Node, str]]:
    if "propagate" not in executable.stages or "partition" not in executable.stages:
        return
    planned = executable.stages["propagate"].graph
    made = {number for value in all_values(executable.stages["partition"].graph) for number in value.granted}
    used = set(used_values(without_dead(planned)))
    for number, node in enumerate(annotations_of(planned)):
        if number not in made and _is_granted(node, executable):
            yield number, node, _CUT if node.result in used else "nothing uses the value"


_CUT = (
    "no device needs the value with this sharding: its users work on parts of it, or read it as it was made "
    "(an annotation for users, as_result=False, has them read it so)"
)


def _is_granted(node: Node, executable: Compiled) -> bool:
    """Whether propagation followed an annotation; hints that lost there are reported with what they would cost."""
    asked, granted = node.attrs.sharding, node.sharding
    assert granted is not None, "every node has a sharding after propagation"
    return node.attrs.required or (
        asked.rank == node.result.type.rank
        and same_layout(asked, granted.results[0], node.result.type, executable.mesh)
    )


def _unmade(node: Node, why: str) -> Unmade:
    assert node.sharding is not None, "every node has a sharding after propagation"
    name, where = node.result.name or node.operands[0].name or "?", place_text(node.loc)
    return Unmade(f"%{name}", str(node.sharding.results[0]), node.attrs.required, why, where)


@dataclass(frozen=True)
class OtherUse:
    """A use that does not read a value with the sharding required for its users: requirements contradict each other there."""

    value: str
    asked: str
    user: str
    why: str
    location: str

    def __str__(self) -> str:
        where = bracketed(self.location)
        return f"{self.user}{where} does not read {self.value} as {self.asked}, which is required for it: {self.why}"


def other_uses(solved: Solved) -> Iterator[OtherUse]:
    """The uses that contradict a required annotation for them, in program order."""
    for value, (maker, _), uses in edges_of(solved.sites):
        for number, operand in uses:
            user = solved.sites[number]
            if not asks_use(solved.sites[maker], user):
                continue
            for axis, decision in solved.decisions.items():
                state = decision.solution.labels[number].operands[operand]
                if not is_as_asked(solved.sites[maker], state, axis):
                    where = place_text(user.node.loc)
                    why = f"along {axis} it {state_text(state)}, which its rule or another requirement needs"
                    yield OtherUse(f"%{value.name or '?'}", str(solved.sites[maker].asked), user.node.op, why, where)
