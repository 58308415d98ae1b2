"""Solve a program as written: one decision along every mesh axis, or along each sub-axis that annotations name.

Example, on x=6 with `%a : f32[64,32]` annotated [{x:(1)2}, {}]: the axes solved are `x:(1)2` and `x:(2)3`, one after
the other.
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
from meshgen.sharding.propagation.axes import USUAL, Axes, Decision, Start, labels_of_axes
from meshgen.sharding.propagation.axis_order import Orders, axis_orders
from meshgen.sharding.propagation.control import flatten
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.sites import Site, annotation_of, sites_of
from meshgen.sharding.propagation.unsplit_program import UnsplitProgram
from meshgen.sharding.propagation.violated_annotations import unusable_annotations, violated_annotations


class Gap(NamedTuple):
    """An axis whose decision is not proven optimal: its estimated seconds, and a lower bound for all decisions."""

    axis: str
    seconds: float
    least_seconds: float

    def __str__(self) -> str:
        share = self.seconds / self.least_seconds - 1 if self.least_seconds > 0 else 0.0
        return f"{self.axis}: {self.seconds * 1e6:.4g} us, as estimated, at most {share:.1%} above the best"


@dataclass(frozen=True, eq=False)
class Solved:
    """A program (as written or rewritten), and the decision along each axis or sub-axis."""

    axes: Axes
    start: Start  # the starting configuration that led to the decisions
    decisions: dict[str, Decision]

    @property
    def module(self) -> Module:
        return self.axes.module

    @property
    def sites(self) -> list[Site]:
        return self.axes.sites

    @property
    def labels(self) -> dict[str, tuple[Label, ...]]:
        """Return the label of every site along each axis."""
        return labels_of_axes(self.decisions)

    @cached_property
    def orders(self) -> Orders:
        """Return per site and factor the axes that split it, major to minor."""
        site_labels = {
            site: {axis: labels[i] for axis, labels in self.labels.items()} for i, site in enumerate(self.sites)
        }
        return axis_orders(self.sites, site_labels, self.start.in_order(self.axes.names))

    def gaps(self) -> Iterator[Gap]:
        """Yield the axes whose decision is not proven optimal, given the decisions along the other axes."""
        for axis, decision in self.decisions.items():
            if not decision.solution.is_exact:
                yield Gap(axis, decision.solution.seconds, decision.problem.least_seconds)

    def parts_of(self, value: Value, dim: int) -> int:
        """Return the largest number of parts into which annotations can split a dim along one axis, at least 1."""
        reached = (axis for axis, decision in self.decisions.items() if dim in decision.origins.get(value, {}))
        return max((self.module.mesh.axis_size(axis) for axis in reached), default=1)

    @property
    def faults(self) -> list[Diagnostic]:
        """Return the violated required annotations, and the annotations on uses that no user can follow."""
        return [*violated_annotations(self.sites, self.labels), *unusable_annotations(self.sites)]


def solve_as_written(module: Module, cuts: Sequence[str] = ()) -> Solved:
    """Solve the program from the usual start, without rewriting it.

    Required annotations may be violated; `faults` of the result lists them.

    Args:
        cuts: additional sub-axes over which the program is solved.
    """
    solved = _solve(module, cuts)
    # Tiles of sub-axes do not nest if they are uneven. So retry without the sub-axes that only annotations name.
    if not cuts and solved.faults:
        return _solve(module, (), only_options=True)
    return solved


def _solve(module: Module, cuts: Sequence[str], *, only_options: bool = False) -> Solved:
    parts = AxisParts.of(module.mesh, [*named_axes(module, only_options=only_options), *cuts])
    sites = sites_of(module, parts)
    axes = Axes(module, sites, parts, UnsplitProgram.of(sites), is_resizing_bitcast=bool(cuts))
    return Solved(axes, USUAL, axes.decide(USUAL))


def named_axes(module: Module, *, only_options: bool) -> list[str]:
    """Return the axes and sub-axes that the user names, by precedence.

    Precedence matters if sub-axes do not nest. Options come first, as they must be followed, then sub-axes that most
    annotations name.
    """
    nodes = [node for node, *_ in flatten(module.graph, 1.0)]
    option_axes = [tuple(axes) for node in nodes for axes in node.option or ()]
    options = Counter(axis for axes in option_axes for axis in merge(axes, module.mesh))
    annotations = [
        annotation
        for annotation in [*module.in_annotations, *module.out_annotations, *map(annotation_of, nodes)]
        if annotation
    ]
    required, hinted = Counter[str](), Counter[str]()
    for annotation in annotations:
        sharding = annotation.sharding
        kinds = {kind for _, kind in sharding.partial}  # Sub-axes that are partial with different kinds stay separate.
        by_kind = [[axis for axis, kind in sharding.partial if kind == partial_kind] for partial_kind in sorted(kinds)]
        sorted_axes = [sorted(axes, key=lambda axis: split_ref(axis)[:2]) for axes in by_kind]
        annotated_axes = [axis for axes in (*sharding.dims, *sorted_axes) for axis in merge(axes, module.mesh)]
        hinted.update(annotated_axes)
        required.update(annotated_axes if annotation.required else ())

    def rank(axis: str) -> tuple[int, int, int, str]:
        return -options[axis], -required[axis], -hinted[axis], axis

    return sorted(options if only_options else {**options, **hinted}, key=rank)
