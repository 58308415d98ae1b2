"""Simulation of transfers between two shardings in one process, which delivers the messages of `routes`."""

from __future__ import annotations

from typing import Any

from meshgen.ccl.exchange import summand_axes
from meshgen.ccl.routes import Box, kept, place_of, routes, volume
from meshgen.errors import Diagnostic, ProgramError
from meshgen.identity_dict import identities
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import Array
from meshgen.spec import Sharding

Shards = list[Array]  # one array per rank
Place = tuple[slice, ...]  # slices of a buffer that hold a region of the tensor
# (rank that holds a region, slices of the region in the holder's buffer, slices in the receiver's buffer)
Piece = tuple[int, Place, Place]


def transfer(shards: Shards, source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh,
             buffers: Shards, layout: Sharding | None = None) -> Shards:  # fmt: skip
    """Return copies of `buffers` in which each rank's range under `target` is filled from `shards`, halo included.

    A partial value stays partial: every rank gets its own partial summand, which may move to other axes
    (`summand_axes`).

    Args:
        source: the sharding of `shards`.
        layout: the sharding that determines the buffer layout of `shards`; default: `source`.
    Raises:
        ProgramError: MG0207, the transfer would require a reduction.
    """
    if summand_axes(source, target, mesh) is None:
        raise ProgramError(Diagnostic("MG0207", f"a transfer cannot reduce, as {source} to {target} requires",
                                      hint="reduce with all_reduce or reduce_scatter first"))  # fmt: skip
    filled: dict[tuple[Any, ...], Array] = {}  # Ranks with equal results share one array object.
    results: Shards = []
    buffer_ids, shard_ids = identities(buffers), identities(shards)
    for buffer_id, buffer, parts in zip(buffer_ids, buffers, pieces(source, target, shape, mesh, layout), strict=True):
        key = (
            buffer_id,
            tuple(
                (shard_ids[sender], _bounds(source_index), _bounds(target_index))
                for sender, source_index, target_index in parts
            ),
        )
        if key not in filled:
            filled[key] = _filled(
                buffer, [(shards[sender][source_index], target_index) for sender, source_index, target_index in parts]
            )
        results.append(filled[key])
    return results


def pieces(
    source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh, layout: Sharding | None = None
) -> list[list[Piece]]:
    """Return, for each rank, the regions that it copies, from other ranks and from its own shard.

    Args:
        layout: the sharding that determines the layout of the source buffers; default: `source`.
    """
    regions: list[list[tuple[int, Box]]] = [[] for _ in range(mesh.size)]
    for rank, rank_regions in enumerate(regions):
        if volume(box := kept(source, target, shape, mesh, rank)):
            rank_regions.append((rank, box))
    for message in routes(source, target, shape, mesh):
        regions[message.receiver].append((message.sender, message.box))
    return [
        [
            (sender, place_of(box, layout or source, shape, mesh, sender), place_of(box, target, shape, mesh, rank))
            for sender, box in parts
        ]
        for rank, parts in enumerate(regions)
    ]


def _bounds(index: Place) -> tuple[tuple[int, int], ...]:
    return tuple((rows.start, rows.stop) for rows in index)


def _filled(buffer: Array, moves: list[tuple[Array, Place]]) -> Array:
    result = buffer.copy()
    for values, index in moves:
        result[index] = values
    return result
