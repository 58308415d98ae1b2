"""The moves between shardings that a reshard is searched over, each one collective (or a local slice).

A move that works tile by tile is offered only if the tiles nest: a dim whose size the axes do not
divide is gathered whole or sliced from whole, else re-tiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshgen.sharding.reshard.problem import Move, Problem, is_plain
from meshgen.spec import Sharding

# Axes of which a reshard tries all subsets and orders.
_ALL_ORDERS_OF_AXES = 5


def moves(problem: Problem, state: Sharding) -> Iterator[Move]:
    """All moves from a state but transfers, in a fixed order; those that work on equal tiles only from such states."""
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
    """Slice dims on axes that replicate: on any one, or at once on all that the target has there and the state lacks.

    Slices that the target lacks are useful if the smaller tiles are then reduced or cross slow links.
    """
    free = [axis for axis in problem.axes if axis not in state.used_axes]
    for dim, axes in enumerate(state.dims):
        wanted = problem.target.dims[dim]
        places = [(axis,) for axis in free if axis in wanted or state.partial or problem.has_slow_links]
        if wanted[: len(axes)] == axes:
            rest = wanted[len(axes) :]
            places += [rest[:n] for n in range(2, len(rest) + 1) if all(a in free for a in rest[:n])]
        for added in places:
            if problem.nests(dim, axes, added):
                yield Move("all_slice", {"axes": added, "dim": dim}, _with_dim(state, dim, axes + added))


def _suffixes(problem: Problem, state: Sharding) -> Iterator[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """(dim, axes that stay, minor-most axes that can be taken off it)."""
    for dim, axes in enumerate(state.dims):
        for count in range(1, len(axes) + 1):
            stay, taken = axes[:-count], axes[-count:]
            if problem.nests(dim, stay, taken):
                yield dim, stay, taken


def _gathers(problem: Problem, state: Sharding) -> Iterator[Move]:
    for dim, stay, taken in _suffixes(problem, state):
        yield Move("all_gather", {"axes": taken, "dim": dim}, _with_dim(state, dim, stay))


def _exchanges(problem: Problem, state: Sharding) -> Iterator[Move]:
    for concat, stay, taken in _suffixes(problem, state):
        for split, axes in enumerate(state.dims):
            if split != concat and problem.nests(split, axes, taken):
                attrs = {"axes": taken, "split_dim": split, "concat_dim": concat}
                yield Move("all_to_all", attrs, _with_dim(_with_dim(state, concat, stay), split, axes + taken))


def _reducible(state: Sharding) -> tuple[tuple[str, ...], str]:
    """The axes that can be reduced next, and their kind: kinds do not commute, the last in mesh order is innermost."""
    if not state.partial:
        return (), ""
    kind = state.partial[-1][1]
    run = itertools.takewhile(lambda pair: pair[1] == kind, reversed(state.partial))
    return tuple(axis for axis, _ in run)[::-1], kind


def _subsets(problem: Problem, axes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """All subsets of few axes, the larger first; of many those in dims of the target, and runs of neighbours."""
    if len(axes) <= _ALL_ORDERS_OF_AXES:
        for count in range(len(axes), 0, -1):
            yield from itertools.combinations(axes, count)
        return
    wanted = (tuple(axis for axis in axes if axis in dim) for dim in problem.target.dims)
    yield from dict.fromkeys(found for found in (*wanted, *_runs(axes)) if found)


def _runs(axes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Neighbouring axes, the longer runs first."""
    for count in range(len(axes), 0, -1):
        yield from (tuple(axes[start : start + count]) for start in range(len(axes) - count + 1))


def _without(state: Sharding, reduced: tuple[str, ...]) -> Sharding:
    return state.with_partial(tuple(pair for pair in state.partial if pair[0] not in reduced))


def _scatters(problem: Problem, state: Sharding) -> Iterator[Move]:
    """reduce_scatter onto the minor-most place of a dim, in the target's order of axes if it has them all."""
    candidates, kind = _reducible(state)
    for axes in _subsets(problem, candidates):
        for dim, present in enumerate(state.dims):
            wanted = tuple(axis for axis in problem.target.dims[dim] if axis in axes)
            order = wanted if len(wanted) == len(axes) else axes
            if problem.nests(dim, present, order):
                after = _with_dim(_without(state, axes), dim, present + order)
                yield Move("reduce_scatter", {"axes": order, "dim": dim, "kind": kind}, after)


def _reductions(problem: Problem, state: Sharding) -> Iterator[Move]:
    candidates, kind = _reducible(state)
    for axes in _subsets(problem, candidates):
        yield Move("all_reduce", {"axes": axes, "kind": kind}, _without(state, axes))


