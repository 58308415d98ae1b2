"""Moving a distributed tensor from one sharding to another: who holds what, and who fetches what from whom.

The simulated network uses it; every rank fetches only the tiles that meet its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.ccl.exchange import summand_axes
from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.evaluate.common import Array
from meshgen.mesh import Mesh
from meshgen.spec import Sharding

Shards = list[Array]  # one array per rank


def _origin(sharding: Sharding, shape: Sequence[int], mesh: Mesh, rank: int) -> list[int]:
    """Global index of the first row of a rank's buffer, per dim; before the tensor's start where a halo stands out."""
    halo = sharding.halo or ((0, 0),) * sharding.rank
    return [sharding.core(d, n, mesh, rank)[0] - halo[d][0] for d, n in enumerate(shape)]


@dataclass(frozen=True)
class _Holders:
    """Who owns which tile of the source: ranks by their tile's numbers, per index over the partial axes."""

    source: Sharding
    shape: tuple[int, ...]
    mesh: Mesh
    table: dict[tuple[int, ...], list[int]]

    @staticmethod
    def of(source: Sharding, summands: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh) -> _Holders:
        table: dict[tuple[int, ...], list[int]] = {}
        for rank in range(mesh.size):
            key = tuple(mesh.index(rank, axes) for axes in (*source.dims, summands))
            table.setdefault(key, []).append(rank)
        return _Holders(source, shape, mesh, table)

    def nearest(self, key: tuple[int, ...], rank: int) -> int:
        """The holder that differs from `rank` in the fewest coordinates, the lowest such rank."""
        mine = self.mesh.coordinates(rank)

        def distance(other: int) -> tuple[int, int]:
            return sum(a != b for a, b in zip(mine, self.mesh.coordinates(other), strict=True)), other

        return min(self.table[key], key=distance)

    def tiles(self, dim: int, start: int, stop: int) -> list[int]:
        """Numbers of the tiles of a dim whose owned rows meet [start, stop)."""
        return [i for i, (a, b) in enumerate(self.rows(dim)) if max(a, start) < min(b, stop)]

    def rows(self, dim: int) -> list[tuple[int, int]]:
        """Owned rows of every tile of a dim."""
        size, source = self.shape[dim], self.source
        if source.offsets and source.offsets[dim]:
            return list(zip(source.offsets[dim][:-1], source.offsets[dim][1:], strict=True))
        tile = source.tile(dim, size, self.mesh)
        return [(min(i * tile, size), min((i + 1) * tile, size)) for i in range(source.parts(dim, self.mesh))]


def transfer(shards: Shards, source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh,
             buffers: Shards) -> Shards:  # fmt: skip
    """Fill each rank's range under `target`, halo included, in a copy of its buffer, from the owners under `source`.

    Values partial over axes stay partial: every rank fetches from holders of its own summand, which may be partial over
    other axes (`summand_axes`).
    """
    summands = summand_axes(source, target, mesh)
    if summands is None:
        raise ProgramError(Diagnostic("MG0207", f"a transfer from {source} to {target} would have to reduce",
                                      hint="reduce with all_reduce or reduce_scatter first"))  # fmt: skip
    holders = _Holders.of(source, summands[0], shape, mesh)
    made: dict[tuple[Any, ...], Array] = {}
    results: Shards = []
    for rank in range(mesh.size):
        box, summand = target.ranges(shape, mesh, rank), mesh.index(rank, summands[1])
        pieces = [(key, holders.nearest(key, rank)) for key in _keys(holders, box, summand)]
        origin = tuple(_origin(target, shape, mesh, rank))
        key = (id(buffers[rank]), box, origin, tuple(id(shards[holder]) for _, holder in pieces))
        if key not in made:
            made[key] = _filled(buffers[rank], box, pieces, rank, holders, shards, target)
        results.append(made[key])
    return results


def _keys(holders: _Holders, box: Sequence[tuple[int, int]], summand: int) -> list[tuple[int, ...]]:
    keys: list[tuple[int, ...]] = [()]
    for dim, (start, stop) in enumerate(box):
        keys = [(*key, tile) for key in keys for tile in holders.tiles(dim, start, stop)]
    return [(*key, summand) for key in keys]


def _filled(buffer: Array, box: Sequence[tuple[int, int]], pieces: list[tuple[tuple[int, ...], int]], rank: int,
            holders: _Holders, shards: Shards, target: Sharding) -> Array:  # fmt: skip
    result = buffer.copy()
    to = _origin(target, holders.shape, holders.mesh, rank)
    for key, holder in pieces:
        at = _origin(holders.source, holders.shape, holders.mesh, holder)
        rows = [holders.rows(d)[tile] for d, tile in enumerate(key[:-1])]
        common = [(max(a, start), min(b, stop)) for (a, b), (start, stop) in zip(rows, box, strict=True)]
        there = tuple(slice(a - o, b - o) for (a, b), o in zip(common, at, strict=True))
        here = tuple(slice(a - o, b - o) for (a, b), o in zip(common, to, strict=True))
        result[here] = shards[holder][there]
    return result
