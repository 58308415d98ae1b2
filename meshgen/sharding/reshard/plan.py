"""Plan reshards: the collectives from one sharding to another, in the user's axes.

`reshard/search` finds the collectives over disjoint sub-axes. This module translates shardings into these sub-axes
and the resulting steps back into the user's axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir.axis_parts import AxisParts, merged
from meshgen.ir.graph import DTYPES, TensorType
from meshgen.ir.symbols import Expr, expressions
from meshgen.mesh import Mesh
from meshgen.ops.classes import RESHARDS
from meshgen.sharding.reshard.bounds import Bounds
from meshgen.sharding.reshard.problem import PICOSECONDS, Cost, Problem
from meshgen.sharding.reshard.search import Path, cheapest, straight, without
from meshgen.spec import Sharding

# Element width in bytes -> a dtype of that width; all dtypes of one width have the same plans.
_OF_WIDTH = {dtype.itemsize: name for name, dtype in DTYPES.items()}
# Limits for axes unused at both ends that a search may use: at most `_FREE` axes and `_ROOM` devices in all (chosen:
# the search is exponential in the axes).
_FREE, _ROOM = 5, 1 << 16


class Step(NamedTuple):
    """A collective of a plan: its op, its read-only attributes, its cost per device, and the sharding of its result."""

    op: str
    attrs: Mapping[str, Any]
    sharding: Sharding
    ring_bytes: int
    seconds: float


class ReshardPlan(NamedTuple):
    """The steps of a reshard from `source` to `target`. `bound_bytes` is a lower bound on the bytes that some device
    receives.
    """

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
        """Return the cost by which plans are compared."""
        transfers = sum(step.op in RESHARDS for step in self.steps)
        return round(self.seconds * PICOSECONDS), self.ring_bytes, transfers, len(self.steps)


def plan_reshard(type: TensorType, source: Sharding, target: Sharding, mesh: Mesh) -> ReshardPlan:
    """Return the cheapest plan for a tensor of global `type`, without steps if both shardings are equivalent.

    Raises:
        ShardingError: a sharding does not fit the tensor, or a size of the tensor or the mesh is unknown.
    """
    if source == target:
        return ReshardPlan(source, target, (), 0)
    faults = [fault for sharding in (source, target) for fault in sharding.faults(type.shape, mesh)]
    if None in type.shape or not mesh.is_static:
        faults.append(Diagnostic("MG0207", f"{type} cannot be resharded on {mesh} while sizes are unknown"))
    if faults:
        raise ShardingError(*faults)
    kind = TensorType(type.sizes, _OF_WIDTH[type.numpy_dtype.itemsize])
    return _plan(kind, source, target, mesh, expressions(type.sizes))


def other_plans(type: TensorType, source: Sharding, target: Sharding, mesh: Mesh) -> list[ReshardPlan]:
    """Return alternative plans, cheapest first: for each op of the cheapest plan, the cheapest plan without that op."""
    best = plan_reshard(type, source, target, mesh)
    terms = _Terms.of(mesh, source, target)
    if terms.parts is None:
        return []
    start, goal = (terms.canonical(sharding, type.sizes) for sharding in (source, target))
    problem = Problem(type, goal, mesh, terms.axes)
    alternatives: list[ReshardPlan] = []
    for op in dict.fromkeys(step.op for step in best.steps):
        if path := without(problem, start, op):
            steps = tuple(_steps(problem, terms, source, start, target, path))
            plan = ReshardPlan(source, target, steps, best.bound_bytes)
            alternatives += [plan] if plan not in alternatives else []
    return sorted(alternatives, key=lambda plan: plan.cost)


def same_layout(left: Sharding, right: Sharding, type: TensorType, mesh: Mesh) -> bool:
    """Whether two shardings give a tensor the same layout.

    They may differ in sub-axes, axes of size 1, or even offsets.
    """
    if left == right:
        return True
    ends = (merged(sharding, mesh).without_even_offsets(type.sizes, mesh) for sharding in (left, right))
    return next(ends) == next(ends)


@lru_cache(maxsize=8192)
def _plan(
    type: TensorType, source: Sharding, target: Sharding, mesh: Mesh, named: tuple[tuple[int, Expr], ...]
) -> ReshardPlan:
    """Compute a plan. `named` is part of the cache key only: it distinguishes symbolic sizes that have equal values."""
    terms = _Terms.of(mesh, source, target)
    start, goal = (terms.canonical(sharding, type.sizes) for sharding in (source, target))
    problem = Problem(type, goal, mesh, terms.axes)
    path = cheapest(problem, start) if terms.parts else straight(problem, start)
    return ReshardPlan(
        source, target, tuple(_steps(problem, terms, source, start, target, path)), Bounds(problem).least(start)[1]
    )


class _Terms(NamedTuple):
    """The axes in terms of which a search runs: disjoint sub-axes, or the user's axes if sub-axes of both ends do not
    nest.

    Overlapping axes can be reduced one after the other, and tiles over them can be sent directly, but a search would
    treat the axes as independent.
    """

    mesh: Mesh
    parts: AxisParts | None
    axes: tuple[str, ...]

    @staticmethod
    def of(mesh: Mesh, source: Sharding, target: Sharding) -> _Terms:
        refs = [axis for sharding in (source, target) for axis in merged(sharding, mesh).used_axes]
        parts = AxisParts.of(mesh, refs)
        if not parts.fits(*refs):
            return _Terms(mesh, None, tuple(sorted(dict.fromkeys(refs), key=mesh.order)))
        return _Terms(mesh, parts, _useful(parts, parts.refine(refs)))

    def canonical(self, sharding: Sharding, shape: tuple[int, ...]) -> Sharding:
        """Return the sharding over these axes, without axes of size 1 and without offsets that equal even tiles."""
        sharding = self.parts.normal(sharding) if self.parts else merged(sharding, self.mesh)
        return sharding.without_even_offsets(shape, self.mesh)

    def merged(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """Merge adjacent sub-axes into one axis."""
        return self.parts.merge(axes) if self.parts else axes

    def readable(self, sharding: Sharding, ends: tuple[Sharding, ...]) -> Sharding:
        """Return a canonical sharding with sub-axes merged.

        A dim with a halo must be split over some axis; if it has none, it gets the axes of size 1 that one of the ends
        has there.
        """
        kinds = dict(sharding.partial)
        runs = [tuple(g) for _, g in itertools.groupby(sharding.partial_axes, lambda axis: kinds[axis])]
        partial = tuple((axis, kinds[run[0]]) for run in runs for axis in self.merged(run))
        dims = tuple(self.merged(axes) for axes in sharding.dims)
        if sharding.halo:
            dims = tuple(
                self._unit_axes(d, ends) if any(sharding.halo[d]) and not axes else axes for d, axes in enumerate(dims)
            )
        return replace(sharding, dims=dims, partial=partial)

    def _unit_axes(self, dim: int, ends: tuple[Sharding, ...]) -> tuple[str, ...]:
        """Return the axes of one device over which an end has a halo on a dim."""
        candidates = (end.dims[dim] for end in ends if end.halo and any(end.halo[dim]))
        return next(axes for axes in candidates if self.mesh.group_size(axes) == 1)


def _useful(parts: AxisParts, used: Sequence[str]) -> tuple[str, ...]:
    """Return the axes that the source or target uses, plus a few of the largest unused axes. More would not improve
    plans.
    """
    mesh, useful = parts.mesh, set(used)
    free = [axis for axis in parts.all() if axis not in useful]
    if len(free) > _FREE:
        room = _ROOM // mesh.group_size(useful)
        by_size = sorted(free, key=lambda axis: -mesh.axis_size(axis))
        free = []
        for axis in by_size[:_FREE]:
            if mesh.axis_size(axis) <= room:
                free.append(axis)
                room //= mesh.axis_size(axis)
    useful.update(free)
    return tuple(axis for axis in parts.all() if axis in useful)


def _steps(
    problem: Problem, terms: _Terms, source: Sharding, start: Sharding, target: Sharding, path: Path
) -> Iterator[Step]:
    """Yield the steps of `path` in terms of the user's axes. The last step ends in `target` as the user wrote it."""
    state, previous = start, source
    for index, move in enumerate(path):
        after = target if index == len(path) - 1 else terms.readable(move.sharding, (source, target))
        attrs = dict(move.attrs)
        if "sharding" in attrs:
            attrs["sharding"] = after
        elif "source" in attrs and state.partial == move.sharding.partial:
            # the user's axes in `after` may have other names than the axes of the search
            partial = tuple(pair for pair in previous.partial if terms.mesh.axis(pair[0]).size != 1)
            attrs |= {"source": previous, "target": after.with_partial(partial)}
        elif "source" in attrs:  # partial values move to other axes
            ends = (terms.readable(sharding, (source, target)) for sharding in (state, move.sharding))
            attrs |= zip(("source", "target"), ends, strict=True)
        else:
            attrs["axes"] = terms.merged(attrs["axes"])
        seconds, moved_bytes = problem.price(state, move)
        yield Step(move.op, attrs, after, moved_bytes, seconds)
        state, previous = move.sharding, after
