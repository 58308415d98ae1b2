"""Trace a value's sharding back through the sharding rules to an annotation; the result is one chain per mesh axis.

Example, on x=4 with `%a : f32[64,32]` annotated, the chain of `%y = tanh (dot_general %a, %w)`:

    x splits dim 0
      as %h splits dim 0, by tanh 'a b -> a b'
      as %a splits dim 0, by dot_general 'a c, c b -> a b reduce(c: sum)'
      from required annotation [{x}, {}] of input %a

A chain follows the chosen states: every value on it has the state that the chain names. If a choice can only be traced
to a hint that was overridden on the way, the chain follows the states that annotations could reach, and names the
chosen state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.errors import Location, bracketed, location_text
from meshgen.ir.graph import Value
from meshgen.sharding.propagation.axes import Decision
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.pseudo_ops import TIES
from meshgen.sharding.propagation.reach import seeds
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.propagation.states import State, state_of

Face = tuple[Value, State]  # a value and its state, at a site that produces or uses it
SHOWN_TIES = 6  # links per chain in texts, chosen to fit on a screen; a longer chain is printed without its middle.


@dataclass(frozen=True)
class Tie:
    """One step of a chain. By the rule of `op`, the state of `value` determines the state of the previous value."""

    value: str
    state: str
    op: str
    rule: str
    location: Location | None

    def __str__(self) -> str:
        where = bracketed(location_text(self.location))
        rule = f" '{self.rule}'" if self.rule else ""
        return f"as {self.value} {self.state}, by {TIES.get(self.op, self.op)}{rule}{where}"


@dataclass(frozen=True)
class Chain:
    """The reason for a value's state along one axis: the ties from the value back to an annotation, nearest first."""

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
    """Explains the shardings of a solved program by chains."""

    def __init__(self, solved: Solved) -> None:
        self._solved = solved
        self._producers = {
            value: (index, result)
            for index, site in enumerate(solved.sites)
            for result, value in enumerate(site.node.results)
        }
        self._predecessors = {axis: _predecessors(solved.sites, d, axis) for axis, d in solved.decisions.items()}
        self._by_id = {value.id: value for value in self._producers}

    def same(self, value: Value) -> Value | None:
        """Return the value of the solved program that became `value` at a later stage, or None if there is none."""
        return self._by_id.get(value.id)

    def chains(self, value: Value) -> list[Chain]:
        """Return a chain per axis along which the value is split or partial at its producer."""
        states = self.states(value)
        chains = [self._chain(axis, value, state) for axis, state in states.items() if state is not None]
        return chains + self._of_single_devices(value)

    def note(self, value: Value) -> str:
        """Return an explanation for a value that needed no decision, or an empty string for other values."""
        return (
            ""
            if value in self._producers
            else "it is one number everywhere: each device computes the shards that its uses read"
        )

    def states(self, value: Value) -> dict[str, State]:
        """Return the state of the value along each axis, at its producer."""
        if value not in self._producers:
            return {}
        index, result = self._producers[value]
        return {a: d.solution.labels[index].results[result] for a, d in self._solved.decisions.items()}

    def whole(self, value: Value) -> dict[str, str]:
        """Return, for each axis along which the value is replicated, why it is replicated."""
        states = self.states(value)
        return {axis: self._whole(axis, value) for axis, state in states.items() if state is None}

    def _chain(self, axis: str, value: Value, state: State) -> Chain:
        index, _ = self._producers[value]
        decision, chosen_text = self._solved.decisions[axis], state_text(state)
        followed = _followed((value, state), self._predecessors[axis])
        if followed is not None:
            return Chain(axis, chosen_text, tuple(self._tie(face, site) for face, site in followed[0]), followed[1])
        ties: list[Tie] = []
        site = self._solved.sites[index]
        # No annotation reaches this state of the value. Start from a state of another value of the op that annotations
        # reach:
        if state not in decision.origins.get(value, {}):
            values = dict.fromkeys([*site.node.operands, *site.node.results])
            # preferably a state under the chosen label, else any state that annotations reach.
            reached = [(v, s) for v in values for s in decision.origins.get(v, {})]
            value, state = next(
                (f for f in _sharded_values(site, decision.solution.labels[index]) if f in reached), reached[0]
            )
            ties.append(self._tie((value, state), site, axis))
        while (value, state) in decision.steps and len(ties) < len(decision.steps):
            value, state, site = decision.steps[value, state]
            ties.append(self._tie((value, state), site, axis))
        return Chain(axis, chosen_text, tuple(ties), decision.origins[value][state])

    def _tie(self, face: Face, site: Site, axis: str = "") -> Tie:
        """Return the step of a chain at `site`. With an `axis`, the text also names the chosen state if it differs from
        the step's.
        """
        value, state = face
        rule = "" if site.node.op in TIES else site.rule.notation()
        text = state_text(state)
        if axis and (chosen_state := self.states(value).get(axis)) != state:
            text = f"could be in a state that {text} (the chosen one {state_text(chosen_state)})"
        return Tie(self.name(value), text, site.node.op, rule, site.node.loc)

    def name(self, value: Value) -> str:
        """Return the name of a value for texts that users read."""
        if value.name or value not in self._producers:
            return f"%{value.name or '?'}"
        return f"the result of {self._solved.sites[self._producers[value][0]].node.op}"

    def _of_single_devices(self, value: Value) -> list[Chain]:
        """Return the chains of axes of size 1: they split nothing but stay in the annotation as the user wrote it."""
        if value not in self._producers:
            return []
        site = self._solved.sites[self._producers[value][0]]
        annotated_axes = site.user_sharding.used_axes if site.user_sharding else ()
        mesh = self._solved.module.mesh
        return [
            Chain(
                axis,
                "splits nothing: it has one device",
                (),
                f"annotation {site.user_sharding} of {self.name(value)}{_place(site)}",
            )
            for axis in annotated_axes
            if mesh.axis_size(axis) == 1
        ]

    def _whole(self, axis: str, value: Value) -> str:
        """Explain why a value is replicated along an axis.

        Either its annotation says so, or no annotation reaches it, or every alternative costs more.
        """
        index, result = self._producers[value]
        decision, site = self._solved.decisions[axis], self._solved.sites[index]
        if site.annotation and site.annotation.required and state_of(site.annotation.sharding, axis) is None:
            return f"required annotation {site.user_sharding} of {self.name(value)}{_place(site)} leaves {axis} out"
        offers = {state: origin for state, origin in decision.origins.get(value, {}).items() if state is not None}
        if not offers:
            return f"no annotation reaches this value along {axis}"
        state, origin = next(iter(offers.items()))
        alternative = f"an alternative {state_text(state)}, from {origin}"
        labels = decision.problem.labels[index]
        if all(label.results[result] not in offers for label in labels):
            return f"{alternative}, but '{site.node.op}' cannot be split that way over {decision.problem.link.size} devices"
        return f"{alternative}, but is estimated to take longer"


