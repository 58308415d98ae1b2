"""Find the states along one mesh axis that annotations can reach, and the annotation that each state comes from.

Example, on x=4 with `%a : f32[64,32]` annotated [{}, {x}]:

    %a                                            dim 1, from the annotation
    %h = dot_general %a, %w : f32[32,96]          partial (sum): dim 1 of %a is the summed loop c
    %w                                            dim 0: the same loop c
    %y = negate %h                                partial (sum): negate is linear

An annotation seeds its value. Every sharding rule ties the dims that share a factor. A sharded reduction makes its
result partial, and linear ops pass that on. An annotated partial value seeds the reductions that can produce it. The
fixed point is a set, so it does not depend on the order of traversal. The origin of a state is the seed that is the
fewest ties away; program order breaks ties.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from copy import copy

from meshgen.errors import bracketed, location_text
from meshgen.ir.graph import Value
from meshgen.ir.predicates import is_sharding_group, is_transfer, is_transfer_send
from meshgen.ops.classes import REGROUPING
from meshgen.ops.rules.rule import Pick, Rule
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.states import State, state_of

Origins = dict[State, str]
# (value, state) -> the previous value and its state, and the site that ties both
Steps = dict[tuple[Value, State], tuple[Value, State, Site]]
_SUBJECTS = {
    "input": "input",
    "output": "output",
    "manual_operand": "the manual computation's operand",
    "manual_result": "the manual computation's result",
}
# predicate on (site, factor): whether other axes already split the factor completely
Covered = Callable[[Site, int], bool]


def usable_factor(rule: Rule, dims: tuple[tuple[int, ...], ...], dim: int, site: Site, covered: Covered) -> int | None:
    """Return the factor that a split of `dim` splits: the major-most one that other axes have not split completely.

    Returns None if other axes split all factors completely, or if the factor must not be split.
    """
    for factor in dims[dim]:
        loop = rule.factors[factor]
        if (loop.size > 1 or loop.kind == "window") and not (len(dims[dim]) > 1 and covered(site, factor)):
            return factor if loop.kind != "whole" else None
    return None


def fits(rule: Rule, factor: int, size: int) -> bool:
    """Whether an axis of `size` may split the factor: evenly, or unevenly if the factor is always a dim of its own."""
    if rule.factors[factor].size % size == 0:
        return True
    return all(part == (factor,) for dims in (*rule.operands, *rule.results) for part in dims if factor in part)


def reach(sites: Sequence[Site], axis: str, size: int, covered: Covered) -> Reached:
    """Return the states of values that annotations reach along `axis`, each state with the annotation that it comes
    from.
    """
    reached = Reached(sites, axis, size, covered)
    reached.seed()
    reached.spread()
    return reached


class Reached:
    """The states of values that annotations reach along one axis, computed breadth-first over the ties of sites.

    Attributes:
        table: the states of each value, each state with the annotation that it comes from.
        steps: the tie through which each state was first reached. States of annotated values have no step.
    """

    def __init__(self, sites: Sequence[Site], axis: str, size: int, covered: Covered) -> None:
        self.table: dict[Value, Origins] = {}
        self.steps: Steps = {}
        self._sites, self._axis, self._size = sites, axis, size
        self._ties = _Ties(size, covered)
        self._queue: deque[tuple[Value, State]] = deque()
        self._touching: dict[Value, list[Site]] = {}
        # Values without a producer are splats, which each device computes. States do not spread over splats.
        produced_values = {value for site in sites for value in site.node.results}
        for site in sites:
            for value in produced_values.intersection(site.values):
                self._touching.setdefault(value, []).append(site)

    def with_offers(self, offers: Sequence[int]) -> Reached:
        """Return a copy that also spreads from the loops of the sites in `offers`, in this order.

        A site that an earlier offer already reaches is skipped.
        """
        extended = copy(self)
        extended.table = {value: dict(origins) for value, origins in self.table.items()}
        extended.steps = dict(self.steps)
        extended.offer(offers)
        return extended

    def _add(self, value: Value, state: State, origin: str) -> None:
        if state not in (origins := self.table.setdefault(value, {})):
            origins[state] = origin
            self._queue.append((value, state))

    def seed(self) -> None:
        """Add the annotated states, and the operand states from which producers can make annotated partial values."""
        producers = {value: site for site in self._sites for value in site.node.results}
        for site in self._sites:
            for value, state, origin in seeds(site, self._axis):
                self._add(value, state, origin)
                for source, source_state in _sources(value, state, producers, self._size):
                    if source_state not in self.table.get(source, {}):
                        self.steps[source, source_state] = value, state, producers[value]
                    self._add(source, source_state, origin)

    def spread(self) -> None:
        """Propagate all added states over the ties until nothing changes."""
        table, steps = self.table, self.steps
        while self._queue:
            value, state = self._queue.popleft()
            for site in self._touching.get(value, ()):
                if site.manual and site.is_manual(self._axis):
                    continue
                for other, tied_state in self._ties.of(site, value, state):
                    if not site.carries(value, other):
                        continue
                    if tied_state not in table.get(other, {}):
                        steps[other, tied_state] = value, state, site
                    self._add(other, tied_state, table[value][state])

    def offer(self, offers: Sequence[int]) -> None:
        """Add the states that result if the axis splits a loop of an offered site, and propagate them, site after site.

        A site is skipped if one of its states was reached before.
        """
        annotated = {value: frozenset(states) for value, states in self.table.items()}
        for site in map(self._sites.__getitem__, offers):
            splits = [
                value_and_state
                for value_and_state in _offered(site, self._size)
                if value_and_state[1] not in annotated.get(value_and_state[0], ())
            ]
            if all(state not in self.table.get(value, {}) for value, state in splits):
                for value, state in splits:
                    self._add(value, state, f"the work of '{site.node.op}'{bracketed(location_text(site.node.loc))}")
                self.spread()


def _offered(site: Site, size: int) -> list[tuple[Value, State]]:
    """Return the states of a site's values that result if an axis of `size` devices splits one of the site's loops."""
    loops = [factor for factor, loop in enumerate(site.rule.factors) if loop.kind in ("parallel", "indexed", "reduce")]
    return [
        value_and_state
        for factor in loops
        if fits(site.rule, factor, size)
        for value_and_state in _states_of_factor(site, factor)
    ]


def seeds(site: Site, axis: str) -> list[tuple[Value, State, str]]:
    """Return the states along an axis that a site's annotation or option requests, each with the annotation as text."""
    seeded: list[tuple[Value, State, str]] = []
    # The site of the annotated member adds the state already.
    if site.annotation and not is_sharding_group(site.node):
        state = state_of(site.annotation.sharding, axis)
        strength = "required" if site.annotation.required else "hint"
        where = bracketed(location_text(site.annotation.loc))
        subject = f"{_SUBJECTS.get(site.node.op, 'value')} %{site.value.name or '?'}"
        if state is not None:
            origin_text = crossing_text(site) or f"{strength} annotation {site.user_sharding} of {subject}{where}"
            seeded.append((site.value, state, origin_text))
    for factor, axes in enumerate(site.option or ()):
        if axis in axes:
            where = bracketed(location_text(site.node.loc))
            origin = f"sharding option of '{site.node.op}'{where}"
            seeded += [(value, state, origin) for value, state in _states_of_factor(site, factor)]
    return seeded


