"""Per-device bytes and work, for the decision along one mesh axis under the shardings along the other axes.

Example, `%h = dot_general %a, %w -> f32[64,96]` on x=4, y=2: y shards the rows of `%h`, so the decision along x sees
12 kB per device instead of 24 kB.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from meshgen.ir.graph import Value
from meshgen.ir.predicates import is_annotation
from meshgen.mesh import Mesh
from meshgen.sharding.propagation.edges import Edge, Joint, edges_of, joints_of
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.pseudo_ops import is_input
from meshgen.sharding.propagation.sites import Site


@dataclass(frozen=True)
class UnsplitProgram:
    """Unsharded sizes of a program: bytes of each value, seconds of work of each site, and the edges.

    Sites are the nodes, inputs and outputs of the program. Values and sites are identified by their index.
    """

    sites: Sequence[Site]
    edges: list[Edge]
    value_indices: dict[Value, int]
    operands: list[tuple[int, ...]]  # operands of each site, as value indices
    results: list[tuple[int, ...]]
    nbytes: list[float]
    work: list[float]

    @staticmethod
    def of(sites: Sequence[Site]) -> UnsplitProgram:
        numbers: dict[Value, int] = {}
        sides = [
            tuple(tuple([numbers.setdefault(v, len(numbers)) for v in side]) for side in (n.operands, n.results))
            for n in (site.node for site in sites)
        ]
        nbytes = [float(value.type.nbytes) for value in numbers]
        work = [site.seconds for site in sites]
        return UnsplitProgram(
            sites, edges_of(sites), numbers, [s[0] for s in sides], [s[1] for s in sides], nbytes, work
        )

    @cached_property
    def values(self) -> list[tuple[int, ...]]:
        """Return the value indices of each site's operands and results."""
        return [(*operands, *results) for operands, results in zip(self.operands, self.results, strict=True)]

    @cached_property
    def joints(self) -> list[Joint]:
        """Return the edges, with the part of their costs that no decision changes."""
        return joints_of(self.sites, self.edges, self.placed)

    @cached_property
    def site_indices(self) -> dict[Site, int]:
        """Return the index of each site."""
        return {site: index for index, site in enumerate(self.sites)}

    @cached_property
    def placed(self) -> set[Value]:
        """Return the inputs with required annotations, and the results of `annotate` ops with required annotations on
        them.
        """
        pinned_values: set[Value] = set()
        for site in self.sites:
            is_argument = is_input(site.node) or (is_annotation(site.node) and site.node.operands[0] in pinned_values)
            if is_argument and site.annotation is not None and site.annotation.required:
                pinned_values.add(site.value)
        return pinned_values


class View(NamedTuple):
    """Per-device bytes, work and loop parts for the decision along one axis, under the shardings along the other axes.

    Values and sites are identified by their index in `whole`.
    """

    whole: UnsplitProgram
    local: list[float]  # bytes per device of each value at its producer
    used: list[list[float]]  # bytes per device of each site's operands at the use
    seconds: list[float]  # seconds of work per device of each site
    split: Mapping[tuple[int, int], int]  # (site, factor) -> number of parts, for the factors that other axes shard
    moved: frozenset[tuple[int, int]]  # (site, operand) pairs that other axes reshard
    # (site, operand) -> number of devices of other axes that reduce the partial operand at this use
    reduced: Mapping[tuple[int, int], int]
    moving: frozenset[int]  # indices of the edges with a resharded operand

    def nbytes(self, value: Value) -> float:
        """Return the bytes per device of a value at its producer, as the other axes split the value."""
        return self.local[self.whole.value_indices[value]]

    def used_bytes(self, use: tuple[int, int]) -> float:
        """Return the bytes per device of an operand at its use, as the other axes split it. `use` is a (site, operand)
        pair.
        """
        return self.used[use[0]][use[1]]

    def work(self, site: Site) -> float:
        """Return the seconds of work of a site per device, as the other axes split it."""
        return self.seconds[self.whole.site_indices[site]]

    def parts(self, site: Site, factor: int) -> int:
        """Return the number of parts into which the other axes split a loop."""
        return self.split.get((self.whole.site_indices[site], factor), 1) if self.split else 1


def view_of(whole: UnsplitProgram, labels: Mapping[str, Sequence[Label]], mesh: Mesh) -> View:
    """Return the per-device sizes and the resharded edges that result from the decisions along other axes.

    `labels` has the labels of all sites along each of these axes.
    """
    local = list(whole.nbytes)
    used = [[whole.nbytes[value] for value in values] for values in whole.operands]
    moved: set[tuple[int, int]] = set()
    moving: set[int] = set()
    reduced: dict[tuple[int, int], int] = {}
    for axis, axis_labels in labels.items():
        size = mesh.axis_size(axis)
        for index, label in enumerate(axis_labels):
            for i in label.split_results:
                local[whole.results[index][i]] /= size
            for i in label.split_operands:
                used[index][i] /= size
        for index, (_, (producer, result), uses) in enumerate(whole.edges):
            if (produced_state := axis_labels[producer].results[result]) is None:
                continue
            for site, i in uses:
                if (state := axis_labels[site].operands[i]) != produced_state:
                    moved.add((site, i))
                    moving.add(index)
                    if isinstance(produced_state, str) and state is None:
                        reduced[site, i] = reduced.get((site, i), 1) * size
    parts = parts_of(labels, mesh)
    return View(whole, local, used, work_left(whole, parts), parts, frozenset(moved), reduced, frozenset(moving))


def parts_of(labels: Mapping[str, Sequence[Label]], mesh: Mesh) -> dict[tuple[int, int], int]:
    """Return the number of parts into which the axes split each loop, keyed by (site, factor).

    Loops that no axis splits are absent.
    """
    part_counts: dict[tuple[int, int], int] = {}
    for axis, axis_labels in labels.items():
        size = mesh.axis_size(axis)
        for index, label in enumerate(axis_labels):
            if label.factor is not None:
                part_counts[index, label.factor] = part_counts.get((index, label.factor), 1) * size
    return part_counts


def work_left(whole: UnsplitProgram, parts: Mapping[tuple[int, int], int]) -> list[float]:
    """Return the seconds of work per device at each site if the loops are split into `parts`."""
    work = list(whole.work)
    for (index, factor), count in parts.items():
        site = whole.sites[index]
        loop_size = site.rule.factors[factor].size
        work[index] *= site.left(factor, math.ceil(loop_size / count) / max(loop_size, 1))
    return work
