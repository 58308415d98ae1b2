"""The traffic matrix of the HTML page: the bytes that each device sends to each other device in a step."""

from __future__ import annotations

from typing import Any

from meshgen.mesh import Mesh
from meshgen.reports.comms import Collective
from meshgen.reports.interface import Compiled

MOST_DEVICES = 64  # chosen: number of devices up to which the matrix of a mesh is drawn
# kinds in which each device sends to every other device of its group; other kinds send along a ring
_DIRECT = ("all_to_all", "retile")


def matrices(executable: Compiled) -> list[dict[str, Any]]:
    """Return `bytes[sender][receiver]` for each mesh, in the ring model: a device sends to the next device of its
    group.

    Transfers between meshes are not included. Meshes of more than 64 devices are left out.
    """
    records: list[dict[str, Any]] = []
    for part in executable.parts:
        mesh = part.mesh
        if mesh.size > MOST_DEVICES:
            continue
        table = [[0.0] * mesh.size for _ in range(mesh.size)]
        for row in part.comms:
            if not row.peer:
                _add(table, row, mesh)
        names = [
            ", ".join(f"{axis.name}={n}" for axis, n in zip(mesh.axes, mesh.coordinates(rank), strict=True))
            for rank in range(mesh.size)
        ]
        records.append(
            {"mesh": mesh.name, "devices": names, "bytes": [[round(count) for count in sent] for sent in table]}
        )
    return records


def _add(table: list[list[float]], row: Collective, mesh: Mesh) -> None:
    """Add the bytes of one collective to `table`: what each device sends to the others of its group."""
    total = row.ring_bytes * row.times
    for group in mesh.groups(row.axes):
        if len(group) < 2:
            continue
        for position, sender in enumerate(group):
            if row.kind in _DIRECT:
                for receiver in group:
                    if receiver != sender:
                        table[sender][receiver] += total / (len(group) - 1)
            else:
                table[sender][group[(position + 1) % len(group)]] += total
