"""Find the states along one mesh axis that the annotations can reach, and the annotation each comes from.

Example, on x=4 with `%a : f32[64,32]` annotated [{}, {x}]:

    %a                                            dim 1, from the annotation
    %h = dot_general %a, %w : f32[32,96]          partial (sum): dim 1 of %a is the summed loop c
    %w                                            dim 0: the same loop c
    %y = negate %h                                partial (sum): negate is linear

An annotation seeds its value; every rule ties the dims that share a factor; a sharded reduction makes its
result partial and linear ops pass that on. An annotated partial value seeds the reductions that can make
it. The fixed point is a set, so it does not depend on the order of
traversal; origins go to the seed that is fewest ties away, in program order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from copy import copy

from meshgen.errors import bracketed, place_text
from meshgen.ir.graph import Value
from meshgen.ir.predicates import is_sharding_group, is_transfer, is_transfer_send
from meshgen.ops.classes import REGROUPING
from meshgen.ops.rules.rule import Pick, Rule
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import State, state_of

Origins = dict[State, str]
Steps = dict[tuple[Value, State], tuple[Value, State, Site]]  # the state before it, and the site that ties both
_SUBJECTS = {
    "input": "input",
    "output": "output",
    "manual_operand": "the manual computation's operand",
    "manual_result": "the manual computation's result",
}
Covered = Callable[[Site, int], bool]  # whether other axes already split a factor completely


def usable_factor(rule: Rule, dims: tuple[tuple[int, ...], ...], dim: int, site: Site, covered: Covered) -> int | None:
    """The factor that a split of `dim` falls on: the major-most one that is not split up by other axes."""
    for factor in dims[dim]:
        loop = rule.factors[factor]
        if (loop.size > 1 or loop.kind == "window") and not (len(dims[dim]) > 1 and covered(site, factor)):
            return factor if loop.kind != "whole" else None
    return None


def fits(rule: Rule, factor: int, size: int) -> bool:
    """Whether an axis of `size` may split the factor: evenly, or the factor is a dim of its own everywhere."""
    if rule.factors[factor].size % size == 0:
        return True
    return all(part == (factor,) for dims in (*rule.operands, *rule.results) for part in dims if factor in part)


def reach(sites: Sequence[Site], axis: str, size: int, covered: Covered) -> Reached:
    """The states of values that annotations reach along the axis, each with the annotation it comes from."""
    found = Reached(sites, axis, size, covered)
    found.seed()
    found.spread()
    return found


class Reached:
    """States spread from value to value over the ties of sites, those that were reached first before others.

    Attributes:
        table: per value the states, each with the annotation it comes from.
        steps: the tie over which each state was reached first; states that are annotated have none.
    """

    def __init__(self, sites: Sequence[Site], axis: str, size: int, covered: Covered) -> None:
        self.table: dict[Value, Origins] = {}
        self.steps: Steps = {}
        self._sites, self._axis, self._size = sites, axis, size
        self._ties = _Ties(size, covered)
        self._queue: deque[tuple[Value, State]] = deque()
        self._touching: dict[Value, list[Site]] = {}
        made = {value for site in sites for value in site.node.results}  # others are splats: nothing spreads over them
        for site in sites:
            for value in made.intersection(site.values):
                self._touching.setdefault(value, []).append(site)

    def with_offers(self, offers: Sequence[int]) -> Reached:
        """What is reached if the loops of sites, by number, are seeds too, in this order: of those that an earlier one reaches none."""
        found = copy(self)
        found.table = {value: dict(origins) for value, origins in self.table.items()}
        found.steps = dict(self.steps)
        found.offer(offers)
        return found

    def _add(self, value: Value, state: State, origin: str) -> None:
        if state not in (origins := self.table.setdefault(value, {})):
            origins[state] = origin
            self._queue.append((value, state))

    def seed(self) -> None:
        """Add what annotations say, and what the ops that make annotated values can read for it."""
        makers = {value: site for site in self._sites for value in site.node.results}
        for site in self._sites:
            for value, state, origin in seeds(site, self._axis):
                self._add(value, state, origin)
                for source, made in _sources(value, state, makers, self._size):
                    if made not in self.table.get(source, {}):
                        self.steps[source, made] = value, state, makers[value]
                    self._add(source, made, origin)

    def spread(self) -> None:
        """Follow the ties of all that was added."""
        table, steps = self.table, self.steps
        while self._queue:
            value, state = self._queue.popleft()
            for site in self._touching.get(value, ()):
                if site.manual and site.is_manual(self._axis):
                    continue
                for other, new in self._ties.of(site, value, state):
                    if not site.carries(value, other):
                        continue
                    if new not in table.get(other, {}):
                        steps[other, new] = value, state, site
                    self._add(other, new, table[value][state])

    def offer(self, offers: Sequence[int]) -> None:
        """Add the loops of sites that nothing has reached, one site after the other, and spread each."""
        annotated = {value: frozenset(states) for value, states in self.table.items()}
        for site in map(self._sites.__getitem__, offers):
            splits = [each for each in _offered(site, self._size) if each[1] not in annotated.get(each[0], ())]
            if all(state not in self.table.get(value, {}) for value, state in splits):
                for value, state in splits:
                    self._add(value, state, f"the work of '{site.node.op}'{bracketed(place_text(site.node.loc))}")
                self.spread()


def _offered(site: Site, size: int) -> list[tuple[Value, State]]:
    """The states of a site's values in which an axis of this size splits one of its loops."""
    loops = [number for number, loop in enumerate(site.rule.factors) if loop.kind in ("parallel", "indexed", "reduce")]
    return [each for number in loops if fits(site.rule, number, size) for each in _states_of_factor(site, number)]


