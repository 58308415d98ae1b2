"""How the meshes of a program interact: on which mesh each value is, what is transferred and why, and how long each mesh waits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from meshgen.codegen.passes.loop_unroll import unrolled
from meshgen.ir.graph import Module, Value
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import bytes_text, seconds_text
from meshgen.reports.values import known_of, link_parts
from meshgen.sharding.multi_mesh.chains import ReasonsAcross
from meshgen.sharding.multi_mesh.crossings import Crossing, Way, crossings
from meshgen.sharding.multi_mesh.place import is_on_several, place

MOST_WAYS = 4  # other ways to cross that are shown, cheapest first


class Across:
    """Answers about a program on several meshes, beyond those about each mesh alone."""

    def __init__(self, executable: Compiled) -> None:
        link_parts(executable.parts)
        self.executable = executable
        counts = [len(part.comms) for part in executable.parts]
        self.first = {part.mesh.name: sum(counts[:number]) for number, part in enumerate(executable.parts)}
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

    def transfers_about(self, part: Compiled, what: str | int) -> list[int]:
        """Which collectives of a part carry a value to or from another mesh, or are from a line."""
        name = what.lstrip("%") if isinstance(what, str) else ""
        return [
            number
            for number, row in enumerate(part.comms)
            if row.channel in self.crossings
            and (row.line == what or (name and self.crossings[row.channel].got.results[0].name == name))
        ]

    def collective(self, part: Compiled, record: dict[str, Any]) -> dict[str, Any]:
        """The record of a collective, numbered over the whole program; for a transfer also what it carries and why."""
        found = record | {"number": record["number"] + self.first[part.mesh.name], "mesh": part.mesh.name}
        if (crossing := self.crossings.get(record.get("channel", -1))) is None:
            return found
        return found | {"crossing": _crossing_record(crossing), "chains": [*record["chains"], *self._chains(crossing)]}

    def _chains(self, crossing: Crossing) -> list[dict[str, Any]]:
        """Why the value has its sharding on both meshes."""
        sides = {mesh.name: (node.op, node.attrs.channel) for mesh, node in crossing.sides}
        found: list[dict[str, Any]] = []
        for part in self.executable.parts:
            reasons = known_of(part).reasons if part.mesh.name in sides else None
            if isinstance(reasons, ReasonsAcross):
                value = reasons.transfers[sides[part.mesh.name]].value
                name = f"{reasons.name(value)} on @{part.mesh.name}"
                found += [{"value": name} | c.record() | {"text": c.lines()} for c in reasons.chains(value)]
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


def crossing_lines(record: Mapping[str, Any]) -> list[str]:
    """Text: what a transfer carries, and between which other shardings it could."""
    lines = [
        f"it is made as {record['made']}, crosses from {record['source']} to {record['target']}, and is used as {record['wanted']}"
    ]
    lines += [
        f"instead: from {way['source']} to {way['target']}: {bytes_text(way['moved'])} with what is moved on both meshes, {seconds_text(way['seconds'])}"
        for way in record["alternatives"]
    ]
    return lines


def heading(executable: Compiled, part: Compiled) -> str:
    """The mesh of a part, and for how much of the step of all meshes it is busy."""
    busy = executable.busy_seconds(executable.parts.index(part))
    times = f"busy for {seconds_text(busy)} of the {seconds_text(executable.cost.step_seconds)} that a step of all meshes takes"
    return f"@{part.mesh.name} {part.mesh}: {times}"
