"""The moves between shardings that a reshard is searched over, each one collective (or a local slice).

A move that works tile by tile is offered only where the tiles really nest: a dim whose size the axes do not
divide is gathered whole or sliced from whole, else re-tiled. What the search needs to know is in `Problem`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from meshgen.ccl.cost import ring_bytes, seconds_of
from meshgen.ccl.exchange import Receivers, exchange
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.spec import Sharding

TRANSFERS = ("permute", "retile")  # grouped sends and receives


@dataclass(frozen=True)
class Move:
    """One step: an op with its attributes, and the sharding that it leads to."""

    op: str
    attrs: Mapping[str, Any]
    sharding: Sharding


class Problem:
    """A tensor and the sharding to reach, over axes of which no two overlap and none has size 1."""

    def __init__(self, type: TensorType, target: Sharding, mesh: Mesh, axes: tuple[str, ...]) -> None:
        self.type, self.target, self.mesh, self.axes = type, target, mesh, axes
        self.shape = type.sizes
        self.sizes = {axis: mesh.axis_size(axis) for axis in axes}
        self._receivers = Receivers(target, self.shape, mesh, axes)
        self._local: dict[Sharding, TensorType] = {}

    def parts(self, axes: tuple[str, ...]) -> int:
        return math.prod(self.sizes[axis] for axis in axes)

    def tile(self, dim: int, axes: tuple[str, ...]) -> int:
        return -(-self.shape[dim] // self.parts(axes))

    def nests(self, dim: int, outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
        """Whether tiles over `outer` fall into those over `outer + inner` without a rest."""
        return not outer or self.tile(dim, outer) == self.parts(inner) * self.tile(dim, outer + inner)

    def local(self, sharding: Sharding) -> TensorType:
        """Type of a device's buffer."""
        if sharding not in self._local:
            self._local[sharding] = self.type.with_shape(sharding.local_shape(self.shape, self.mesh))
        return self._local[sharding]

    def elements(self, sharding: Sharding) -> int:
        """Elements of a device's buffer."""
        return math.prod(self.local(sharding).sizes)

    def cost(self, source: Sharding, move: Move) -> tuple[float, int]:
        """Seconds, and bytes per device."""
        moved = ring_bytes(move.op, move.attrs, self.local(source), self.local(move.sharding), self.mesh)
        return seconds_of(move.op, move.attrs, moved, self.mesh), moved

    def missing(self, state: Sharding) -> int:
        """Bytes that some device must still receive: no plan moves less (summands count as if they were reduced)."""
        if state.halo or any(state.offsets):
            found = exchange(state.without_partial(), self.target.without_partial(), self.shape, self.mesh).received
        else:
            found = self._receivers.missing(state)
        return found * self.type.numpy_dtype.itemsize


def moves(problem: Problem, state: Sharding) -> Iterator[Move]:
    """All moves from a state, in a fixed order; those that work on equal tiles only from states that have them."""
    if not state.halo and not any(state.offsets):
        yield from _slices(problem, state)
        yield from _gathers(problem, state)
        yield from _exchanges(problem, state)
        yield from _scatters(problem, state)
    yield from _reductions(problem, state)
    yield from _to_partial(problem, state)
    yield from _transfers(problem, state)


def _with_dim(state: Sharding, changes: Mapping[int, tuple[str, ...]]) -> Sharding:
    return state.with_dims(changes.get(dim, axes) for dim, axes in enumerate(state.dims))


def _slices(problem: Problem, state: Sharding) -> Iterator[Move]:
    """Slice dims on axes that the target has there: one, or all that are still missing at once."""
    free = [axis for axis in problem.axes if axis not in state.used_axes]
    for dim, axes in enumerate(state.dims):
        wanted = problem.target.dims[dim]
        places = [(axis,) for axis in wanted if axis in free]
        if wanted[: len(axes)] == axes:
            rest = wanted[len(axes) :]
            places += [rest[:n] for n in range(2, len(rest) + 1) if all(a in free for a in rest[:n])]
        for added in places:
            if problem.nests(dim, axes, added):
                yield Move("all_slice", {"axes": added, "dim": dim}, _with_dim(state, {dim: axes + added}))


