"""Which links of its machine a program's collectives use: those inside a host, or those between hosts too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from meshgen.ccl.links import spans_of
from meshgen.codegen.targets import machine_title, predicted_machine
from meshgen.machine.profiles import Machine
from meshgen.machine.reading import machine_record
from meshgen.mesh import Mesh
from meshgen.reports.comms import Collective, total_of
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import Table, bytes_text, seconds_text, table_of


class LinkClass(NamedTuple):
    """The collectives of a step whose groups reach these links, and none further out. Bytes and seconds are per device.

    Attributes:
        name: of the links.
        axes: the mesh axes along which such collectives run.
        times: how often they run in a step.
    """

    name: str
    axes: tuple[str, ...]
    times: int
    ring_bytes: int
    seconds: float
    exposed_seconds: float

    def record(self) -> dict[str, Any]:
        """Return the fields in the types of JSON."""
        return self._asdict() | {"axes": [*self.axes]}


def link_of(mesh: Mesh, axes: tuple[str, ...]) -> str:
    """The name of the outermost links of the mesh's machine that some group along the axes reaches; none of the axes: to another mesh."""
    assert mesh.machine
    links = mesh.machine.links
    if not axes:
        return links[-1].name
    spans, _ = spans_of(mesh, axes, mesh.machine)
    reached = {crossing.link for span in spans for crossing in span.crossings}
    return next((link.name for link in reversed(links) if link in reached), links[0].name)


def link_classes(executable: Compiled) -> list[LinkClass]:
    """A record per class of links that some collective uses, from the innermost outwards; empty without a machine."""
    found: dict[str, list[Collective]] = {}
    for part in executable.parts:
        if machine := part.mesh.machine:
            found |= {link.name: found.get(link.name, []) for link in machine.links}
            for row in part.comms:
                found[link_of(part.mesh, row.axes)].append(row)
    return [_link_class(name, rows) for name, rows in found.items() if rows]


def _link_class(name: str, rows: Sequence[Collective]) -> LinkClass:
    axes = tuple(dict.fromkeys(axis for row in rows for axis in row.axes))
    total = total_of(rows)
    return LinkClass(name, axes, total.times, total.ring_bytes, total.seconds, total.exposed_seconds)


def link_tables(executable: Compiled) -> list[Table]:
    """A table of the classes of links; none without a machine."""
    if not any(part.mesh.machine for part in executable.parts):
        return []
    rows = [
        (each.name, ",".join(each.axes), each.times, bytes_text(each.ring_bytes), seconds_text(each.seconds), seconds_text(each.exposed_seconds))
        for each in link_classes(executable)
    ]  # fmt: skip
    columns = ("links", "axes", "collectives", "moved", "takes", "exposed")
    return [table_of(f"Links of {machine_names(executable)}, per device and step", columns, rows, left=("axes",))]


def link_record(executable: Compiled) -> dict[str, Any]:
    """Return the machine that times are predicted for, and the classes of its links, for `--json`; no classes if none was named."""
    machine = _machines(executable)[0]
    links = [each.record() for each in link_classes(executable)]
    return {"machine": machine_record(machine)} | ({"links": links} if executable.parts[0].mesh.machine else {})


def machine_names(executable: Compiled) -> str:
    """Return the machines that times are predicted for, each with its device."""
    return ", ".join(map(machine_title, _machines(executable)))


def _machines(executable: Compiled) -> list[Machine]:
    target = executable.options.target
    return [*dict.fromkeys(predicted_machine(target, part.mesh.machine) for part in executable.parts)]
