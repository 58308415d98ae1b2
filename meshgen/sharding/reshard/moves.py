"""The moves of the reshard search; each move is one collective or a local slice.

A move that works tile by tile is offered only if the tiles nest. A dim whose size the axes do not
divide is gathered completely, sliced from a replicated dim, or re-tiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshgen.sharding.reshard.problem import Move, Problem, is_plain
from meshgen.spec import Sharding

# Largest number of axes of which a reshard tries all subsets and orders (chosen: 2^5 subsets and 325 ordered ones
# remain cheap).
_ALL_ORDERS_OF_AXES = 5


def moves(problem: Problem, state: Sharding) -> Iterator[Move]:
    """Yield all moves from a state except transfers, in a fixed order.

    Moves that work on equal tiles start only from plain states.
    """
    if is_plain(state):
        yield from _slices(problem, state)
        yield from _gathers(problem, state)
        yield from _exchanges(problem, state)
        yield from _scatters(problem, state)
    yield from _reductions(problem, state)
    yield from _to_partial(problem, state)


def _with_dim(state: Sharding, dim: int, axes: tuple[str, ...]) -> Sharding:
    return Sharding((*state.dims[:dim], axes, *state.dims[dim + 1 :]), state.partial)


def _slices(problem: Problem, state: Sharding) -> Iterator[Move]:
    """Yield slices of dims along axes along which the value is replicated.

    A slice uses any single axis, or several axes at once that the target has on the dim and the state lacks. Slices
    that the target does not have are useful if the smaller tiles are then reduced or cross slow links.
    """
    free = [axis for axis in problem.axes if axis not in state.used_axes]
    for dim, axes in enumerate(state.dims):
        target_axes = problem.target.dims[dim]
        axis_groups = [(axis,) for axis in free if axis in target_axes or state.partial or problem.has_slow_links]
        if target_axes[: len(axes)] == axes:
            missing_axes = target_axes[len(axes) :]
            axis_groups += [
                missing_axes[:n] for n in range(2, len(missing_axes) + 1) if all(a in free for a in missing_axes[:n])
            ]
        for added in axis_groups:
            if problem.nests(dim, axes, added):
                yield Move("all_slice", {"axes": added, "dim": dim}, _with_dim(state, dim, axes + added))


def _suffixes(problem: Problem, state: Sharding) -> Iterator[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """Yield all ways to remove minor-most axes from a dim, as (dim, remaining axes, removed axes)."""
    for dim, axes in enumerate(state.dims):
        for count in range(1, len(axes) + 1):
            remaining, removed = axes[:-count], axes[-count:]
            if problem.nests(dim, remaining, removed):
                yield dim, remaining, removed


def _gathers(problem: Problem, state: Sharding) -> Iterator[Move]:
    for dim, remaining, removed in _suffixes(problem, state):
        yield Move("all_gather", {"axes": removed, "dim": dim}, _with_dim(state, dim, remaining))


def _exchanges(problem: Problem, state: Sharding) -> Iterator[Move]:
    for concat, remaining, removed in _suffixes(problem, state):
        for split, axes in enumerate(state.dims):
            if split != concat and problem.nests(split, axes, removed):
                attrs = {"axes": removed, "split_dim": split, "concat_dim": concat}
                yield Move("all_to_all", attrs, _with_dim(_with_dim(state, concat, remaining), split, axes + removed))


def _reducible(state: Sharding) -> tuple[tuple[str, ...], str]:
    """Return the axes that can be reduced next, and their kind.

    Different kinds do not commute, and the last axis in mesh order is innermost.
    """
    if not state.partial:
        return (), ""
    kind = state.partial[-1][1]
    run = itertools.takewhile(lambda pair: pair[1] == kind, reversed(state.partial))
    return tuple(axis for axis, _ in run)[::-1], kind


def _subsets(problem: Problem, axes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield all subsets of `axes`, larger ones first. If there are many axes, yield the axes of each target dim and
    runs only.
    """
    if len(axes) <= _ALL_ORDERS_OF_AXES:
        for count in range(len(axes), 0, -1):
            yield from itertools.combinations(axes, count)
        return
    target_subsets = (tuple(axis for axis in axes if axis in dim) for dim in problem.target.dims)
    yield from dict.fromkeys(subset for subset in (*target_subsets, *_runs(axes)) if subset)


