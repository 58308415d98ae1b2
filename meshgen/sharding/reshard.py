"""The cheapest way from one sharding of a value to another, found by search (A*) over `reshard_moves`.

Cost is time on the mesh's links; ties go to fewer bytes, then to plain collectives before grouped sends and
receives, then to fewer steps, then to the order of names. What a device must receive bounds the rest of a way
from below. No tile on the way is larger than the larger of both ends: reducing in place, re-tiling, and making
partial again never need more, so that limit excludes no reshard.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh, split_ref
from meshgen.sharding.reshard_moves import Move, Problem, moves
from meshgen.sharding.sites import AxisParts
from meshgen.spec import Sharding

_PICOSECONDS = 1e12  # times are compared as whole numbers
_TRANSFERS = ("permute", "retile")
Cost = tuple[int, int, int, int]  # picoseconds, bytes, grouped sends and receives, steps


@dataclass(frozen=True)
class Step:
    """One collective: the attributes of its node (not to be written to), and the sharding after it."""

    op: str
    attrs: Mapping[str, Any]
    sharding: Sharding
    ring_bytes: int
    seconds: float


@dataclass(frozen=True)
class ReshardPlan:
    """Steps from `source` to `target`. `bound_bytes` is what some device must receive at least (0 for reductions alone)."""

    source: Sharding
    target: Sharding
    steps: tuple[Step, ...]
    bound_bytes: int

    @property
    def ring_bytes(self) -> int:
        return sum(step.ring_bytes for step in self.steps)

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def cost(self) -> Cost:
        """What plans are compared by."""
        transfers = sum(step.op in _TRANSFERS for step in self.steps)
        return round(self.seconds * _PICOSECONDS), self.ring_bytes, transfers, len(self.steps)


def plan_reshard(type: TensorType, source: Sharding, target: Sharding, mesh: Mesh) -> ReshardPlan:
    """The cheapest plan for a tensor of global `type`; no steps if both shardings mean the same.

    Raises ShardingError if a sharding does not fit the tensor, or a size of it or of the mesh is unknown.
    """
    if source == target:
        return ReshardPlan(source, target, (), 0)
    faults = [fault for sharding in (source, target) for fault in sharding.faults(type.shape, mesh)]
    if None in type.shape or not mesh.is_static:
        faults.append(Diagnostic("MG0207", f"{type} cannot be resharded on {mesh} while sizes are unknown"))
    if faults:
        raise ShardingError(*faults)
    # Element types of one width have the same plans.
    return _plan(TensorType(type.sizes, f"ui{8 * type.numpy_dtype.itemsize}"), source, target, mesh)


def same_layout(left: Sharding, right: Sharding, type: TensorType, mesh: Mesh) -> bool:
    """Whether two shardings mean the same for a tensor: every device holds the same part of it."""
    return left == right or not plan_reshard(type, left, right, mesh).steps


@lru_cache(maxsize=8192)
def _plan(type: TensorType, source: Sharding, target: Sharding, mesh: Mesh) -> ReshardPlan:
    terms = _Terms.of(mesh, [*source.used_axes, *target.used_axes])
    start, goal = (terms.canonical(sharding, type.sizes) for sharding in (source, target))
    problem = Problem(type, goal, mesh, terms.axes)
    path = _search(problem, start) if terms.parts else _straight(problem, start)
    return ReshardPlan(source, target, tuple(_steps(problem, terms, source, target, path)), problem.missing(start))


@dataclass(frozen=True)
class _Terms:
    """The axes that a search works on: disjoint parts of mesh axes, or, where those asked for do not nest, as they are."""

    mesh: Mesh
    parts: AxisParts | None
    axes: tuple[str, ...]

    @staticmethod
    def of(mesh: Mesh, refs: list[str]) -> _Terms:
        if not _nest(refs):
            return _Terms(mesh, None, tuple(sorted(dict.fromkeys(refs), key=mesh.order)))
        parts = AxisParts.of(mesh, refs)
        names = [split_ref(ref)[0] for ref in refs]
        return _Terms(mesh, parts, tuple(axis for axis in parts.all() if split_ref(axis)[0] in names))

    def canonical(self, sharding: Sharding, shape: tuple[int, ...]) -> Sharding:
        """In these terms, without axes of size 1, without offsets that equal even tiles."""
        if self.parts:
            dims = tuple(self.parts.refine(axes) for axes in sharding.dims)
            pairs = tuple((part, kind) for axis, kind in sharding.partial for part in self.parts.refine((axis,)))
            sharding = replace(sharding, dims=dims, partial=pairs)
        sharding = sharding.canonical(self.mesh)
        if not sharding.offsets:
            return sharding
        offsets = tuple(_offsets(sharding, dim, size, self.mesh) for dim, size in enumerate(shape))
        return replace(sharding, offsets=offsets if any(offsets) else ())

    def merged(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """Neighbouring parts as one axis again."""
        return self.parts.merge(axes) if self.parts else axes

    def readable(self, sharding: Sharding) -> Sharding:
        """A canonical sharding over merged axes."""
        kinds = dict(sharding.partial)
        runs = [tuple(g) for _, g in itertools.groupby(sharding.partial_axes, lambda axis: kinds[axis])]
        partial = tuple((axis, kinds[run[0]]) for run in runs for axis in self.merged(run))
        return replace(sharding, dims=tuple(self.merged(axes) for axes in sharding.dims), partial=partial)


def _nest(refs: list[str]) -> bool:
    """Whether the parts of every axis can be cut out of one chain of parts (`x:(1)2` and `x:(1)3` cannot)."""
    cuts: dict[str, set[int]] = {}
    for name, pre, size in map(split_ref, refs):
        cuts.setdefault(name, set()).update((pre, pre * size) if size else ())
    return all(b % a == 0 for found in cuts.values() for a, b in itertools.pairwise(sorted(found)))


def _offsets(sharding: Sharding, dim: int, size: int, mesh: Mesh) -> tuple[int, ...]:
    count = sharding.parts(dim, mesh)
    tile = -(-size // count)
    even = tuple(min(i * tile, size) for i in range(count + 1))
    return () if sharding.offsets[dim] == even else sharding.offsets[dim]


Path = tuple[Move, ...]


def _straight(problem: Problem, start: Sharding) -> Path:
    """Reduce what must be, re-tile, make partial again: possible for every reshard, and within the larger end."""
    path: list[Move] = []
    state = start
    while state != problem.target:
        kept = all(pair in problem.target.partial for pair in state.partial)
        order = ("retile", "permute", "to_partial") if kept else ("all_reduce",)
        move = next(move for move in moves(problem, state) if move.op in order)
        path.append(move)
        state = move.sharding
    return tuple(path)


@dataclass(frozen=True, order=True)
class _Entry:
    """A way in the search's queue; ordered by what it costs at least, then by the names of its steps."""

    bound: Cost
    names: tuple[str, ...]
    cost: Cost
    state: Sharding = field(compare=False)
    path: Path = field(compare=False)


