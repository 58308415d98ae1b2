"""Trace a value's sharding back over the rules of operations to an annotation: its chain, one per mesh axis.

Example, on x=4 with `%a : f32[64,32]` annotated, the chain of `%y = tanh (dot_general %a, %w)`:

    x splits dim 0
      as %h splits dim 0, by tanh 'a b -> a b'
      as %a splits dim 0, by dot_general 'a c, c b -> a b reduce(c: sum)'
      from required annotation [{x}, {}] of input %a

A chain follows the chosen states: every value on it has the state that the chain says. If a choice can only be traced to
a hint that lost on the way, the chain follows the states that annotations could reach, and says which state was chosen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.errors import Location, bracketed, place_text
from meshgen.ir.graph import Value
from meshgen.sharding.propagation.axes import Decision
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.pseudo_ops import TIES
from meshgen.sharding.propagation.reach import seeds
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.propagation.states import State, state_of

Face = tuple[Value, State]  # a value in a state at a site that makes or uses it
SHOWN_TIES = 6  # of a chain in text; a longer one is shown without its middle


@dataclass(frozen=True)
class Tie:
    """One step of a chain: the rule of `op` ties the value before it to `value`, which has `state`."""

    value: str
    state: str
    op: str
    rule: str
    location: Location | None

    def __str__(self) -> str:
        where = bracketed(place_text(self.location))
        rule = f" '{self.rule}'" if self.rule else ""
        return f"as {self.value} {self.state}, by {TIES.get(self.op, self.op)}{rule}{where}"


@dataclass(frozen=True)
class Chain:
    """The ties over which an annotation reaches a value along one axis, nearest first."""

    axis: str
    state: str
    ties: tuple[Tie, ...]
    annotation: str

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"ties": [asdict(tie) for tie in self.ties]}

    def lines(self) -> list[str]:
        ties = [str(tie) for tie in self.ties]
        if len(ties) > SHOWN_TIES:
            ties[4:-1] = [f"... {len(ties) - 5} more ties ..."]
        head = f"{self.axis}{'' if self.state.startswith('splits') else ': it'} {self.state}"
        return [head, *(f"  {tie}" for tie in ties), f"  from {self.annotation}"]


class Reasons:
    """The chains of a solved program."""

    def __init__(self, solved: Solved) -> None:
        self._solved = solved
        self._makers = {
            value: (number, place)
            for number, site in enumerate(solved.sites)
            for place, value in enumerate(site.node.results)
        }
        self._ways = {axis: _ways(solved.sites, d, axis) for axis, d in solved.decisions.items()}
        self._by_id = {value.id: value for value in self._makers}

    def same(self, value: Value) -> Value | None:
        """The value of the solved program that became this one at a later stage; None if it has none."""
        return self._by_id.get(value.id)

    def chains(self, value: Value) -> list[Chain]:
        """A chain per axis that the value is split or partial over where it is made."""
        states = self.states(value)
        found = [self._chain(axis, value, state) for axis, state in states.items() if state is not None]
        return found + self._of_single_devices(value)

    def note(self, value: Value) -> str:
        """What there is to say of a value that needed no decision; empty for others."""
        return "" if value in self._makers else "it is one number everywhere: each device makes what its uses read"

    def states(self, value: Value) -> dict[str, State]:
        """The state of the value along each axis where it is made."""
        if value not in self._makers:
            return {}
        number, place = self._makers[value]
        return {a: d.solution.labels[number].results[place] for a, d in self._solved.decisions.items()}

    def whole(self, value: Value) -> dict[str, str]:
        """Why the value is whole along each other axis."""
        states = self.states(value)
        return {axis: self._whole(axis, value) for axis, state in states.items() if state is None}

    def _chain(self, axis: str, value: Value, state: State) -> Chain:
        number, _ = self._makers[value]
        decision, what = self._solved.decisions[axis], state_text(state)
        kept = _followed((value, state), self._ways[axis])
        if kept is not None:
            return Chain(axis, what, tuple(self._tie(face, site) for face, site in kept[0]), kept[1])
        ties: list[Tie] = []
        site = self._solved.sites[number]
        if state not in decision.origins.get(value, {}):  # its loop was reached over another value of the op,
            values = dict.fromkeys([*site.node.operands, *site.node.results])
            reached = [(v, s) for v in values for s in decision.origins.get(v, {})]  # or replaces one that was
            value, state = next((f for f in _faces(site, decision.solution.labels[number]) if f in reached), reached[0])
            ties.append(self._tie((value, state), site, axis))
        while (value, state) in decision.steps and len(ties) < len(decision.steps):
            value, state, site = decision.steps[value, state]
            ties.append(self._tie((value, state), site, axis))
        return Chain(axis, what, tuple(ties), decision.origins[value][state])

    def _tie(self, face: Face, site: Site, axis: str = "") -> Tie:
        """A step; with an axis, the text also has the chosen state if it is another one."""
        value, state = face
        rule = "" if site.node.op in TIES else site.rule.notation()
        text = state_text(state)
        if axis and (ended := self.states(value).get(axis)) != state:
            text = f"could be in a state that {text} (the chosen one {state_text(ended)})"
        return Tie(self.name(value), text, site.node.op, rule, site.node.loc)

    def name(self, value: Value) -> str:
        """A value's name in texts for the user."""
        if value.name or value not in self._makers:
            return f"%{value.name or '?'}"
        return f"the result of {self._solved.sites[self._makers[value][0]].node.op}"

    def _of_single_devices(self, value: Value) -> list[Chain]:
        """Chains of axes of size 1, which split nothing but are kept where the user wrote them."""
        if value not in self._makers:
            return []
        site = self._solved.sites[self._makers[value][0]]
        asked = site.asked.used_axes if site.asked else ()
        mesh = self._solved.module.mesh
        return [
            Chain(
                axis,
                "splits nothing: it has one device",
                (),
                f"annotation {site.asked} of {self.name(value)}{_place(site)}",
            )
            for axis in asked
            if mesh.axis_size(axis) == 1
        ]

    def _whole(self, axis: str, value: Value) -> str:
        """Why a value is whole along an axis: it is annotated so, no annotation reaches it, or every alternative costs more."""
        number, place = self._makers[value]
        decision, site = self._solved.decisions[axis], self._solved.sites[number]
        if site.annotation and site.annotation.required and state_of(site.annotation.sharding, axis) is None:
            return f"required annotation {site.asked} of {self.name(value)}{_place(site)} leaves {axis} out"
        offers = {state: origin for state, origin in decision.origins.get(value, {}).items() if state is not None}
        if not offers:
            return f"no annotation reaches this value along {axis}"
        state, origin = next(iter(offers.items()))
        could = f"an alternative {state_text(state)}, from {origin}"
        labels = decision.problem.labels[number]
        if all(label.results[place] not in offers for label in labels):
            return f"{could}, but '{site.node.op}' cannot be split that way over {decision.problem.link.size} devices"
        return f"{could}, but is estimated to take longer"