def _suffixes(problem: Problem, state: Sharding) -> Iterator[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """(dim, axes that stay, minor-most axes that can be taken off it)."""
    for dim, axes in enumerate(state.dims):
        for count in range(1, len(axes) + 1):
            stay, taken = axes[:-count], axes[-count:]
            if problem.nests(dim, stay, taken):
                yield dim, stay, taken


def _gathers(problem: Problem, state: Sharding) -> Iterator[Move]:
    for dim, stay, taken in _suffixes(problem, state):
        yield Move("all_gather", {"axes": taken, "dim": dim}, _with_dim(state, {dim: stay}))


def _exchanges(problem: Problem, state: Sharding) -> Iterator[Move]:
    for concat, stay, taken in _suffixes(problem, state):
        for split, axes in enumerate(state.dims):
            if split != concat and problem.nests(split, axes, taken):
                attrs = {"axes": taken, "split_dim": split, "concat_dim": concat}
                yield Move("all_to_all", attrs, _with_dim(state, {concat: stay, split: axes + taken}))


def _reducible(state: Sharding) -> tuple[tuple[str, ...], str]:
    """The axes that can be reduced next, and their kind: kinds do not commute, the last in mesh order is innermost."""
    if not state.partial:
        return (), ""
    kind = state.partial[-1][1]
    run = itertools.takewhile(lambda pair: pair[1] == kind, reversed(state.partial))
    return tuple(axis for axis, _ in run)[::-1], kind


def _subsets(axes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for count in range(len(axes), 0, -1):
        yield from itertools.combinations(axes, count)


def _without(state: Sharding, reduced: tuple[str, ...]) -> Sharding:
    return replace(state, partial=tuple(pair for pair in state.partial if pair[0] not in reduced))


def _scatters(problem: Problem, state: Sharding) -> Iterator[Move]:
    """reduce_scatter onto the minor-most place of a dim, in the target's order of axes where it has them all."""
    candidates, kind = _reducible(state)
    for axes in _subsets(candidates):
        for dim, present in enumerate(state.dims):
            wanted = tuple(axis for axis in problem.target.dims[dim] if axis in axes)
            order = wanted if len(wanted) == len(axes) else axes
            if problem.nests(dim, present, order):
                after = _with_dim(_without(state, axes), {dim: present + order})
                yield Move("reduce_scatter", {"axes": order, "dim": dim, "kind": kind}, after)


def _reductions(problem: Problem, state: Sharding) -> Iterator[Move]:
    candidates, kind = _reducible(state)
    for axes in _subsets(candidates):
        yield Move("all_reduce", {"axes": axes, "kind": kind}, _without(state, axes))


def missing_summands(state: Sharding, target: Sharding) -> tuple[tuple[str, str], ...] | None:
    """The partial axes that the target has and the state has not; None if some of the state's must be reduced first.

    An axis can be added only inside of those of other kinds: what is reduced before it would not stay neutral.
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
    if not missing or replace(target, partial=state.partial) != state:
        return
    kind = missing[0][1]
    added = tuple(axis for axis, _ in itertools.takewhile(lambda pair: pair[1] == kind, missing))
    partial = tuple(pair for pair in target.partial if pair in state.partial or pair[0] in added)
    yield Move("to_partial", {"axes": added, "kind": kind}, replace(state, partial=partial))


def _transfers(problem: Problem, state: Sharding) -> Iterator[Move]:
    """Straight to the target's tiles; summands stay summands, where their axes are free there."""
    after = replace(problem.target, partial=state.partial)
    if after == state or any(axis in after.split_axes for axis in state.partial_axes):
        return
    plain = not (state.halo or after.halo or any(state.offsets) or any(after.offsets))
    same = plain and all(problem.parts(a) == problem.parts(b) for a, b in zip(state.dims, after.dims, strict=True))
    attrs = {"source": state, "target": after, "shape": problem.shape}
    yield Move("permute" if same else "retile", attrs, after)
