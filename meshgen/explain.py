"""Why collectives and shardings are as they are, from what propagation and the planner recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError, place_text
from meshgen.executable import Executable
from meshgen.explain_collectives import collective_records_of, collective_text
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.records import Comms
from meshgen.sharding.chains import Chain, Reasons
from meshgen.sharding.propagate import Solved, annotated, solve
from meshgen.sharding.rivals import lost_hints, rivals
from meshgen.sharding.unknown import nominal_mesh
from meshgen.tables import comms_table, render, table_of

Question = str | int | None  # a value's name, a line number, or everything


def explain(executable: Executable, what: Question = None) -> str:
    """Text for people: all collectives with their reasons, or what concerns a value or a source line."""
    if len(executable.parts) > 1:
        texts = [(part.mesh.name, explain(part, what)) for part in _about(executable, what)]
        return "\n\n".join(f"@{name}\n{text}" for name, text in texts)
    if what is None:
        solved = Known.of(executable).solved if "propagate" in executable.stages else None
        hints = [str(hint) for hint in lost_hints(solved)] if solved else []
        lines = ["", "Hints that lost", *hints] if hints else []
        return "\n".join([render(comms_table(executable.comms), *formula_tables(executable)).rstrip("\n"), *lines])
    known = Known.of(executable)
    texts = [_text(record) for record in known.values(what)]
    about = collectives_about(executable, what)
    numbers = [number for number, row in enumerate(executable.comms) if row in about.rows]
    records = collective_records_of(executable, known.solved, known.reasons, numbers)
    return "\n".join([*texts, *(f"\n{collective_text(record)}" for record in records)])


def explain_collective(executable: Executable, number: int) -> list[dict[str, Any]]:
    """What there is to say of one collective, by its number in the order in which they run.

    Raises UsageError (MG0001) where there are not so many.
    """
    count = len(executable.comms)
    if not 0 <= number < count:
        hint = f"they are numbered from 0 to {count - 1}" if count else "it has none"
        raise UsageError(Diagnostic("MG0001", f"the program has no collective {number}", hint=hint))
    for part in executable.parts:  # one mesh after the other
        if number >= len(part.comms):
            number -= len(part.comms)
            continue
        if "propagate" not in part.stages:  # written with collectives: they have the program for a reason
            return collective_records_of(part, None, None, [number])
        known = Known.of(part)
        return collective_records_of(part, known.solved, known.reasons, [number])
    return []


def _about(executable: Executable, what: Question) -> list[Executable]:
    """The parts that know a value or line, all of them for everything. Raises UsageError MG0001 where none does."""
    if what is None:
        return list(executable.parts)
    found: list[Executable] = []
    faults: list[Diagnostic] = []
    for part in executable.parts:
        try:
            Known.of(part).values(what)
            found.append(part)
        except UsageError as error:
            faults += error.diagnostics
    if not found:
        raise UsageError(*faults)
    return found


def formula_record(executable: Executable) -> dict[str, Any]:
    """For `--json`: formulas, and the bytes that partition adds for what single ops need (numbers, on this mesh)."""
    if len(executable.parts) > 1:
        return {"formulas": {part.mesh.name: formula_record(part).get("formula") for part in executable.parts}}
    analysis = executable.analysis
    if analysis is None:
        return {}
    added = executable.comms.ring_bytes - analysis.ring_bytes
    return {
        "formula": analysis.formula_record() | {"added_by_partition": added},
        "work": [asdict(work) for work in analysis.work],
    }


def formula_tables(executable: Executable) -> list[Any]:
    """What each kind moves in terms of the numbers of devices."""
    analysis = executable.analysis
    if analysis is None or not executable.comms:
        return []
    rows: list[tuple[object, ...]] = [
        (kind, analysis.counts[kind], formula) for kind, formula in analysis.formulas_by_kind().items()
    ]
    rows.append(("total", sum(analysis.counts.values()), analysis.formula))
    if added := executable.comms.ring_bytes - analysis.ring_bytes:
        rows.append(("made by partition", "", f"{added} on this mesh"))
    names = ", ".join(f"{name} = {size}" for name, size in analysis.sizes.items())
    title = "Bytes per device in the numbers of devices along the axes, for this plan" + (f"; {names}" if names else "")
    return ["", table_of(title, ("kind", "count", "bytes"), rows, left=("bytes",))]


def collectives_about(executable: Executable, what: str | int) -> Comms:
    """The collectives whose reason names a value or a line."""
    mark = f":{what})" if isinstance(what, int) else f"'{what.lstrip('%')}'"
    return Comms(tuple(row for row in executable.comms if mark in row.why))


def explanations(executable: Executable, what: Question = None) -> list[dict[str, Any]]:
    """A record per value: its sharding, the op that makes it, why each axis is there or is not, and the chain to an annotation.

    Asked for a value or line, also the choices that were not made, with what they would cost.

    Args:
        what: a value's name (with or without `%`), a line number, or None for every value.
    Raises:
        UsageError: MG0001 where nothing has that name or stands on that line, and for a value of a program that was
            entered after its shardings were chosen.
    """
    if what is None and "propagate" not in executable.stages:
        return []
    if len(executable.parts) == 1:
        return Known.of(executable).values(what)
    parts = _about(executable, what)
    return [record | {"mesh": part.mesh.name} for part in parts for record in Known.of(part).values(what)]


@dataclass(frozen=True)
class Known:
    """A program after propagation, and how it was decided where it was entered before (it is solved again, which gives the same)."""

    module: Module
    solved: Solved | None
    reasons: Reasons | None

    @staticmethod
    def of(executable: Executable) -> Known:
        """Raises UsageError (MG0001) for a program that was entered after its shardings were chosen."""
        module = executable.stages.get("propagate")
        if module is None:
            text = f"the program entered at stage '{next(iter(executable.stages))}', after its shardings were chosen"
            raise UsageError(Diagnostic("MG0001", text, hint="explain the program as it was before propagation"))
        entered = executable.stages.get("import")
        if entered is None:
            return Known(module, None, None)
        solved = solve(replace(entered, mesh=nominal_mesh(entered)))
        return Known(annotated(solved), solved, Reasons(solved))

    def values(self, what: Question = None) -> list[dict[str, Any]]:
        """The records of `explanations`."""
        graph = self.module.graph
        records = [
            self._input(number, value, what)
            for number, value in enumerate(graph.inputs)
            if _is_meant(what, value, value.loc)
        ]
        for node in _nodes(graph):
            records += [
                self._result(node, i, what) for i, value in enumerate(node.results) if _is_meant(what, value, node.loc)
            ]
        if not records and what is not None:
            names = [value.name for value in graph.values() if value.name]
            hint = f"values with a name are {', '.join(names[:40])}{' ...' if len(names) > 40 else ''}"
            missing = f"nothing stands on line {what}" if isinstance(what, int) else f"there is no value '{what}'"
            raise UsageError(Diagnostic("MG0001", missing, hint=hint))
        return records

    def _input(self, number: int, value: Value, what: Question) -> dict[str, Any]:
        wish = self.module.in_annotations[number]
        kind = "required" if wish and wish.required else "hinted" if wish else ""
        why = [f"annotated as {wish.sharding} ({kind})"] if wish else ["not annotated: chosen for its uses"]
        return self._record(value, "input", str(self.module.in_shardings[number]), why, value.loc, what)

    def _result(self, node: Node, number: int, what: Question) -> dict[str, Any]:
        assert node.sharding is not None, "every node has a sharding after propagation"
        sharding = str(node.sharding.results[number])
        return self._record(node.results[number], node.op, sharding, list(node.sharding.why), node.loc, what)

    def _record(
        self, value: Value, op: str, sharding: str, why: list[str], loc: Location | None, what: Question
    ) -> dict[str, Any]:
        chains: list[Chain] = self.reasons.chains(value) if self.reasons else []
        record = {
            "value": value.name,
            "op": op,
            "type": str(value.type),
            "sharding": sharding,
            "why": why,
            "chains": [chain.record() for chain in chains],
            "chain_text": [line for chain in chains for line in chain.lines()],
            "whole": self.reasons.whole(value) if self.reasons else {},
            "location": asdict(loc) if loc else None,
        }
        if what is not None and self.solved:
            makers = [site for site in self.solved.sites if value in site.node.results]
            record["rivals"] = [
                rival.record() | {"text": str(rival)} for s in makers for rival in rivals(self.solved, s)
            ]
        return record


def _nodes(graph: Graph) -> Iterator[Node]:
    """Nodes in program order; those of loops and branches after their op."""
    for node in graph.nodes:
        if node.sharding is not None:
            yield node
        for region in node.regions if node.op in ("while", "case", "if", "manual") else ():
            yield from _nodes(region)


def _is_meant(what: Question, value: Value, loc: Location | None) -> bool:
    if what is None:
        return True
    if isinstance(what, int):
        return loc is not None and loc.line == what
    return bool(value.name) and value.name == what.lstrip("%")


def _text(record: dict[str, Any]) -> str:
    place = record["location"]
    where = f"  at {place_text(Location(**place))}" if place else ""
    head = f"%{record['value'] or '?'} = {record['op']}: {record['type']} {record['sharding']}{where}"
    lines = record["why"] if record["op"] == "input" or not record["chain_text"] else []
    whole = [f"{axis} is not used: {why}" for axis, why in record["whole"].items()]
    others = [f"  {rival['text']}" for rival in record.get("rivals", ())]
    body = [*lines, *record["chain_text"], *whole, *(["other choices:", *others] if others else [])]
    return "\n".join([head, *(f"    {line}" for line in body)])
