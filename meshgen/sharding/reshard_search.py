"""The cheapest path between two shardings, by search (A*) over `reshard_moves`.

Cost is time on the mesh's links; ties go to fewer bytes, then to plain collectives before grouped sends and
receives, then to fewer steps, then to the order of names. What a device must receive bounds the rest of a way
from below. No tile on the way is larger than the larger of both ends: reducing in place, re-tiling, and making
partial again never need more, so that limit excludes no reshard.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from meshgen.ccl.cost import transfer_of
from meshgen.sharding.reshard_moves import TRANSFERS, Move, Problem, missing_summands, moves
from meshgen.spec import Sharding

PICOSECONDS = 1e12  # times are compared as whole numbers
# Cutting out and joining the pieces for one more peer of a transfer: so much longer a way of plain collectives
# may take that moves no more bytes.
PACKING_SECONDS = 4e-6
Cost = tuple[int, int, int, int]  # picoseconds, bytes, grouped sends and receives, steps
Path = tuple[Move, ...]


@dataclass(frozen=True, order=True)
class _Entry:
    """A way in the search's queue; ordered by what it costs at least, then by the names of its steps."""

    bound: Cost
    names: tuple[str, ...]
    cost: Cost
    state: Sharding = field(compare=False)
    path: Path = field(compare=False)


def straight(problem: Problem, start: Sharding) -> Path:
    """Reduce what must be, re-tile, make partial again: possible for every reshard, and within the larger end."""
    path: list[Move] = []
    state = start
    while state != problem.target:
        kept = missing_summands(state, problem.target) is not None
        order = (*TRANSFERS, "to_partial") if kept else ("all_reduce",)
        move = next(move for move in moves(problem, state) if move.op in order)
        path.append(move)
        state = move.sharding
    return tuple(path)


def cheapest(problem: Problem, start: Sharding) -> Path:
    """The path of least cost; in place of grouped sends and receives collectives that move no more, if there are."""
    worst = _path_cost(problem, start, straight(problem, start))
    path = _shortest(problem, start, lambda move, least: least <= worst)
    assert path is not None, "the straight path is one"
    packing = sum(max(transfer_of(m.op, m.attrs, problem.mesh).peers - 2, 0) for m in path if m.op in TRANSFERS)
    if not packing:
        return path
    time, moved, *_ = _path_cost(problem, start, path)
    time += round(packing * PACKING_SECONDS * PICOSECONDS)

    def is_plain(move: Move, least: Cost) -> bool:
        return move.op not in TRANSFERS and least[0] <= time and least[1] <= moved

    return _shortest(problem, start, is_plain) or path


def without(problem: Problem, start: Sharding, op: str) -> Path | None:
    """The path of least cost that does without an op; None if there is none."""
    return _shortest(problem, start, lambda move, _: move.op != op)


def _shortest(problem: Problem, start: Sharding, allows: Callable[[Move, Cost], bool]) -> Path | None:
    """The cheapest path of allowed moves; None if there is none.

    Args:
        allows: asked for each move, with what a way through it costs at least.
    """
    queue = [_Entry((0, 0, 0, 0), (), (0, 0, 0, 0), start, ())]
    best: dict[Sharding, tuple[Cost, tuple[str, ...]]] = {}
    while queue:
        entry = heapq.heappop(queue)
        if entry.state == problem.target:
            return entry.path
        if best.get(entry.state, (entry.cost, entry.names)) < (entry.cost, entry.names):
            continue
        for found in _next(problem, entry, max(problem.elements(start), problem.elements(problem.target)), allows):
            mark = (found.cost, found.names)
            if found.state not in best or mark < best[found.state]:
                best[found.state] = mark
                heapq.heappush(queue, found)
    return None


def _next(problem: Problem, entry: _Entry, limit: int, allows: Callable[[Move, Cost], bool]) -> Iterator[_Entry]:
    """Entries one move further that fit in memory and are allowed."""
    for move in moves(problem, entry.state):
        if problem.elements(move.sharding) > limit or not allows(move, entry.cost):
            continue
        cost = _sum(entry.cost, _move_cost(problem, entry.state, move))
        if allows(move, cost) and allows(move, least := _sum(cost, _least(problem, move.sharding))):
            names = (*entry.names, f"{move.op} {dict(move.attrs)}")
            yield _Entry(least, names, cost, move.sharding, (*entry.path, move))


def _sum(left: Cost, right: Cost) -> Cost:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2], left[3] + right[3]


def _move_cost(problem: Problem, state: Sharding, move: Move) -> Cost:
    seconds, moved = problem.cost(state, move)
    return round(seconds * PICOSECONDS), moved, int(move.op in TRANSFERS), 1


def _path_cost(problem: Problem, state: Sharding, path: Path) -> Cost:
    total: Cost = (0, 0, 0, 0)
    for move in path:
        total = _sum(total, _move_cost(problem, state, move))
        state = move.sharding
    return total


def _least(problem: Problem, state: Sharding) -> Cost:
    """What the rest of the way costs at least: one latency, and the bytes that a device must still receive."""
    if state == problem.target:
        return 0, 0, 0, 0
    missing = problem.missing(state)
    if any(pair not in problem.target.partial for pair in state.partial):
        missing = max(missing, problem.local(problem.target).nbytes)  # no way to reduce a tile receives less than one
    if not missing:
        return 0, 0, 0, 1
    links = [problem.mesh.axis(axis) for axis in problem.axes]
    seconds = min(link.latency for link in links) + missing / max(link.bandwidth for link in links)
    return int(seconds * PICOSECONDS), missing, 0, 1
