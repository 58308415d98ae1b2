"""Reshard a value to all shardings that its uses need, in the cheapest order.

A copy is made right before its first use and shared by all uses that need the same sharding. A copy may be made from
another copy if that is cheaper. For example, resharding from columns to rows takes an all_to_all, but only a local
slice if a gathered copy exists anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshgen.ccl.cost import link_axes
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Node, Value
from meshgen.ir.notes import Notes
from meshgen.mesh import Mesh
from meshgen.ops.classes import COMMUNICATING
from meshgen.sharding.collective_reasons import Party, reshard_reason
from meshgen.sharding.reshard.plan import ReshardPlan, Step, plan_reshard, same_layout
from meshgen.sharding.reshard.problem import Cost
from meshgen.spec import Sharding

_SUFFIXES = {"all_gather": "gathered", "all_reduce": "reduced", "reduce_scatter": "scattered", "all_slice": "sliced",
             "all_to_all": "exchanged", "permute": "permuted", "retile": "retiled", "update_halo": "widened", "to_partial": "partial"}  # fmt: skip
CostOf = Callable[[Sharding, Sharding], Cost]


# Characters (chosen). A name with longer suffixes starts again from the original base.
_LONG_SUFFIX = 60


class Names:
    """Generates unused names for values, and numbers for the edges from a value to its reshards."""

    def __init__(self, taken: Sequence[str]) -> None:
        self._counts = dict.fromkeys(taken, 0)
        self._origins: dict[str, str] = {}  # generated name -> the original name
        self.edges = itertools.count()

    def fresh(self, base: str, suffix: str) -> str:
        """Return `base_suffix`, with a counter if that name is taken already.

        A numeric base such as 4 gives `v4_suffix`; an empty base gives an empty name. A copy of a copy is named after
        the original value, so that names do not grow with the program.
        """
        if not base:
            return ""
        base = f"v{base}" if base[0].isdecimal() else base
        origin = self._origins.get(base, base)
        base = origin if len(base) > len(origin) + _LONG_SUFFIX else base
        name = f"{base}_{suffix}"
        while name in self._counts:
            self._counts[f"{base}_{suffix}"] += 1
            name = f"{base}_{suffix}_{self._counts[f'{base}_{suffix}']}"
        self._counts[name] = 0
        self._origins[name] = origin
        return name


@dataclass(eq=False)
class _Link:
    """Step `number` of `plan`, on the path from a value to one of its copies.

    `origin` is the link whose copy this step starts from, or None if the step starts from the value itself. All steps
    of the plan have the same edge number `edge`.
    """

    origin: _Link | None
    plan: ReshardPlan
    number: int
    edge: int
    copy: Value | None = None

    @property
    def step(self) -> Step:
        return self.plan.steps[self.number]


@dataclass(eq=False)
class Copies:
    """A value with the copies that its uses need.

    The copies are planned together, so the plan does not depend on which use comes first. A step is written when the
    first use needs it.

    Attributes:
        value: the value as its producer computes it. `value.sharding` is the sharding that the producer gives it.
        producer: the producer, as text for reasons.
        nodes: the nodes of the value's graph so far, in program order. Copies are appended here, so a copy that a loop
            body needs is made once, before the loop.
        use_shardings: the shardings that the uses need, in canonical order of the uses.
    """

    value: Value
    producer: Party
    nodes: list[Node]
    use_shardings: list[Sharding]
    mesh: Mesh
    names: Names
    links: list[_Link] | None = None

    def get(self, target: Sharding, user: Party) -> Value:
        """Return the copy with sharding `target`. Appends the reshards that compute the copy if they are not written
        yet.
        """
        if self._is_same(target, _sharding_of(self.value)):
            return self.value
        if self.links is None:
            self.links = []
            for planned in self._order():
                self._find(planned)
        return self._written(self._find(target), user)

    def _is_same(self, left: Sharding, right: Sharding) -> bool:
        return same_layout(left, right, self.value.type, self.mesh)

    def _find(self, target: Sharding) -> _Link:
        """Return the last step on the path to the copy with sharding `target`.

        If no planned path ends there, add the cheapest plan that starts at the value or at any planned step.
        """
        assert self.links is not None, "set by get"
        for link in self.links:
            if self._is_same(link.step.sharding, target):
                return link
        starts: list[tuple[Sharding, _Link | None]] = [
            (_sharding_of(self.value), None),
            *((link.step.sharding, link) for link in self.links),
        ]
        plans = [(plan_reshard(self.value.type, start, target, self.mesh), link) for start, link in starts]
        # min() returns the first of several plans with equal cost
        plan, origin = min(plans, key=lambda pair: pair[0].cost)
        edge = next(self.names.edges)
        for index in range(len(plan.steps)):
            origin = _Link(origin, plan, index, edge)
            self.links.append(origin)
        assert origin is not None, "another layout takes a step"
        return origin

    def _order(self) -> list[Sharding]:
        """Return the needed shardings in the order in which to compute their copies: each after its cheapest source."""
        produced = _sharding_of(self.value)
        targets: list[Sharding] = []
        for target in self.use_shardings:
            if not any(self._is_same(target, other) for other in (produced, *targets)):
                targets.append(target)

        def cost(source: Sharding, target: Sharding) -> Cost:
            return plan_reshard(self.value.type, source, target, self.mesh).cost

        parents, order = make_order(produced, targets, cost), list[Sharding]()
        while len(order) < len(targets):
            order += [t for t in targets if t not in order and parents[t] in (produced, *order)]
        return order

    def _written(self, link: _Link, user: Party) -> Value:
        """Return the copy that the step `link` computes. Writes the step and the steps before it, unless they exist
        already.
        """
        new = [link]
        while new[-1].copy is None and new[-1].origin:
            new.append(new[-1].origin)
        value = self.value
        for step in reversed(new):
            value = step.copy = step.copy or self._write(step, value, user)
        return value

    def _write(self, link: _Link, origin: Value, user: Party) -> Value:
        step, loc = link.step, user.loc or self.producer.loc
        copy = Value(self.value.type, self.names.fresh(self.value.name, _SUFFIXES[step.op]), step.sharding, loc)
        axes = link_axes(step.op, step.attrs, self.mesh) if step.op in COMMUNICATING else tuple(step.attrs["axes"])
        notes = Notes(reshard_reason(self.producer, user, link.plan, link.number, axes), (link.edge,))
        self.nodes.append(Node(step.op, [origin], [copy], dict(step.attrs), loc, notes=notes))
        return copy


def _sharding_of(value: Value) -> Sharding:
    assert value.sharding is not None, "values that copies are made of have a sharding"
    return value.sharding


def make_order(produced: Sharding, targets: list[Sharding], cost: CostOf) -> dict[Sharding, Sharding]:
    """Return, for each sharding in `targets`, the sharding to reshard from: `produced`, or another target.

    The sum of the costs is minimal, except that the search is greedy if there are more than
    `DEFAULT.search.all_orders_of_copies` targets.
    """
    if len(targets) > DEFAULT.search.all_orders_of_copies:
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
