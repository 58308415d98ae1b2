"""Why collectives and shardings are as they are, from what propagation and the planner recorded."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from meshgen.errors import Diagnostic, Location, UsageError
from meshgen.executable import Executable
from meshgen.ir.graph import Module, Node, Value
from meshgen.tables import comms_table, render


def explain(executable: Executable, what: str | int | None = None) -> str:
    """Text for people: all collectives with their reasons, or what concerns a value or a source line."""
    if what is None:
        return render(comms_table(executable.comms))
    return "\n".join(_text(record) for record in explanations(executable, what))


def explanations(executable: Executable, what: str | int | None = None) -> list[dict[str, Any]]:
    """A record per value: its sharding, the op that makes it and why each axis is there.

    Args:
        what: a value's name (with or without `%`), a line number, or None for every value.
    Raises:
        UsageError: MG0001 where nothing has that name or stands on that line.
    """
    module = executable.stages.get("propagate")
    if module is None:
        raise UsageError(
            Diagnostic(
                "MG0001",
                f"the program entered at stage '{next(iter(executable.stages))}', after its shardings were chosen",
                hint="explain the program as it was before propagation",
            )
        )
    records = [
        _input(number, value, module)
        for number, value in enumerate(module.graph.inputs)
        if _is_meant(what, value, value.loc)
    ]
    for node in module.graph.nodes:
        records += [
            _result(node, i, module) for i, value in enumerate(node.results) if _is_meant(what, value, node.loc)
        ]
    if not records and what is not None:
        names = [value.name for value in module.graph.values() if value.name]
        hint = f"values with a name are {', '.join(names[:40])}{' ...' if len(names) > 40 else ''}"
        missing = f"nothing stands on line {what}" if isinstance(what, int) else f"there is no value '{what}'"
        raise UsageError(Diagnostic("MG0001", missing, hint=hint))
    return records


def _is_meant(what: str | int | None, value: Value, loc: Location | None) -> bool:
    if what is None:
        return True
    if isinstance(what, int):
        return loc is not None and loc.line == what
    return bool(value.name) and value.name == what.lstrip("%")


def _input(number: int, value: Value, module: Module) -> dict[str, Any]:
    wish = module.in_annotations[number]
    kind = "required" if wish and wish.required else "hinted" if wish else ""
    why = [f"annotated as {wish.sharding} ({kind})"] if wish else ["not annotated: chosen for its uses"]
    return _record(value, "input", str(module.in_shardings[number]), why, value.loc)


def _result(node: Node, number: int, module: Module) -> dict[str, Any]:
    assert node.sharding is not None, "every node has a sharding after propagation"
    return _record(node.results[number], node.op, str(node.sharding.results[number]), list(node.sharding.why), node.loc)


def _record(value: Value, op: str, sharding: str, why: list[str], loc: Location | None) -> dict[str, Any]:
    place = asdict(loc) if loc else None
    return {"value": value.name, "op": op, "type": str(value.type), "sharding": sharding, "why": why, "location": place}


def _text(record: dict[str, Any]) -> str:
    place = record["location"]
    where = f"  at {place['file']}:{place['line']}" if place else ""
    head = f"%{record['value'] or '?'} = {record['op']}: {record['type']} {record['sharding']}{where}"
    return "\n".join([head, *(f"    {line}" for line in record["why"])])