def _place(site: Site) -> str:
    loc = (site.annotation and site.annotation.loc) or site.node.loc
    return bracketed(location_text(loc))


def state_text(state: State) -> str:
    """Return a state as a verb phrase, such as "splits dim 0"."""
    if state is None:
        return "is whole"
    return f"splits dim {state}" if isinstance(state, int) else f"is partial ({state})"


def _sharded_values(site: Site, label: Label) -> list[Face]:
    """Return the values of a site that are split or partial under `label`, each with its state."""
    pairs = [*zip(site.node.operands, label.operands, strict=True), *zip(site.node.results, label.results, strict=True)]
    return [(value, state) for value, state in pairs if state is not None]


def _predecessors(sites: Sequence[Site], decision: Decision, axis: str) -> dict[Face, tuple[Face, Site] | str]:
    """Return for each (value, state) of the solution its predecessor and the site that ties both, or its annotation."""
    touching: dict[Face, list[int]] = {}
    faces = [_sharded_values(site, label) for site, label in zip(sites, decision.solution.labels, strict=True)]
    for index, site_faces in enumerate(faces):
        for face in dict.fromkeys(site_faces):
            touching.setdefault(face, []).append(index)
    predecessors: dict[Face, tuple[Face, Site] | str] = {}
    for index, site in enumerate(sites):
        for value, state, origin in seeds(site, axis):
            if (value, state) in faces[index]:
                predecessors.setdefault((value, state), origin)
    queue, visited = deque(predecessors), set[int]()
    while queue:
        face = queue.popleft()
        for index in touching[face]:
            if index in visited:
                continue
            visited.add(index)
            for other in faces[index]:
                if other not in predecessors and sites[index].carries(face[0], other[0]):
                    predecessors[other] = face, sites[index]
                    queue.append(other)
    return predecessors


def _followed(
    face: Face, predecessors: dict[Face, tuple[Face, Site] | str]
) -> tuple[list[tuple[Face, Site]], str] | None:
    """Return the ties from a value's state to an annotation, and the annotation as text.

    Returns None if the chosen states lead to no annotation.
    """
    ties: list[tuple[Face, Site]] = []
    while face in predecessors:
        predecessor = predecessors[face]
        if isinstance(predecessor, str):
            return ties, predecessor
        ties.append(predecessor)
        face = predecessor[0]
    return None
