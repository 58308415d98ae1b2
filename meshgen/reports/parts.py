"""How the meshes of a program interact: on which mesh each value is, what is transferred and why, and how long each mesh waits."""

from __future__ import annotations

from functools import partial
from typing import Any

from meshgen.codegen.passes.loop_unroll import unrolled
from meshgen.ir.graph import Module, Value
from meshgen.reports.collectives import Served
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import seconds_text
from meshgen.reports.values import chain_record, link_parts, reasons_of
from meshgen.sharding.multi_mesh.chains import ReasonsAcross
from meshgen.sharding.multi_mesh.crossings import Crossing, Way, crossings
from meshgen.sharding.multi_mesh.place import is_on_several, place

MOST_WAYS = 4  # other ways to cross that are shown, cheapest first


class Across:
    """Answers about a program on several meshes, beyond those about each mesh alone."""

    def __init__(self, executable: Compiled) -> None:
        link_parts(executable.parts)
        self.executable = executable
        propagated = executable.stages.get("propagate")
        self.crossings = crossings(propagated.parts) if propagated else {}
        self._placed = _placements(executable.stages.get("import"))

    def heading(self, part: Compiled) -> str:
        """The mesh of a part, and how long it works and waits."""
        return heading(self.executable, part)

    def placed(self, part: Compiled, value: Value, record: dict[str, Any]) -> dict[str, Any]:
        """The record of a value with its mesh, and why it is there."""
        why = self._placed.get(value.id, "")
        received = [
            c.got for c in self.crossings.values() if c.receiver == part.mesh and c.got.results[0].id == value.id
        ]
        why = received[0].notes.why if received else why
        return record | {"mesh": part.mesh.name, "placed": why}

    def is_about(self, each: Served, what: str | int) -> bool:
        """Whether a collective carries a value to or from another mesh, or carries any and is from a line."""
        crossing = self.crossings.get(each.row.channel)
        if crossing is None:
            return False
        return crossing.got.results[0].name == what.lstrip("%") if isinstance(what, str) else each.row.line == what

    def collective(self, each: Served, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a collective with its mesh. The record of a transfer also has the value that it carries and the reason."""
        record = record | {"mesh": each.mesh}
        if (crossing := self.crossings.get(each.row.channel)) is None:
            return record
        return record | {"crossing": _crossing_record(crossing), "chains": [*record["chains"], *self._chains(crossing)]}

    def _chains(self, crossing: Crossing) -> list[dict[str, Any]]:
        """Why the value has its sharding on both meshes."""
        sides = {mesh.name: (node.op, node.attrs.channel) for mesh, node in crossing.sides}
        found: list[dict[str, Any]] = []
        for part in self.executable.parts:
            reasons = reasons_of(part) if part.mesh.name in sides else None
            if isinstance(reasons, ReasonsAcross):
                value = reasons.transfers[sides[part.mesh.name]].value
                name = f"{reasons.name(value)} on @{part.mesh.name}"
                found += [chain_record(name, chain) for chain in reasons.chains(value)]
        return found


def _placements(module: Module | None) -> dict[int, str]:
    """Per value, by its id, why it is on its mesh."""
    if module is None:
        return {}
    module = unrolled(module, partial(is_on_several, meshes=module.meshes))
    places, found = place(module), dict[int, str]()
    for node in module.graph.nodes:
        why = places.why.get(node, "it depends on no input, so every mesh that uses it makes it")
        found.update({value.id: why for value in node.results})
    annotations = [*module.in_annotations, *[None] * len(module.graph.inputs)]
    for value, annotation in zip(module.graph.inputs, annotations, strict=False):
        why = "annotated so" if annotation and annotation.sharding.mesh else "it is first used there"
        found[value.id] = why
    return found


def _crossing_record(crossing: Crossing) -> dict[str, Any]:
    chosen = crossing.cheapest()
    others = sorted((way for way in crossing.ways() if way != chosen), key=lambda way: (way.seconds, way.moved))
    return {
        "value": crossing.got.results[0].name,
        "made": str(crossing.made),
        "wanted": str(crossing.wanted),
        **_way_record(chosen),
        "alternatives": [_way_record(way) for way in others[:MOST_WAYS]],
    }


def _way_record(way: Way) -> dict[str, Any]:
    return {"source": str(way.source), "target": str(way.target), "moved": way.moved, "seconds": way.seconds}


def heading(executable: Compiled, part: Compiled) -> str:
    """The mesh of a part, and for how much of the step of all meshes it is busy."""
    busy = executable.busy_seconds(executable.parts.index(part))
    times = f"busy for {seconds_text(busy)} of the {seconds_text(executable.cost.step_seconds)} that a step of all meshes takes"
    return f"@{part.mesh.name} {part.mesh}: {times}"