def seeds(site: Site, axis: str) -> list[tuple[Value, State, str]]:
    """The states of a site's values along an axis that annotations or options ask for, each with that annotation as text."""
    found: list[tuple[Value, State, str]] = []
    if site.annotation and not is_sharding_group(site.node):  # its annotation is that of a member
        state = state_of(site.annotation.sharding, axis)
        strength = "required" if site.annotation.required else "hint"
        where = bracketed(place_text(site.annotation.loc))
        subject = f"{_SUBJECTS.get(site.node.op, 'value')} %{site.value.name or '?'}"
        if state is not None:
            asked = crossing_text(site) or f"{strength} annotation {site.asked} of {subject}{where}"
            found.append((site.value, state, asked))
    for factor, axes in enumerate(site.option or ()):
        if axis in axes:
            where = bracketed(place_text(site.node.loc))
            origin = f"sharding option of '{site.node.op}'{where}"
            found += [(value, state, origin) for value, state in _states_of_factor(site, factor)]
    return found


def crossing_text(site: Site) -> str:
    """The transfer that a hint from another mesh comes from, as text; empty for other annotations."""
    if not is_transfer(site.node):
        return ""
    channel, peer = site.node.attrs.channel, site.node.attrs.peer.name
    way = f"to @{peer}, which takes" if is_transfer_send(site.node) else f"from @{peer}, which has"
    return f"transfer {channel} {way} %{site.value.name or '?'} as {site.asked}"


def _sources(value: Value, state: State, makers: dict[Value, Site], size: int) -> list[tuple[Value, State]]:
    """The producers of a partial value: reductions of its kind that the axis splits, followed by ops linear in them."""
    found: list[tuple[Value, State]] = []
    pending = [value] if isinstance(state, str) else []
    for value in pending:  # grows
        if site := makers.get(value):
            for number, factor in enumerate(site.rule.factors):
                if factor.kind == "reduce" and factor.reduction == state and fits(site.rule, number, size):
                    found += _states_of_factor(site, number)
            linear = [site.node.operands[i] for way in site.rule.linear if state in way.kinds for i in way.operands]
            pending += [operand for operand in dict.fromkeys(linear) if operand not in pending]
    return found


def _states_of_factor(site: Site, factor: int) -> list[tuple[Value, State]]:
    """The states of the site's values when the factor is split."""
    rule = site.rule
    operands, results = rule.places(factor)
    found: list[tuple[Value, State]] = [
        (v, d) for v, d in zip(site.node.operands, operands, strict=True) if d is not None
    ]
    for value, dim in zip(site.node.results, results, strict=True):
        if rule.factors[factor].kind == "reduce":
            found.append((value, rule.factors[factor].reduction))
        elif dim is not None:
            found.append((value, dim))
    return found


