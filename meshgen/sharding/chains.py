"""Why a value lies as it does: from its sharding back over the rules of operations to an annotation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from meshgen.errors import Location
from meshgen.ir.graph import Value
from meshgen.sharding.propagate import Decision, Solved
from meshgen.sharding.sites import Site
from meshgen.sharding.states import State


@dataclass(frozen=True)
class Tie:
    """One step: the rule of `op` ties what was asked about to `value`, which lies as `state` says."""

    value: str
    state: str
    op: str
    rule: str
    location: Location | None

    def __str__(self) -> str:
        where = f" ({self.location})" if self.location else ""
        rule = f" '{self.rule}'" if self.rule else ""
        return f"as {self.value} {self.state}, by {self.op}{rule}{where}"


@dataclass(frozen=True)
class Chain:
    """How an annotation reaches a value along one axis: nearest tie first."""

    axis: str
    state: str
    ties: tuple[Tie, ...]
    annotation: str

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"ties": [asdict(tie) for tie in self.ties]}

    def lines(self) -> list[str]:
        return [f"{self.axis} {self.state}", *(f"  {tie}" for tie in self.ties), f"  from {self.annotation}"]


class Reasons:
    """The chains of a solved program."""

    def __init__(self, solved: Solved) -> None:
        self._solved = solved
        self._makers = {
            value: (number, place)
            for number, site in enumerate(solved.sites)
            for place, value in enumerate(site.node.results)
        }

    def chains(self, value: Value) -> list[Chain]:
        """A chain per axis that the value is split or partial over where it is made."""
        if value not in self._makers:
            return []
        number, place = self._makers[value]
        site = self._solved.sites[number]
        states = ((a, d, d.solution.labels[number].results[place]) for a, d in self._solved.decisions.items())
        return [_chain(axis, decision, site, value, state) for axis, decision, state in states if state is not None]


def _chain(axis: str, decision: Decision, site: Site, value: Value, state: State) -> Chain:
    ties: list[Tie] = []
    what = _state(state)
    if state not in decision.origins.get(value, {}):  # its loop was reached over another value of the op
        value, state = _reached(decision, site) or (value, state)
        ties.append(_tie(value, state, site))
    while (value, state) in decision.steps and len(ties) < len(decision.steps):
        value, state, site = decision.steps[value, state]
        ties.append(_tie(value, state, site))
    annotation = decision.origins.get(value, {}).get(state, "no annotation: it moves the least")
    return Chain(axis, what, tuple(ties), annotation)


def _reached(decision: Decision, site: Site) -> tuple[Value, State] | None:
    for value in (*site.node.operands, *site.node.results):
        for state in decision.origins.get(value, {}):
            return value, state
    return None


def _tie(value: Value, state: State, site: Site) -> Tie:
    rule = "" if site.node.op in ("input", "output") else site.rule.notation()
    return Tie(f"%{value.name or '?'}", _state(state), site.node.op, rule, site.node.loc)


def _state(state: State) -> str:
    return f"splits dim {state}" if isinstance(state, int) else f"leaves it partial ({state})"