def missing_summands(state: Sharding, target: Sharding) -> tuple[tuple[str, str], ...] | None:
    """The partial axes that the target has and the state lacks; None if some of the state's must be reduced first.

    An axis can be added only inside of those of other kinds: after an inner reduction of another kind its neutral element is not neutral.
    """
    if any(pair not in target.partial for pair in state.partial):
        return None
    missing = tuple(pair for pair in target.partial if pair not in state.partial)
    for number, (_, kind) in enumerate(target.partial):
        inner = [pair for pair in target.partial[number:] if pair in state.partial]
        if target.partial[number] in missing and any(other != kind for _, other in inner):
            return None
    return missing


def _to_partial(problem: Problem, state: Sharding) -> Iterator[Move]:
    """The last step, once all else is as the target: partial along axes that replicate, outer ones first."""
    target = problem.target
    missing = missing_summands(state, target)
    if not missing or target.with_partial(state.partial) != state:
        return
    kind = missing[0][1]
    added = tuple(axis for axis, _ in itertools.takewhile(lambda pair: pair[1] == kind, missing))
    partial = tuple(pair for pair in target.partial if pair in state.partial or pair[0] in added)
    yield Move("to_partial", {"axes": added, "kind": kind}, state.with_partial(partial))


def moved_summands(problem: Problem, state: Sharding) -> tuple[tuple[str, str], ...] | None:
    """Partial axes of the target, or parts of them with as many devices, for summands that are partial over other axes.

    They move one to one, so no device keeps two; only if all are of one kind. None if they are in place.
    """
    wanted = problem.target.partial
    if not state.partial or set(state.partial) <= set(wanted):
        return None
    if len({kind for _, kind in (*state.partial, *wanted)}) != 1:
        return None
    found: dict[int, tuple[tuple[str, str], ...]] = {1: ()}  # by number of devices: the most pairs, of these the first
    for pair in reversed(wanted):
        size = problem.parts((pair[0],))
        longer = {devices * size: (pair, *pairs) for devices, pairs in found.items()}
        found |= {n: pairs for n, pairs in longer.items() if len(pairs) >= len(found.get(n, ()))}
    return found.get(problem.parts(state.partial_axes))


def transfer(
    problem: Problem, state: Sharding, after: Sharding, partial: tuple[tuple[str, str], ...] | None = None
) -> Move | None:
    """Straight to the tiles of another sharding, by sends and receives; None if nothing moves.

    Summands stay summands, over the axes that `partial` names or their own, which must be free there.
    """
    after = after.with_partial(state.partial if partial is None else partial)
    if after == state or any(axis in after.split_axes for axis in after.partial_axes):
        return None
    if after.halo and replace(after, halo=()) == state:
        return Move("update_halo", {"sharding": after, "shape": problem.shape}, after)
    plain = is_plain(state) and is_plain(after)
    same = plain and all(problem.parts(a) == problem.parts(b) for a, b in zip(state.dims, after.dims, strict=True))
    attrs = {"source": state, "target": after, "shape": problem.shape}
    return Move("permute" if same else "retile", attrs, after)


def _orders(axes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Permutations of subsets of few axes; of many, runs of neighbours in their order."""
    if len(axes) > _ALL_ORDERS_OF_AXES:
        yield from _runs(axes)
        return
    for count in range(1, len(axes) + 1):
        yield from itertools.permutations(axes, count)


def predecessors(problem: Problem) -> Iterator[tuple[Sharding, Move]]:
    """Plain shardings from which one all_gather, all_to_all or slice leads to the target's tiles, with that move.

    If few devices hold much or links are slow, it is better to send a part to each device and gather afterwards.
    """
    target = replace(problem.target.without_partial(), halo=())
    if not is_plain(target):
        return
    free = [axis for axis in problem.axes if axis not in problem.target.used_axes]
    for added in _orders(free):
        for dim, axes in enumerate(target.dims):
            if problem.nests(dim, axes, added):
                yield _with_dim(target, dim, axes + added), Move("all_gather", {"axes": added, "dim": dim}, target)
    for dim, stay, taken in _suffixes(problem, target):
        yield _with_dim(target, dim, stay), Move("all_slice", {"axes": taken, "dim": dim}, target)
        for concat, axes in enumerate(target.dims):
            if concat != dim and problem.nests(concat, axes, taken):
                before = _with_dim(_with_dim(target, dim, stay), concat, axes + taken)
                yield before, Move("all_to_all", {"axes": taken, "split_dim": dim, "concat_dim": concat}, target)