def _search(problem: Problem, start: Sharding) -> Path:
    """The cheapest path; the straight one is what it has to beat."""
    limit = max(problem.local(end).size for end in (start, problem.target))
    worst = _path_cost(problem, start, _straight(problem, start))
    queue = [_Entry((0, 0, 0, 0), (), (0, 0, 0, 0), start, ())]
    best: dict[Sharding, tuple[Cost, tuple[str, ...]]] = {}
    while True:
        entry = heapq.heappop(queue)
        if entry.state == problem.target:
            return entry.path
        if best.get(entry.state, (entry.cost, entry.names)) < (entry.cost, entry.names):
            continue
        for found in _next(problem, entry, limit, worst):
            mark = (found.cost, found.names)
            if found.state not in best or mark < best[found.state]:
                best[found.state] = mark
                heapq.heappush(queue, found)


def _next(problem: Problem, entry: _Entry, limit: int, worst: Cost) -> Iterator[_Entry]:
    """Entries one move further that fit in memory and may still cost no more than `worst`."""
    for move in moves(problem, entry.state):
        if problem.local(move.sharding).size > limit:
            continue
        cost = _sum(entry.cost, _move_cost(problem, entry.state, move))
        if cost > worst:
            continue
        least = _sum(cost, _least(problem, move.sharding))
        if least <= worst:
            names = (*entry.names, f"{move.op} {dict(move.attrs)}")
            yield _Entry(least, names, cost, move.sharding, (*entry.path, move))


def _sum(left: Cost, right: Cost) -> Cost:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2], left[3] + right[3]


def _move_cost(problem: Problem, state: Sharding, move: Move) -> Cost:
    seconds, moved = problem.cost(state, move)
    return round(seconds * _PICOSECONDS), moved, int(move.op in _TRANSFERS), 1


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
    return int(seconds * _PICOSECONDS), missing, 0, 1


def _steps(problem: Problem, terms: _Terms, source: Sharding, target: Sharding, path: Path) -> Iterator[Step]:
    """The path in the user's terms; the last step ends in the target as it was written."""
    state, before = source, source
    for number, move in enumerate(path):
        after = target if number == len(path) - 1 else terms.readable(move.sharding)
        attrs = dict(move.attrs)
        if "source" in attrs:
            attrs |= {"source": before, "target": replace(after, partial=before.partial)}
        else:
            attrs["axes"] = terms.merged(attrs["axes"])
        seconds, moved = problem.cost(state, move)
        yield Step(move.op, attrs, after, moved, seconds)
        state, before = move.sharding, after
