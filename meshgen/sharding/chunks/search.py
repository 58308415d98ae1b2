"""Choose collectives to run in chunks: exposed ones, if the predicted step is then clearly shorter.

Candidates are first estimated: seconds that chunks could hide, minus added launches, latencies and copies. The most
promising are rewritten, fused and scheduled, and the shortest step within the memory limit wins. Equal collectives,
such as those of identical layers, share one decision.
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
from meshgen.sharding.chunks.exposed import CollectiveKey, exposed
from meshgen.sharding.chunks.rewrite import in_chunks

# If a chain exceeded the memory limit, a chain that shares at least this fraction of nodes counts as too large (chosen:
# nearly equal chains).
_SAME_CHAIN = 0.8

# Minimal budget of launches, summed over all scheduled programs (chosen: bounds the compile time of the search).
_LAUNCHES = 2000

# Budget of a large program, as a multiple of its own launches (chosen: about three full schedules).
_LAUNCH_MULTIPLE = 3

# Minimal gain of one more chain, or of the next chunk count, as a fraction of the step (chosen: less does not justify
# another schedule).
_FURTHER_GAIN = 0.01

_PAYS = f"chunks are used if it is at least {DEFAULT.chunks.gain:.0%} shorter"


class Found(NamedTuple):
    """The program, in chunks where that is profitable, and the decision for each collective."""

    module: Module
    decisions: tuple[ChunkDecision, ...]


class _Proposal(NamedTuple):
    """A candidate: collectives that share one decision, the chain that they would run in, and the estimated step in
    seconds.
    """

    collectives: CollectiveKey
    dim: int
    chain: Chain
    seconds: float

    def __str__(self) -> str:
        return f"{self.chain.count} chunks along dim {self.dim}"


class _State(NamedTuple):
    """A program with its schedule, and the candidates that were applied to it."""

    module: Module
    plan: Schedule
    proposals: tuple[_Proposal, ...] = ()


def search(module: Module, planner: Planner, opened: Callable[[Module], Module]) -> Found:
    """Return the module with chains in chunks if that shortens the step by at least the fraction `chunks.gain`.

    Returns the module itself otherwise.

    Args:
        module: at stage partition, without control flow that communicates.
        planner: supplies the memory limit of the step; the default is the memory of the module in its original order.
        opened: expands opaque ops into loops. Chains are found in the expanded module, and compared with the plan of
            the module as it is.
    """
    if not any(node.op in CHUNKED for node in module.graph.nodes):
        return Found(module, ())  # Nothing to decide; scheduling here would take most of the compile time so far.
    candidate = planner.candidate(module)
    searched = _Search(module, candidate, planner)
    return (_Search(opened(module), candidate, planner) if searched.may_be_profitable else searched).run()


class _Search:
    """Hill-climbing search with a budget of `_left` scheduled launches.

    Args:
        candidate: the plan of the module, or of a module with the same kernels.
    """

    def __init__(self, module: Module, candidate: Candidate, planner: Planner) -> None:
        self._candidate = candidate
        self._base = _State(module, candidate.plan())
        self._planner = planner
        self._left = max(_LAUNCHES, _LAUNCH_MULTIPLE * len(self._base.plan.items))
        self._among = set(module.graph.nodes)
        self._too_big: list[Chain] = []
        self._notes: dict[CollectiveKey, str] = {}
        # `Chain.cut` of chains that lengthened the step -> seconds by which the scheduled step exceeded its estimate
        self._longer: dict[Hashable, float] = {}

    @cached_property
    def _cap(self) -> int:
        limit = self._planner.memory_limit
        return self._candidate.steps.sequential_bytes if limit is None else limit

    def run(self) -> Found:
        state, improved = self._base, self._base if self.may_be_profitable else None
        while improved is not None:
            state, improved = improved, self._round(improved)
        gain = 1 - state.plan.step_seconds / self._base.plan.step_seconds if state.proposals else 0.0
        is_profitable = gain >= DEFAULT.chunks.gain
        decisions = tuple(self._decisions(state, gain, is_profitable))
        if not is_profitable:
            return Found(self._base.module, decisions)
        return Found(self._planner.with_chunks(state.module, decisions, self._cap), decisions)

    @property
    def may_be_profitable(self) -> bool:
        """Whether chunks would be profitable if they hid all exposed time."""
        return self._bound >= DEFAULT.chunks.gain

    def _decisions(self, state: _State, gain: float, is_profitable: bool) -> Iterator[ChunkDecision]:
        for collectives, nodes in exposed(self._base.module, self._base.plan).items():
            chain = next(
                (
                    candidate.chain
                    for candidate in state.proposals
                    if any(node in candidate.chain.loops for node in nodes)
                ),
                None,
            )
            text = (
                self._notes.get(collectives, _bound_text(self._bound))
                if chain is None
                else _text(chain, nodes, gain, is_profitable)
            )
            yield ChunkDecision(str(collectives), sum(nodes.values()), is_profitable and chain is not None, text)

    @cached_property
    def _bound(self) -> float:
        """Return the largest fraction of the step that chunks could save.

        The step remains at least as long as the launches of its busiest stream.
        """
        plan = self._base.plan
        busiest = max(sum(item.seconds for item in plan.items if item.stream == stream) for stream in range(STREAMS))
        return min(plan.exposed_seconds, plan.step_seconds - busiest) / plan.step_seconds if plan.step_seconds else 0.0

    def _round(self, state: _State) -> _State | None:
        """Return the best program after one more candidate, or None if no candidate clearly shortens the step."""
        best = state
        for candidate in self._promising(state):
            if candidate.seconds > best.plan.step_seconds * DEFAULT.scheduling.same_step:
                break
            target_seconds = best.plan.step_seconds * (1 - _FURTHER_GAIN)
            if candidate.seconds + self._longer.get(candidate.chain.cut, 0.0) > target_seconds and not _may_hide_more(
                candidate, best
            ):
                # The chain was scheduled with another chunk count and exceeded its estimate. Skip this chunk count if
                # the same excess makes it too slow.
                continue
            scheduled = self._schedule(state, candidate, target_seconds)
            if scheduled and scheduled.plan.step_seconds < target_seconds:
                best = scheduled
        return None if best is state else best

    def _promising(self, state: _State) -> Iterator[_Proposal]:
        """Yield candidates, the best estimate first, as long as the launch budget lasts."""
        candidates = sorted(self._proposals(state), key=lambda candidate: candidate.seconds)
        for candidate in sorted(
            {candidate.chain.key: candidate for candidate in reversed(candidates)}.values(),
            key=lambda candidate: candidate.seconds,
        ):
            launches = len(state.plan.items) * (1 + candidate.chain.count) // 2
            if any(_share(candidate.chain, chain) > _SAME_CHAIN for chain in self._too_big):
                continue
            if launches <= self._left:
                self._left -= launches
                yield candidate
            else:
                self._notes.setdefault(
                    candidate.collectives, f"{candidate} is less promising than the candidates that were tried"
                )

    def _proposals(self, state: _State) -> Iterator[_Proposal]:
        """Yield the candidates whose estimated step is shorter than that of `state`."""
        step, flow = state.plan.step_seconds, Flow(state.module.graph, self._among)
        exposed_nodes = exposed(state.module, state.plan)
        exposed_seconds = {
            node: seconds for equal_nodes in exposed_nodes.values() for node, seconds in equal_nodes.items()
        }
        estimates = Estimates(state.module.graph, state.module.mesh, self._planner.target, exposed_seconds)
        for collectives, equal_nodes in exposed_nodes.items():
            largest_share = 0.0
            for dim in range(next(iter(equal_nodes)).result.type.rank):
                seeds = [Seed(node, dim) for node in equal_nodes]
                share = estimates.hideable_seconds(flow.grow(seeds, DEFAULT.chunks.counts[0], through_dots=True)) / step
                largest_share = max(largest_share, share)
                if share >= _FURTHER_GAIN:
                    yield from _proposals_along(collectives, seeds, step, share, flow, estimates)
            self._notes.setdefault(collectives, _bound_text(largest_share))

    def _schedule(self, state: _State, candidate_chain: _Proposal, target_seconds: float) -> _State | None:
        """Schedule the program with one more candidate. Returns None if that is too slow or needs too much memory."""
        graph = in_chunks(state.module.graph, candidate_chain.chain)
        candidate = self._planner.candidate(module := replace(state.module, graph=graph, memory_cap=self._cap))
        lower_bound = candidate.steps.least_seconds
        if lower_bound <= target_seconds:
            lower_bound = candidate.steps.shortest_seconds
        if lower_bound > target_seconds:
            if lower_bound > state.plan.step_seconds:
                self._longer[candidate_chain.chain.cut] = lower_bound - candidate_chain.seconds
            self._notes[candidate_chain.collectives] = (
                f"{candidate_chain} would make the step {_change(lower_bound, state, 'at least ', 'at most ')}; {_PAYS}"
            )
            return None
        try:
            plan = candidate.plan()
        except CodegenError as error:
            self._too_big.append(candidate_chain.chain)
            self._notes[candidate_chain.collectives] = f"{candidate_chain}: {error.diagnostics[0].message}"
            return None
        self._notes[candidate_chain.collectives] = (
            f"{candidate_chain} would make the step {_change(plan.step_seconds, state)}; {_PAYS}"
        )
        return _State(module, plan, (*state.proposals, candidate_chain))


def _may_hide_more(candidate: _Proposal, best: _State) -> bool:
    """Whether `candidate`, with more chunks of the chain applied last, would clearly shorten the step.

    Assumes that more chunks hide half of the exposed time.
    """
    is_last = bool(best.proposals) and candidate.chain.cut == best.proposals[-1].chain.cut
    return is_last and best.plan.exposed_seconds / 2 >= _FURTHER_GAIN * best.plan.step_seconds


def _change(seconds: float, state: _State, longer: str = "", shorter: str = "") -> str:
    change = seconds / state.plan.step_seconds - 1
    return f"{longer}{change:.1%} longer" if change > 0 else f"{shorter}{-change:.1%} shorter"


def _proposals_along(
    collectives: CollectiveKey, seeds: Sequence[Seed], step: float, limit: float, flow: Flow, estimates: Estimates
) -> Iterator[_Proposal]:
    """Yield the candidates that split `collectives` along one dim, and whose estimated step is clearly shorter than
    `step`.

    Args:
        limit: upper bound on the fraction of the step that the smallest number of chunks hides. Multiples of that
            number hide no more, since whatever can be split into more chunks can be split into fewer.
    """
    fewest, least_gain = DEFAULT.chunks.counts[0], _FURTHER_GAIN * step
    for count in DEFAULT.chunks.counts:
        if (
            count % fewest == 0
            and limit * step - estimates.extra_message_seconds(flow.cut(seeds, count), count) < least_gain
        ):
            continue
        for through_dots in (False, True):
            chain = flow.grow(seeds, count, through_dots=through_dots)
            gain = estimates.gain(chain)
            if gain >= least_gain:
                yield _Proposal(collectives, seeds[0].dim, chain, step - gain)


def _share(left: Chain, right: Chain) -> float:
    """Return the fraction of nodes that both chains contain and split along the same dims."""
    common = left.loops.items() & right.loops.items()
    return len(common) / len(left.loops.keys() | right.loops.keys())


def _text(chain: Chain, nodes: Iterable[Node], gain: float, is_profitable: bool) -> str:
    """Describe the decision for the collectives `nodes` of `chain`, which would make the step shorter by the fraction
    `gain`.
    """
    dims = sorted({chain.loops[node].result for node in nodes if node in chain.loops})
    chunking = f"{chain.count} chunks along dim {', '.join(map(str, dims))}"
    if is_profitable:
        return f"in {chunking}: the step is {gain:.1%} shorter"
    return f"{chunking} would make the step {gain:.1%} shorter; {_PAYS}"


def _bound_text(share: float) -> str:
    if not share:
        return "no op before or after it can compute a part of its rows"
    return f"chunks could hide at most {share:.1%} of the step, before their costs"