def _runs(axes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield runs of adjacent axes, longer ones first."""
    for count in range(len(axes), 0, -1):
        yield from (tuple(axes[start : start + count]) for start in range(len(axes) - count + 1))


def _without(state: Sharding, reduced: tuple[str, ...]) -> Sharding:
    return state.with_partial(tuple(pair for pair in state.partial if pair[0] not in reduced))


def _scatters(problem: Problem, state: Sharding) -> Iterator[Move]:
    """Yield reduce_scatters that put the reduced axes at the minor-most position of a dim, in the target's order if
    possible.
    """
    candidates, kind = _reducible(state)
    for axes in _subsets(problem, candidates):
        for dim, present in enumerate(state.dims):
            target_axes = tuple(axis for axis in problem.target.dims[dim] if axis in axes)
            order = target_axes if len(target_axes) == len(axes) else axes
            if problem.nests(dim, present, order):
                after = _with_dim(_without(state, axes), dim, present + order)
                yield Move("reduce_scatter", {"axes": order, "dim": dim, "kind": kind}, after)


def _reductions(problem: Problem, state: Sharding) -> Iterator[Move]:
    candidates, kind = _reducible(state)
    for axes in _subsets(problem, candidates):
        yield Move("all_reduce", {"axes": axes, "kind": kind}, _without(state, axes))


def missing_summands(state: Sharding, target: Sharding) -> tuple[tuple[str, str], ...] | None:
    """Return the partial axes of `target` that `state` lacks, or None if `state` must first reduce partial axes.

    An axis can only be added inside of axes of other kinds: the neutral element of its kind would not survive a later
    inner reduction of another kind.
    """
    if any(pair not in target.partial for pair in state.partial):
        return None
    missing = tuple(pair for pair in target.partial if pair not in state.partial)
    for index, (_, kind) in enumerate(target.partial):
        inner = [pair for pair in target.partial[index:] if pair in state.partial]
        if target.partial[index] in missing and any(other != kind for _, other in inner):
            return None
    return missing


def _to_partial(problem: Problem, state: Sharding) -> Iterator[Move]:
    """Yield the last move of a path, which makes the value partial along replicated axes.

    Yields nothing unless everything else matches the target. If axes of several kinds are missing, the outer kind comes
    first.
    """
    target = problem.target
    missing = missing_summands(state, target)
    if not missing or target.with_partial(state.partial) != state:
        return
    kind = missing[0][1]
    added = tuple(axis for axis, _ in itertools.takewhile(lambda pair: pair[1] == kind, missing))
    partial = tuple(pair for pair in target.partial if pair in state.partial or pair[0] in added)
    yield Move("to_partial", {"axes": added, "kind": kind}, state.with_partial(partial))


def moved_summands(problem: Problem, state: Sharding) -> tuple[tuple[str, str], ...] | None:
    """Return the target's partial axes to which the state's partial values can move.

    Returns None if the values need not or cannot move. The returned axes have as many devices as the state's partial
    axes. Values move one to one, so no device holds two, and all must be of one kind.
    """
    target_partial = problem.target.partial
    if not state.partial or set(state.partial) <= set(target_partial):
        return None
    if len({kind for _, kind in (*state.partial, *target_partial)}) != 1:
        return None
    # number of devices -> the largest number of trailing (axis, kind) pairs with that many devices
    pairs_by_devices: dict[int, tuple[tuple[str, str], ...]] = {1: ()}
    for pair in reversed(target_partial):
        size = problem.parts((pair[0],))
        extended = {devices * size: (pair, *pairs) for devices, pairs in pairs_by_devices.items()}
        pairs_by_devices |= {
            n: pairs for n, pairs in extended.items() if len(pairs) >= len(pairs_by_devices.get(n, ()))
        }
    return pairs_by_devices.get(problem.parts(state.partial_axes))


def transfer(
    problem: Problem, state: Sharding, after: Sharding, partial: tuple[tuple[str, str], ...] | None = None
) -> Move | None:
    """Return a move by sends and receives straight to the tiles of the sharding `after`, or None if nothing moves.

    Partial values stay partial over the axes in `partial`, or over their present axes if `partial` is None. These axes
    must not split dims in `after`.
    """
    after = after.with_partial(state.partial if partial is None else partial)
    if after == state or any(axis in after.split_axes for axis in after.partial_axes):
        return None
    if after.halo and replace(after, halo=()) == state:
        return Move("update_halo", {"sharding": after, "shape": problem.shape}, after)
    both_plain = is_plain(state) and is_plain(after)
    has_equal_parts = both_plain and all(
        problem.parts(a) == problem.parts(b) for a, b in zip(state.dims, after.dims, strict=True)
    )
    attrs = {"source": state, "target": after, "shape": problem.shape}
    return Move("permute" if has_equal_parts else "retile", attrs, after)


def _orders(axes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the permutations of all subsets of a few axes; for many axes, runs of adjacent axes in their order."""
    if len(axes) > _ALL_ORDERS_OF_AXES:
        yield from _runs(axes)
        return
    for count in range(1, len(axes) + 1):
        yield from itertools.permutations(axes, count)


def predecessors(problem: Problem) -> Iterator[tuple[Sharding, Move]]:
    """Yield plain shardings that one all_gather, all_to_all or slice turns into the target's tiles, each with that
    move.

    If few devices hold much data, or links are slow, it is faster to send a part of a tile to each device and gather
    the parts afterwards.
    """
    target = replace(problem.target.without_partial(), halo=())
    if not is_plain(target):
        return
    free = [axis for axis in problem.axes if axis not in problem.target.used_axes]
    for added in _orders(free):
        for dim, axes in enumerate(target.dims):
            if problem.nests(dim, axes, added):
                yield _with_dim(target, dim, axes + added), Move("all_gather", {"axes": added, "dim": dim}, target)
    for dim, remaining, removed in _suffixes(problem, target):
        yield _with_dim(target, dim, remaining), Move("all_slice", {"axes": removed, "dim": dim}, target)
        for concat, axes in enumerate(target.dims):
            if concat != dim and problem.nests(concat, axes, removed):
                before = _with_dim(_with_dim(target, dim, remaining), concat, axes + removed)
                yield before, Move("all_to_all", {"axes": removed, "split_dim": dim, "concat_dim": concat}, target)
