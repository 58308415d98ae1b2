"""Solve a program as it is written: a decision along every mesh axis, or part of one that annotations name.

Example, on x=6 with `%a : f32[64,32]` annotated [{x:(1)2}, {}]: the axes solved are `x:(1)2` and `x:(2)3`, one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from meshgen.errors import Diagnostic
from meshgen.ir.axis_parts import AxisParts, merge
from meshgen.ir.graph import Module, Value
from meshgen.mesh import split_ref
from meshgen.sharding.propagation.amounts import Whole
from meshgen.sharding.propagation.axes import USUAL, Axes, Decision, Start, labels_of_axes
from meshgen.sharding.propagation.control import flatten
from meshgen.sharding.propagation.kept import unkept, unreadable
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.order import Orders, axis_orders
from meshgen.sharding.propagation.sites import Site, annotation_of, sites_of


class Gap(NamedTuple):
    """An axis along which no proof was found that the decision is the best: its estimated seconds, and those that none is below."""

    axis: str
    seconds: float
    least_seconds: float

    def __str__(self) -> str:
        share = self.seconds / self.least_seconds - 1 if self.least_seconds > 0 else 0.0
        return f"{self.axis}: {self.seconds * 1e6:.4g} us, as estimated, at most {share:.1%} above the best"


@dataclass(frozen=True, eq=False)
class Solved:
    """A program, or one that is equal to it, and the decision along each part of each axis."""

    axes: Axes
    start: Start  # the start that they were decided from
    decisions: dict[str, Decision]

    @property
    def module(self) -> Module:
        return self.axes.module

    @property
    def sites(self) -> list[Site]:
        return self.axes.sites

    @property
    def labels(self) -> dict[str, tuple[Label, ...]]:
        """The label of every site along each axis."""
        return labels_of_axes(self.decisions)

    @cached_property
    def orders(self) -> Orders:
        """Per site and factor the axes that split it, major to minor."""
        chosen = {site: {axis: labels[i] for axis, labels in self.labels.items()} for i, site in enumerate(self.sites)}
        return axis_orders(self.sites, chosen, self.start.in_order(self.axes.names))

    def gaps(self) -> Iterator[Gap]:
        """The axes whose decision is not proven the best, the others' given: the program is too wide to look at all."""
        for axis, decision in self.decisions.items():
            if not decision.solution.is_exact:
                yield Gap(axis, decision.solution.seconds, decision.problem.least_seconds)

    def parts_of(self, value: Value, dim: int) -> int:
        """Into how many parts annotations may split a dim: the most along one axis."""
        reached = (axis for axis, decision in self.decisions.items() if dim in decision.origins.get(value, {}))
        return max((self.module.mesh.axis_size(axis) for axis in reached), default=1)

    @property
    def faults(self) -> list[Diagnostic]:
        """Faults: required annotations that are not kept, and annotations for users that no user can follow."""
        return [*unkept(self.sites, self.labels), *unreadable(self.sites)]


def solve_as_written(module: Module, cuts: Sequence[str] = ()) -> Solved:
    """The decisions for this very program, from the usual start. Required annotations may be unkept: `faults` says which.

    Args:
        cuts: further parts of axes over which it is solved.
    """
    solved = _solve(module, cuts)
    if (
        not cuts and solved.faults
    ):  # uneven tiles of parts of an axis do not nest: parts that options name are not cut for annotations
        return _solve(module, (), only_options=True)
    return solved


def _solve(module: Module, cuts: Sequence[str], *, only_options: bool = False) -> Solved:
    parts = AxisParts.of(module.mesh, [*named_axes(module, only_options=only_options), *cuts])
    sites = sites_of(module, parts)
    axes = Axes(module, sites, parts, Whole.of(sites), is_cut=bool(cuts))
    return Solved(axes, USUAL, axes.decide(USUAL))


def named_axes(module: Module, *, only_options: bool) -> list[str]:
    """The axes, and parts of axes, that the user names; the first ones take precedence.

    Precedence matters if parts do not nest: options come first, as they must be kept, then parts that most annotations name.
    """
    nodes = [node for node, *_ in flatten(module.graph, 1.0)]
    lists = [tuple(axes) for node in nodes for axes in node.option or ()]
    options = Counter(axis for axes in lists for axis in merge(axes, module.mesh))
    annotations = [
        annotation
        for annotation in [*module.in_annotations, *module.out_annotations, *map(annotation_of, nodes)]
        if annotation
    ]
    required, hinted = Counter[str](), Counter[str]()
    for annotation in annotations:
        sharding = annotation.sharding
        kinds = {
            kind for _, kind in sharding.partial
        }  # parts of an axis that are partial with different kinds stay parts
        by_kind = [[axis for axis, kind in sharding.partial if kind == each] for each in sorted(kinds)]
        by_place = [sorted(axes, key=lambda axis: split_ref(axis)[:2]) for axes in by_kind]
        named = [axis for axes in (*sharding.dims, *by_place) for axis in merge(axes, module.mesh)]
        hinted.update(named)
        required.update(named if annotation.required else ())

    def rank(axis: str) -> tuple[int, int, int, str]:
        return -options[axis], -required[axis], -hinted[axis], axis

    return sorted(options if only_options else {**options, **hinted}, key=rank)
