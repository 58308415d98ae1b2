"""The amounts that one axis decides over: values with their uses, bytes and work, whole or as the other axes leave them.

Example, `%h = dot_general %a, %w -> f32[64,96]` on x=4, y=2, decided along x while y splits the rows of `%h`: it has 12 kB of its 24.
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
from meshgen.sharding.propagation.joints import Edge, Joint, edges_of, joints_of
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.pseudo_ops import is_input
from meshgen.sharding.propagation.sites import Site


@dataclass(frozen=True)
class Whole:
    """What no axis has split yet, of sites and values by number: bytes of each value, seconds of work of each site; and the edges."""

    sites: Sequence[Site]
    edges: list[Edge]
    numbers: dict[Value, int]
    operands: list[tuple[int, ...]]  # of each site, the numbers of its values
    results: list[tuple[int, ...]]
    nbytes: list[float]
    work: list[float]

    @staticmethod
    def of(sites: Sequence[Site]) -> Whole:
        numbers: dict[Value, int] = {}
        sides = [
            tuple(tuple([numbers.setdefault(v, len(numbers)) for v in side]) for side in (n.operands, n.results))
            for n in (site.node for site in sites)
        ]
        nbytes = [float(value.type.nbytes) for value in numbers]
        work = [site.seconds for site in sites]
        return Whole(sites, edges_of(sites), numbers, [s[0] for s in sides], [s[1] for s in sides], nbytes, work)

    @cached_property
    def values(self) -> list[tuple[int, ...]]:
        """The numbers of each site's operands and results."""
        return [(*operands, *results) for operands, results in zip(self.operands, self.results, strict=True)]

    @cached_property
    def joints(self) -> list[Joint]:
        """The edges, with all that no decision changes of them."""
        return joints_of(self.sites, self.edges, self.placed)

    @cached_property
    def places(self) -> dict[Site, int]:
        """The number of each site."""
        return {site: number for number, site in enumerate(self.sites)}

    @cached_property
    def placed(self) -> set[Value]:
        """Inputs with an annotation, and the results of annotations of them."""
        found: set[Value] = set()
        for site in self.sites:
            given = is_input(site.node) or (is_annotation(site.node) and site.node.operands[0] in found)
            if given and site.annotation is not None and site.annotation.required:
                found.add(site.value)
        return found


class View(NamedTuple):
    """What the other axes leave to this one: bytes of each value where it is made and used, work, parts of loops, and edges that they reshard.

    Values and sites are those of the `whole`, by number.
    """

    whole: Whole
    local: list[float]  # bytes of each value where it is made
    used: list[list[float]]  # bytes of each site's operands
    seconds: list[float]  # of each site's work
    split: Mapping[tuple[int, int], int]  # (site, factor) -> parts, of the loops that are split
    moved: frozenset[tuple[int, int]]  # (site, operand)
    reduced: Mapping[tuple[int, int], int]  # (site, operand) -> devices among which it is reduced there
    moving: frozenset[int]  # the edges, by number, that have such operands

    def nbytes(self, value: Value) -> float:
        """Bytes of a value where it is made."""
        return self.local[self.whole.numbers[value]]

    def used_bytes(self, use: tuple[int, int]) -> float:
        """Bytes of an operand, (site, operand), as it is read."""
        return self.used[use[0]][use[1]]

    def work(self, site: Site) -> float:
        """Seconds of a site's work."""
        return self.seconds[self.whole.places[site]]

    def parts(self, site: Site, factor: int) -> int:
        """Into how many parts a loop is split."""
        return self.split.get((self.whole.places[site], factor), 1) if self.split else 1


def view_of(whole: Whole, labels: Mapping[str, Sequence[Label]], mesh: Mesh) -> View:
    """Bytes, work and moved edges as the other axes leave them of the whole: `labels` has those of all sites along each of them."""
    local = list(whole.nbytes)
    used = [[whole.nbytes[value] for value in values] for values in whole.operands]
    moved: set[tuple[int, int]] = set()
    moving: set[int] = set()
    reduced: dict[tuple[int, int], int] = {}
    for axis, chosen in labels.items():
        size = mesh.axis_size(axis)
        for number, label in enumerate(chosen):
            for i in label.split_results:
                local[whole.results[number][i]] /= size
            for i in label.split_operands:
                used[number][i] /= size
        for number, (_, (maker, result), uses) in enumerate(whole.edges):
            if (made := chosen[maker].results[result]) is None:
                continue
            for site, i in uses:
                if (state := chosen[site].operands[i]) != made:
                    moved.add((site, i))
                    moving.add(number)
                    if isinstance(made, str) and state is None:
                        reduced[site, i] = reduced.get((site, i), 1) * size
    parts = parts_of(labels, mesh)
    return View(whole, local, used, work_left(whole, parts), parts, frozenset(moved), reduced, frozenset(moving))


def parts_of(labels: Mapping[str, Sequence[Label]], mesh: Mesh) -> dict[tuple[int, int], int]:
    """Into how many parts the axes split loops, (site, factor); those that they leave whole are absent."""
    found: dict[tuple[int, int], int] = {}
    for axis, chosen in labels.items():
        size = mesh.axis_size(axis)
        for number, label in enumerate(chosen):
            if label.factor is not None:
                found[number, label.factor] = found.get((number, label.factor), 1) * size
    return found


def work_left(whole: Whole, parts: Mapping[tuple[int, int], int]) -> list[float]:
    """Seconds of a device's work at each site once loops are split so, of those of the whole work."""
    work = list(whole.work)
    for (number, factor), count in parts.items():
        site = whole.sites[number]
        rows = site.rule.factors[factor].size
        work[number] *= site.left(factor, math.ceil(rows / count) / max(rows, 1))
    return work
