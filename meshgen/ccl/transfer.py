"""Moving a distributed tensor from one sharding to another: the messages of `routes`, delivered in one process."""

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
Place = tuple[slice, ...]  # of a part of the tensor in a buffer
Piece = tuple[int, Place, Place]  # holder of a part of the tensor, its position there, and in the receiver's buffer


def transfer(shards: Shards, source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh,
             buffers: Shards, layout: Sharding | None = None) -> Shards:  # fmt: skip
    """Fill each rank's range under `target`, halo included, in a copy of its buffer.

    Values partial over axes stay partial: every rank gets its own summand, which may be partial over other axes
    (`summand_axes`).

    Args:
        source: the sharding that ranks hold, from which others fetch.
        layout: the sharding of their buffers; default: the source.
    Raises:
        ProgramError: MG0207, the transfer would have to reduce.
    """
    if summand_axes(source, target, mesh) is None:
        raise ProgramError(Diagnostic("MG0207", f"a transfer cannot reduce, as {source} to {target} requires",
                                      hint="reduce with all_reduce or reduce_scatter first"))  # fmt: skip
    made: dict[tuple[Any, ...], Array] = {}  # ranks with equal results share the object
    results: Shards = []
    held, numbers = identities(buffers), identities(shards)
    for number, buffer, parts in zip(held, buffers, pieces(source, target, shape, mesh, layout), strict=True):
        key = (number, tuple((numbers[sender], _bounds(there), _bounds(here)) for sender, there, here in parts))
        if key not in made:
            made[key] = _filled(buffer, [(shards[sender][there], here) for sender, there, here in parts])
        results.append(made[key])
    return results


def pieces(
    source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh, layout: Sharding | None = None
) -> list[list[Piece]]:
    """The parts that each rank gets, its own included. `layout`: the sharding of the buffers; default: the source."""
    found: list[list[tuple[int, Box]]] = [[] for _ in range(mesh.size)]
    for rank, own in enumerate(found):
        if volume(box := kept(source, target, shape, mesh, rank)):
            own.append((rank, box))
    for message in routes(source, target, shape, mesh):
        found[message.receiver].append((message.sender, message.box))
    return [
        [
            (sender, place_of(box, layout or source, shape, mesh, sender), place_of(box, target, shape, mesh, rank))
            for sender, box in parts
        ]
        for rank, parts in enumerate(found)
    ]


def _bounds(place: Place) -> tuple[tuple[int, int], ...]:
    return tuple((part.start, part.stop) for part in place)


def _filled(buffer: Array, moves: list[tuple[Array, Place]]) -> Array:
    result = buffer.copy()
    for piece, here in moves:
        result[here] = piece
    return result