def crossing_text(site: Site) -> str:
    """Describe the transfer from which a hint of another mesh comes. Returns an empty string for other annotations."""
    if not is_transfer(site.node):
        return ""
    channel, peer = site.node.attrs.channel, site.node.attrs.peer.name
    route = f"to @{peer}, which takes" if is_transfer_send(site.node) else f"from @{peer}, which has"
    return f"transfer {channel} {route} %{site.value.name or '?'} as {site.user_sharding}"


def _sources(value: Value, state: State, producers: dict[Value, Site], size: int) -> list[tuple[Value, State]]:
    """Return the operand states from which ops can produce a partial value: those of reductions of the same kind.

    The search goes back through ops that are linear in the partial value.
    """
    sources: list[tuple[Value, State]] = []
    pending = [value] if isinstance(state, str) else []
    for value in pending:  # `pending` grows during the loop.
        if site := producers.get(value):
            for index, factor in enumerate(site.rule.factors):
                if factor.kind == "reduce" and factor.reduction == state and fits(site.rule, index, size):
                    sources += _states_of_factor(site, index)
            linear = [
                site.node.operands[i]
                for linear_use in site.rule.linear
                if state in linear_use.kinds
                for i in linear_use.operands
            ]
            pending += [operand for operand in dict.fromkeys(linear) if operand not in pending]
    return sources


def _states_of_factor(site: Site, factor: int) -> list[tuple[Value, State]]:
    """Return the states of the site's operands and results if the axis splits `factor`."""
    rule = site.rule
    operands, results = rule.places(factor)
    states: list[tuple[Value, State]] = [
        (v, d) for v, d in zip(site.node.operands, operands, strict=True) if d is not None
    ]
    for value, dim in zip(site.node.results, results, strict=True):
        if rule.factors[factor].kind == "reduce":
            states.append((value, rule.factors[factor].reduction))
        elif dim is not None:
            states.append((value, dim))
    return states


