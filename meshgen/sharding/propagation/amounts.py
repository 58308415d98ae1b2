"""The amounts that one axis decides over: values with their uses, bytes and work, whole or as the other axes leave them.

Example, `%h = dot_general %a, %w -> f32[64,96]` on x=4, y=2, decided along x while y splits the rows of `%h`: it has 12 kB of its 24.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from meshgen.ir.graph import Value
from meshgen.records import dataclass
from meshgen.sharding.propagation.sites import Site

Edge = tuple[Value, tuple[int, int], list[tuple[int, int]]]


def edges(sites: list[Site]) -> list[Edge]:
    """Per value that a site makes and others use: (site, result) that makes it, [(site, operand)] that use it."""
    makers: dict[Value, tuple[int, int]] = {}
    uses: dict[Value, list[tuple[int, int]]] = {}
    for number, site in enumerate(sites):
        for i, value in enumerate(site.node.results):
            makers[value] = (number, i)
        for i, value in enumerate(site.node.operands):
            uses.setdefault(value, []).append((number, i))
    return [(value, makers[value], found) for value, found in uses.items() if value in makers]


@dataclass(frozen=True)
class Whole:
    """The amounts that no axis has split yet: bytes of each value where it is made and used, seconds of work; and the edges."""

    edges: list[Edge]
    nbytes: dict[Value, float]
    used: dict[tuple[int, int], float]  # (site, operand)
    work: dict[Site, float]

    @staticmethod
    def of(sites: list[Site]) -> Whole:
        nbytes = {v: float(v.type.nbytes) for site in sites for v in site.values}
        used = {(n, i): nbytes[v] for n, site in enumerate(sites) for i, v in enumerate(site.node.operands)}
        return Whole(edges(sites), nbytes, used, {site: site.seconds for site in sites})


@dataclass(frozen=True)
class View:
    """What the other axes leave to this one: bytes of each value where it is made and used, work, parts of loops, and edges that they reshard."""

    nbytes: Callable[[Value], float]
    used_bytes: Callable[[tuple[int, int]], float]  # (site, operand)
    work: Callable[[Site], float]
    parts: Callable[[Site, int], int]  # (site, factor)
    moved: frozenset[tuple[int, int]]  # (site, operand)
    reduced: Mapping[tuple[int, int], int]  # (site, operand) -> devices among which it is reduced there
