"""Find the cheapest path between two shardings, by A* search over `reshard/moves`.

Cost is time on the mesh's links. SizeClasses go to fewer bytes, then to plain collectives before grouped sends and receives,
then to fewer steps, then to the order of names. `reshard/bounds` gives lower bounds on the rest of a path; the best
path so far gives an upper bound. No intermediate tile is larger than the larger tile of both ends: reducing in place,
re-tiling and making partial never need more, so that limit excludes no reshard.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from meshgen.ccl.cost import transfer_of
from meshgen.cost_model.model import DEFAULT
from meshgen.ops.classes import LOCAL_OPS, RESHARDS
from meshgen.sharding.reshard.bounds import Bounds
from meshgen.sharding.reshard.moves import missing_summands, moved_summands, moves, predecessors, transfer
from meshgen.sharding.reshard.problem import PICOSECONDS, Cost, Move, Problem, cost_sum, is_plain
from meshgen.spec import Sharding

Path = tuple[Move, ...]
_START: Cost = (0, 0, 0, 0)
_NEVER: tuple[Cost, tuple[Any, ...]] = ((2**63, 2**63, 0, 0), ())


class _Entry(NamedTuple):
    """A path in the search's queue. Entries are ordered by the lower bound of the path, then by the names of its moves.

    `joins` marks a path that continues with a transfer to tiles which one more collective turns into the target. Such
    paths are tried last.
    """

    order: Cost
    names: tuple[Any, ...]
    number: int
    bound: Cost
    cost: Cost
    state: Sharding
    path: Path
    joins: bool = False


def straight(problem: Problem, start: Sharding) -> Path:
    """Return the direct path: reduce partial values where required, re-tile, and become partial along the target's
    axes.

    It exists for every reshard and needs no tile larger than the larger tile of both ends.
    """
    path: list[Move] = []
    state = start
    while state != problem.target:
        move = None
        if missing_summands(state, problem.target) is not None:
            move = transfer(problem, state, problem.target)
        order = "to_partial" if missing_summands(state, problem.target) is not None else "all_reduce"
        move = move or next(move for move in moves(problem, state) if move.op == order)
        path.append(move)
        state = move.sharding
    return tuple(path)


def cheapest(problem: Problem, start: Sharding) -> Path:
    """Return the path of least cost.

    If a path of collectives moves no more bytes than a grouped send and receive, it is preferred.
    """
    bounds = Bounds(problem)
    fallback = straight(problem, start)
    search = _Search(problem, bounds, start, _path_cost(problem, start, fallback), fallback)
    path = search.run()
    packed_peers = sum(max(transfer_of(m.op, m.attrs, problem.mesh).peers - 2, 0) for m in path if m.op in RESHARDS)
    if not packed_peers:
        return path
    limit_time, moved_bytes, *_ = _path_cost(problem, start, path)
    limit_time += round(packed_peers * DEFAULT.resharding.packing_seconds * PICOSECONDS)
    limit = (limit_time, moved_bytes, 0, 2**31)
    return _Search(problem, bounds, start, limit, path, ("permute", "retile"), moved_bytes).run()


def without(problem: Problem, start: Sharding, op: str) -> Path | None:
    """Return the path of least cost that does not contain `op`, or None if every path does."""
    path = _Search(problem, Bounds(problem), start, _NEVER[0], (), (op,)).run()
    return path if path and all(move.op != op for move in path) else None


@dataclass
class _Search:
    """Search for the cheapest path from `start` to the target of `problem`.

    Attributes:
        most: upper limit on the cost of a path, which is the cost of the best path so far.
        best: the best path so far.
        avoided: ops that paths must not contain, unless they are local.
        moved: limit on the bytes moved.
        spent: for each sharding, the cost of the best path to it and the names of the moves.
    """

    problem: Problem
    bounds: Bounds
    start: Sharding
    most: Cost
    best: Path
    avoided: tuple[str, ...] = ()
    moved: int = _NEVER[0][1]
    spent: dict[Sharding, tuple[Cost, tuple[Any, ...]]] = field(default_factory=dict)
    priced: int = 0

    def __post_init__(self) -> None:
        limits = DEFAULT.search
        self._latency = int(self.problem.latency * PICOSECONDS)
        self._limit = max(map(self.problem.elements, (self.start, self.problem.target)))
        self._is_greedy = True
        within = limits.moved_devices // self.problem.parts(self.problem.axes)
        self._tried_moves, self._max_tried_moves = 0, min(limits.looked_moves, max(limits.least_moves, within))
        self._predecessors: list[tuple[int, Sharding]] | None = None

    def run(self) -> Path:
        """Return the cheapest path, or `best` if no path is cheaper.

        The search has phases, each up to a limit of priced moves. It first extends the paths that seem nearest to the
        target, to find a good path early. It then extends the cheapest paths, until one is proven cheapest, and finally
        the nearest again.
        """
        limits = DEFAULT.search
        counter = itertools.count(1)
        least = self.bounds.least(self.start)
        queue = [_Entry(least, (), 0, least, _START, self.start, ())]
        while queue and self.priced < limits.all_moves and self._tried_moves < self._max_tried_moves:
            is_greedy = not limits.nearest_moves <= self.priced < limits.cheapest_moves
            if is_greedy != self._is_greedy:
                self._is_greedy = is_greedy
                queue = [entry._replace(order=self._order(entry.bound, entry.state)) for entry in queue]
                heapq.heapify(queue)
            entry = heapq.heappop(queue)
            if not self._allows(entry.bound) or self._is_late(entry.state, entry.cost, entry.names):
                continue
            if entry.state == self.problem.target:
                if not self._is_greedy:
                    return entry.path
                continue  # `best` is this path already, or a cheaper path
            for move in itertools.takewhile(
                self._is_within, self._joined(entry) if entry.joins else self._moves(entry)
            ):
                if successor := self._after(entry, move, next(counter)):
                    heapq.heappush(queue, successor)
            if not entry.joins and self._may_join(entry):
                bound = cost_sum(entry.bound, (self._latency, 0, 0, 1))
                order = self._order(bound, entry.state)
                heapq.heappush(queue, entry._replace(order=order, bound=bound, number=next(counter), joins=True))
        return self.best

    def _is_within(self, _: Move) -> bool:
        """Count a move and return whether the count is within the limit."""
        self._tried_moves += 1
        return self._tried_moves <= self._max_tried_moves

    def _order(self, bound: Cost, state: Sharding) -> Cost:
        """Return the priority of a path, which is its lower bound `bound`.

        In the greedy phases the bound on the remaining cost counts twice, to find a complete path early.
        """
        return cost_sum(bound, self.bounds.least(state)) if self._is_greedy else bound

    def _allows(self, cost: Cost) -> bool:
        return cost <= self.most and cost[1] <= self.moved

    def _is_late(self, state: Sharding, cost: Cost, names: tuple[Any, ...]) -> bool:
        """Whether the search has already found a better path to `state`."""
        best_known = self.spent.get(state)
        return best_known is not None and best_known < (cost, names)

    def _after(self, entry: _Entry, move: Move, number: int) -> _Entry | None:
        """Return the entry for the path extended by `move`.

        Returns None if the move exceeds the memory limit or cannot lead to the cheapest path.
        """
        problem, state = self.problem, move.sharding
        least = self.bounds.least(state)
        if not self._allows(cost_sum(entry.cost, least)) or problem.elements(state) > self._limit:
            return None
        if not self._allows(cost_sum(cost_sum(entry.cost, self._step(entry.state, move)), least)):
            return None
        self.priced += 1
        cost, names = cost_sum(entry.cost, problem.cost(entry.state, move)), (*entry.names, move.name)
        bound = cost_sum(cost, least)
        if not self._allows(bound) or self.spent.get(state, _NEVER) <= (cost, names):
            return None
        self.spent[state] = cost, names
        path = (*entry.path, move)
        if state == problem.target and (cost, names) < (self.most, tuple(move.name for move in self.best)):
            self.most, self.best = cost, path
        return _Entry(self._order(bound, state), names, number, bound, cost, state, path)

    def _step(self, state: Sharding, move: Move) -> Cost:
        """Return a lower bound on the cost of a move that is faster to compute than the cost."""
        if move.op in LOCAL_OPS or not self.bounds.elements:
            return 0, 0, 0, 1
        if move.op not in RESHARDS:
            return self._latency, 0, 0, 1
        received = self.bounds.received(state, move.sharding)
        seconds = self.problem.latency + received / self.problem.bandwidth if received else 0
        return int(seconds * PICOSECONDS), received, 0, 1

    def _moves(self, entry: _Entry) -> Iterator[Move]:
        problem, state = self.problem, entry.state
        for move in moves(problem, state):
            if move.op not in self.avoided:
                yield move
        summands = {None, moved_summands(problem, state)}
        for end in self._ends(state):
            for partial in sorted(summands, key=bool):
                move = transfer(problem, state, end, partial)
                if move and (move.op not in self.avoided or not problem.price(state, move)[1]):
                    yield move

    def _ends(self, state: Sharding) -> Iterator[Sharding]:
        """Yield shardings that a send and receive may lead to: the target, equal tiles, and tiles one slice from the
        target's.
        """
        target = self.problem.target
        yield target
        if not is_plain(state):
            yield replace(state, halo=(), offsets=())
        if target.halo:
            yield replace(target, halo=())
        yield from (before for time, before in self._joins() if not time)

    def _joins(self) -> list[tuple[int, Sharding]]:
        """Return the shardings that one move turns into the target's tiles, each with the picoseconds of that move."""
        if self._predecessors is None:
            pairs = predecessors(self.problem)
            self._predecessors = [(self.problem.cost(before, move)[0], before) for before, move in pairs]
        return self._predecessors

    def _may_join(self, entry: _Entry) -> bool:
        """Whether it may be cheaper to send smaller tiles and gather them than to send the target's tiles directly."""
        problem, state = self.problem, entry.state
        direct = transfer(problem, state, problem.target)
        least = self.bounds.least(state.with_partial(problem.target.partial))[0]
        return direct is None or problem.cost(state, direct)[0] > least + self._latency

    def _joined(self, entry: _Entry) -> Iterator[Move]:
        for time, before in self._joins():
            if time and entry.cost[0] + time + self._latency <= self.most[0]:
                move = transfer(self.problem, entry.state, before)
                if move and move.op not in self.avoided:
                    yield move


def _path_cost(problem: Problem, state: Sharding, path: Path) -> Cost:
    total = _START
    for move in path:
        total = cost_sum(total, problem.cost(state, move))
        state = move.sharding
    return total
