"""Explain how the meshes of a program interact: the mesh of each value, transfers and their reasons, and idle time."""

from __future__ import annotations

from functools import partial
from typing import Any

from meshgen.codegen.passes.loop_unroll import unrolled
from meshgen.ir.graph import Module, Value
from meshgen.reports.collectives import ReshardingCollective
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import seconds_text
from meshgen.reports.value_reasons import chain_record, link_parts, reasons_of
from meshgen.sharding.multi_mesh.chains import ReasonsAcross
from meshgen.sharding.multi_mesh.mesh_assignment import is_on_several, place
from meshgen.sharding.multi_mesh.transfer_shardings import Crossing, TransferCandidate, crossings

MOST_WAYS = 4  # chosen: number of rejected sharding pairs shown per transfer, the cheapest first


class Across:
    """Explains a program on several meshes: adds the mesh and the transfers to records about values and collectives."""

    def __init__(self, executable: Compiled) -> None:
        link_parts(executable.parts)
        self.executable = executable
        propagated = executable.stages.get("propagate")
        self.crossings = crossings(propagated.parts) if propagated else {}
        self._placed = _placements(executable.stages.get("import"))

    def heading(self, part: Compiled) -> str:
        """Return the mesh of `part` as text, with the share of the step during which it is busy."""
        return heading(self.executable, part)

    def placed(self, part: Compiled, value: Value, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a value, extended by its mesh and the reason for that mesh."""
        why = self._placed.get(value.id, "")
        received = [
            c.received
            for c in self.crossings.values()
            if c.receiver == part.mesh and c.received.results[0].id == value.id
        ]
        why = received[0].notes.why if received else why
        return record | {"mesh": part.mesh.name, "placed": why}

    def is_about(self, collective: ReshardingCollective, what: str | int) -> bool:
        """Whether a collective is a transfer between meshes, of the value `what` or at source line `what`."""
        crossing = self.crossings.get(collective.row.channel)
        if crossing is None:
            return False
        return (
            crossing.received.results[0].name == what.lstrip("%")
            if isinstance(what, str)
            else collective.row.line == what
        )

    def collective(self, collective: ReshardingCollective, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a collective, extended by its mesh. For a transfer it also has the value and the
        reasons.
        """
        record = record | {"mesh": collective.mesh}
        if (crossing := self.crossings.get(collective.row.channel)) is None:
            return record
        return record | {"crossing": _crossing_record(crossing), "chains": [*record["chains"], *self._chains(crossing)]}

    def _chains(self, crossing: Crossing) -> list[dict[str, Any]]:
        """Return the chains of reasons for the sharding of a transferred value on both meshes."""
        sides = {mesh.name: (node.op, node.attrs.channel) for mesh, node in crossing.sides}
        records: list[dict[str, Any]] = []
        for part in self.executable.parts:
            reasons = reasons_of(part) if part.mesh.name in sides else None
            if isinstance(reasons, ReasonsAcross):
                value = reasons.transfers[sides[part.mesh.name]].value
                name = f"{reasons.name(value)} on @{part.mesh.name}"
                records += [chain_record(name, chain) for chain in reasons.chains(value)]
        return records


def _placements(module: Module | None) -> dict[int, str]:
    """Map the id of each value to the reason why it is on its mesh."""
    if module is None:
        return {}
    module = unrolled(module, partial(is_on_several, meshes=module.meshes))
    places, reasons = place(module), dict[int, str]()
    for node in module.graph.nodes:
        why = places.why.get(node, "it depends on no input, so every mesh that uses it computes it")
        reasons.update({value.id: why for value in node.results})
    annotations = [*module.in_annotations, *[None] * len(module.graph.inputs)]
    for value, annotation in zip(module.graph.inputs, annotations, strict=False):
        why = "because of its annotation" if annotation and annotation.sharding.mesh else "it is first used there"
        reasons[value.id] = why
    return reasons


def _crossing_record(crossing: Crossing) -> dict[str, Any]:
    chosen = crossing.cheapest()
    rejected = sorted((way for way in crossing.ways() if way != chosen), key=lambda way: (way.seconds, way.moved))
    return {
        "value": crossing.received.results[0].name,
        "made": str(crossing.sent_sharding),
        "wanted": str(crossing.needed_sharding),
        **_way_record(chosen),
        "alternatives": [_way_record(way) for way in rejected[:MOST_WAYS]],
    }


def _way_record(way: TransferCandidate) -> dict[str, Any]:
    return {"source": str(way.source), "target": str(way.target), "moved": way.moved, "seconds": way.seconds}


def heading(executable: Compiled, part: Compiled) -> str:
    """Return the mesh of `part` as text, with the share of the total step during which it is busy."""
    busy = executable.busy_seconds(executable.parts.index(part))
    times = f"busy for {seconds_text(busy)} of the {seconds_text(executable.cost.step_seconds)} that a step of all meshes takes"
    return f"@{part.mesh.name} {part.mesh}: {times}"
