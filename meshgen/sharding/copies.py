"""The copies of one value that its uses need, each in a sharding of its own, and how they are made from each other.

A copy is made right before its first use and shared by all uses that want the same. Where several are wanted,
they are made in the cheapest order: rows from columns is an all_to_all, but a slice if the value is gathered anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from meshgen.ccl.cost import COMMUNICATIONS, link_axes
from meshgen.errors import Location, place_text
from meshgen.ir.graph import Node, Value
from meshgen.mesh import Mesh, overlaps
from meshgen.sharding.reshard import ReshardPlan, Step, plan_reshard, same_layout
from meshgen.sharding.reshard_problem import Cost
from meshgen.spec import Sharding

_SUFFIXES = {"all_gather": "gathered", "all_reduce": "reduced", "reduce_scatter": "scattered", "all_slice": "sliced",
             "all_to_all": "exchanged", "permute": "permuted", "retile": "retiled", "update_halo": "widened", "to_partial": "partial"}  # fmt: skip
CostOf = Callable[[Sharding, Sharding], Cost]
_FEW = 3  # so many targets are ordered by trying all ways, more by always taking the cheapest next


@dataclass(frozen=True)
class Party:
    """One end of an edge, for people: an op, input or output, its place, and why it is sharded as it is."""

    text: str
    why: tuple[str, ...] = ()
    loc: Location | None = None

    def __str__(self) -> str:
        """With the place."""
        if self.loc is None:
            return self.text
        return f"{self.text} ({place_text(self.loc)})"


class Names:
    """New names that no value of the program has."""

    def __init__(self, taken: Sequence[str]) -> None:
        self._counts = dict.fromkeys(taken, 0)

    def fresh(self, base: str, suffix: str) -> str:
        """`base_suffix`, with a count where it is taken; `v4_suffix` of a number; none of no name."""
        if not base:
            return ""
        base = f"v{base}" if base[0].isdecimal() else base
        name = f"{base}_{suffix}"
        while name in self._counts:
            self._counts[f"{base}_{suffix}"] += 1
            name = f"{base}_{suffix}_{self._counts[f'{base}_{suffix}']}"
        self._counts[name] = 0
        return name


@dataclass(eq=False)
class Copies:
    """A value with the copies made of it so far.

    Attributes:
        value: the value as it is produced; `value.sharding` says how it lies.
        producer: who makes it.
        nodes: program order so far of the graph that it belongs to; copies are appended there, so a copy that a
            loop's body needs is made once, before the loop.
        wanted: shardings that its uses need, in order of first use.
    """

    value: Value
    producer: Party
    nodes: list[Node]
    wanted: list[Sharding]
    mesh: Mesh
    names: Names
    made: list[Value] = field(default_factory=list)
    parents: dict[Sharding, Sharding] | None = None

    def __post_init__(self) -> None:
        self.made.append(self.value)

    def get(self, target: Sharding, user: Party) -> Value:
        """The copy with a sharding; the steps to make it are appended where it is new."""
        if found := self._find(target):
            return found
        if self.parents is None:
            self.parents = self._order()
        start = self.parents.get(target, _lies(self.value))
        if start != _lies(self.value):
            self.get(start, user)
        plans = [(plan_reshard(self.value.type, _lies(v), target, self.mesh), v) for v in self.made]
        plan, origin = min(plans, key=lambda pair: pair[0].cost)  # the first of equal ones
        return self._append(plan, origin, user)

    def _find(self, target: Sharding) -> Value | None:
        return next((v for v in self.made if same_layout(_lies(v), target, self.value.type, self.mesh)), None)

    def _order(self) -> dict[Sharding, Sharding]:
        produced = _lies(self.value)
        targets: list[Sharding] = []
        for target in self.wanted:
            known = (produced, *targets)
            if not any(same_layout(target, other, self.value.type, self.mesh) for other in known):
                targets.append(target)

        def cost(source: Sharding, target: Sharding) -> Cost:
            return plan_reshard(self.value.type, source, target, self.mesh).cost

        return make_order(produced, targets, cost)

    def _append(self, plan: ReshardPlan, origin: Value, user: Party) -> Value:
        for number, step in enumerate(plan.steps):
            loc = user.loc or self.producer.loc
            result = Value(self.value.type, self.names.fresh(self.value.name, _SUFFIXES[step.op]), step.sharding, loc)
            attrs = {**step.attrs, "why": self._why(step, plan, number, user)}
            self.nodes.append(Node(step.op, [origin], [result], attrs, loc))
            self.made.append(result)
            origin = result
        return origin

    def _why(self, step: Step, plan: ReshardPlan, number: int, user: Party) -> str:
        """Edge, shardings, which step of how many, and what propagation noted on the axes that are moved."""
        count = f" (step {number + 1} of {len(plan.steps)})" if len(plan.steps) > 1 else ""
        text = f"{self.producer} gives {plan.source}, {user} needs {plan.target}{count}"
        axes = link_axes(step.op, step.attrs, self.mesh) if step.op in COMMUNICATIONS else tuple(step.attrs["axes"])
        ends = ((end, line) for end in (self.producer, user) for line in end.why)
        notes = [f"{end.text}: {line}" for end, line in ends if any(overlaps(line.split(" ")[0], a) for a in axes)]
        return "; ".join([text, *dict.fromkeys(notes)])


def _lies(value: Value) -> Sharding:
    assert value.sharding is not None, "values that copies are made of have a sharding"
    return value.sharding


def make_order(produced: Sharding, targets: list[Sharding], cost: CostOf) -> dict[Sharding, Sharding]:
    """For each target the sharding to make it from, so that the sum of the costs is least."""
    if len(targets) > _FEW:
        return _cheapest_next(produced, targets, cost)
    table = {(a, b): cost(a, b) for a in (produced, *targets) for b in targets if a != b} if len(targets) > 1 else {}
    choices = [[produced, *(other for other in targets if other != target)] for target in targets]
    trees = [dict(zip(targets, picked, strict=True)) for picked in itertools.product(*choices)]
    rooted = [tree for tree in trees if all(_leads_home(target, tree, produced) for target in targets)]
    if len(rooted) == 1:
        return rooted[0]
    return min(rooted, key=lambda tree: tuple(map(sum, zip(*(table[a, b] for b, a in tree.items()), strict=True))))


def _leads_home(target: Sharding, tree: dict[Sharding, Sharding], produced: Sharding) -> bool:
    for _ in tree:
        target = tree[target]
        if target == produced:
            return True
    return False


def _cheapest_next(produced: Sharding, targets: list[Sharding], cost: CostOf) -> dict[Sharding, Sharding]:
    tree: dict[Sharding, Sharding] = {}
    left = list(targets)
    while left:
        pairs = [(cost(source, target), source, target) for target in left for source in (produced, *tree)]
        _, source, target = min(pairs, key=lambda entry: entry[0])
        tree[target] = source
        left.remove(target)
    return tree