def _place(site: Site) -> str:
    loc = (site.annotation and site.annotation.loc) or site.node.loc
    return bracketed(place_text(loc))


def state_text(state: State) -> str:
    """A state as a verb phrase."""
    if state is None:
        return "is whole"
    return f"splits dim {state}" if isinstance(state, int) else f"is partial ({state})"


def _faces(site: Site, label: Label) -> list[Face]:
    """The values of a site that are split or partial, as the label says."""
    pairs = [*zip(site.node.operands, label.operands, strict=True), *zip(site.node.results, label.results, strict=True)]
    return [(value, state) for value, state in pairs if state is not None]


def _ways(sites: Sequence[Site], decision: Decision, axis: str) -> dict[Face, tuple[Face, Site] | str]:
    """For each face of the solution the face before it and the site that ties both, or the annotation."""
    touching: dict[Face, list[int]] = {}
    faces = [_faces(site, label) for site, label in zip(sites, decision.solution.labels, strict=True)]
    for number, mine in enumerate(faces):
        for face in dict.fromkeys(mine):
            touching.setdefault(face, []).append(number)
    found: dict[Face, tuple[Face, Site] | str] = {}
    for number, site in enumerate(sites):
        for value, state, origin in seeds(site, axis):
            if (value, state) in faces[number]:
                found.setdefault((value, state), origin)
    queue, seen = deque(found), set[int]()
    while queue:
        face = queue.popleft()
        for number in touching[face]:
            if number in seen:
                continue
            seen.add(number)
            for other in faces[number]:
                if other not in found and sites[number].carries(face[0], other[0]):
                    found[other] = face, sites[number]
                    queue.append(other)
    return found


def _followed(face: Face, ways: dict[Face, tuple[Face, Site] | str]) -> tuple[list[tuple[Face, Site]], str] | None:
    """The ties from a face to its annotation; None if the chosen states lead to none."""
    ties: list[tuple[Face, Site]] = []
    while face in ways:
        way = ways[face]
        if isinstance(way, str):
            return ties, way
        ties.append(way)
        face = way[0]
    return None
