"""Exhaustive reshard search: Dijkstra over all shardings of a tensor, with more moves than the planner tries.

A path may pass through any sharding, including those with axes that neither end uses on that dim. Grouped sends and
receives may lead to any sharding, not only to the target, and a value may become partial at any step. The search uses
no lower bounds, so its result is the true minimum of the cost model.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from meshgen.ccl.cost import collective_seconds, ring_bytes
from meshgen.ccl.links import rate_along
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.spec import Sharding

Step = tuple[str, dict[str, Any], Sharding]
Price = tuple[int, int]  # (picoseconds, bytes per device)


def cheapest_price(type: TensorType, source: Sharding, target: Sharding, mesh: Mesh, most: Price) -> Price:
    """Return the cost of the cheapest path if it is below `most`, else `most`.

    No intermediate tile may be larger than the larger of the source tile and the target tile.
    """
    limit = max(math.prod(end.local_shape(type.sizes, mesh)) for end in (source, target))
    best: dict[Sharding, Price] = {source: (0, 0)}
    queue: list[tuple[Price, int, Sharding]] = [((0, 0), 0, source)]
    count = itertools.count(1)
    while queue:
        spent, _, state = heapq.heappop(queue)
        if state == target:
            return spent
        if best[state] < spent:
            continue
        for op, attrs, after in _moves(type, state, target, mesh):
            if math.prod(after.local_shape(type.sizes, mesh)) > limit:
                continue
            if op in ("permute", "retile") and spent[0] + _latency(mesh) >= most[0]:
                continue
            price = _price(op, attrs, type, state, after, mesh)
            total = spent[0] + price[0], spent[1] + price[1]
            if total < most and total < best.get(after, most):
                best[after] = total
                heapq.heappush(queue, (total, next(count), after))
    return most


def _latency(mesh: Mesh) -> int:
    return round(min(rate_along(mesh, (name,)).latency for name in mesh.names) * 1e12)


def _price(op: str, attrs: Mapping[str, Any], type: TensorType, before: Sharding, after: Sharding, mesh: Mesh) -> Price:
    ends = [type.with_shape(s.local_shape(type.sizes, mesh)) for s in (before, after)]
    return (
        round(collective_seconds(op, attrs, ends[0], ends[1], mesh) * 1e12),
        ring_bytes(op, attrs, ends[0], ends[1], mesh),
    )


def _moves(type: TensorType, state: Sharding, target: Sharding, mesh: Mesh) -> Iterator[Step]:
    shape = type.sizes
    free = [axis for axis in mesh.names if mesh.axis_size(axis) > 1 and axis not in state.used_axes]
    for dim in range(state.rank):
        for added in _arrangements(free):
            if added and _nests(shape[dim], state.dims[dim], added, mesh):
                yield "all_slice", {"axes": added, "dim": dim}, _moved(state, {dim: state.dims[dim] + added})
    yield from _regroupings(shape, state, mesh)
    yield from _reductions(shape, state, mesh)
    for dims in _all_dims(state.rank, tuple(a for a in (*state.split_axes, *free))):
        after = replace(state, dims=dims)
        if after != state:
            yield "retile", {"source": state, "target": after, "shape": shape}, after
    missing = [pair for pair in target.partial if pair[0] in free and pair not in state.partial]
    for count in range(1, len(missing) + 1):
        for added in itertools.combinations(missing, count):
            pairs = tuple(sorted((*state.partial, *added), key=lambda pair: mesh.order(pair[0])))
            if len({kind for _, kind in pairs}) == 1:
                attrs = {"axes": tuple(axis for axis, _ in added), "kind": added[0][1]}
                yield "to_partial", attrs, replace(state, partial=pairs)


def _regroupings(shape: tuple[int, ...], state: Sharding, mesh: Mesh) -> Iterator[Step]:
    for dim, axes in enumerate(state.dims):
        for keep in range(len(axes)):
            stay, moved_axes = axes[:keep], axes[keep:]
            if not _nests(shape[dim], stay, moved_axes, mesh):
                continue
            yield "all_gather", {"axes": moved_axes, "dim": dim}, _moved(state, {dim: stay})
            for split, outer_axes in enumerate(state.dims):
                if split != dim and _nests(shape[split], outer_axes, moved_axes, mesh):
                    attrs = {"axes": moved_axes, "split_dim": split, "concat_dim": dim}
                    yield "all_to_all", attrs, _moved(state, {dim: stay, split: outer_axes + moved_axes})


def _reductions(shape: tuple[int, ...], state: Sharding, mesh: Mesh) -> Iterator[Step]:
    if not state.partial:
        return
    kind = state.partial[-1][1]
    run = itertools.takewhile(lambda pair: pair[1] == kind, reversed(state.partial))
    for axes in _arrangements([axis for axis, _ in run]):
        if not axes:
            continue
        rest = replace(state, partial=tuple(pair for pair in state.partial if pair[0] not in axes))
        yield "all_reduce", {"axes": axes, "kind": kind}, rest
        for dim, outer_axes in enumerate(state.dims):
            if _nests(shape[dim], outer_axes, axes, mesh):
                yield "reduce_scatter", {"axes": axes, "dim": dim, "kind": kind}, _moved(rest, {dim: outer_axes + axes})


def _moved(state: Sharding, changes: Mapping[int, tuple[str, ...]]) -> Sharding:
    return state.with_dims(changes.get(dim, axes) for dim, axes in enumerate(state.dims))


def _nests(size: int, outer: tuple[str, ...], inner: tuple[str, ...], mesh: Mesh) -> bool:
    coarse, parts = -(-size // mesh.group_size(outer)), mesh.group_size(inner)
    return not outer or coarse == parts * -(-size // mesh.group_size((*outer, *inner)))


def _arrangements(axes: list[str]) -> Iterator[tuple[str, ...]]:
    for count in range(len(axes) + 1):
        yield from itertools.permutations(axes, count)


@lru_cache(maxsize=64)
def _all_dims(rank: int, axes: tuple[str, ...]) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Return all assignments of a subset of the axes, in any order, to dims."""
    assignments: set[tuple[tuple[str, ...], ...]] = set()
    for ordered in itertools.permutations(axes):
        for assigned_dims in itertools.product(range(rank + 1), repeat=len(axes)):
            pairs = list(zip(assigned_dims, ordered, strict=True))
            assignments.add(
                tuple(tuple(axis for assigned_dim, axis in pairs if assigned_dim == dim) for dim in range(rank))
            )
    return tuple(sorted(assignments))