class _Ties:
    """The states of a site's other values that follow from one value's state; found once for sites that are alike."""

    def __init__(self, size: int, covered: Covered) -> None:
        self.size, self.covered = size, covered
        self._known: dict[object, list[tuple[int, State]]] = {}

    def of(self, site: Site, value: Value, state: State) -> list[tuple[Value, State]]:
        values = site.values
        split = [self.covered(site, f) for f in range(len(site.rule.factors))] if site.is_joined else ()
        key = site.like, values.index(value), state, *split
        if (found := self._known.get(key)) is None:
            ties = _ties(site, value, state, self.size, self.covered)
            found = self._known[key] = [(values.index(other), new) for other, new in ties]
        return [(values[number], new) for number, new in found]


def _ties(site: Site, value: Value, state: State, size: int, covered: Covered) -> list[tuple[Value, State]]:
    """The states of the site's other values that follow from one value's state."""
    rule = site.rule
    found: list[tuple[Value, State]] = []
    for number, operand in enumerate(site.node.operands):
        if operand is not value:
            continue
        if isinstance(state, int):
            dims = rule.operands[number]
            found += _from_dim(site, dims, state, size, covered) or _largest_free_loop(site, dims, state, size, covered)
            found += [(site.node.result, pick.kind) for pick in picks_of(site, number, state, size)]
        elif isinstance(state, str) and any(number in way.operands and state in way.kinds for way in rule.linear):
            found += [(result, state) for result in site.node.results]
    for number, result in enumerate(site.node.results):
        if result is value and isinstance(state, int):
            found += _from_dim(site, rule.results[number], state, size, covered)
    return found


def _from_dim(
    site: Site, dims: tuple[tuple[int, ...], ...], dim: int, size: int, covered: Covered
) -> list[tuple[Value, State]]:
    factor = usable_factor(site.rule, dims, dim, site, covered)
    if factor is None or not fits(site.rule, factor, size):
        return []
    found = _states_of_factor(site, factor)
    return [(v, s) for v, s in found if _is_major(site, v, s, factor, covered) or _is_merged(site, v, s, size, covered)]


def _is_merged(site: Site, value: Value, state: State, size: int, covered: Covered) -> bool:
    """Whether a dim into which a reshape merges a split dim as a minor factor can be split by its first factor instead."""
    rule, node = site.rule, site.node
    if node.op not in REGROUPING or not isinstance(state, int):
        return False
    dims = rule.operands[0] if value is node.operands[0] else rule.results[0]
    major = usable_factor(rule, dims, state, site, covered)
    return major is not None and rule.factors[major].size % size == 0


def picks_of(site: Site, operand: int, dim: int, size: int) -> list[Pick]:
    """The windows over a split dim whose rows the devices may leave partial instead of moving them."""
    loops = site.rule.factors
    return [
        pick
        for pick in site.rule.picks
        if (pick.window.operand, pick.window.dim) == (operand, dim) and pick.pays(loops[pick.window.factor].size, size)
    ]


def _largest_free_loop(
    site: Site, dims: tuple[tuple[int, ...], ...], dim: int, size: int, covered: Covered
) -> list[tuple[Value, State]]:
    """If the op needs the whole of a split dim: the largest loop of the operand that can be split instead."""
    factors = site.rule.factors
    if not any(factors[f].kind == "whole" and factors[f].size > 1 for f in dims[dim]):
        return []
    free = [f for part in dims for f in part if factors[f].kind == "parallel" and factors[f].size % size == 0]
    if not free:
        return []
    best = max(free, key=lambda f: (factors[f].size, -f))
    return _from_dim(site, dims, next(d for d, part in enumerate(dims) if best in part), size, covered)


def _is_major(site: Site, value: Value, state: State, factor: int, covered: Covered) -> bool:
    """Whether a split of the factor is a split of the value's dim: all factors major to it are split completely."""
    if not isinstance(state, int):
        return True
    rule = site.rule
    maps = [
        m
        for v, m in zip([*site.node.operands, *site.node.results], [*rule.operands, *rule.results], strict=True)
        if v is value
    ]
    return all(usable_factor(rule, m, state, site, covered) == factor for m in maps if factor in m[state])
