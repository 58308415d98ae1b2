"""Which device sends how much to which in a step: the matrix of the page, from the collectives and their groups."""

from __future__ import annotations

from typing import Any

from meshgen.mesh import Mesh
from meshgen.reports.comms import Collective
from meshgen.reports.interface import Compiled

MOST_DEVICES = 64  # of a mesh whose matrix is drawn
_DIRECT = ("all_to_all", "retile")  # every device sends to every other one of its group; else along a ring


def matrices(executable: Compiled) -> list[dict[str, Any]]:
    """Per mesh `bytes[sender][receiver]`: in the model of rings, where each device sends to the next of its group.

    Transfers to other meshes are not in it. Empty for a mesh of more than 64 devices.
    """
    found: list[dict[str, Any]] = []
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
        found.append({"mesh": mesh.name, "devices": names, "bytes": [[round(each) for each in line] for line in table]})
    return found


def _add(table: list[list[float]], row: Collective, mesh: Mesh) -> None:
    """Add what every device of every group sends."""
    total = row.ring_bytes * row.times
    for group in mesh.groups(row.axes):
        if len(group) < 2:
            continue
        for place, sender in enumerate(group):
            if row.kind in _DIRECT:
                for receiver in group:
                    if receiver != sender:
                        table[sender][receiver] += total / (len(group) - 1)
            else:
                table[sender][group[(place + 1) % len(group)]] += total
