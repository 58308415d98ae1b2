"""Classify the collectives of a program by the links of the machine that they use, such as links inside a host or
between hosts.
"""

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
    """The collectives of a step whose outermost links are of this class. Bytes and seconds are per device and step.

    Attributes:
        name: name of the links.
        axes: the mesh axes of these collectives.
        times: number of executions per step.
    """

    name: str
    axes: tuple[str, ...]
    times: int
    ring_bytes: int
    seconds: float
    exposed_seconds: float

    def record(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return self._asdict() | {"axes": [*self.axes]}


def link_of(mesh: Mesh, axes: tuple[str, ...]) -> str:
    """Return the name of the outermost links of the mesh's machine that some group of devices along `axes` uses.

    Without axes these are the outermost links of the machine, which a transfer to another mesh uses.
    """
    assert mesh.machine
    links = mesh.machine.links
    if not axes:
        return links[-1].name
    spans, _ = spans_of(mesh, axes, mesh.machine)
    reached = {crossing.link for span in spans for crossing in span.crossings}
    return next((link.name for link in reversed(links) if link in reached), links[0].name)


def link_classes(executable: Compiled) -> list[LinkClass]:
    """Return a record for each class of links that some collective uses, innermost first; none if no machine is set."""
    rows_by_link: dict[str, list[Collective]] = {}
    for part in executable.parts:
        if machine := part.mesh.machine:
            rows_by_link |= {link.name: rows_by_link.get(link.name, []) for link in machine.links}
            for row in part.comms:
                rows_by_link[link_of(part.mesh, row.axes)].append(row)
    return [_link_class(name, rows) for name, rows in rows_by_link.items() if rows]


def _link_class(name: str, rows: Sequence[Collective]) -> LinkClass:
    axes = tuple(dict.fromkeys(axis for row in rows for axis in row.axes))
    total = total_of(rows)
    return LinkClass(name, axes, total.times, total.ring_bytes, total.seconds, total.exposed_seconds)


def link_tables(executable: Compiled) -> list[Table]:
    """Return a list with the table of link classes, or an empty list if no machine is set."""
    if not any(part.mesh.machine for part in executable.parts):
        return []
    rows = [
        (link_class.name, ",".join(link_class.axes), link_class.times, bytes_text(link_class.ring_bytes), seconds_text(link_class.seconds), seconds_text(link_class.exposed_seconds))
        for link_class in link_classes(executable)
    ]  # fmt: skip
    columns = ("links", "axes", "collectives", "moved", "takes", "exposed")
    return [table_of(f"Links of {machine_names(executable)}, per device and step", columns, rows, left=("axes",))]


def link_record(executable: Compiled) -> dict[str, Any]:
    """Return for `--json` the machine that predictions assume and, if the program names a machine, its link classes."""
    machine = _machines(executable)[0]
    links = [link_class.record() for link_class in link_classes(executable)]
    return {"machine": machine_record(machine)} | ({"links": links} if executable.parts[0].mesh.machine else {})


def machine_names(executable: Compiled) -> str:
    """Return the machines and devices that predictions assume, as text."""
    return ", ".join(map(machine_title, _machines(executable)))


def _machines(executable: Compiled) -> list[Machine]:
    target = executable.options.target
    return [*dict.fromkeys(predicted_machine(target, part.mesh.machine) for part in executable.parts)]