class _Ties:
    """Finds the states that a site's rule ties to a given state of one of the site's values. Results are cached."""

    def __init__(self, size: int, covered: Covered) -> None:
        self.size, self.covered = size, covered
        self._known: dict[object, list[tuple[int, State]]] = {}

    def of(self, site: Site, value: Value, state: State) -> list[tuple[Value, State]]:
        """Return the states of the site's other values that follow from the state of `value`, cached."""
        values = site.values
        split = [self.covered(site, f) for f in range(len(site.rule.factors))] if site.is_joined else ()
        key = site.like, values.index(value), state, *split
        if (tied := self._known.get(key)) is None:
            ties = _ties(site, value, state, self.size, self.covered)
            tied = self._known[key] = [(values.index(other), tied_state) for other, tied_state in ties]
        return [(values[index], tied_state) for index, tied_state in tied]


def _ties(site: Site, value: Value, state: State, size: int, covered: Covered) -> list[tuple[Value, State]]:
    """Return the states of the site's other values that follow from the state of `value`."""
    rule = site.rule
    tied: list[tuple[Value, State]] = []
    for index, operand in enumerate(site.node.operands):
        if operand is not value:
            continue
        if isinstance(state, int):
            dims = rule.operands[index]
            tied += _from_dim(site, dims, state, size, covered) or _largest_free_loop(site, dims, state, size, covered)
            tied += [(site.node.result, pick.kind) for pick in picks_of(site, index, state, size)]
        elif isinstance(state, str) and any(
            index in linear_use.operands and state in linear_use.kinds for linear_use in rule.linear
        ):
            tied += [(result, state) for result in site.node.results]
    for index, result in enumerate(site.node.results):
        if result is value and isinstance(state, int):
            tied += _from_dim(site, rule.results[index], state, size, covered)
    return tied


def _from_dim(
    site: Site, dims: tuple[tuple[int, ...], ...], dim: int, size: int, covered: Covered
) -> list[tuple[Value, State]]:
    factor = usable_factor(site.rule, dims, dim, site, covered)
    if factor is None or not fits(site.rule, factor, size):
        return []
    states = _states_of_factor(site, factor)
    return [
        (v, s) for v, s in states if _is_major(site, v, s, factor, covered) or _is_merged(site, v, s, size, covered)
    ]


def _is_merged(site: Site, value: Value, state: State, size: int, covered: Covered) -> bool:
    """Whether a reshape merges the split dim, as a minor factor, into a dim that can be split by its first factor."""
    rule, node = site.rule, site.node
    if node.op not in REGROUPING or not isinstance(state, int):
        return False
    dims = rule.operands[0] if value is node.operands[0] else rule.results[0]
    major = usable_factor(rule, dims, state, site, covered)
    return major is not None and rule.factors[major].size % size == 0


def picks_of(site: Site, operand: int, dim: int, size: int) -> list[Pick]:
    """Return the windows along a split dim that select so few rows that a partial result moves no more data than a
    fetch.
    """
    loops = site.rule.factors
    return [
        pick
        for pick in site.rule.picks
        if (pick.window.operand, pick.window.dim) == (operand, dim) and pick.pays(loops[pick.window.factor].size, size)
    ]


def _largest_free_loop(
    site: Site, dims: tuple[tuple[int, ...], ...], dim: int, size: int, covered: Covered
) -> list[tuple[Value, State]]:
    """Return the states for the operand's largest parallel loop, if the op needs all of `dim` on each device."""
    factors = site.rule.factors
    if not any(factors[f].kind == "whole" and factors[f].size > 1 for f in dims[dim]):
        return []
    free = [f for part in dims for f in part if factors[f].kind == "parallel" and factors[f].size % size == 0]
    if not free:
        return []
    best = max(free, key=lambda f: (factors[f].size, -f))
    return _from_dim(site, dims, next(d for d, part in enumerate(dims) if best in part), size, covered)


def _is_major(site: Site, value: Value, state: State, factor: int, covered: Covered) -> bool:
    """Whether a split of the factor splits the value's dim: all more major factors must be split completely."""
    if not isinstance(state, int):
        return True
    rule = site.rule
    maps = [
        m
        for v, m in zip([*site.node.operands, *site.node.results], [*rule.operands, *rule.results], strict=True)
        if v is value
    ]
    return all(usable_factor(rule, m, state, site, covered) == factor for m in maps if factor in m[state])
