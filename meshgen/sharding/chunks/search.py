"""Choose collectives to run in chunks: exposed ones, if the predicted step is then clearly shorter.

Candidates are estimated first: seconds that could be hidden, less added launches, latencies and copies. The most promising are rewritten,
fused and scheduled, and the shortest step within the memory limit wins. Equal collectives, as those of equal layers,
share one decision.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from meshgen.codegen.planner import Candidate, Planner
from meshgen.cost_model.model import DEFAULT
from meshgen.errors import CodegenError
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.ir.graph import Module, Node
from meshgen.runtime.plan import STREAMS, Schedule
from meshgen.sharding.chunks.chain import CHUNKED, Chain, Flow, Seed
from meshgen.sharding.chunks.estimate import Estimates
from meshgen.sharding.chunks.exposed import Alike, exposed
from meshgen.sharding.chunks.rewrite import in_chunks

# The share of common nodes from which a chain is too large because another one is.
_SAME_CHAIN = 0.8

# Launches, summed over all programs that are scheduled for comparison.
_LAUNCHES = 2000

# The same for a large program: times the launches of the program.
_LAUNCH_MULTIPLE = 3

# The share of the step that another chain, or the next number of chunks, must save.
_FURTHER_GAIN = 0.01

_PAYS = f"chunks pay where it is {DEFAULT.chunks.gain:.0%} shorter"


class Found(NamedTuple):
    """The program, in chunks where that pays, and the decisions."""

    module: Module
    decisions: tuple[ChunkDecision, ...]


class _Way(NamedTuple):
    """Equal collectives, with the chain that they would be in, and the estimated step."""

    what: Alike
    dim: int
    chain: Chain
    seconds: float

    def __str__(self) -> str:
        return f"{self.chain.count} chunks along dim {self.dim}"


class _State(NamedTuple):
    """A program with its schedule, and the candidates that made it."""

    module: Module
    plan: Schedule
    ways: tuple[_Way, ...] = ()


def search(module: Module, planner: Planner, opened: Callable[[Module], Module]) -> Found:
    """The module with chains in chunks, if the predicted step is then shorter by `chunks.gain` of the cost model; else itself.

    Args:
        module: at stage partition, without control flow that communicates.
        planner: gives the memory limit of the step; None: the memory of the module's own order.
        opened: gives the module with loops where it has opaque ops. Chains are searched in it, against the plan of the module itself.
    """
    if not any(node.op in CHUNKED for node in module.graph.nodes):
        return Found(module, ())  # nothing to decide, and a schedule would take most of the time up to here
    candidate = planner.candidate(module)
    searched = _Search(module, candidate, planner)
    return (_Search(opened(module), candidate, planner) if searched.may_pay else searched).run()


class _Search:
    """Rounds, each from the best program so far; `_left` launches may still be scheduled.

    Args:
        candidate: the plan of the module, or of one that has the same kernels.
    """

    def __init__(self, module: Module, candidate: Candidate, planner: Planner) -> None:
        self._candidate = candidate
        self._base = _State(module, candidate.plan())
        self._planner = planner
        self._left = max(_LAUNCHES, _LAUNCH_MULTIPLE * len(self._base.plan.items))
        self._among = set(module.graph.nodes)
        self._too_big: list[Chain] = []
        self._notes: dict[Alike, str] = {}
        self._longer: dict[Hashable, float] = {}  # of cuts that make the step longer: seconds above the estimate

    @cached_property
    def _cap(self) -> int:
        limit = self._planner.memory_limit
        return self._candidate.steps.sequential_bytes if limit is None else limit

    def run(self) -> Found:
        state, better = self._base, self._base if self.may_pay else None
        while better is not None:
            state, better = better, self._round(better)
        gain = 1 - state.plan.step_seconds / self._base.plan.step_seconds if state.ways else 0.0
        pays = gain >= DEFAULT.chunks.gain
        decisions = tuple(self._decisions(state, gain, pays))
        if not pays:
            return Found(self._base.module, decisions)
        return Found(self._planner.with_chunks(state.module, decisions, self._cap), decisions)

    @property
    def may_pay(self) -> bool:
        """Whether chunks would save enough if nothing were exposed."""
        return self._bound >= DEFAULT.chunks.gain

    def _decisions(self, state: _State, gain: float, pays: bool) -> Iterator[ChunkDecision]:
        for what, nodes in exposed(self._base.module, self._base.plan).items():
            chain = next((way.chain for way in state.ways if any(node in way.chain.loops for node in nodes)), None)
            text = self._notes.get(what, _bound_text(self._bound)) if chain is None else _text(chain, nodes, gain, pays)
            yield ChunkDecision(str(what), sum(nodes.values()), pays and chain is not None, text)

    @cached_property
    def _bound(self) -> float:
        """The part of the step that chunks could save if nothing were exposed: the launches of the busier stream still take their time."""
        plan = self._base.plan
        busiest = max(sum(item.seconds for item in plan.items if item.stream == stream) for stream in range(STREAMS))
        return min(plan.exposed_seconds, plan.step_seconds - busiest) / plan.step_seconds if plan.step_seconds else 0.0

    def _round(self, state: _State) -> _State | None:
        """The best program with one more candidate that makes the step clearly shorter; None if none does."""
        best = state
        for way in self._promising(state):
            if way.seconds > best.plan.step_seconds * DEFAULT.scheduling.same_step:
                break
            to_beat = best.plan.step_seconds * (1 - _FURTHER_GAIN)
            if way.seconds + self._longer.get(way.chain.cut, 0.0) > to_beat and not _may_hide_more(way, best):
                continue  # another number of chunks made the step longer, and this one is as far from its estimate
            found = self._tried(state, way, to_beat)
            if found and found.plan.step_seconds < to_beat:
                best = found
        return None if best is state else best

    def _promising(self, state: _State) -> Iterator[_Way]:
        """Candidates, the best by estimate first, as long as launches may be scheduled."""
        ways = sorted(self._ways(state), key=lambda way: way.seconds)
        for way in sorted({way.chain.key: way for way in reversed(ways)}.values(), key=lambda way: way.seconds):
            launches = len(state.plan.items) * (1 + way.chain.count) // 2
            if any(_share(way.chain, chain) > _SAME_CHAIN for chain in self._too_big):
                continue
            if launches <= self._left:
                self._left -= launches
                yield way
            else:
                self._notes.setdefault(way.what, f"{way} is less promising than the candidates that were tried")

    def _ways(self, state: _State) -> Iterator[_Way]:
        """The candidates whose estimated step is shorter."""
        step, flow = state.plan.step_seconds, Flow(state.module.graph, self._among)
        found = exposed(state.module, state.plan)
        every = {node: seconds for alike in found.values() for node, seconds in alike.items()}
        estimates = Estimates(state.module.graph, state.module.mesh, self._planner.target, every)
        for what, alike in found.items():
            most = 0.0
            for dim in range(next(iter(alike)).result.type.rank):
                seeds = [Seed(node, dim) for node in alike]
                limit = estimates.could_hide(flow.grow(seeds, DEFAULT.chunks.counts[0], through_dots=True)) / step
                most = max(most, limit)
                if limit >= _FURTHER_GAIN:
                    yield from _ways_along(what, seeds, step, limit, flow, estimates)
            self._notes.setdefault(what, _bound_text(most))

    def _tried(self, state: _State, way: _Way, to_beat: float) -> _State | None:
        """The program with one more candidate, scheduled; None if it exceeds the memory limit, or is not fast enough."""
        graph = in_chunks(state.module.graph, way.chain)
        candidate = self._planner.candidate(module := replace(state.module, graph=graph, memory_cap=self._cap))
        least = candidate.steps.least_seconds
        if least <= to_beat:
            least = candidate.steps.shortest_seconds
        if least > to_beat:
            if least > state.plan.step_seconds:
                self._longer[way.chain.cut] = least - way.seconds
            self._notes[way.what] = (
                f"{way} would make the step {_change(least, state, 'at least ', 'at most ')}; {_PAYS}"
            )
            return None
        try:
            plan = candidate.plan()
        except CodegenError as error:
            self._too_big.append(way.chain)
            self._notes[way.what] = f"{way}: {error.diagnostics[0].message}"
            return None
        self._notes[way.what] = f"{way} would make the step {_change(plan.step_seconds, state)}; {_PAYS}"
        return _State(module, plan, (*state.ways, way))


def _may_hide_more(way: _Way, best: _State) -> bool:
    """Whether more chunks of the last chain would clearly shorten the step if they hid half of what is exposed, as each doubling may."""
    is_last = bool(best.ways) and way.chain.cut == best.ways[-1].chain.cut
    return is_last and best.plan.exposed_seconds / 2 >= _FURTHER_GAIN * best.plan.step_seconds


def _change(seconds: float, state: _State, longer: str = "", shorter: str = "") -> str:
    change = seconds / state.plan.step_seconds - 1
    return f"{longer}{change:.1%} longer" if change > 0 else f"{shorter}{-change:.1%} shorter"


def _ways_along(
    what: Alike, seeds: Sequence[Seed], step: float, limit: float, flow: Flow, estimates: Estimates
) -> Iterator[_Way]:
    """The candidates that cut collectives along one dim and whose estimated step is clearly shorter.

    Args:
        limit: the part of the step that the fewest chunks could hide. More chunks hide no more where their number is a multiple of
            the fewest: what can be cut in more can be cut in fewer.
    """
    fewest, least = DEFAULT.chunks.counts[0], _FURTHER_GAIN * step
    for count in DEFAULT.chunks.counts:
        if count % fewest == 0 and limit * step - estimates.messages_longer(flow.cut(seeds, count), count) < least:
            continue
        for through in (False, True):
            chain = flow.grow(seeds, count, through_dots=through)
            gain = estimates.gain(chain)
            if gain >= least:
                yield _Way(what, seeds[0].dim, chain, step - gain)


def _share(left: Chain, right: Chain) -> float:
    """The part of the nodes of two chains that is in both, cut along the same dims."""
    both = left.loops.items() & right.loops.items()
    return len(both) / len(left.loops.keys() | right.loops.keys())


def _text(chain: Chain, nodes: Iterable[Node], gain: float, pays: bool) -> str:
    """The decisions for collectives in a chain that made the step shorter."""
    dims = sorted({chain.loops[node].result for node in nodes if node in chain.loops})
    way = f"{chain.count} chunks along dim {', '.join(map(str, dims))}"
    if pays:
        return f"in {way}: the step is {gain:.1%} shorter"
    return f"{way} would make the step {gain:.1%} shorter; {_PAYS}"


def _bound_text(share: float) -> str:
    if not share:
        return "no op before or after it can compute a part of its rows"
    return f"chunks could hide at most {share:.1%} of the step, before their costs"
